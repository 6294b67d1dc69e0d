"""The writes of one pass.

Wave by wave, the members of a wave at the same time. A failure does not stop its neighbours, so that a person sees all
of a wave's failures at once; it does stop the waves behind, which were ordered behind for a reason.

Nothing is read first and nothing is waited for. What the server answers is remembered in the ledger and handed back, so
that a cache can show when it has caught up.
"""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

from stellwerk.apply.concurrency import CONCURRENCY, together
from stellwerk.apply.errors import WriteFailed, WriteFailure
from stellwerk.apply.failures import failure_of
from stellwerk.apply.fields import managed_fields
from stellwerk.apply.labelled.plan import (
    Action,
    Apply,
    Confirmation,
    Create,
    Deferred,
    Delete,
    LastApplied,
    Live,
    Plan,
    Reclaim,
    Rules,
    Throttled,
    Unchanged,
    confirm,
    live_view,
)
from stellwerk.apply.objects.desired import Address, Desired
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import JsonPatch, replace
from stellwerk.kube.types.errors import ApiError, Conflict
from stellwerk.kube.types.model import METADATA_ONLY, dig, metadata_of


class ObjectResult(Enum):
    """What happened to an object in a pass."""

    CREATED = "created"
    APPLIED = "applied"
    RECLAIMED = "reclaimed"
    DELETED = "deleted"
    UNCHANGED = "unchanged"
    HELD = "held"
    DEFERRED = "deferred"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What happened to one object."""

    address: Address
    done: ObjectResult
    live: Live | None = None
    """What the server answered to a write; metadata only for Secrets. A cache that holds its resourceVersion, or a
    later one, has seen the write."""


@dataclass(frozen=True, slots=True)
class ApplyReport:
    """What came of a plan. `outcomes` are in the plan's order and end with the wave that failed."""

    outcomes: tuple[Outcome, ...] = ()
    failures: tuple[WriteFailure, ...] = ()

    def raise_for_failures(self) -> None:
        """Raise `WriteFailed` with all failures, if there are any."""
        if self.failures:
            raise WriteFailed(self.failures)

    @property
    def written(self) -> tuple[Outcome, ...]:
        """What went to the server."""
        return tuple(outcome for outcome in self.outcomes if outcome.done in _WRITTEN)


_TAKEOVER_TRIES = 5
_WRITTEN = {ObjectResult.CREATED, ObjectResult.APPLIED, ObjectResult.RECLAIMED, ObjectResult.DELETED}


async def execute(
    plan: Plan,
    client: Client,
    ledger: LastApplied,
    rules: Rules,
    *,
    now: float,
    concurrency: int = CONCURRENCY,
) -> ApplyReport:
    """Carry out a plan and remember in `ledger` what the server confirmed.

    `now` is the clock that the plan was made by. Failures of the API are reported; anything else (a lost leadership) is
    raised.
    """
    writer = _Writer(client, ledger, rules, now)
    outcomes: list[Outcome] = []
    for wave in plan.waves:
        results = await together(wave, writer.carry_out, concurrency)
        outcomes.extend(result for result in results if isinstance(result, Outcome))
        failures = tuple(result for result in results if isinstance(result, WriteFailure))
        if failures:
            return ApplyReport(tuple(outcomes), failures)
    return ApplyReport(tuple(outcomes))


@dataclass(frozen=True, slots=True)
class _Writer:
    """Carries out single actions."""

    client: Client
    ledger: LastApplied
    rules: Rules
    now: float

    async def carry_out(self, action: Action) -> Outcome | WriteFailure:
        match action:
            case Unchanged():
                return Outcome(action.address, ObjectResult.UNCHANGED)
            case Deferred():
                return Outcome(action.address, ObjectResult.DEFERRED)
            case Throttled():
                return Outcome(action.desired.address, ObjectResult.HELD)
            case Create():
                return await self._try(action.desired.address, "apply", self._apply(action, ObjectResult.CREATED))
            case Apply():
                return await self._try(action.desired.address, "apply", self._apply(action, ObjectResult.APPLIED))
            case Reclaim():
                return await self._try(action.desired.address, "reclaim", self._reclaim(action))
            case Delete():
                return await self._try(action.address, "delete", self._delete(action))

    async def _try(self, address: Address, verb: str, write: Awaitable[Outcome]) -> Outcome | WriteFailure:
        try:
            return await write
        except ApiError as error:
            return failure_of(address, verb, error)

    async def _apply(self, action: Create | Apply | Reclaim, done: ObjectResult) -> Outcome:
        desired = action.desired
        answer = await self._send(desired)
        if managed_fields.is_unrecorded(answer.metadata.managers):
            # No owner of any field was recorded, so the server could not know which fields to remove. Now it can.
            await self._take_over(desired)
            answer = await self._send(desired)
        before = self.ledger.get(desired.address)
        self.ledger[desired.address] = self._confirmed(action, answer, before)
        return Outcome(desired.address, done, answer)

    async def _send(self, desired: Desired) -> Live:
        """One forced apply. The answer about a Secret is asked for without its content, so that we hold none of it.

        Fields that the kind does not know are refused: server-side apply has no generous mode (fieldValidation).
        """
        view = live_view(desired.resource)
        return await self.client.apply(view, desired.body, field_manager=self.rules.field_manager)

    def _confirmed(self, action: Create | Apply | Reclaim, answer: Live, before: Confirmation | None) -> Confirmation:
        earlier = before.restored_at if before is not None else None
        restored_at = self.now if action.restores else earlier
        return confirm(action.desired, answer, self.rules.field_manager, restored_at=restored_at)

    async def _reclaim(self, action: Reclaim) -> Outcome:
        """Make the strangers' fields ours, then apply: what we own and do not name goes.

        A crash between the two writes is harmless: the object is then not proved equal by anything, and the next pass
        applies.
        """
        await self._take_over(action.desired)
        return await self._apply(action, ObjectResult.RECLAIMED)

    async def _take_over(self, desired: Desired) -> None:
        """Replace managedFields; tried a few times, because a controller's write of the status is a Conflict."""
        for _ in range(_TAKEOVER_TRIES - 1):
            with suppress(Conflict):
                return await self._rewrite_managers(desired)
        return await self._rewrite_managers(desired)

    async def _rewrite_managers(self, desired: Desired) -> None:
        """One try. Caches do not keep field lists, so they are read here, and nothing else with them.

        The server compares the resourceVersion, so an entry that another client adds in between cannot get lost.
        """
        resource, key = desired.resource, desired.key
        path = resource.path(key.namespace, key.name)
        found = await self.client.document(path, accept=METADATA_ONLY)
        entries = dig(found, "metadata", "managedFields")
        ours = managed_fields.reclaimed(entries, self.rules.field_manager, managed_fields.all_but(self.rules.tolerated))
        version = dig(found, "metadata", "resourceVersion")
        patch = JsonPatch([replace("/metadata/managedFields", [*ours]), replace("/metadata/resourceVersion", version)])
        await self.client.patch(metadata_of(resource), key.name, key.namespace, patch, repeatable=False)

    async def _delete(self, action: Delete) -> Outcome:
        address = action.address
        await self.client.delete(
            metadata_of(address.resource),
            address.key.name,
            address.key.namespace,
            uid=action.uid,
            resource_version=action.resource_version or None,
            propagation="Background",
        )
        self.ledger.pop(address, None)
        return Outcome(address, ObjectResult.DELETED)
