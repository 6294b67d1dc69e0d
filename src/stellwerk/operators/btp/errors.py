"""The failures of a pass on a BtpOperator, with their reasons.

    StepFailed                  a ReconcileError whose reason may depend on what the CR was doing
    ├── ModuleFailed            module not up to date: ProvisioningFailed, from Ready ReconcileFailed
    │   ├── ModuleUnreadable    folders, manifests, Chart.yaml
    │   ├── ModuleIncomplete    an object that must be among the manifests is not
    │   ├── ApplyFailed         the API server did not take an object
    │   ├── NotReadyInTime      applied, but not ready within ReadyTimeout
    │   ├── OutdatedNotDeleted  what a former version left could not be deleted
    │   └── OrphansUnknown      what a former version left could not be looked for
    ├── RemovalFailed           module resources could not be removed: ResourceRemovalFailed
    ├── CleanupFailed           what belongs to former credentials could not be deleted: ResourceRemovalFailed
    ├── StaleClusterIdNotDeleted   DeletionOfOrphanedResourcesFailed
    ├── RecordUnread            the record of versions could not be read: GettingConfigMapFailed
    ├── NotRecorded             it could not be written: StoringChartDetailsFailed
    │   └── DamagedRecord       it lacks a key, or holds what we never wrote
    ├── AnnotatingFailed        AnnotatingSecretFailed
    ├── SecretUnusable          the required Secret is missing or wrong; only a change of it helps
    ├── StateUnread             something that decides could not be read; carries its own reason
    ├── ChartPathEmpty          a module that comes from a chart: no chart is named
    ├── ChartUnusable           its chart, values or renderer: PreparingInstallInfoFailed
    ├── NotInstalled            an object was not taken or not ready: ChartInstallFailed
    ├── NotConsistent           the same of a module that was ready: ConsistencyCheckFailed
    └── OrphansNotDeleted       DeletionOfOrphanedResourcesFailed

The first words of the messages are the original operator's, because alerts look for them; causes follow.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import ClassVar, TypeVar

from stellwerk.kube.types.errors import ApiError
from stellwerk.kube.types.identifiers import ObjectRef
from stellwerk.operators.btp import api
from stellwerk.operators.btp.api import State
from stellwerk.operators.btp.credentials.credentials import SecretProblem
from stellwerk.operators.btp.reasons import Reason
from stellwerk.runtime.reconciler import ReconcileError, Retry

T = TypeVar("T")

NOT_READY_IN_TIME = "timed out while waiting for resources readiness"
WAITED_FOR = "timeout waiting for"
"""Before the name and the kind of what was waited for."""


class StepFailed(ReconcileError):
    """A step did not succeed; `str()` is the message that the condition shows: `words`, and the cause."""

    words: ClassVar[str] = ""

    def __init__(self, cause: str) -> None:
        super().__init__(f"{self.words}{cause}")

    def reason_in(self, state: State | None) -> Reason:
        """The reason to show, given what the CR was doing."""
        return Reason(self.reason)


class ModuleFailed(StepFailed):
    """The module could not be brought up to date."""

    reason = Reason.ProvisioningFailed

    def __init__(self, cause: str, ref: ObjectRef | None = None) -> None:
        """`ref`: the object that it failed at, where it is a single one."""
        super().__init__(cause)
        self.ref = ref

    def reason_in(self, state: State | None) -> Reason:
        """A module that was ready fails to be reconciled, any other to be provisioned."""
        return Reason.ReconcileFailed if state is State.Ready else Reason.ProvisioningFailed


class ModuleUnreadable(ModuleFailed):
    """A folder or file of the module cannot be used."""

    words = "cannot read the module resources: "


class ModuleIncomplete(ModuleFailed):
    """Objects that carry the credentials, or the operand itself, are not among the manifests."""

    words = "required module resources not found in manifests "

    def __init__(self, parts: Mapping[str, bool]) -> None:
        super().__init__(f"({', '.join(f'{part}={str(found).lower()}' for part, found in parts.items())})")


class ApplyFailed(ModuleFailed):
    """The API server did not take an object."""

    words = "failed to apply module resources: "


class NotReadyInTime(ModuleFailed):
    """An object was applied and did not become ready; `why` is what it lacks."""

    words = f"{NOT_READY_IN_TIME}: {WAITED_FOR} "

    def __init__(self, ref: ObjectRef, why: str) -> None:
        super().__init__(f"{ref.key.name} {ref.gvk.kind} to be ready{f': {why}' if why else ''}", ref)


class OutdatedNotDeleted(ModuleFailed):
    """What a former version left could not be deleted."""

    words = "failed to delete outdated module resources: "

    def __init__(self, failures: list[tuple[ObjectRef, str]]) -> None:
        super().__init__(
            ", ".join(f"failed to delete {ref.key.name} {ref.gvk.kind}: {cause}" for ref, cause in failures)
        )


class OrphansUnknown(ModuleFailed):
    """What a former version left could not be looked for."""

    words = "failed to look for what a former version left: "


class RemovalFailed(StepFailed):
    """Module resources could not be removed."""

    reason = Reason.ResourceRemovalFailed
    words = "Unable to remove installed resources: "

    def with_module_down(self, cause: StepFailed) -> RemovalFailed:
        """The same failure, which names too why the module cannot be put back until the removal is tried again."""
        own = str(self).removeprefix(self.words)
        return RemovalFailed(f"{own}; until the next try the module is not put back: {cause}")


class CleanupFailed(StepFailed):
    """What belongs to former credentials could not be deleted."""

    reason = Reason.ResourceRemovalFailed
    words = "failed to delete resources of former credentials: "


class StaleClusterIdNotDeleted(StepFailed):
    """The operand's Secret with another cluster id could not be deleted."""

    reason = Reason.DeletionOfOrphanedResourcesFailed
    words = "failed to delete the Secret with the former cluster ID: "


