"""Tenants whose change the API server refuses, for example because of a policy (pure).

An application is looked at whenever one of its tenants changes, so each of these tenants is tried again only once a
minute, or when it has changed itself.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.runtime import conditions

RETRY_SECONDS = 60.0


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

    @property
    def tenants(self) -> Collection[ObjectKey]:
        """Those that were refused."""
        return tuple(self._refused)

    def due(self, change: str, tenants: Sequence[CAPTenant], now: float) -> list[CAPTenant]:
        """Those of the tenants for which the change is tried now. What was refused of others is dropped."""
        kept = {each.key: found for each in tenants if (found := self._current(change, each)) is not None}
        self._refused = {key: found for key, found in kept.items() if now < found.until}
        return [each for each in tenants if each.key not in self._refused]

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

    def delay_seconds(self, now: float) -> float:
        """When the first of them is tried again."""
        return max(min(each.until for each in self._refused.values()) - now, 0.0)

    def _current(self, change: str, tenant: CAPTenant) -> _Refusal | None:
        found = self._refused.get(tenant.key)
        if found is None or (found.change, found.resource_version) != (change, tenant.metadata.resource_version):
            return None
        return found
