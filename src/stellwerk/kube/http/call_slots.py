"""Which calls to one server are under way: slow calls of one tenant do not keep those of others waiting.

A call takes one of `limit` slots until it is answered; where calls wait, the tenants take turns. An admission webhook
that hangs keeps a call for up to 30 seconds, and one tenant may have several hundred such calls. So a call that has
taken a second goes on without its slot, as a slow pass goes on without its worker. For that a tenant has a bound of its
own: at most `limit` calls under way, with a slot or without. A tenant that is alone has thus as many calls as there are
slots, whatever they take, and fast calls of any tenants together have no more either.

The operator's own calls have slots of their own, beyond those of the tenants (`connection_pool`). Slots that are
reserved for each tenant were refused: they would be idle while one tenant has many objects to write, which is the usual
case.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass

SLOW_SECONDS = 1.0
"""A call that takes longer goes on without its slot. A server that works off its calls answers within milliseconds."""
_SLOW_SHARE = 3
"""Calls without a slot, of all tenants, for each slot: each has a connection. Further slow calls keep their slots."""


@dataclass(slots=True, eq=False)
class Slot:
    """The place of one call under way."""

    tenant: str
    timer: asyncio.TimerHandle | None = None
    """Ends when the call has become slow."""
    is_free: bool = False
    """Whether another call may have it already, because this one is slow."""


class CallSlots:
    """The calls under way, and those that wait."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._free = limit
        self._slow = 0
        self._under_way: dict[str, int] = {}
        self._waiting: OrderedDict[str, OrderedDict[asyncio.Future[Slot], None]] = OrderedDict()
        """By tenant, in the order of their turns. A tenant that could have a free slot has none waiting."""

    def take(self, tenant: str) -> Slot | None:
        """A slot that is free now. It has to be given back."""
        return self._taken(tenant) if self._free and self._may_call(tenant) else None

    async def wait(self, tenant: str) -> Slot:
        """A slot as soon as it is the tenant's turn. It has to be given back."""
        turn: asyncio.Future[Slot] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, OrderedDict())[turn] = None
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._forget(tenant, turn)
            else:  # it came at the moment of the cancellation
                self.give_back(turn.result())
            raise

    def give_back(self, slot: Slot) -> None:
        """The call has ended."""
        if slot.timer is not None:
            slot.timer.cancel()
        others = self._under_way[slot.tenant] - 1
        if others:
            self._under_way[slot.tenant] = others
        else:
            del self._under_way[slot.tenant]
        if slot.is_free:
            self._slow -= 1
        else:
            self._free += 1
        if self._waiting:
            self._hand_out()

    def _taken(self, tenant: str) -> Slot:
        self._free -= 1
        self._under_way[tenant] = self._under_way.get(tenant, 0) + 1
        slot = Slot(tenant)
        slot.timer = asyncio.get_running_loop().call_later(SLOW_SECONDS, self._leave, slot)
        return slot

    def _leave(self, slot: Slot) -> None:
        """The call goes on without its slot."""
        if self._slow < _SLOW_SHARE * self._limit:
            slot.is_free = True
            self._slow += 1
            self._free += 1
            self._hand_out()

    def _may_call(self, tenant: str) -> bool:
        return self._under_way.get(tenant, 0) < self._limit

    def _hand_out(self) -> None:
        while self._free and (tenant := next(filter(self._may_call, self._waiting), None)) is not None:
            turns = self._waiting.pop(tenant)
            turn, _ = turns.popitem(last=False)
            if turns:
                self._waiting[tenant] = turns  # to the end: the other tenants' turn
            if not turn.done():
                turn.set_result(self._taken(tenant))

    def _forget(self, tenant: str, turn: asyncio.Future[Slot]) -> None:
        turns = self._waiting.get(tenant, OrderedDict())
        turns.pop(turn, None)
        if not turns:
            self._waiting.pop(tenant, None)
