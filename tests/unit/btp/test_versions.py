"""The record of versions shifts by one, and nothing that users need is ever pruned by it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stellwerk.apply.objects.desired import Address
from stellwerk.apply.set.model.confirmation import Live
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, Resource
from stellwerk.kube.types.model import PartialObjectMetadata
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.btp.errors import DamagedRecord
from stellwerk.operators.btp.module import version_record
from stellwerk.operators.btp.module.version_record import CredentialsSecret, VersionRecord, stale

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")
JOB = GroupVersionKind("batch", "v1", "Job")
FIRST = version_record.after_apply(None, "v1", [CONFIG_MAP, JOB])


def test_the_first_installation_is_its_own_predecessor() -> None:
    assert (FIRST.old_version, FIRST.current_version) == ("v1", "v1")
    assert FIRST.old_kinds == FIRST.current_kinds == (CONFIG_MAP, JOB)


def test_another_version_shifts_the_record_by_one() -> None:
    second = version_record.after_apply(FIRST, "v2", [CONFIG_MAP, DEPLOYMENT])

    assert (second.old_version, second.current_version) == ("v1", "v2")
    assert second.old_kinds == (CONFIG_MAP, JOB)
    assert second.kinds == (CONFIG_MAP, DEPLOYMENT, JOB)


def test_the_same_version_again_changes_nothing_and_forgets_no_kind() -> None:
    assert version_record.after_apply(FIRST, "v1", [CONFIG_MAP, JOB]) == FIRST
    assert version_record.after_apply(FIRST, "v1", [DEPLOYMENT]).current_kinds == (CONFIG_MAP, JOB, DEPLOYMENT)


def test_kinds_are_noted_before_the_first_object_of_them_exists() -> None:
    begun = version_record.before_apply(FIRST, "v2", [CONFIG_MAP, DEPLOYMENT])

    assert (begun.current_version, begun.current_kinds) == ("v1", (CONFIG_MAP, JOB, DEPLOYMENT))
    assert version_record.after_apply(begun, "v3", [CONFIG_MAP]).kinds == (CONFIG_MAP, JOB, DEPLOYMENT)
    assert version_record.before_apply(None, "v1", [CONFIG_MAP, JOB]) == FIRST


def test_the_record_is_a_config_map_with_the_published_keys() -> None:
    body = version_record.config_map(FIRST, "kyma-system")

    assert body["metadata"] == {
        "name": "btp-manager-versions",
        "namespace": "kyma-system",
        "labels": {"app.kubernetes.io/managed-by": "btp-manager", "kyma-project.io/module": "btp-operator"},
    }
    data = body["data"]
    assert isinstance(data, dict)
    assert list(data) == ["currentChartVersion", "currentGvks", "oldChartVersion", "oldGvks"]


def test_a_record_reads_back_the_same() -> None:
    assert version_record.parse(FIRST.data()) == FIRST


def test_a_record_of_the_original_operator_is_read() -> None:
    kinds = '- group: apps\n  version: v1\n  kind: Deployment\n- group: ""\n  version: v1\n  kind: ConfigMap\n'
    data = {"currentChartVersion": "v0.2", "currentGvks": kinds, "oldChartVersion": "v0.1", "oldGvks": kinds}

    assert version_record.parse(data) == VersionRecord(
        current_version="v0.2",
        current_kinds=(DEPLOYMENT, CONFIG_MAP),
        old_version="v0.1",
        old_kinds=(DEPLOYMENT, CONFIG_MAP),
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"oldGvks": ""}, "has no oldGvks"),
        ({"currentGvks": "text"}, "currentGvks"),
        ({"currentGvks": "- kind: 1"}, "currentGvks"),
        ({"oldGvks": "["}, "oldGvks"),
    ],
)
def test_a_damaged_record_is_named(change: dict[str, str], said: str) -> None:
    with pytest.raises(DamagedRecord, match=said):
        version_record.parse({**FIRST.data(), **change})


DEFINITIONS = Resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False)


def live(name: str, **labels: str) -> tuple[Address, Live]:
    address = Address(DEFINITIONS, ObjectKey("", name))
    return address, PartialObjectMetadata(metadata=ObjectMeta(name=name, labels=labels))


OURS = {"app.kubernetes.io/managed-by": "btp-manager"}
INSTANCES = "serviceinstances.services.cloud.sap.com"


def test_what_an_older_version_left_is_stale() -> None:
    present = dict(
        [
            live("old", **OURS, **{"chart-version": "v1"}),
            live("old-too", **OURS, **{"app.kubernetes.io/chart-version": "v1"}),
            live("new", **OURS, **{"chart-version": "v2"}),
            live("certificate", **OURS),
            live("foreign", **{"chart-version": "v1"}),
        ]
    )

    assert {a.key.name for a in stale(present, [], "v2")} == {"old", "old-too"}


def test_the_definitions_of_users_objects_stay_while_users_have_objects() -> None:
    present = dict([live(INSTANCES, **OURS, **{"chart-version": "v1"})])

    def pruned(*, has_users_objects: bool) -> set[str]:
        spared = version_record.spared(has_users_objects=has_users_objects)
        return {a.key.name for a in stale(present, [], "v2", spared=spared)}

    assert pruned(has_users_objects=True) == set()
    assert pruned(has_users_objects=False) == {INSTANCES}


# ---- the Secret of the operand's credentials


def secret(uid: str = "u-1", namespace: str = "ns", name: str = "sap-btp-service-operator") -> PartialObjectMetadata:
    labels = {"app.kubernetes.io/managed-by": "btp-manager"}
    return PartialObjectMetadata(metadata=ObjectMeta(name=name, namespace=namespace, uid=uid, labels=labels))


def test_the_record_keeps_the_credentials_secret_through_versions() -> None:
    kept = replace(FIRST, credentials=CredentialsSecret("ns", "u-1"), moves=("begun", "overtaken"))

    assert version_record.parse(kept.data()) == kept
    assert version_record.after_apply(kept, "v2", [CONFIG_MAP]).credentials == kept.credentials
    assert version_record.after_apply(kept, "v1", [DEPLOYMENT]).credentials == kept.credentials
    assert version_record.before_apply(kept, "v2", [DEPLOYMENT]).credentials == kept.credentials
    assert version_record.after_apply(kept, "v2", [CONFIG_MAP]).moves == kept.moves


@pytest.mark.parametrize("text", ["", "ns", "ns/", "/u-1", "/"])
def test_a_record_that_does_not_say_namespace_and_uid_names_no_secret(text: str) -> None:
    assert CredentialsSecret.parse(text) is None


@pytest.mark.req("R-505")
def test_only_the_recorded_secret_holds_the_credentials() -> None:
    recorded = CredentialsSecret("ns", "u-1")

    assert version_record.holds_credentials(secret(), recorded)
    assert not version_record.holds_credentials(secret(uid="u-2"), recorded)
    assert not version_record.holds_credentials(secret(namespace="other"), recorded)
    assert version_record.holds_credentials(secret(uid="u-2", namespace="begun"), recorded, ["begun"])
    assert not version_record.holds_credentials(secret(uid="u-2", namespace="begun", name="x"), recorded, ["begun"])


@pytest.mark.req("R-306")
def test_without_a_record_the_name_and_the_label_tell_the_credentials_of_a_former_release() -> None:
    unlabelled = PartialObjectMetadata(metadata=ObjectMeta(name="sap-btp-service-operator", namespace="ns"))

    assert version_record.holds_credentials(secret(), None)
    assert not version_record.holds_credentials(secret(name="another"), None)
    assert not version_record.holds_credentials(unlabelled, None)
