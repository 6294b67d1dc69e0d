"""Which tenants follow to a new version now (pure).

Without spec.tenantUpgrade all follow at once, as with the original. With it, canary tenants come first, no more than
some are upgraded at a time, none begins outside a window, and none begins where too many have failed, until a user
resumes the upgrade. A tenant that has no version yet is provisioned at once: it is a new subscriber, not an upgrade.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum, auto

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import (
    CAPApplication,
    TenantUpgrade,
    UpgradePhase,
    UpgradeProgress,
    UpgradeWindow,
    Weekday,
)
from stellwerk.operators.cap.kinds.tenant import FAILED_STATES, CAPTenant, TenantState, UpgradeStrategy
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.tenant.plan import is_new
from stellwerk.operators.cap.version.order import latest_ready
from stellwerk.runtime import conditions

_BUSY = (TenantState.PROVISIONING, TenantState.UPGRADING, TenantState.DELETING)
_WEEKDAYS = tuple(Weekday)


class Trial(Enum):
    """What a canary shows of a version."""

    FAILED = auto()
    """It did not get there: no other tenant begins until a user resumes the upgrade."""
    ARRIVED = auto()
    AWAITED = auto()
    """It may still arrive: the others wait for it."""
    LOST = auto()
    """It does not arrive. Where no canary does, nothing is tried first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wave:
    """The tenants that follow now."""

    tenants: Sequence[CAPTenant] = ()
    due: Sequence[CAPTenant] = ()
    """All that have to follow, now or later."""
    progress: UpgradeProgress | None = None
    """None: all follow at once, or all have followed."""
    pause_cause: str = ""
    """Why no tenant begins, where the upgrade is paused."""
    again_seconds: float | None = None
    """When the window opens."""


def next_wave(
    application: CAPApplication,
    tenants: Sequence[CAPTenant],
    version: CAPApplicationVersion,
    now: datetime,
    *,
    staying: Collection[ObjectKey] = (),
    refused: Collection[ObjectKey] = (),
) -> Wave:
    """Decide which tenants follow to `version` now; those that are `staying` do not.

    Tenants whose change was `refused` wait for another try and take no room: others follow meanwhile.
    """
    number, policy = version.spec.version, application.spec.tenant_upgrade
    due = [
        each
        for each in tenants
        if follows(each) and not is_new(each) and each.spec.version != number and each.key not in staying
    ]
    if policy is None:
        wave = Wave(tenants=[each for each in due if each.key not in refused])
    else:
        canaries = frozenset(policy.canary_tenants)
        wave = _Upgrade(application, policy, canaries, tenants, version, refused, staying).wave(due, now)
    return replace(wave, due=due)


def described(progress: UpgradeProgress) -> str:
    """How far an upgrade is, for messages."""
    return (
        f"upgrade to version {progress.version}, phase {progress.phase}: {progress.upgraded} upgraded, "
        f"{progress.upgrading} under way, {progress.failed} failed, {progress.waiting} waiting"
    )


def resume_command(application: ObjectKey) -> str:
    """The command that resumes an upgrade that is paused."""
    return f"stellwerk cap upgrade {application.name} -n {application.namespace} --resume"


def follows(tenant: CAPTenant) -> bool:
    """Whether a tenant may be moved to another version now."""
    if tenant.metadata.is_terminating or tenant.status.state in _BUSY:
        return False
    return tenant.spec.version_upgrade_strategy != UpgradeStrategy.NEVER


def is_canary(tenant: CAPTenant, canaries: Collection[str]) -> bool:
    """Whether a tenant is one of the canaries, which are given by name or tenant id."""
    return tenant.metadata.name in canaries or tenant.spec.tenant_id in canaries