class AnnotatingFailed(StepFailed):
    """The former values could not be noted on the required Secret."""

    reason = Reason.AnnotatingSecretFailed
    words = "failed to annotate the required Secret: "


class SecretUnusable(StepFailed):
    """The required Secret is missing or wrong."""

    retry = Retry.WHEN_CHANGED

    def __init__(self, problem: SecretProblem) -> None:
        self.reason = problem.reason
        super().__init__(problem.message)


class StateUnread(StepFailed):
    """Something that decides about the next step could not be read."""

    words = "failed to get "

    def __init__(self, reason: Reason, what: str, cause: str) -> None:
        self.reason = reason
        super().__init__(f"{what}: {cause}")


class RecordUnread(StepFailed):
    """The record of the applied version could not be read."""

    reason = Reason.GettingConfigMapFailed
    words = f"Getting config map failed: ConfigMap {api.VERSIONS_NAME}: "


class NotRecorded(StepFailed):
    """The record of the applied version could not be written."""

    reason = Reason.StoringChartDetailsFailed
    words = f"Failure of storing chart details: ConfigMap {api.VERSIONS_NAME}: "


class DamagedRecord(NotRecorded):
    """The record lacks a key or holds what we never wrote."""


# ---- the words of a module that comes from a chart


class ChartPathEmpty(StepFailed):
    """No chart is named."""

    reason = Reason.ChartPathEmpty
    words = "No chart path available for processing: "


class ChartUnusable(StepFailed):
    """The chart, its values or the renderer are of no use."""

    reason = Reason.PreparingInstallInfoFailed
    words = "Error while preparing InstallInfo: chart "


class NotInstalled(StepFailed):
    """An object of the chart was not taken, or did not become ready."""

    reason = Reason.ChartInstallFailed
    words = "error while installing resource"


class NotConsistent(StepFailed):
    """The module was ready, and is not as the chart has it any more, or cannot be compared with it."""

    reason = Reason.ConsistencyCheckFailed
    words = "Checking consistency of resource"


class OrphansNotDeleted(StepFailed):
    """What an older chart had could not be deleted."""

    reason = Reason.DeletionOfOrphanedResourcesFailed
    words = "Deletion of orphaned resources failed: "


async def or_fail(step: Awaitable[T], failure: Callable[[str], StepFailed]) -> T:
    """Do a step; what the API server refuses of it becomes the failure that the user reads."""
    try:
        return await step
    except ApiError as error:
        raise failure(str(error)) from error


def of_chart(failure: StepFailed, chart: str, state: State | None) -> StepFailed:
    """A failure as a module from a chart reports it; what has nothing to do with the chart stays as it is."""
    match failure:
        case ModuleUnreadable() | ModuleIncomplete():
            return ChartUnusable(f"{chart}: {failure}")
        case OutdatedNotDeleted() | OrphansUnknown():
            return OrphansNotDeleted(str(failure))
        case ModuleFailed():
            named = f" {failure.ref.key}" if failure.ref is not None else "s"
            if state is State.Ready:
                return NotConsistent(f"{named} failed: {failure}")
            return NotInstalled(f"{named}: {failure}")
        case _:
            return failure
