"""Shows how far tenants are once a second.

Each tenant that is provisioned, upgraded or deleted changes the counts of its application three times, and a status is
a request. The first change after a pause is shown at once, and so is every change of anything else.
"""

from __future__ import annotations

import msgspec

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.cap.kinds.application import ALL_TENANTS_READY, ApplicationStatus, CAPApplication
from stellwerk.operators.cap.kinds.status import READY
from stellwerk.operators.cap.reasons import ApplicationReason
from stellwerk.runtime.clock import Clock

PROGRESS_SECONDS = 1.0

_COUNTING = {
    (ALL_TENANTS_READY, ApplicationReason.NotAllTenantsReady),
    (READY, ApplicationReason.TenantsExist),
}
"""Conditions whose messages show how many tenants are not where they have to be."""


class ShownProgress:
    """When each application has last shown a status for its counts alone."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._shown: dict[ObjectKey, float] = {}

    def delay_seconds(self, application: CAPApplication, status: ApplicationStatus) -> float:
        """For how long the status has to wait; 0 where it is shown now, which is noted."""
        if not is_progress(application.status, status):
            return 0.0
        now, key = self._clock.monotonic(), application.key
        left = self._shown.get(key, now - PROGRESS_SECONDS) + PROGRESS_SECONDS - now
        if left > 0:
            return left
        self._shown[key] = now
        return 0.0

    def forget(self, key: ObjectKey) -> None:
        """The application is gone."""
        self._shown.pop(key, None)


def is_progress(before: ApplicationStatus, after: ApplicationStatus) -> bool:
    """Whether the two differ only in counts of tenants under way and their subdomains (pure)."""
    return before != after and _without_counts(before) == _without_counts(after)


def _without_counts(status: ApplicationStatus) -> ApplicationStatus:
    upgrade = status.tenant_upgrade
    if upgrade is not None:
        upgrade = msgspec.structs.replace(upgrade, upgraded=0, upgrading=0, waiting=0)
    shown = tuple(
        msgspec.structs.replace(each, message="") if (each.type, each.reason) in _COUNTING else each
        for each in status.conditions
    )
    return msgspec.structs.replace(status, tenant_upgrade=upgrade, conditions=shown, observed_subdomains=())