def is_still_chosen(
    application: CAPApplication,
    latest: CAPApplication | None,
    versions: Sequence[CAPApplicationVersion],
    number: str,
) -> bool:
    """Whether tenants are to follow to the version `number` still, as was decided for `application`.

    `latest` is the application, and `versions` are its versions, as they are now.
    """
    if latest is None or latest.metadata.uid != application.metadata.uid:
        return False
    version = latest_ready(versions)
    is_same = latest.metadata.generation == application.metadata.generation
    return is_same and version is not None and version.spec.version == number


def still_follows(tenant: CAPTenant, latest: CAPTenant | None) -> bool:
    """Whether a tenant that was to follow may do so still, as it is now: a user may have changed it meanwhile."""
    if latest is None or latest.metadata.uid != tenant.metadata.uid:
        return False
    return latest.spec == tenant.spec and follows(latest)


def _may_arrive(tenant: CAPTenant) -> bool:
    """Whether a tenant may get to another version: one that never follows does if its operation has begun already."""
    return tenant.status.state in _BUSY or tenant.spec.version_upgrade_strategy != UpgradeStrategy.NEVER


def has_failed_at_its_version(tenant: CAPTenant) -> bool:
    """Whether a tenant has failed to reach the version that it is to have now, and not one that it was to have before.

    A status without a generation is of the original, which does not write one.
    """
    is_seen = tenant.status.observed_generation in (0, tenant.metadata.generation)
    return is_seen and tenant.status.state in FAILED_STATES


