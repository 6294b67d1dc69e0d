"""Why Kymas and Manifests are looked at again: the label of a counter of the original, from what a step does. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, cast

from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.kyma.api import Kyma, KymaStatus
from stellwerk.operators.kyma.api_manifest import Manifest, ManifestStatus
from stellwerk.operators.kyma.api_status import State
from stellwerk.operators.kyma.collections import (
    KYMAS,
    MANIFESTS,
    RUNTIME_DEFINITIONS,
    RUNTIME_KYMAS,
    RUNTIME_METAS,
    RUNTIME_NAMESPACES,
    RUNTIME_SECRETS,
    RUNTIME_TEMPLATES,
)
from stellwerk.operators.kyma.kyma.deletion import UseCase
from stellwerk.operators.kyma.kyma.status import ConditionType
from stellwerk.operators.kyma.manifest import status as manifest_status
from stellwerk.runtime.conditions import is_true
from stellwerk.runtime.control.step import Apply, Create, Delete, Patch, RemoveFinalizer, Show, Step, Write
from stellwerk.runtime.reading.questions import Collection


class KymaRequeue(StrEnum):
    """Why a Kyma is looked at again."""

    NO_ACCESS_SECRET = "kyma_under_deletion_with_no_access_secret"  # noqa: S105  # a reason
    UPDATE_TO_DELETING = "kyma_status_update_to_deleting"
    LABELS_AND_FINALIZERS = "labels_and_finalizers_update"
    DEFINITIONS = "crds_sync"
    IMAGE_PULL_SECRET = "image_pull_secret_sync"  # noqa: S105  # a reason
    MANIFESTS = "manifest_reconciliation"
    CATALOG = "module_catalog_sync"
    WEBHOOK = "skr_webhook_installation"
    INITIAL_STATE = "initial_state_handling"
    SYNC_CONTEXT = "sync_context_retrieval"
    REMOTE_DELETION = "remote_kyma_deletion"
    SPEC_FROM_REMOTE = "spec_replacement_from_remote"
    STATUS_TO_REMOTE = "status_sync_to_remote"
    PROCESSING = "processing_kyma_state"
    REMOTE_FINALIZERS = "finalizers_removal_from_remote_kyma"
    CATALOG_DELETION = "remote_module_catalog_deletion"
    MANIFESTS_CLEANUP = "manifest_crs_cleanup"
    DELETION = "kyma_deletion"
    RETRIEVAL = "kyma_retrieval"
    UNAUTHORIZED = "kyma_unauthorized"


class ManifestRequeue(StrEnum):
    """Why a Manifest is looked at again."""

    RETRIEVAL = "manifest_retrieval"
    INITIALIZE = "manifest_initialize"
    ADD_FINALIZER = "manifest_add_finalizer"
    PARSE_SPEC = "manifest_parse_spec"
    UPDATE_SYNCED_LAYER = "manifest_update_synced_oci_ref"
    INIT_SYNCED_LAYER = "manifest_init_synced_oci_ref"
    CLIENT = "manifest_client_init"
    RENDER = "manifest_render_resources"
    PRUNE_NOT_FINISHED = "manifest_prune_diff_not_finished"
    PRUNE = "manifest_prune_diff"
    PRE_DELETE_REQUIRED = "manifest_pre_delete_enqueue_required"
    PRE_DELETE = "manifest_pre_delete"
    SYNC_REQUIRED = "manifest_sync_resources_enqueue_required"
    SYNC = "manifest_sync_resources"
    STATE = "manifest_sync_state"
    UNAUTHORIZED = "manifest_unauthorized"
    FINISHED = "manifest_reconcile_finished"
    UNMANAGED = "manifest_unmanaged_update"
    LABELS_REMOVAL = "manifest_labels_removal"
    ORPHANED = "manifest_orphaned"


_OF_DELETION: Mapping[str, KymaRequeue] = {
    UseCase.SET_STATE_DELETING: KymaRequeue.UPDATE_TO_DELETING,
    UseCase.SET_RUNTIME_STATE_DELETING: KymaRequeue.STATUS_TO_REMOTE,
    UseCase.DELETE_MANIFESTS: KymaRequeue.MANIFESTS_CLEANUP,
    UseCase.DELETE_CERTIFICATE: KymaRequeue.WEBHOOK,
    UseCase.DELETE_WEBHOOK: KymaRequeue.WEBHOOK,
    UseCase.DELETE_TEMPLATE_DEFINITION: KymaRequeue.CATALOG_DELETION,
    UseCase.DELETE_META_DEFINITION: KymaRequeue.CATALOG_DELETION,
    UseCase.DELETE_RUNTIME_KYMA: KymaRequeue.REMOTE_DELETION,
    UseCase.DELETE_KYMA_DEFINITION: KymaRequeue.REMOTE_DELETION,
    UseCase.DELETE_METRICS: KymaRequeue.DELETION,
    UseCase.DROP_FINALIZER: KymaRequeue.DELETION,
}
_OF_WRITES: tuple[tuple[Collection[Any], KymaRequeue], ...] = (
    (KYMAS, KymaRequeue.LABELS_AND_FINALIZERS),
    (RUNTIME_NAMESPACES, KymaRequeue.SYNC_CONTEXT),
    (RUNTIME_DEFINITIONS, KymaRequeue.DEFINITIONS),
    (RUNTIME_SECRETS, KymaRequeue.IMAGE_PULL_SECRET),
    (RUNTIME_KYMAS, KymaRequeue.STATUS_TO_REMOTE),
    (MANIFESTS, KymaRequeue.MANIFESTS),
    (RUNTIME_TEMPLATES, KymaRequeue.CATALOG),
    (RUNTIME_METAS, KymaRequeue.CATALOG),
)
"""By what is written. What else a Kyma writes belongs to its webhook."""
_OF_CONDITIONS: Mapping[str, KymaRequeue] = {
    ConditionType.DEFINITIONS: KymaRequeue.DEFINITIONS,
    ConditionType.PULL_SECRET: KymaRequeue.IMAGE_PULL_SECRET,
    ConditionType.CATALOG: KymaRequeue.CATALOG,
    ConditionType.WEBHOOK: KymaRequeue.WEBHOOK,
}
"""By the condition that is not true of a Kyma in Error."""


def reason_of_kyma(kyma: Kyma, step: Step[KymaStatus]) -> KymaRequeue:
    """What a step of a Kyma was about."""
    for event in step.events:
        if event.reason in _OF_DELETION:
            return _OF_DELETION[event.reason]
    if step.writes:
        written = _collection_of(step.writes[0])
        return next((reason for each, reason in _OF_WRITES if each is written), KymaRequeue.WEBHOOK)
    if kyma.metadata.is_terminating:
        return KymaRequeue.DELETION
    if step.status is None:
        return KymaRequeue.PROCESSING
    if kyma.status.state is State.Unset:
        return KymaRequeue.INITIAL_STATE
    if step.status.state is not State.Error:
        return KymaRequeue.PROCESSING
    broken = [each.type for each in step.status.conditions if each.status == "False"]
    return next((_OF_CONDITIONS[each] for each in broken if each in _OF_CONDITIONS), KymaRequeue.PROCESSING)


def reason_of_manifest(manifest: Manifest, step: Step[ManifestStatus]) -> ManifestRequeue:
    """What a step of a Manifest was about."""
    is_leaving = manifest.metadata.is_terminating
    if step.writes:
        return _of_write(step.writes[0], is_leaving=is_leaving)
    if is_leaving:
        return ManifestRequeue.PRE_DELETE_REQUIRED
    shown = step.status or manifest.status
    operation = shown.last_operation.operation if shown.last_operation is not None else ""
    if operation.startswith(_ORPHANED):
        return ManifestRequeue.ORPHANED
    if operation == manifest_status.CHANGED:
        return ManifestRequeue.SYNC_REQUIRED
    if shown.state is State.Error and not is_true(shown.conditions, manifest_status.ConditionType.RESOURCES):
        return ManifestRequeue.RENDER
    return ManifestRequeue.FINISHED if shown.state is State.Ready else ManifestRequeue.STATE


_ORPHANED = (manifest_status.ORPHAN_WITHOUT_KYMA, manifest_status.ORPHAN_NOT_REFERENCED)


def _of_write(write: Write, *, is_leaving: bool) -> ManifestRequeue:
    match write:
        case Patch(collection=collection, fields=fields) if collection is MANIFESTS:
            if is_leaving:
                return ManifestRequeue.PRE_DELETE
            has_finalizers = "finalizers" in cast("JsonObject", fields["metadata"])
            return ManifestRequeue.ADD_FINALIZER if has_finalizers else ManifestRequeue.UPDATE_SYNCED_LAYER
        case Delete(collection=collection) if collection is MANIFESTS:
            return ManifestRequeue.UNMANAGED
        case Patch():
            return ManifestRequeue.LABELS_REMOVAL
        case Delete():
            return ManifestRequeue.PRE_DELETE if is_leaving else ManifestRequeue.PRUNE
        case _:
            return ManifestRequeue.SYNC


def _collection_of(write: Write) -> Collection[Any] | None:
    if isinstance(write, Create | Apply | Patch | Show | Delete):
        return write.collection
    return KYMAS if isinstance(write, RemoveFinalizer) else None
