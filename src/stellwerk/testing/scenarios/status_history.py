"""Every state that objects of a kind have shown, in order, as a watch saw them."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from stellwerk.kube.client.client import Client
from stellwerk.kube.types.model import Kind
from stellwerk.kube.watch.watch import Watcher
from stellwerk.kube.watch.watch_states import Changed, Removed, Synced
from stellwerk.runtime.clock import SystemClock

K = TypeVar("K", bound=Kind)


@dataclass(frozen=True, slots=True)
class Shown:
    """What an object shows: its state, and the reason and message of its condition Ready."""

    state: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.state}/{self.reason}: {self.message}"


@dataclass
class StatusHistory(ABC, Generic[K]):
    """What was shown so far. An empty `namespace` means all."""

    client: Client
    kind: type[K]
    namespace: str = ""
    turned: asyncio.Condition = field(default_factory=asyncio.Condition)
    is_open: asyncio.Event = field(default_factory=asyncio.Event)
    """What is shown from now on is written down; before, a state that is over soon could be missed."""

    async def run(self) -> None:
        """Write the history until cancelled."""
        async for change in Watcher(self.client, self.kind, self.namespace, clock=SystemClock()).changes():
            match change:
                case Synced(objects=objects):
                    for obj in objects:
                        self.write(obj)
                    self.is_open.set()
                case Changed(obj=obj):
                    self.write(obj)
                case Removed(obj=obj):
                    self.end(obj)
                case _:
                    continue
            async with self.turned:
                self.turned.notify_all()

    @abstractmethod
    def write(self, obj: K) -> None:
        """An object is as it is now."""

    @abstractmethod
    def end(self, obj: K) -> None:
        """An object is gone."""

    async def until(self, holds: Callable[[], bool], what: Callable[[], str], within: float) -> None:
        """Wait until the history satisfies a condition; fails with `what`."""
        try:
            async with asyncio.timeout(within), self.turned:
                await self.turned.wait_for(holds)
        except TimeoutError:
            raise AssertionError(what()) from None


def turn(page: list[Shown], shown: Shown) -> None:
    """Add to a page, unless its last line is the same."""
    if not page or page[-1] != shown:
        page.append(shown)