@dataclass(frozen=True, slots=True)
class _Upgrade:
    application: CAPApplication
    policy: TenantUpgrade
    canaries: Collection[str]
    tenants: Sequence[CAPTenant]
    version: CAPApplicationVersion
    refused: Collection[ObjectKey]
    staying: Collection[ObjectKey]

    def wave(self, due: Sequence[CAPTenant], now: datetime) -> Wave:
        new = [tenant for tenant in due if not tenant.spec.version and tenant.key not in self.refused]
        upgrades = [tenant for tenant in due if tenant.spec.version]
        # One without a current version is provisioned: whether it waits, runs or has failed, it takes no room here.
        # One that is being deleted takes none either: it may never end, if its Job fails.
        in_use = [
            tenant for tenant in self.tenants if tenant.status.current_version and not tenant.metadata.is_terminating
        ]
        number = self.version.spec.version
        on_the_way = [tenant for tenant in in_use if tenant.spec.version == number]
        # Its own controller ends the state of one whose operation is gone, so none takes room for ever.
        elsewhere = [tenant for tenant in in_use if tenant.spec.version != number and tenant.status.state in _BUSY]
        failed = [tenant for tenant in on_the_way if has_failed_at_its_version(tenant)]
        done = [tenant for tenant in on_the_way if self._has_arrived(tenant)]
        ended = {tenant.key for tenant in (*failed, *done)}  # tenants are large: to compare them stalls the event loop
        busy = [tenant for tenant in on_the_way if tenant.key not in ended and _may_arrive(tenant)]
        if not upgrades and not failed and not busy:
            return Wave(tenants=new)
        trials = [(tenant, self.trial(tenant)) for tenant in self.tenants if self._is_canary(tenant)]
        # A first version that failed is no upgrade, and shows as much of the version all the same.
        failed += [tenant for tenant, trial in trials if trial is Trial.FAILED and tenant.key not in ended]
        awaited = [tenant for tenant, trial in trials if trial is Trial.AWAITED]
        phase = UpgradePhase.CANARY if awaited else UpgradePhase.ROLLING
        opens = _opens(self.policy.window, now)
        is_resumed = self.application.metadata.annotations.get(names.RESUME_ANNOTATION) == self.version.spec.version
        cause = "" if opens or is_resumed else self._pause_cause(failed, done, upgrades, trials)
        if opens:
            phase = UpgradePhase.WAITING
        elif cause:
            phase = UpgradePhase.PAUSED
        taken, most = len(busy) + len(elsewhere), self.policy.max_parallel
        room = len(upgrades) if most is None else max(most - taken, 0)
        canaries = [tenant for tenant in upgrades if self._is_canary(tenant)]
        candidates = {UpgradePhase.CANARY: canaries, UpgradePhase.ROLLING: upgrades}.get(phase, [])
        chosen = [tenant for tenant in candidates if tenant.key not in self.refused][:room]
        to_begin = {tenant.key for tenant in upgrades}
        provisioned = [each for each in awaited if not each.status.current_version and each.key not in to_begin]
        progress = UpgradeProgress(
            version=self.version.spec.version,
            phase=phase,
            upgraded=len(done),
            upgrading=taken + len(provisioned) + len(chosen),  # all that others wait for
            failed=len(failed),
            waiting=len(upgrades) - len(chosen),
        )
        seconds = opens.total_seconds() if opens and upgrades else None
        return Wave(tenants=[*new, *chosen], progress=progress, pause_cause=cause, again_seconds=seconds)

    def trial(self, canary: CAPTenant) -> Trial:
        """What a canary shows of the version, whether it is upgraded to it or provisioned with it."""
        is_heading_there = canary.spec.version == self.version.spec.version
        is_terminating = canary.metadata.is_terminating
        if is_heading_there and not is_terminating and has_failed_at_its_version(canary):
            return Trial.FAILED
        if self._has_arrived(canary):
            return Trial.ARRIVED
        stays = canary.key in self.staying and canary.status.state not in _BUSY
        # A first version is provisioned whatever the strategy is.
        may_arrive = _may_arrive(canary) or (is_heading_there and not canary.status.current_version)
        return Trial.AWAITED if may_arrive and not stays and not is_terminating else Trial.LOST

    def _has_arrived(self, tenant: CAPTenant) -> bool:
        return tenant.status.current_version == self.version.metadata.name

    def _is_canary(self, tenant: CAPTenant) -> bool:
        return is_canary(tenant, self.canaries)

    def _pause_cause(
        self,
        failed: Sequence[CAPTenant],
        done: Sequence[CAPTenant],
        upgrades: Sequence[CAPTenant],
        trials: Sequence[tuple[CAPTenant, Trial]],
    ) -> str:
        """Why no further tenant may begin; empty where one may.

        A misspelled name, a canary that never follows, one that stays above the version, or the end of one that has
        failed must not turn the trial off.
        """
        most = self.policy.max_failure_percent
        is_too_much = most is not None and 100 * len(failed) > most * (len(failed) + len(done))
        if failed and (is_too_much or any(trial is Trial.FAILED for _, trial in trials)):
            return "1 tenant has failed" if len(failed) == 1 else f"{len(failed)} tenants have failed"
        names_of_canaries = self.policy.canary_tenants
        if not upgrades or not names_of_canaries:
            return ""
        named = "spec.tenantUpgrade.canaryTenants names"
        if not trials:
            return f"{named} no tenant that exists: {conditions.first_of(names_of_canaries)}"
        if any(trial is not Trial.LOST for _, trial in trials):
            return ""
        lost, number = conditions.first_of([each.metadata.name for each, _ in trials]), self.version.spec.version
        return f"{named} only tenants that are being deleted, stay above version {number} or never follow: {lost}"


def _opens(window: UpgradeWindow | None, now: datetime) -> timedelta:
    """How long until the window is open; zero while it is, or where there is none. `now` is in UTC."""
    if window is None:
        return timedelta()
    hour, minute = (int(part) for part in window.start.split(":"))
    starts = [
        (now + timedelta(days=offset)).replace(hour=hour, minute=minute, second=0, microsecond=0)
        for offset in range(-1, 8)
    ]
    allowed = [start for start in starts if not window.days or _WEEKDAYS[start.weekday()] in window.days]
    if any(start <= now < start + timedelta(hours=window.hours) for start in allowed):
        return timedelta()
    return next(start for start in allowed if start > now) - now
