"""The shipped module has what the operand is published with: names, kinds, ports, rights, fields."""

from __future__ import annotations

from pathlib import Path

import pytest

from stellwerk.apply.objects.manifests import read_folder
from stellwerk.kube.schema.crd import Definition
from stellwerk.kube.types.model import JsonObject, JsonValue, dig
from stellwerk.operators.btp.module import operand, release
from stellwerk.operators.btp.module.release import Places
from stellwerk.operators.btp.settings import Settings

PUBLISHED = Path(__file__).parents[4] / "shared" / "fixtures" / "btp" / "module-resources" / "apply"
beside = pytest.mark.skipif(not PUBLISHED.exists(), reason="the published manifests are not beside this repository")
Objects = dict[tuple[JsonValue, JsonValue], JsonObject]


def shipped() -> Objects:
    documents = release.load(Places.of(Settings(), release.SHIPPED)).documents
    return {(d.body["kind"], dig(d.body, "metadata", "name")): d.body for d in documents}


def published() -> Objects:
    return {(d.body["kind"], dig(d.body, "metadata", "name")): d.body for d in read_folder(PUBLISHED)}


def without_texts(value: JsonValue) -> JsonValue:
    """A schema less its descriptions and with its lists in a fixed order."""
    if isinstance(value, dict):
        return {key: without_texts(sub) for key, sub in value.items() if not _is_text(key, sub)}
    return [*sorted(map(str, value))] if isinstance(value, list) else value


def _is_text(key: str, value: JsonValue) -> bool:
    return key == "description" and isinstance(value, str)


def test_the_fourteen_objects_are_there() -> None:
    assert {kind for kind, _ in shipped()} == {
        "ClusterRole",
        "ClusterRoleBinding",
        "ConfigMap",
        "CustomResourceDefinition",
        "Deployment",
        "MutatingWebhookConfiguration",
        "Role",
        "RoleBinding",
        "Secret",
        "Service",
        "ServiceAccount",
        "ValidatingWebhookConfiguration",
    }
    assert len(shipped()) == 14


def test_service_ports_lead_to_ports_of_the_operand() -> None:
    containers = dig(
        shipped()["Deployment", "sap-btp-operator-controller-manager"], "spec", "template", "spec", "containers"
    )
    assert isinstance(containers, list)
    ports = dig(containers[0], "ports")
    assert isinstance(ports, list)
    named = {dig(port, "name"): dig(port, "containerPort") for port in ports}
    reached: dict[JsonValue, tuple[JsonValue, JsonValue]] = {}
    for (kind, name), body in shipped().items():
        listed = dig(body, "spec", "ports") if kind == "Service" else []
        assert isinstance(listed, list)
        reached.update([(name, (dig(port, "port"), named[dig(port, "targetPort")])) for port in listed])

    assert reached == {
        "sap-btp-operator-webhook-service": (443, 9443),
        "sap-btp-operator-controller-manager-metrics-service": (8080, 8080),
    }


def test_services_and_selector_find_the_operands_pods() -> None:
    deployment = shipped()["Deployment", "sap-btp-operator-controller-manager"]
    labels = dig(deployment, "spec", "template", "metadata", "labels")
    assert isinstance(labels, dict)
    selectors = [dig(deployment, "spec", "selector", "matchLabels")]
    selectors += [dig(body, "spec", "selector") for (kind, _), body in shipped().items() if kind == "Service"]

    for selector in selectors:
        assert isinstance(selector, dict)
        assert selector.items() <= labels.items()


@beside
def test_names_and_kinds_are_the_published_ones() -> None:
    assert set(shipped()) == set(published())


@beside
def test_the_pod_template_is_the_published_one_field_by_field() -> None:
    name = ("Deployment", "sap-btp-operator-controller-manager")

    assert dig(shipped()[name], "spec") == dig(published()[name], "spec")
    assert dig(shipped()[name], "metadata", "labels") == dig(published()[name], "metadata", "labels")


@beside
@pytest.mark.parametrize("kind", ["Service", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"])
def test_services_and_webhooks_are_the_published_ones(kind: str) -> None:
    for name, body in shipped().items():
        if name[0] == kind:
            assert body.get("spec") == published()[name].get("spec")
            assert body.get("webhooks") == published()[name].get("webhooks")


@beside
def test_configuration_and_credentials_have_the_published_keys_and_labels() -> None:
    for name in (("ConfigMap", "sap-btp-operator-config"), ("Secret", "sap-btp-service-operator")):
        ours, theirs = shipped()[name], published()[name]
        assert set(_mapping(ours["data"])) == set(_mapping(theirs["data"]))
        assert dig(ours, "metadata", "labels") == dig(theirs, "metadata", "labels")
        assert ours.get("type") == theirs.get("type")


def _mapping(value: JsonValue) -> JsonObject:
    assert isinstance(value, dict)
    return value


def _rights(body: JsonObject) -> set[tuple[str, str, str]]:
    rules = body["rules"]
    assert isinstance(rules, list)
    words = [[_strings(dig(rule, key)) for key in ("apiGroups", "resources", "verbs")] for rule in rules]
    return {(g, r, v) for groups, kinds, verbs in words for g in groups for r in kinds for v in verbs}


def _strings(value: JsonValue) -> list[str]:
    assert isinstance(value, list)
    return [str(word) for word in value]


@beside
@pytest.mark.parametrize(
    "name", [("ClusterRole", "sap-btp-operator-manager-role"), ("Role", "sap-btp-operator-leader-election-role")]
)
def test_the_operands_rights_are_the_published_ones(name: tuple[str, str]) -> None:
    assert _rights(shipped()[name]) == _rights(published()[name])


@beside
def test_the_bindings_give_the_operands_account_its_rights() -> None:
    for name, body in shipped().items():
        if name[0] in ("RoleBinding", "ClusterRoleBinding"):
            assert body["roleRef"] == published()[name]["roleRef"]
            assert body["subjects"] == published()[name]["subjects"]


@beside
@pytest.mark.parametrize("definition", [operand.SERVICE_BINDINGS, operand.SERVICE_INSTANCES], ids=lambda d: str(d.name))
def test_every_field_column_and_version_of_the_operands_kinds_is_the_published_one(
    definition: Definition,
) -> None:
    ours, theirs = definition.body(), published()["CustomResourceDefinition", definition.name]

    assert dig(ours, "spec", "names") == dig(theirs, "spec", "names")
    for mine, other in zip(_versions(ours), _versions(theirs), strict=True):
        assert without_texts(dig(mine, "schema")) == without_texts(dig(other, "schema"))
        assert [
            dig(mine, word) for word in ("name", "served", "storage", "subresources", "additionalPrinterColumns")
        ] == [dig(other, word) for word in ("name", "served", "storage", "subresources", "additionalPrinterColumns")]


def _versions(body: JsonObject) -> list[JsonValue]:
    versions = dig(body, "spec", "versions")
    assert isinstance(versions, list)
    return versions
