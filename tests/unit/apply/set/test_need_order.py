"""What others need goes in first and out last."""

from __future__ import annotations

import pytest

from stellwerk.apply.set.model.need_order import apply_wave, delete_wave
from stellwerk.kube.types.identifiers import Resource


def kind(name: str, group: str = "", plural: str = "") -> Resource:
    return Resource(group, "v1", name, plural or name.lower() + "s", True)


RBAC, ADMISSION = "rbac.authorization.k8s.io", "admissionregistration.k8s.io"
NAMESPACE = kind("Namespace")
DEFINITION = kind("CustomResourceDefinition", "apiextensions.k8s.io")
DEPLOYMENT = kind("Deployment", "apps")
INSTANCE = kind("Issuer", "cert-manager.io")
WEBHOOK = kind("ValidatingWebhookConfiguration", ADMISSION)

NEEDS: list[tuple[Resource, Resource]] = [
    (kind("ConfigMap"), NAMESPACE),
    (DEPLOYMENT, kind("ConfigMap")),
    (DEPLOYMENT, kind("Secret")),
    (DEPLOYMENT, kind("ServiceAccount")),
    (DEPLOYMENT, kind("PriorityClass", "scheduling.k8s.io")),
    (DEPLOYMENT, kind("NetworkPolicy", "networking.k8s.io")),
    (DEPLOYMENT, kind("RoleBinding", RBAC)),
    (kind("RoleBinding", RBAC), kind("Role", RBAC)),
    (kind("ClusterRoleBinding", RBAC), kind("ClusterRole", RBAC)),
    (INSTANCE, DEFINITION),
    (kind("APIService", "apiregistration.k8s.io"), DEPLOYMENT),
    (WEBHOOK, DEPLOYMENT),
    (WEBHOOK, kind("Service")),
    (kind("MutatingWebhookConfiguration", ADMISSION), INSTANCE),
]


@pytest.mark.parametrize(("one", "needed"), NEEDS, ids=str)
def test_what_is_needed_goes_in_first(one: Resource, needed: Resource) -> None:
    assert apply_wave(needed) < apply_wave(one)


@pytest.mark.parametrize(("one", "needed"), NEEDS, ids=str)
def test_what_is_needed_goes_out_last(one: Resource, needed: Resource) -> None:
    assert delete_wave(needed, {"issuers.cert-manager.io"}) > delete_wave(one, {"issuers.cert-manager.io"})


def test_definitions_go_while_their_controller_runs_and_after_their_instances() -> None:
    own = {"issuers.cert-manager.io"}
    assert delete_wave(INSTANCE, own) < delete_wave(DEFINITION, own) < delete_wave(DEPLOYMENT, own)


def test_instances_of_others_kinds_go_with_the_rest() -> None:
    assert delete_wave(INSTANCE) == delete_wave(DEPLOYMENT)


def test_kinds_are_known_by_their_group() -> None:
    assert apply_wave(kind("Service", "serving.knative.dev")) == apply_wave(INSTANCE)
