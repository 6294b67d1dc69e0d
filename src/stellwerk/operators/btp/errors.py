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
    ├── FromChart               a ModuleFailed in the words of a module that comes from a chart
    │   ├── ChartPathEmpty      ChartPathEmpty
    │   ├── ChartUnusable       chart, values or renderer: PreparingInstallInfoFailed
    │   ├── NotInstalled        an object was not taken or not ready: ChartInstallFailed
    │   ├── NotConsistent       the same of a module that was ready: ConsistencyCheckFailed
    │   └── OrphansNotDeleted   DeletionOfOrphanedResourcesFailed
    ├── AnnotatingFailed        AnnotatingSecretFailed
    ├── SecretUnusable          the required Secret is missing or wrong; only a change of it helps
    └── Unread                  something that decides could not be read; carries its own reason

The first words of the messages are the original operator's, because alerts look for them; causes follow.
"""

from __future__ import annotations

from pathlib import Path

from stellwerk.kube.types.identifiers import ObjectRef
from stellwerk.operators.btp.api import State
from stellwerk.operators.btp.credentials.credentials import SecretProblem
from stellwerk.operators.btp.reasons import Reason
from stellwerk.runtime.reconciler import ReconcileError, Retry

NOT_READY_IN_TIME = "timed out while waiting for resources readiness"
WAITED_FOR = "timeout waiting for"
"""Before the name and the kind of what was waited for."""


class StepFailed(ReconcileError):
    """A step did not succeed; `str()` is the message that the condition shows."""

    retry = Retry.BACKOFF

    def reason_in(self, state: State | None) -> Reason:
        """The reason to show, given what the CR was doing."""
        return Reason(self.reason)


class ModuleFailed(StepFailed):
    """The module could not be brought up to date."""

    reason = Reason.ProvisioningFailed
    ref: ObjectRef | None = None
    """The object that it failed at, where it is a single one."""

    def reason_in(self, state: State | None) -> Reason:
        """A module that was ready fails to be reconciled, any other to be provisioned."""
        return Reason.ReconcileFailed if state is State.Ready else Reason.ProvisioningFailed


class ModuleUnreadable(ModuleFailed):
    """A folder or file of the module cannot be used."""

    def __init__(self, what: str, cause: str) -> None:
        super().__init__(f"cannot read the module resources: {what}: {cause}")


class ModuleIncomplete(ModuleFailed):
    """Objects that carry the credentials, or the operand itself, are not among the manifests."""

    def __init__(self, *, config_map: bool, secret: bool, deployment: bool) -> None:
        found = f"configMap={_said(config_map)}, secret={_said(secret)}, deployment={_said(deployment)}"
        super().__init__(f"required module resources not found in manifests ({found})")


class ApplyFailed(ModuleFailed):
    """The API server did not take an object."""

    def __init__(self, cause: str, ref: ObjectRef | None = None) -> None:
        self.ref = ref
        super().__init__(f"failed to apply module resources: {cause}")


class NotReadyInTime(ModuleFailed):
    """An object was applied and did not become ready; `why` is what it lacks."""

    def __init__(self, ref: ObjectRef, why: str = "") -> None:
        self.ref = ref
        waiting = f"{WAITED_FOR} {ref.key.name} {ref.gvk.kind} to be ready"
        super().__init__(f"{NOT_READY_IN_TIME}: {waiting}{f': {why}' if why else ''}")


class OutdatedNotDeleted(ModuleFailed):
    """What a former version left could not be deleted."""

    def __init__(self, failures: list[tuple[ObjectRef, str]]) -> None:
        listed = ", ".join(f"failed to delete {ref.key.name} {ref.gvk.kind}: {cause}" for ref, cause in failures)
        super().__init__(f"failed to delete outdated module resources: {listed}")


class OrphansUnknown(ModuleFailed):
    """What a former version left could not be looked for."""

    def __init__(self, kind: str, cause: str) -> None:
        super().__init__(f"failed to look for what a former version left: {kind}: {cause}")


class RemovalFailed(StepFailed):
    """Module resources could not be removed."""

    reason = Reason.ResourceRemovalFailed

    def __init__(self, cause: str) -> None:
        super().__init__(f"Unable to remove installed resources: {cause}")


class CleanupFailed(StepFailed):
    """What belongs to former credentials could not be deleted."""

    reason = Reason.ResourceRemovalFailed

    def __init__(self, cause: str) -> None:
        super().__init__(f"failed to delete resources of former credentials: {cause}")


class StaleClusterIdNotDeleted(StepFailed):
    """The operand's Secret with another cluster id could not be deleted."""

    reason = Reason.DeletionOfOrphanedResourcesFailed

    def __init__(self, cause: str) -> None:
        super().__init__(f"failed to delete the Secret with the former cluster ID: {cause}")


