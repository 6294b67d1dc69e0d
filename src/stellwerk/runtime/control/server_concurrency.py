"""How many passes of one tenant may be at work on the same server, and on servers outside of the cluster in all.

A server that is slow or silent keeps every pass that calls it, up to a minute for each request. Such a pass holds no
worker (see `runtime.control.controller`), but the number of passes that a tenant has under way is bounded. Without a
bound for each server, one silent server would keep all of them, and the tenant's other objects would wait. So a
server has at most two passes of a tenant for each worker, a server that has just failed to answer has one pass, and all
servers together leave a quarter of the tenant's passes for objects that call none. An object that finds no room
ends its pass, and is woken when there is room.

All bounds are per tenant: the servers of one tenant take no room from another tenant, even where both call the same
server. A server is counted by its addresses and port and not by its name, because one server has any number of names.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from stellwerk.kube.types.identifiers import ObjectKey

HOME = ""
"""The server of the operator's own cluster, which has no bound."""

_ONE_SERVER, _ALL_SERVERS = 2, 3
"""Passes of a tenant for each worker; the queue allows four for each worker."""
_REMEMBERED = 10_000
"""How many silent servers are remembered."""


class ClusterBusy(Exception):
    """There is no room now; the object is woken when there is. `str()` names the server it waits for."""


class _Place(NamedTuple):
    """One address, for one tenant."""

    tenant: str
    address: str


@dataclass(slots=True, kw_only=True)
class ServerConcurrency:
    """Which object's pass is at work on which server. `wake` is called with the objects for which there is room."""

    workers: int
    wake: Callable[[Iterable[ObjectKey]], None]
    _inside: dict[ObjectKey, dict[_Place, tuple[type[Exception], ...]]] = field(default_factory=dict)
    """With what the servers raise when they do not answer."""
    _invited: dict[ObjectKey, frozenset[_Place]] = field(default_factory=dict)
    """Objects that were woken because there was room. The room is reserved until their pass ends."""
    _waiting: dict[str, dict[ObjectKey, frozenset[_Place]]] = field(default_factory=dict)
    """By tenant, in the order of arrival."""
    _taken: Counter[_Place] = field(default_factory=Counter)
    _passes: Counter[str] = field(default_factory=Counter)
    _silent: OrderedDict[_Place, None] = field(default_factory=OrderedDict)

    @contextmanager
    def passing(self, key: ObjectKey) -> Iterator[None]:
        """A pass on an object, which may `enter` servers."""
        failure: BaseException | None = None
        try:
            yield
        except BaseException as error:
            failure = error
            raise
        finally:
            self._leave(key, failure)

    def enter(self, key: ObjectKey, addresses: Iterable[str], *, silence: tuple[type[Exception], ...]) -> None:
        """Take a place at a server until the pass ends. Raises `ClusterBusy`.

        `silence`: the failures of a pass that mean that this server did not answer.
        """
        wanted = frozenset(_Place(key.namespace, address) for address in addresses)
        self._stop_waiting(key)
        self._release(key, self._invited.pop(key, frozenset()))
        new = wanted - self._inside.get(key, {}).keys()
        if not new:
            return
        if not self._has_room(key, new):
            self._waiting.setdefault(key.namespace, {})[key] = wanted
            raise ClusterBusy(", ".join(sorted(place.address for place in new)))
        self._take(key, new)
        self._inside.setdefault(key, {}).update(dict.fromkeys(new, silence))

    def forget(self, key: ObjectKey) -> None:
        """The object is gone."""
        self._stop_waiting(key)
        self._leave(key, None)

    def _leave(self, key: ObjectKey, failure: BaseException | None) -> None:
        entered = self._inside.pop(key, {})
        invited = self._invited.pop(key, frozenset())
        for place, silence in entered.items():
            if not isinstance(failure, ClusterBusy):
                self._note(place, answers=not isinstance(failure, (asyncio.CancelledError, *silence)))
        self._release(key, frozenset(entered) | invited)
        if entered or invited:
            self.wake(self._next(key.namespace))

    def _note(self, place: _Place, *, answers: bool) -> None:
        self._silent.pop(place, None)
        if not answers:
            self._silent[place] = None
            while len(self._silent) > _REMEMBERED:
                self._silent.popitem(last=False)

    # ---- places

    def _has_room(self, key: ObjectKey, places: frozenset[_Place]) -> bool:
        if key not in self._inside and self._passes[key.namespace] >= _ALL_SERVERS * self.workers:
            return False
        return all(
            self._taken[place] < (1 if place in self._silent else _ONE_SERVER * self.workers) for place in places
        )

    def _take(self, key: ObjectKey, places: frozenset[_Place]) -> None:
        self._taken.update(places)
        if key not in self._inside:
            self._passes[key.namespace] += 1

    def _release(self, key: ObjectKey, places: frozenset[_Place]) -> None:
        if not places:
            return
        for place in places:
            self._taken[place] -= 1
            if not self._taken[place]:
                del self._taken[place]
        if key not in self._inside:
            self._passes[key.namespace] -= 1
            if not self._passes[key.namespace]:
                del self._passes[key.namespace]

    def _next(self, tenant: str) -> list[ObjectKey]:
        """Invite the objects that find room even if all of them come."""
        found = []
        for key, places in self._waiting.get(tenant, {}).items():
            if self._passes[tenant] >= _ALL_SERVERS * self.workers:
                break
            if key not in self._inside and self._has_room(key, places):
                self._take(key, places)
                self._invited[key] = places
                found.append(key)
        for key in found:
            self._stop_waiting(key)
        return found

    def _stop_waiting(self, key: ObjectKey) -> None:
        waiting = self._waiting.get(key.namespace, {})
        waiting.pop(key, None)
        if not waiting:
            self._waiting.pop(key.namespace, None)
