"""Tenants whose change the API server refuses, for example because of a policy.

An application is looked at whenever one of its tenants changes, so each of these tenants is tried again only once a
minute, or when it has changed itself. What was refused is shown until the tenant is changed or needs the change no
longer. It is an error of the application only while the tenant waits for its minute: where none may be tried after it,
as outside a window, the application is as it was.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stellwerk.kube.types.errors import REFUSED, Busy, NotFound, StatusError
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.runtime import conditions
from stellwerk.runtime.clock import Clock

RETRY_SECONDS = 60.0
LONGEST_TRY_SECONDS = 60.0
"""For how long a pass goes on where changes are refused: a webhook that does not answer takes 10 s for each tenant."""

_BY_WEBHOOK_OR_POLICY = re.compile("admission webhook|calling webhook|AdmissionPolicy")


def is_refusal(error: StatusError) -> bool:
    """Whether a change failed because of its tenant. A webhook or policy may deny with any code, or not answer.

    All else, as an API server that is down or asks for fewer requests, is about the other tenants as well.
    """
    return isinstance(error, REFUSED) or _BY_WEBHOOK_OR_POLICY.search(error.status.message) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What became of a change that a pass tried."""

    is_changed: bool = False
    """Whether at least one tenant was changed."""
    is_refused: bool = False
    """Whether the change of at least one was refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refusal:
    change: str
    resource_version: str
    """Of the tenant that was to be changed."""
    why: str
    until: float


@dataclass(slots=True)
class Refusals:
    """What was refused of the change that the tenants of an application need now. Times are monotonic."""

    _refused: dict[ObjectKey, _Refusal] = field(default_factory=dict[ObjectKey, _Refusal])

    def waiting(self, tenants: Sequence[CAPTenant], now: float) -> Mapping[ObjectKey, str]:
        """Those of the tenants for which a change is not tried now, and that change."""
        return {key: found.change for key, found in self._current(tenants).items() if now < found.until}

    async def attempt(
        self,
        change: str,
        tenants: Sequence[CAPTenant],
        act: Callable[[CAPTenant], Awaitable[None]],
        clock: Clock,
        *,
        still_due: Callable[[Iterable[CAPTenant]], Iterable[CAPTenant]] = iter,
    ) -> Tried:
        """Change tenants, and note where that is refused. Raises ApiError where it fails for another cause.

        Those that were not refused before come first. A tenant that is gone wakes its application. Busy is raised when
        all have had their turn, because nothing wakes the application after it.
        `still_due` is asked for each of them when its turn comes, because thousands of changes take a while.
        """
        tried, until = Tried(), clock.monotonic() + LONGEST_TRY_SECONDS
        busy: Busy | None = None
        for tenant in still_due(sorted(tenants, key=lambda each: each.key in self._refused)):
            if tried.is_refused and clock.monotonic() >= until:
                break
            self.forget(tenant)
            try:
                await act(tenant)
            except StatusError as error:
                if is_refusal(error):
                    self.note(change, tenant, str(error), clock.monotonic())
                    tried = replace(tried, is_refused=True)
                elif isinstance(error, Busy):
                    busy = error
                elif not isinstance(error, NotFound):
                    raise
            else:
                tried = replace(tried, is_changed=True)
        if busy is not None:
            raise busy
        return tried

    def keep(self, change: str, tenants: Sequence[CAPTenant]) -> None:
        """Drop all but what was refused of a change that tenants need still."""
        self._refused = {key: found for key, found in self._current(tenants).items() if found.change == change}

    def forget(self, tenant: CAPTenant) -> None:
        """The tenant is tried again."""
        self._refused.pop(tenant.key, None)

    def note(self, change: str, tenant: CAPTenant, why: str, now: float) -> None:
        """The change was refused."""
        version = tenant.metadata.resource_version
        refusal = _Refusal(change=change, resource_version=version, why=why, until=now + RETRY_SECONDS)
        self._refused[tenant.key] = refusal

    def message(self) -> str:
        """Which tenants were refused, and why the first was; empty where none was."""
        if not self._refused:
            return ""
        first = min(self._refused, key=str)
        found, count = self._refused[first], len(self._refused)
        named = conditions.first_of(sorted(key.name for key in self._refused))
        return f"{count} {'tenant' if count == 1 else 'tenants'} cannot be {found.change}: {named}; {found.why}"

    def delay_seconds(self, now: float) -> float | None:
        """When the next of them may be tried again; None where all may be, and wait for others only."""
        return min((each.until - now for each in self._refused.values() if now < each.until), default=None)

    def _current(self, tenants: Sequence[CAPTenant]) -> dict[ObjectKey, _Refusal]:
        """What was refused of the tenants as they are now."""
        if not self._refused:  # as nearly always, and an application may have thousands of tenants
            return {}
        return {
            each.key: found
            for each in tenants
            if (found := self._refused.get(each.key)) is not None
            and found.resource_version == each.metadata.resource_version
        }