class AnnotatingFailed(StepFailed):
    """The former values could not be noted on the required Secret."""

    reason = Reason.AnnotatingSecretFailed

    def __init__(self, cause: str) -> None:
        super().__init__(f"failed to annotate the required Secret: {cause}")


class SecretUnusable(StepFailed):
    """The required Secret is missing or wrong."""

    retry = Retry.WHEN_CHANGED

    def __init__(self, problem: SecretProblem) -> None:
        self.reason = problem.reason
        super().__init__(problem.message)


class StateUnread(StepFailed):
    """Something that decides about the next step could not be read."""

    def __init__(self, reason: Reason, what: ObjectRef | str, cause: str) -> None:
        self.reason = reason
        super().__init__(f"failed to get {what}: {cause}")


class RecordUnread(StepFailed):
    """The record of the applied version could not be read."""

    reason = Reason.GettingConfigMapFailed

    def __init__(self, name: str, cause: str) -> None:
        super().__init__(f"Getting config map failed: ConfigMap {name}: {cause}")


class NotRecorded(StepFailed):
    """The record of the applied version could not be written."""

    reason = Reason.StoringChartDetailsFailed

    def __init__(self, name: str, cause: str) -> None:
        super().__init__(f"Failure of storing chart details: ConfigMap {name}: {cause}")


# ---- the words of a module that comes from a chart


class FromChart(StepFailed):
    """A module that comes from a chart could not be brought up to date."""


class ChartPathEmpty(FromChart):
    """No chart is named."""

    reason = Reason.ChartPathEmpty

    def __init__(self) -> None:
        super().__init__("No chart path available for processing: set ChartPath, or set ModuleSource to resources")


class ChartUnusable(FromChart):
    """The chart, its values or the renderer are of no use."""

    reason = Reason.PreparingInstallInfoFailed

    def __init__(self, what: Path | str, cause: str) -> None:
        super().__init__(f"Error while preparing InstallInfo: chart {what}: {cause}")


class NotInstalled(FromChart):
    """An object of the chart was not taken, or did not become ready."""

    reason = Reason.ChartInstallFailed

    def __init__(self, failure: ModuleFailed) -> None:
        super().__init__(f"error while installing resource{_named(failure.ref)}: {failure}")


class NotConsistent(FromChart):
    """The module was ready, and is not as the chart has it any more, or cannot be compared with it."""

    reason = Reason.ConsistencyCheckFailed

    def __init__(self, failure: ModuleFailed) -> None:
        super().__init__(f"Checking consistency of resource{_named(failure.ref)} failed: {failure}")


class OrphansNotDeleted(FromChart):
    """What an older chart had could not be deleted."""

    reason = Reason.DeletionOfOrphanedResourcesFailed

    def __init__(self, cause: str) -> None:
        super().__init__(f"Deletion of orphaned resources failed: {cause}")


def of_chart(failure: StepFailed, chart: str, state: State | None) -> StepFailed:
    """A failure as a module from a chart reports it; what has nothing to do with the chart stays as it is."""
    match failure:
        case ModuleUnreadable() | ModuleIncomplete():
            return ChartUnusable(chart, str(failure))
        case OutdatedNotDeleted() | OrphansUnknown():
            return OrphansNotDeleted(str(failure))
        case ModuleFailed() if state is State.Ready:
            return NotConsistent(failure)
        case ModuleFailed():
            return NotInstalled(failure)
        case _:
            return failure


def _named(ref: ObjectRef | None) -> str:
    return f" {ref.key}" if ref is not None else "s"


def _said(present: bool) -> str:
    return "true" if present else "false"
