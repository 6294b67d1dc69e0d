"""What leaves a remote cluster, in which order, and what keeps it there."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.kyma.api_manifest import CustomResourcePolicy, ManifestSpec, SyncedResource
from stellwerk.operators.kyma.api_module import Manager
from stellwerk.operators.kyma.manifest.removal import Hold, Removal, held_by, plan_removal

RBAC = "rbac.authorization.k8s.io"


def synced(kind: str, name: str = "x", group: str = "", version: str = "v1", namespace: str = "a") -> SyncedResource:
    """An object that was applied."""
    return SyncedResource(group=group, version=version, kind=kind, name=name, namespace=namespace)


def test_the_controller_of_a_module_and_what_it_needs_go_last() -> None:
    first = [synced("Sample", group="example.org"), synced("PodDisruptionBudget", group="policy")]
    first += [synced("ValidatingWebhookConfiguration", group="admissionregistration.k8s.io", namespace="")]
    first += [synced("Deployment", group="example.org"), synced("DaemonSet", group="apps")]
    last = [synced("Deployment", group="apps"), synced("StatefulSet", group="apps"), synced("Namespace", namespace="")]
    last += [synced("CustomResourceDefinition", group="apiextensions.k8s.io", namespace="")]
    last += [synced(kind) for kind in ("ServiceAccount", "Service", "ConfigMap", "Secret")]
    last += [synced(kind, group=RBAC) for kind in ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")]

    removal = plan_removal([*last, *first], [], None, same_layer=False)

    assert set(removal.first) == set(first)
    assert set(removal.last) == set(last)


def test_a_manager_of_any_kind_goes_last_and_its_namesakes_do_not() -> None:
    manager = Manager(group="apps", version="v1", kind="DaemonSet", namespace="a", name="agent")
    agent, other = synced("DaemonSet", "agent", "apps"), synced("DaemonSet", "agent", "apps", namespace="b")

    assert plan_removal([agent, other], [], manager, same_layer=False) == Removal((other,), (agent,))


def test_what_is_wanted_stays_in_whichever_version_of_its_kind() -> None:
    old = synced("HorizontalPodAutoscaler", group="autoscaling", version="v1")
    new = synced("HorizontalPodAutoscaler", group="autoscaling", version="v2")

    assert plan_removal([old], [new], None, same_layer=False) == Removal()


def test_the_namespace_of_all_modules_is_never_deleted() -> None:
    shared, own = synced("Namespace", "kyma-system", namespace=""), synced("Namespace", "own", namespace="")

    assert plan_removal([shared, own], [], None, same_layer=False) == Removal(last=(own,))
    assert plan_removal([shared], [], None, same_layer=True) == Removal()


def test_nothing_is_deleted_because_the_layer_that_was_applied_now_reads_shorter() -> None:
    kept, missing = synced("ConfigMap", "kept"), synced("ConfigMap", "missing")

    removal = plan_removal([kept, missing], [kept], None, same_layer=True)

    assert (removal.first, removal.last) == ((), ())
    assert removal.refused == (
        "resource syncTarget diff detected but in same oci layer, prevent sync resource to be deleted"
    )
    assert plan_removal([kept], [kept, missing], None, same_layer=True) == Removal()


def spec(policy: str = CustomResourcePolicy.CreateAndDelete, **metadata: Any) -> ManifestSpec:
    """A module with a default custom resource."""
    resource = {"apiVersion": "example.org/v1", "kind": "Sample", "metadata": {"name": "default", **metadata}}
    return msgspec.convert({"resource": resource, "customResourcePolicy": policy}, ManifestSpec)


def found(*keys: str) -> list[ObjectKey]:
    """The custom resources of a reading."""
    return [ObjectKey.parse(each) for each in keys]


@pytest.mark.parametrize(
    ("of", "keys", "hold"),
    [
        pytest.param(ManifestSpec(), ["a/x"], Hold.NOTHING, id="a module without a kind of its own"),
        pytest.param(spec(namespace="a"), [], Hold.NOTHING, id="none left"),
        pytest.param(spec(namespace="a"), ["a/default"], Hold.DEFAULT_RESOURCE, id="its own"),
        pytest.param(spec(), ["default/default"], Hold.DEFAULT_RESOURCE, id="its own, without a namespace"),
        pytest.param(spec(namespace="a"), ["b/default"], Hold.USERS_RESOURCES, id="a namesake elsewhere"),
        pytest.param(spec(namespace="a"), ["a/default", "a/x"], Hold.USERS_RESOURCES, id="one of a user besides"),
        pytest.param(spec("Ignore", namespace="a"), ["a/default"], Hold.USERS_RESOURCES, id="one that was not created"),
    ],
)
def test_custom_resources_of_a_module_keep_its_objects(of: ManifestSpec, keys: list[str], hold: Hold) -> None:
    assert held_by(of, found(*keys), namespaced=True).hold is hold


def test_the_namespace_of_a_cluster_scoped_default_resource_means_nothing() -> None:
    assert held_by(spec(namespace="a"), found("default"), namespaced=False).hold is Hold.DEFAULT_RESOURCE


def test_a_blocked_removal_names_three_custom_resources_and_their_number() -> None:
    """Each once, even if the reading has it in two versions of its kind."""
    two = held_by(spec(namespace="a"), found("a/default", "b/y", "b/y", "a/x"), namespaced=True)
    five = held_by(spec(namespace="a"), found("c/5", "c/4", "c/3", "c/2", "c/1"), namespaced=True)

    assert two.operation == "waiting for module crs deletion: 2 Sample: a/x, b/y"
    assert five.operation == "waiting for module crs deletion: 5 Sample: c/1, c/2, c/3 and 2 more"
