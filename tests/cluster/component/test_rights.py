"""Without cluster-admin the operator has what it needs and nothing else; what Components may do is for their accounts.

One operator lives a whole life under its own account, with strict tenancy. The API server's audit log then says which
verbs it has used on what.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from stellwerk.api.core import Namespace, ServiceAccount
from stellwerk.api.rbac import RoleBinding
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.identifiers import GroupVersionKind
from stellwerk.kube.types.model import JsonObject, unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.component import rights
from stellwerk.operators.component.api import Blueprint, Component
from stellwerk.operators.component.settings import Mode
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.eventually import eventually
from tests.cluster import permissions
from tests.cluster import rights as audited
from tests.cluster.component.given import Given, config_map
from tests.cluster.component.running import LOOPBACK, Running
from tests.cluster.component.then import Then

USER = f"system:serviceaccount:{rights.NAMESPACE}:{rights.ACCOUNT}"
GROUPS = ("system:serviceaccounts", f"system:serviceaccounts:{rights.NAMESPACE}")


@pytest.fixture
async def bound(component_cluster: LocalCluster, admin: Client) -> AsyncIterator[Running]:
    """The operator under its own account, not as an administrator."""
    await admin.apply(Namespace, {"metadata": {"name": rights.NAMESPACE}})
    for body in rights.manifests():
        gvk = GroupVersionKind.parse(str(body["apiVersion"]), str(body["kind"]))
        await admin.apply(unstructured(await admin.mapper.resource(gvk)), body)
    await permissions.count(
        admin,
        USER,
        permissions.on("components", "list", group=Component.resource.group),
        permissions.on("leases", "create", rights.NAMESPACE, group="coordination.k8s.io"),
    )
    running = Running(component_cluster.kubeconfig_for(USER, GROUPS), namespace=rights.NAMESPACE)
    yield running
    await running.stop()


async def deployer(admin: Client, namespace: str) -> None:
    """An account of the tenant that may do anything in its namespace."""
    await admin.apply(ServiceAccount, {"metadata": {"name": "deployer", "namespace": namespace}})
    body: JsonObject = {
        "metadata": {"name": "deployer", "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "deployer", "namespace": namespace}],
    }
    await admin.apply(RoleBinding, body)
    user = permissions.account("deployer", namespace)
    await permissions.count(admin, user, permissions.on("configmaps", "update", namespace))


@pytest.mark.req("R-504")
@pytest.mark.timeout(180)
async def test_every_right_is_used_or_its_rare_occasion_is_named(
    component_cluster: LocalCluster, given: Given, then: Then, admin: Client, bound: Running, home: str
) -> None:
    await deployer(admin, home)
    audit = AuditLog(component_cluster)
    await given.source({"one.yaml": config_map("one")})
    await given.secret("values", values="a: 1")
    await given.config("vars", A="b")
    await bound.start(LOOPBACK, tenancy=Mode.STRICT)
    await given.component(
        serviceAccountName="deployer",
        valuesFrom=[{"name": "values"}],
        postBuild={"substituteFrom": [{"kind": "ConfigMap", "name": "vars"}]},
    )
    await then.ready()
    await blueprint_life(given, then, admin, home)
    await every_kind_of_flux(given)
    await given.deleted()
    await then.gone()
    leases = audited.spelled_out(grant.rule for grant in rights.LEASES)
    granted = audited.spelled_out(grant.rule for grant in rights.GRANTS)
    assert not set(rights.SELDOM) - granted - leases, "an occasion is named for a right that is not granted"

    def are_used() -> bool:
        used = audited.used(audit.entries(lambda entry: entry.user == USER))
        assert not granted - used - set(rights.SELDOM), "granted and not used"
        return True

    # Watches of the kinds that were asked for last may just be opening.
    await eventually(are_used, describe="every right is used")
    await bound.stop()
    assert not audit.entries(lambda entry: entry.user == USER and entry.status == 403)


async def blueprint_life(given: Given, then: Then, admin: Client, home: str) -> None:
    """A Component of a Blueprint, whose content changes, until both are gone."""
    named: JsonObject = {"name": "print", "namespace": home}
    for name in ("two", "three"):
        files: JsonObject = {"a.yaml": config_map(name)}
        await admin.apply(Blueprint, {"metadata": named, "spec": {"files": files}})
        await given.component("printed", serviceAccountName="deployer", sourceRef={"blueprint": {"name": "print"}})
        await eventually(lambda expected=name: _has(then, expected))  # type: ignore[misc]
    await given.deleted("printed")
    await then.gone("printed")
    await admin.delete(Blueprint, "print", home)
    await then.absent(Blueprint, "print")


async def every_kind_of_flux(given: Given) -> None:
    """A Component for each kind of source that the test before has not used."""
    for kind in ("fluxOciRepository", "fluxBucket", "fluxHelmChart", "fluxExternalArtifact"):
        reference = {kind: {"name": "absent"}}
        await given.component(kind.lower(), sourceRef=reference, serviceAccountName="deployer")


async def _has(then: Then, name: str) -> bool:
    found = then.history.latest.get("printed")
    return found is not None and found.is_ready and [item.name for item in found.status.inventory] == [name]
