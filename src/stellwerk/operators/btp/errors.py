"""What can go wrong while a BtpOperator is brought to what it asks for, and which reason says so.

    StepFailed                  a ReconcileError whose reason may depend on what the CR was doing
    ├── ModuleFailed            module not up to date: ProvisioningFailed, from Ready ReconcileFailed
    │   ├── ModuleUnreadable    folders, manifests, Chart.yaml
    │   ├── ModuleIncomplete    an object that must be among the manifests is not
    │   ├── ApplyFailed         the API server did not take an object
    │   ├── NotReadyInTime      applied, but not ready within ReadyTimeout
    │   └── OutdatedNotDeleted  what a former version left could not be deleted
    ├── RemovalFailed           module resources could not be removed: ResourceRemovalFailed
    ├── CleanupFailed           what belongs to former credentials could not be deleted: ResourceRemovalFailed
    ├── StaleClusterIdNotDeleted   DeletionOfOrphanedResourcesFailed
    ├── AnnotatingFailed        AnnotatingSecretFailed
    ├── SecretUnusable          the required Secret is missing or wrong; only a change of it helps
    └── Unread                  something that decides could not be read; carries its own reason

The first words of the messages are the original operator's, because alerts look for them; causes follow.
"""

from __future__ import annotations

from stellwerk.kube.names import ObjectRef
from stellwerk.operators.btp.api import State
from stellwerk.operators.btp.credentials import SecretProblem
from stellwerk.operators.btp.reasons import Reason
from stellwerk.runtime.contract import ReconcileError, Retry


class StepFailed(ReconcileError):
    """A step did not succeed; `str()` is the message that the condition shows."""

    retry = Retry.BACKOFF

    def reason_in(self, state: State | None) -> Reason:
        """The reason to show, given what the CR was doing."""
        return Reason(self.reason)


class ModuleFailed(StepFailed):
    """The module could not be brought up to date."""

    reason = Reason.ProvisioningFailed

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

    def __init__(self, cause: str) -> None:
        super().__init__(f"failed to apply module resources: {cause}")


class NotReadyInTime(ModuleFailed):
    """An object was applied and did not become ready; `why` is what it lacks."""

    def __init__(self, ref: ObjectRef, why: str = "") -> None:
        waiting = f"timeout waiting for {ref.key.name} {ref.gvk.kind} to be ready"
        super().__init__(f"timed out while waiting for resources readiness: {waiting}{f': {why}' if why else ''}")


class OutdatedNotDeleted(ModuleFailed):
    """What a former version left could not be deleted."""

    def __init__(self, failures: list[tuple[ObjectRef, str]]) -> None:
        listed = ", ".join(f"failed to delete {ref.key.name} {ref.gvk.kind}: {cause}" for ref, cause in failures)
        super().__init__(f"failed to delete outdated module resources: {listed}")


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


class Unread(StepFailed):
    """Something that decides about the next step could not be read."""

    def __init__(self, reason: Reason, what: ObjectRef | str, cause: str) -> None:
        self.reason = reason
        super().__init__(f"failed to get {what}: {cause}")


def _said(present: bool) -> str:
    return "true" if present else "false"
