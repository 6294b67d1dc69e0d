"""What the status of a kind with an inventory becomes, step by step (pure).

    begun           the content that is worked on; a new one restarts the clock
    attempted       what is about to be applied: a content that never was raises the revision
    waiting         applied, and something is not ready
    finished        everything is applied and ready
    start_deletion  nothing is worked on any more
    with_report     the status with the report of the pass

Times that change by themselves are written only together with something else: an object that is ready and is looked at
again is not written to.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TypeVar

import msgspec

from stellwerk.apply.set.model import inventory_codec
from stellwerk.apply.set.model.inventory import Inventory
from stellwerk.delivery.sets.inventory_status import InventoryStatus
from stellwerk.delivery.sets.pass_report import SetReport
from stellwerk.kube.types.object_meta import kubernetes_time

S = TypeVar("S", bound=InventoryStatus)


def begun(status: S, digest: str) -> S:
    """The status as work on a content begins. `digest` is its fingerprint."""
    if status.processing_digest == digest:
        return status
    return msgspec.structs.replace(status, processing_digest=digest, processing_since=None)


def attempted(status: S) -> S:
    """The status as templates see it. A content that was never rendered raises the revision."""
    revision = max(status.revision, 1) if status.last_applied_at is not None else status.revision
    is_new = status.last_processing_digest != status.processing_digest
    return msgspec.structs.replace(status, revision=revision + is_new, last_processing_digest=status.processing_digest)


def with_inventory(status: S, inventory: Inventory) -> S:
    """The status with the objects as they are now."""
    return msgspec.structs.replace(status, inventory=inventory_codec.write(inventory))


def waiting(status: S, now: datetime) -> S:
    """The status while objects are not ready; from the first time on, the timeout counts."""
    return msgspec.structs.replace(status, processing_since=status.processing_since or kubernetes_time(now))


def is_late(status: InventoryStatus, timeout: timedelta, now: datetime) -> bool:
    """Whether objects have been waited for longer than they may take."""
    return status.processing_since is not None and now - status.processing_since >= timeout


def finished(status: S, generation: int, now: datetime) -> S:
    """The status when everything is applied and ready."""
    return msgspec.structs.replace(
        status, processing_since=None, applied_generation=generation, last_applied_at=kubernetes_time(now)
    )


def start_deletion(status: S) -> S:
    """The status during a deletion: nothing is worked on any more."""
    return msgspec.structs.replace(status, processing_digest="", processing_since=None)


def with_report(before: S, status: S, report: SetReport, generation: int, now: datetime) -> S:
    """The status with the report of the pass, written at `now`; `before` if nothing but times differs from it."""
    shown = report.shown_on(status, generation=generation, now=now)
    unchanged = msgspec.structs.replace(
        shown, last_observed_at=before.last_observed_at, last_applied_at=before.last_applied_at
    )
    return before if unchanged == before else msgspec.structs.replace(shown, last_observed_at=kubernetes_time(now))


def inventory_complaint(status: InventoryStatus, patch_command: str) -> str:
    """Why nothing can be done with an entry of the inventory, and how to remove it; empty if all can be worked with.

    `patch_command` patches the object: `kubectl -n NAMESPACE patch KIND NAME`.
    """
    found = inventory_codec.complaint(status.inventory)
    if found is None:
        return ""
    place, why = found
    remove = f'[{{"op":"remove","path":"/status/inventory/{place}"}}]'
    return (
        f"status.inventory[{place}]: {why}; another client edited the status, and nothing is applied or deleted "
        f"until the entry is removed: {patch_command} --subresource status --type json -p '{remove}'"
    )
