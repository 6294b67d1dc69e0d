"""Shows how far tenants are once a second.

Each tenant that is provisioned, upgraded or deleted changes the counts of its application three times, and a status is
a request. The first change after a pause is shown at once, and so is every change of anything else.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import msgspec

from stellwerk.kube.types.object_meta import Condition
from stellwerk.operators.cap.kinds.application import ALL_TENANTS_READY, ApplicationStatus
from stellwerk.operators.cap.kinds.status import READY
from stellwerk.operators.cap.reasons import ApplicationReason

PROGRESS_SECONDS = 1.0

_COUNTING = {(ALL_TENANTS_READY, ApplicationReason.NotAllTenantsReady), (READY, ApplicationReason.TenantsExist)}
"""Conditions whose messages show how many tenants are not where they have to be."""
_USE = re.compile(r"^(version \S+) is (?:in use|the newest that is Ready: \d+ of \d+ tenants have it)")
"""What `use_of_version` returns."""


def use_of_version(number: str, have: int, tenants: int) -> str:
    """How many of an application's tenants have a version, as its message begins. What follows it is no count."""
    if have >= tenants:
        return f"version {number} is in use"
    return f"version {number} is the newest that is Ready: {have} of {tenants} tenants have it"


@dataclass(slots=True)
class ShownCounts:
    """What is remembered of an application: when it has last shown a status for its counts alone."""

    at: float = -math.inf

    def delay_seconds(self, before: ApplicationStatus, after: ApplicationStatus, now: float) -> float:
        """For how long the status has to wait; 0 where it is shown now, which is noted. `now` is monotonic."""
        if not is_progress(before, after):
            return 0.0
        if now < self.at + PROGRESS_SECONDS:
            return self.at + PROGRESS_SECONDS - now
        self.at = now
        return 0.0


def is_progress(before: ApplicationStatus, after: ApplicationStatus) -> bool:
    """Whether the two differ only in counts of tenants under way and their subdomains (pure)."""
    return before != after and _without_counts(before) == _without_counts(after)


def _without_counts(status: ApplicationStatus) -> ApplicationStatus:
    upgrade = status.tenant_upgrade
    if upgrade is not None:
        upgrade = msgspec.structs.replace(upgrade, upgraded=0, upgrading=0, waiting=0)
    shown = tuple(msgspec.structs.replace(each, message=_without_count(each)) for each in status.conditions)
    return msgspec.structs.replace(status, tenant_upgrade=upgrade, conditions=shown, observed_subdomains=())


def _without_count(condition: Condition) -> str:
    if (condition.type, condition.reason) in _COUNTING:
        return ""
    if (condition.type, condition.reason) == (READY, ApplicationReason.VersionExists):
        return _USE.sub(r"\1", condition.message)
    return condition.message
