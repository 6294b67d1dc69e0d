"""What a remote cluster gets of its Kyma, and what is taken from there."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.kyma.kyma.worlds import DELETED, PREFIX, a_kyma

from stellwerk.api.core import Namespace, Secret
from stellwerk.kube.types.model import JsonObject, Unstructured, plain_json
from stellwerk.operators.kyma.api import Kyma
from stellwerk.operators.kyma.kyma import skr
from stellwerk.operators.kyma.kyma.skr import InvalidKymaSpec

IDENTITY = {
    "kyma-project.io/runtime-id": "r",
    "kyma-project.io/global-account-id": "g",
    "kyma-project.io/subaccount-id": "s",
}
MARKS = {f"{PREFIX}/watched-by": "kyma", f"{PREFIX}/managed-by": "kyma"}
OWNED_BY = {f"deprecated-{PREFIX}/owned-by": "kcp-system/k"}


def remote(**fields: Any) -> Kyma:
    """A Kyma in a remote cluster."""
    return a_kyma("default", namespace="kyma-system", **fields)


# ---- what is taken from there


@pytest.mark.req("KYMA-04")
def test_modules_and_channel_are_those_of_the_user() -> None:
    """The modules of the control plane are a default, and nothing else."""
    kyma = a_kyma(spec={"modules": [{"name": "a", "managed": True}]})
    there = remote(spec={"channel": "fast", "modules": [{"name": "b", "channel": "regular", "managed": False}]})

    spec = skr.effective_spec(kyma, there)

    assert (spec.channel, spec.modules) == ("fast", there.spec.modules)


@pytest.mark.parametrize(("here", "there"), [(False, False), (True, False), (False, True), (True, True)])
def test_maintenance_windows_are_skipped_if_either_side_wants_it(here: bool, there: bool) -> None:
    kyma, remote_kyma = (a_kyma(spec={"skipMaintenanceWindows": each}) for each in (here, there))
    assert skr.effective_spec(kyma, remote_kyma).skip_maintenance_windows is (here or there)


@pytest.mark.req("KYMA-27")
@pytest.mark.parametrize("channel", ["none", "None", "NONE"])
def test_the_channel_none_is_refused_in_upper_and_lower_case(channel: str) -> None:
    with pytest.raises(InvalidKymaSpec) as error:
        skr.effective_spec(a_kyma(), remote(spec={"channel": channel}))
    assert str(error.value) == 'invalid kyma spec: value "none" is not allowed in spec.channel'


# ---- what it gets


@pytest.mark.req("KYMA-04", "KYMA-05")
def test_a_runtime_cluster_without_a_kyma_gets_one_with_the_modules_of_the_control_plane() -> None:
    kyma = a_kyma(spec={"modules": [{"name": "a", "managed": True}]}, labels={**IDENTITY, "team": "x"})

    body = skr.new_kyma(kyma)

    created = msgspec.convert(body, Kyma)
    assert str(created.key) == "kyma-system/default"
    assert created.spec == kyma.spec
    assert created.metadata.labels == {**MARKS, **IDENTITY}
    assert skr.lacking_marks(kyma, created) == {}


def test_marks_that_are_as_they_should_be_are_not_written_again() -> None:
    there = remote(labels={**MARKS, **IDENTITY, "users": "own"}, annotations=OWNED_BY)
    assert skr.lacking_marks(a_kyma(labels=IDENTITY), there) == {}


def test_only_marks_that_are_lacking_or_differ_are_written() -> None:
    there = remote(labels={**MARKS, f"{PREFIX}/managed-by": "someone", "kyma-project.io/subaccount-id": "s"})

    lacking = skr.lacking_marks(a_kyma(labels={"kyma-project.io/subaccount-id": "s"}), there)

    assert lacking == {"labels": {f"{PREFIX}/managed-by": "kyma"}, "annotations": OWNED_BY}


def test_a_kyma_that_the_user_deletes_gets_no_marks() -> None:
    assert skr.lacking_marks(a_kyma(), remote(deletionTimestamp=DELETED)) == {}


def tracked(kind: str) -> dict[str, Any]:
    """A reference in the status of a module."""
    return {"apiVersion": f"{PREFIX}/v1beta2", "kind": kind, "metadata": {"name": "n", "namespace": "kcp-system"}}


@pytest.mark.req("KYMA-09")
def test_the_user_sees_the_whole_status_without_manifests() -> None:
    module = {
        "name": "a",
        "state": "Ready",
        "manifest": tracked("Manifest"),
        "template": tracked("ModuleTemplate"),
        "resource": tracked("Sample"),
        "version": "1.0.0",
    }
    plain = {"name": "b", "state": "Error", "message": "why"}
    status = a_kyma(status={"state": "Error", "activeChannel": "fast", "modules": [module, plain]}).status

    shown = skr.status_for_skr(status)

    template = {**tracked("ModuleTemplate"), "metadata": {"name": "n", "namespace": "kyma-system"}}
    expected = {key: value for key, value in module.items() if key != "manifest"} | {"template": template}
    assert plain_json(shown) == {"state": "Error", "activeChannel": "fast", "modules": [expected, plain]}


@pytest.mark.req("KYMA-01")
def test_the_namespace_has_the_labels_of_the_mesh_and_of_the_warden() -> None:
    assert skr.namespace().body["metadata"] == {
        "name": "kyma-system",
        "labels": {
            "istio-injection": "enabled",
            "namespaces.warden.kyma-project.io/validate": "enabled",
            f"{PREFIX}/managed-by": "kyma",
        },
    }


def test_a_definition_is_copied_whole_without_the_webhook_that_converts() -> None:
    version: JsonObject = {"name": "v1beta2", "served": True, "storage": True}
    version["schema"] = {"openAPIV3Schema": {"type": "object"}}
    spec: JsonObject = {"group": PREFIX, "scope": "Namespaced", "versions": [version]}
    source = Unstructured.of(
        {
            "metadata": {"name": "kymas.operator.kyma-project.io", "labels": {"helm": "x"}, "resourceVersion": "5"},
            "spec": {**spec, "conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"]}}},
            "status": {"storedVersions": ["v1beta2"]},
        }
    )

    copy = skr.definition(source)

    assert copy.body == {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": source.metadata.name, "labels": {f"{PREFIX}/managed-by": "kyma"}},
        "spec": {**spec, "conversion": {"strategy": "None"}},
    }
    assert skr.is_written(copy, Unstructured.of({**copy.body, "status": {}}))
    assert not skr.is_written(copy, source)


@pytest.mark.req("KYMA-53")
def test_the_secret_for_pulling_images_is_copied() -> None:
    kind = "kubernetes.io/dockerconfigjson"
    source = msgspec.convert(
        {"metadata": {"name": "pull", "namespace": "kcp-system", "uid": "u"}, "type": kind, "data": {".d": "e30="}},
        Secret,
    )

    copy = skr.pull_secret(source)

    assert copy.body == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "pull", "namespace": "kyma-system", "labels": {f"{PREFIX}/managed-by": "kyma"}},
        "type": kind,
        "data": {".d": "e30="},
    }
    assert "e30=" not in repr(copy)
    written = msgspec.convert(copy.body, Secret)
    assert skr.is_written(copy, written)
    assert not skr.is_written(copy, msgspec.structs.replace(written, data={".d": "e31="}))


def test_what_is_not_there_or_lacks_a_label_is_written_and_what_others_add_is_not() -> None:
    desired = skr.namespace()
    there = msgspec.convert(desired.body, Namespace)
    labels = there.metadata.labels
    assert not skr.is_written(desired, None)
    for changed, expected in (
        ({**labels, "others": "own"}, True),
        ({**labels, "istio-injection": "disabled"}, False),
        ({}, False),
    ):
        metadata = msgspec.structs.replace(there.metadata, labels=changed)
        assert skr.is_written(desired, msgspec.structs.replace(there, metadata=metadata)) is expected
