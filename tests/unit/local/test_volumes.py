"""Which claims get a volume, and which volumes go."""

from __future__ import annotations

import pytest

from stellwerk.local import volumes

JsonObject = dict[str, object]
ASKED: JsonObject = {"volume.kubernetes.io/storage-provisioner": volumes.NAME}


def claim(annotations: JsonObject, spec: JsonObject | None = None, **metadata: object) -> JsonObject:
    named: JsonObject = {"namespace": "shop", "name": "data", "uid": "u1", "resourceVersion": "7"}
    return {"metadata": {**named, "annotations": annotations, **metadata}, "spec": spec or {}}


def volume(phase: str, annotations: JsonObject, policy: str = "Delete", **metadata: object) -> JsonObject:
    return {
        "metadata": {"name": "pvc-u1", "annotations": annotations, **metadata},
        "spec": {"persistentVolumeReclaimPolicy": policy},
        "status": {"phase": phase},
    }


@pytest.mark.parametrize(
    ("one", "needs"),
    [
        (claim(ASKED), True),
        (claim({}), False),
        (claim({"volume.kubernetes.io/storage-provisioner": "example.com/other"}), False),
        (claim(ASKED, {"volumeName": "pvc-u1"}), False),
        (claim(ASKED, deletionTimestamp="2026-01-01T00:00:00Z"), False),
    ],
)
def test_a_claim_gets_a_volume_where_it_is_left_to_us_and_has_none(one: JsonObject, needs: bool) -> None:
    assert volumes.needs_volume(one) == needs


def test_a_volume_is_reserved_for_its_claim_and_as_its_class_says() -> None:
    made = volumes.volume_for(claim(ASKED, {"storageClassName": "kept"}), {"reclaimPolicy": "Retain"})
    spec = made["spec"]
    assert isinstance(spec, dict)
    assert (spec["persistentVolumeReclaimPolicy"], spec["storageClassName"]) == ("Retain", "kept")
    assert (spec["claimRef"]["namespace"], spec["claimRef"]["uid"]) == ("shop", "u1")


OURS: JsonObject = {"pv.kubernetes.io/provisioned-by": volumes.NAME}


@pytest.mark.parametrize(
    ("one", "over"),
    [
        (volume("Released", OURS), True),
        (volume("Bound", OURS), False),
        (volume("Released", OURS, "Retain"), False),
        (volume("Released", {}), False),
        (volume("Released", OURS, deletionTimestamp="2026-01-01T00:00:00Z"), False),
    ],
)
def test_a_volume_goes_when_it_is_released_and_ours_to_delete(one: JsonObject, over: bool) -> None:
    assert volumes.is_over(one) == over
