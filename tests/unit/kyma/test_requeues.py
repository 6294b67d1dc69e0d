"""Each step of a Kyma, and of a Manifest, is counted under the reason of the original that fits what it does."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.kyma.kyma.worlds import DELETED, a_kyma, a_manifest

from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.kyma import collections as known
from stellwerk.operators.kyma.api import KymaStatus
from stellwerk.operators.kyma.api_manifest import ManifestStatus
from stellwerk.operators.kyma.kyma.deletion import SUCCESS, UseCase
from stellwerk.operators.kyma.metrics import KymaMetrics, KymaPasses, Listings, ManifestPasses
from stellwerk.operators.kyma.requeues import reason_of_kyma, reason_of_manifest
from stellwerk.operators.kyma.settings import FipsMode
from stellwerk.runtime.control.step import Create, Delete, Failure, Patch, RemoveFinalizer, Show, Step, Write
from stellwerk.runtime.reconciler import Notice
from stellwerk.runtime.telemetry.metrics import Metrics

HOLD: JsonObject = {"metadata": {"finalizers": []}}
NOTE: JsonObject = {"metadata": {}}
CHANGED = "resource syncTarget state diff detected"
ALONE = "orphaned manifest detected: parent Kyma does not exist; see x"
KYMA, LEAVING = a_kyma(), a_kyma(deletionTimestamp=DELETED, finalizers=["x/y"], status={"state": "Deleting"})
MANIFEST, GOING = a_manifest("m"), a_manifest("m", deletionTimestamp=DELETED, finalizers=["x/y"])


def refused(message: str, error: object) -> Failure:
    return Failure(message=message)


def created(collection: Any) -> Write:
    return Create(collection, {"metadata": {"name": "x", "namespace": "y"}}, refused)


def shows(state: str, **conditions: str) -> KymaStatus:
    made = [{"type": each, "status": value, "reason": "Ready", "message": ""} for each, value in conditions.items()]
    return msgspec.convert({"state": state, "conditions": made}, KymaStatus)


def manifest_shows(state: str, operation: str, *, rendered: bool = True) -> ManifestStatus:
    conditions = [{"type": "Resources", "status": "True", "reason": "x", "message": ""}] if rendered else []
    last = {"operation": operation, "lastUpdateTime": DELETED}
    return msgspec.convert({"state": state, "conditions": conditions, "lastOperation": last}, ManifestStatus)


@pytest.mark.parametrize(
    ("reason", "collection"),
    [
        ("sync_context_retrieval", known.RUNTIME_NAMESPACES),
        ("crds_sync", known.RUNTIME_DEFINITIONS),
        ("image_pull_secret_sync", known.RUNTIME_SECRETS),
        ("manifest_reconciliation", known.MANIFESTS),
        ("module_catalog_sync", known.RUNTIME_METAS),
        ("module_catalog_sync", known.RUNTIME_TEMPLATES),
        ("skr_webhook_installation", known.OTHER_SECRETS),
    ],
)
def test_a_write_of_a_kyma_counts_by_what_it_writes(reason: str, collection: Any) -> None:
    assert reason_of_kyma(KYMA, Step(writes=(created(collection),))) == reason


@pytest.mark.parametrize(
    ("reason", "step"),
    [
        ("labels_and_finalizers_update", Step(writes=(Patch(known.KYMAS, KYMA, {}, refused),))),
        ("status_sync_to_remote", Step(writes=(Show(known.RUNTIME_KYMAS, KYMA, KymaStatus(), refused),))),
        ("initial_state_handling", Step(status=shows("Processing"))),
        ("processing_kyma_state", Step()),
    ],
)
def test_what_else_a_kyma_does_has_a_reason(reason: str, step: Step[KymaStatus]) -> None:
    assert reason_of_kyma(KYMA, step) == reason


@pytest.mark.parametrize(
    ("reason", "broken"),
    [
        ("crds_sync", {"Modules": "False", "CRDsSync": "False"}),
        ("image_pull_secret_sync", {"SKRImagePullSecretSync": "False"}),
        ("skr_webhook_installation", {"SKRWebhook": "False"}),
        ("processing_kyma_state", {"Modules": "False"}),
    ],
)
def test_a_kyma_in_error_counts_under_the_condition_that_is_not_true(reason: str, broken: dict[str, str]) -> None:
    ready = a_kyma(status={"state": "Ready"})
    assert reason_of_kyma(ready, Step(status=shows("Error", **broken))) == reason


@pytest.mark.parametrize("case", [each for each in UseCase if each is not UseCase.AWAIT_MANIFESTS])
def test_each_step_of_a_deletion_has_a_reason_of_its_own(case: UseCase) -> None:
    step: Step[KymaStatus] = Step(events=(Notice(case, SUCCESS, action=case),), writes=(RemoveFinalizer("x/y"),))
    of_writes = reason_of_kyma(LEAVING, Step(writes=step.writes))
    assert of_writes == "labels_and_finalizers_update"
    assert reason_of_kyma(LEAVING, step) != of_writes


def test_a_kyma_that_waits_for_its_end_counts_as_a_deletion() -> None:
    assert reason_of_kyma(LEAVING, Step()) == "kyma_deletion"


@pytest.mark.parametrize(
    ("reason", "step"),
    [
        ("manifest_add_finalizer", Step(writes=(Patch(known.MANIFESTS, MANIFEST, HOLD, refused),))),
        ("manifest_update_synced_oci_ref", Step(writes=(Patch(known.MANIFESTS, MANIFEST, NOTE, refused),))),
        ("manifest_unmanaged_update", Step(writes=(Delete(known.MANIFESTS, MANIFEST, refused),))),
        ("manifest_labels_removal", Step(writes=(Patch(known.KYMAS, KYMA, {}, refused),))),
        ("manifest_prune_diff", Step(writes=(Delete(known.KYMAS, KYMA, refused),))),
        ("manifest_sync_resources", Step(writes=(created(known.KYMAS),))),
        ("manifest_sync_resources_enqueue_required", Step(status=manifest_shows("Processing", CHANGED))),
        ("manifest_orphaned", Step(status=manifest_shows("Error", ALONE))),
        ("manifest_render_resources", Step(status=manifest_shows("Error", "no such layer", rendered=False))),
        ("manifest_sync_state", Step(status=manifest_shows("Processing", "waiting for resources to become ready"))),
        ("manifest_reconcile_finished", Step(status=manifest_shows("Ready", "resources are ready"))),
    ],
)
def test_each_step_of_a_manifest_has_a_reason(reason: str, step: Step[ManifestStatus]) -> None:
    assert reason_of_manifest(MANIFEST, step) == reason


@pytest.mark.parametrize(
    ("reason", "writes"),
    [
        ("manifest_pre_delete_enqueue_required", ()),
        ("manifest_pre_delete", (Delete(known.KYMAS, KYMA, refused),)),
        ("manifest_pre_delete", (Patch(known.MANIFESTS, GOING, HOLD, refused),)),
    ],
)
def test_a_manifest_that_is_being_deleted_counts_as_that(reason: str, writes: tuple[Write, ...]) -> None:
    assert reason_of_manifest(GOING, Step(writes=writes)) == reason


def test_failed_steps_and_errors_are_unexpected_and_long_passes_are_shown() -> None:
    registry = Metrics(object_limit=10)
    listings = Listings(kymas=list, manifests=lambda: [MANIFEST], release_metas=list)
    metrics = KymaMetrics(registry, listings, FipsMode.OFF)
    kymas, manifests = KymaPasses(metrics), ManifestPasses(metrics)

    kymas.stepped(KYMA, Step(), failed=False)
    kymas.stepped(KYMA, Step(), failed=True)
    manifests.stepped(MANIFEST, Step(status=manifest_shows("Error", "the manager fails")), failed=False)
    manifests.passed(MANIFEST, 61.0)

    lines = registry.exposition().decode().splitlines()
    counted = {each for each in lines if each.startswith("lifecycle_mgr_requeue_reason_total{")}
    assert counted == {
        'lifecycle_mgr_requeue_reason_total{requeue_reason="processing_kyma_state",requeue_type="intended"} 1.0',
        'lifecycle_mgr_requeue_reason_total{requeue_reason="processing_kyma_state",requeue_type="unexpected"} 1.0',
        'lifecycle_mgr_requeue_reason_total{requeue_reason="manifest_sync_state",requeue_type="unexpected"} 1.0',
    }
    assert 'reconcile_duration_seconds{manifest_name="m"} 61.0' in lines
