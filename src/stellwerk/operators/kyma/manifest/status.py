"""The status of a Manifest, from what a pass has found. Pure.

A condition, once it is true, stays true. Each change of a condition or of the state is the last operation, with its
time; an unchanged status is returned as it was, so that nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

import msgspec

from stellwerk.kube.types.object_meta import Condition, kubernetes_time
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api_manifest import (
    CustomResourcePolicy,
    Manifest,
    ManifestSpec,
    ManifestStatus,
    SyncedResource,
)
from stellwerk.operators.kyma.api_status import LastOperation, State
from stellwerk.runtime import conditions

READY = "resources are ready"
WAITING = "waiting for resources to become ready"
MANAGER_FAILS = "manager is in error state"
APPLY_FAILED = "server-side apply of module resources failed"
ORPHAN_WITHOUT_KYMA = "orphaned manifest detected: parent Kyma does not exist"
ORPHAN_NOT_REFERENCED = "orphaned manifest detected: manifest is not referenced in Kyma status"
CHANGED = "resource syncTarget state diff detected"
OTHER_FINALIZERS = "waiting as other finalizers are present"


class ConditionType(StrEnum):
    """The conditions of a Manifest, in the order in which they are shown."""

    RESOURCES = "Resources"
    INSTALLATION = "Installation"
    MODULE_CR = "ModuleCR"


class _Words(NamedTuple):
    reason: str
    false: str
    true: str


_WORDS: Mapping[ConditionType, _Words] = {
    ConditionType.RESOURCES: _Words(
        "ResourcesAvailable", "resources not parsed", "resources are parsed and ready for use"
    ),
    ConditionType.INSTALLATION: _Words(
        "Ready", "installation is not ready", "installation is ready and resources can be used"
    ),
    ConditionType.MODULE_CR: _Words(
        "ModuleCRCreated", "module CR has not been created to SKR", "module CR was created"
    ),
}


def has_default_resource(spec: ManifestSpec) -> bool:
    """Whether the operator creates and deletes a custom resource of the module."""
    return spec.resource is not None and spec.custom_resource_policy == CustomResourcePolicy.CreateAndDelete


def begun(manifest: Manifest, now: datetime) -> ManifestStatus:
    """The status with all conditions that the Manifest has, and a state."""
    status = manifest.status
    for each in ConditionType:
        if each is ConditionType.MODULE_CR and not has_default_resource(manifest.spec):
            continue
        if conditions.find(status.conditions, each) is None:
            status = _with_condition(manifest, status, each, now, holds=False)
    if status.state is State.Unset:
        status = msgspec.structs.replace(status, state=State.Processing)
    return status


def met(manifest: Manifest, status: ManifestStatus, condition: ConditionType, now: datetime) -> ManifestStatus:
    """The status with a condition that holds."""
    if conditions.is_true(status.conditions, condition):
        return status
    met_status = _with_condition(manifest, status, condition, now, holds=True)
    return _with_operation(met_status, _WORDS[condition].true, now)


def lost_resource(manifest: Manifest, status: ManifestStatus, now: datetime) -> ManifestStatus:
    """The status of a Manifest whose default custom resource was created in another cluster than the present one."""
    if not conditions.is_true(status.conditions, ConditionType.MODULE_CR):
        return status
    return _with_condition(manifest, status, ConditionType.MODULE_CR, now, holds=False)


def shown(manifest: Manifest, status: ManifestStatus, state: State, operation: str, now: datetime) -> ManifestStatus:
    """The status with a state and its cause, and with conditions that show which generation both are about."""
    text = conditions.truncated(operation, conditions.MESSAGE_LIMIT)
    status = _about(status, manifest.metadata.generation)
    if status.state is state and status.last_operation is not None and status.last_operation.operation == text:
        return status
    return _with_operation(msgspec.structs.replace(status, state=state), text, now)


def state_of(manifest: Manifest) -> State:
    """The state for those who asked for the spec as it is: Processing while what is shown is about a former one.

    Conditions of the original keep the generation in which they were met; then the layer that was applied completely
    counts. What is left alone, or being deleted, has no other state than the one that is shown.
    """
    metadata, state = manifest.metadata, manifest.status.state
    is_left_alone = metadata.labels.get(labels.SKIP_RECONCILIATION_LABEL) == "true"
    if state is State.Unset or metadata.is_terminating or is_left_alone:
        return state
    if not any(0 < each.observed_generation < metadata.generation for each in manifest.status.conditions):
        return state
    wanted = manifest.spec.install.source.get("ref", "")
    is_applied = bool(wanted) and metadata.annotations.get(labels.SYNCED_LAYER_ANNOTATION) == wanted
    return state if is_applied and state is State.Ready else State.Processing


def with_synced(status: ManifestStatus, synced: Iterable[SyncedResource]) -> ManifestStatus:
    """The status with these objects. The original lists the same ones in another order, which is no change."""
    listed = set(synced)
    return status if listed == set(status.synced) else msgspec.structs.replace(status, synced=tuple(sorted(listed)))


def _about(status: ManifestStatus, generation: int) -> ManifestStatus:
    """The status, all of whose conditions are about a generation."""
    about = tuple(msgspec.structs.replace(each, observed_generation=generation) for each in status.conditions)
    return status if about == status.conditions else msgspec.structs.replace(status, conditions=about)


def _with_operation(status: ManifestStatus, operation: str, now: datetime) -> ManifestStatus:
    last = LastOperation(operation=operation, last_update_time=kubernetes_time(now))
    return msgspec.structs.replace(status, last_operation=last)


def _with_condition(
    manifest: Manifest, status: ManifestStatus, condition: ConditionType, now: datetime, *, holds: bool
) -> ManifestStatus:
    words = _WORDS[condition]
    made = Condition(
        type=condition,
        status="True" if holds else "False",
        reason=words.reason,
        message=words.true if holds else words.false,
        observed_generation=manifest.metadata.generation,
    )
    return msgspec.structs.replace(status, conditions=conditions.set_condition(status.conditions, made, now))
