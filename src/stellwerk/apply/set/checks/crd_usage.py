"""Is anything that the set brought with it still used by others?

Deleting a definition deletes all its instances, of all owners; deleting a controller leaves the instances that need
it stuck. So before a set goes, and before a definition goes, the API server is asked for one object of such a kind that
does not carry our label. One request each, and only for sets that bring kinds with them.

An API service that does not answer cannot be asked. Deleting it deletes no stored object, so it delays a deletion only
for as long as it may come back: not without a server behind it, and for ten minutes otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime, timedelta

from stellwerk.api.apiregistration import APIService
from stellwerk.apply.set.model.desired_set import API_SERVICE, CRD
from stellwerk.apply.set.model.inventory import Inventory, InventoryEntry, ObjectIdentity
from stellwerk.apply.set.model.owner import Owner
from stellwerk.apply.set.model.policy import NO_PATTERNS, TypePattern, TypePatterns
from stellwerk.kube.client.client import Client
from stellwerk.kube.concurrency import together
from stellwerk.kube.types.errors import MethodNotAllowed, NotServed, Undiscovered
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import metadata_of

_OUTAGE = timedelta(minutes=10)
_NO_SERVER = frozenset({"ServiceNotFound", "ServicePortError", "EndpointsNotFound", "MissingEndpoints"})
"""Reasons of an APIService's condition `Available` (kube-aggregator) that mean that no server is behind it."""


@dataclass(frozen=True, slots=True)
class CrdUsage:
    """Asks one cluster."""

    client: Client
    owner: Owner
    now: datetime

    async def obstacle(self, inventory: Inventory, patterns: TypePatterns = NO_PATTERNS) -> str:
        """Why the set must not be deleted now; empty where it may. Raises ApiError."""
        if patterns and (used := await self._used_of(patterns)) is not None:
            return f"type {used} is still in use (instances exist)"
        if inventory.stays_on_delete:
            return ""
        in_use = await self.in_use([entry for entry in inventory if entry.managed_types])
        return next(iter(in_use.values()), "")

    async def in_use(self, definitions: Iterable[InventoryEntry]) -> dict[ObjectIdentity, str]:
        """The definitions of which others have instances, with a sentence each. Raises ApiError."""
        asked = [*definitions]
        answers = await together(asked, self._is_in_use)
        return {entry.identity: _in_use(entry) for entry, is_used in zip(asked, answers, strict=True) if is_used}

    async def _is_in_use(self, definition: InventoryEntry) -> bool:
        return await self._any_foreign(await self._brought_by(definition))

    async def _brought_by(self, entry: InventoryEntry) -> list[Resource]:
        served = await self.client.mapper.all()
        for group, version in self.client.mapper.undiscovered():
            of_entry = any(type_.group == group and type_.version in ("*", version) for type_ in entry.managed_types)
            if of_entry and not await has_failed(entry, self.client, self.now):
                raise _unknown(str(entry.ref), group, version)
        brought = [resource for resource in served if any(type_.matches(resource.gvk) for type_ in entry.managed_types)]
        return _one_version_each(brought)

    async def _used_of(self, patterns: TypePatterns) -> TypePattern | None:
        """The first pattern of whose kinds others have instances. At most one request for each kind that is served.

        In the order of the patterns: what blocks is known though a later kind cannot be listed, and ends the search.
        """
        served = await self.client.mapper.all()
        for pattern, kinds in patterns.grouped(_one_version_each(served), lambda each: (each.group, each.kind)):
            if await self._any_foreign(kinds):
                return pattern
        for group, version in self.client.mapper.undiscovered():
            if (may_mean := patterns.of_group(group)) is not None:
                raise _unknown(f"type {may_mean}", group, version)
        return None

    async def _any_foreign(self, resources: Sequence[Resource]) -> bool:
        return any(await together(resources, self._has_foreign))

    async def _has_foreign(self, resource: Resource) -> bool:
        selector = f"{self.owner.mark}!={self.owner.label_value}"
        pages = self.client.pages(metadata_of(resource), labels=selector, limit=1)
        try:
            async with aclosing(pages):
                return bool((await anext(pages)).items)
        except (NotServed, MethodNotAllowed):
            return False


async def has_failed(entry: InventoryEntry, client: Client, now: datetime) -> bool:
    """Whether the entry is an APIService that will not answer. Raises ApiError."""
    if (entry.gvk.group, entry.gvk.kind) != API_SERVICE:
        return False
    found = await client.find(APIService, entry.key.name)
    return found is None or will_not_answer(found, now)


def will_not_answer(api_service: APIService, now: datetime) -> bool:
    """Whether an API service has no server, or has not been available for ten minutes (pure)."""
    available = api_service.available
    if available is None or available.status != "False":
        return False
    since = available.last_transition_time
    return available.reason in _NO_SERVER or (since is not None and now - since >= _OUTAGE)


def _unknown(what: str, group: str, version: str) -> Undiscovered:
    return Undiscovered(
        f"it is not known whether {what} is still in use: the API service {version}.{group} does not answer; "
        f"repair its server, or wait: {_OUTAGE.seconds // 60} minutes after its last answer it counts as unused"
    )


def _in_use(definition: InventoryEntry) -> str:
    what = "crd" if (definition.gvk.group, definition.gvk.kind) == CRD else "api service"
    return f"{what} {definition.key.name} is still in use (instances exist)"


def _one_version_each(resources: Iterable[Resource]) -> list[Resource]:
    """The first, preferred version of each kind."""
    found: dict[tuple[str, str], Resource] = {}
    for resource in resources:
        found.setdefault((resource.group, resource.kind), resource)
    return list(found.values())
