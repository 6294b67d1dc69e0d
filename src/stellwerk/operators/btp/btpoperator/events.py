"""What is worth an Event on a BtpOperator besides the change of its condition, and in which words (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

from stellwerk.kube.types.identifiers import ObjectRef
from stellwerk.operators.btp.btpoperator import plan
from stellwerk.operators.btp.btpoperator.plan import Blockers
from stellwerk.operators.btp.btpoperator.provisioning import ModuleProgress
from stellwerk.runtime import conditions
from stellwerk.runtime.reconciler import Notice, ReconcileError, Severity

CHANGED_BY_OTHERS = "ChangedByOthers"
"""Another client keeps changing an object; the module is Ready all the same."""
RESTORED = "Restored"
"""Other clients changed or deleted objects, and they were restored."""
OUTDATED_DELETED = "OutdatedDeleted"
"""What former versions of the module left was deleted."""
NOT_KEPT_UP = "ModuleNotKeptUp"
"""The module fails while its removal waits for users."""
OPERAND_RESTARTED = "OperandRestarted"
"""The operand's pods are replaced, because its credentials or its configuration have changed."""
REMOVED = "ModuleRemoved"
"""The deletion of the BtpOperator has come to its end."""
RENEWED = "CertificatesRenewed"
"""Why certificates of the webhooks were renewed."""
FORCED = "ForcedDeletion"
"""What of users goes with the module, and why."""
GIVEN_UP = "HardDeletionGivenUp"
"""The users' objects that were not deleted in time, with their messages, before their finalizers are removed."""
KEPT = "SecretKept"
"""Secrets that bindings name and do not own: they are not deleted with the bindings."""
NAMED = 5
"""How many objects an Event names."""


def of_progress(progress: ModuleProgress) -> Iterator[Notice]:
    """What a pass over the module did, or could not do."""
    if progress.restarted:
        yield Notice(OPERAND_RESTARTED, progress.restarted)
    if progress.renewed:
        yield Notice(RENEWED, f"Certificates of the webhooks were renewed: {progress.renewed}")
    if progress.restored:
        yield Notice(
            RESTORED, f"changed or deleted by others, and put back: {conditions.first_of(progress.restored, NAMED)}"
        )
    yield from of_outdated(progress.outdated)
    for fight in progress.fights:
        yield Notice(CHANGED_BY_OTHERS, fight, Severity.WARNING)


def of_pods(deleted: Sequence[ObjectRef]) -> Iterator[Notice]:
    """The operand's pods that were deleted, because they ran with another cluster id."""
    if deleted:
        yield Notice(
            OPERAND_RESTARTED,
            f"deleted, because they run with a former cluster ID: {conditions.first_of(deleted, NAMED)}",
        )


def of_outdated(deleted: Sequence[ObjectRef]) -> Iterator[Notice]:
    """What former versions left and is gone now."""
    if deleted:
        yield Notice(OUTDATED_DELETED, f"left by a former version, and deleted: {conditions.first_of(deleted, NAMED)}")


def not_kept_up(failure: ReconcileError) -> Notice:
    """What blocks a deletion is what users must read; that the module does not work is second to it."""
    return Notice(NOT_KEPT_UP, conditions.truncated(str(failure)), Severity.WARNING)


def forced(blockers: Blockers, timeout: timedelta) -> Notice:
    """What the force label takes from users, and how long that takes at most before the finalizers are removed."""
    return Notice(FORCED, conditions.truncated(plan.forced_message(blockers, timeout)), Severity.WARNING)


def removed() -> Notice:
    """The module is gone, and the BtpOperator with it."""
    return Notice(REMOVED, "the module is removed, and the BtpOperator is no longer held back")


def given_up(resisting: Sequence[str], refusal: str) -> Iterator[Notice]:
    """What did not go the hard way, and what of it the API server refused to delete; empty where it refused nothing."""
    refused = [f"the API server refused to delete: {refusal}"] if refusal else []
    left = [f"not gone by themselves, so their finalizers are removed: {'; '.join(resisting)}"] if resisting else []
    if text := ". ".join([*refused, *left]):
        yield Notice(GIVEN_UP, conditions.truncated(text), Severity.WARNING)


def kept(secrets: Sequence[str]) -> Iterator[Notice]:
    """Which Secrets that a binding names were not deleted with it."""
    if secrets:
        text = f"not deleted with their bindings: {conditions.first_of(secrets, NAMED, '; ')}"
        yield Notice(KEPT, conditions.truncated(text), Severity.WARNING)
