"""Writes a condition of CAPApplications that the server finds out: by the replica that sends callbacks.

An application for which it was never False gets none.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

import msgspec

from stellwerk.kube.types.errors import ApiError
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.cap.kinds import status
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.subscription.directory import Directory
from stellwerk.runtime import conditions
from stellwerk.runtime.clock import Clock
from stellwerk.runtime.control.controller import EventSink
from stellwerk.runtime.control.status_writer import StatusWriter
from stellwerk.runtime.reconciler import Notice, Severity

CHECK_SECONDS = 5.0

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False, kw_only=True)
class ConditionReport:
    """Shows for which applications a condition is False, and when it no longer is."""

    type: str
    calm: tuple[str, str]
    """Reason and message of the condition once it is True again."""
    find: Callable[[CAPApplication], tuple[str, str] | None]
    """Reason and message while it is False; None if it is not."""
    is_known: Callable[[CAPApplication], bool] = lambda _: True
    """Whether it is known that the condition is not False where `find` has nothing; else it stays as it is."""
    related: Callable[[CAPApplication], Iterable[ObjectKey]] = lambda _: ()
    """The applications that are looked at again if one is found to be wrong."""
    directory: Directory
    writer: StatusWriter
    clock: Clock
    leads: Callable[[], bool]
    """Whether this replica writes."""
    action: str = ""
    recorder: EventSink | None = None
    """Gets an Event for each change to False."""
    _due: set[ObjectKey] = field(default_factory=set)
    _wrong: dict[ObjectKey, str] = field(default_factory=dict)

    def count(self, reason: str) -> int:
        """How many applications have this reason."""
        return sum(each == reason for each in self._wrong.values())

    @property
    def wrong(self) -> Collection[ObjectKey]:
        """The applications of which the condition is False."""
        return self._wrong.keys()

    def changed(self, *keys: ObjectKey) -> None:
        """Look at these applications with the next check."""
        self._due.update(keys)

    async def run(self) -> None:
        """Write what has changed until cancelled."""
        while True:
            await self.clock.sleep(CHECK_SECONDS)
            if not self.directory.is_filled:
                continue
            for key in [*self._due]:
                await self._show(key)
                await asyncio.sleep(0)

    async def _show(self, key: ObjectKey) -> None:
        application = self.directory.applications.store.get(key)
        finding = self.find(application) if application is not None else None
        self._due.discard(key)
        self._wrong.pop(key, None)
        if application is None:
            return
        if finding is not None:
            self._wrong[key] = finding[0]
            self._due.update(each for each in self.related(application) if each not in self._wrong)
        if not self.leads():
            self._due.add(key)
            return
        shown = conditions.find(application.status.conditions, self.type)
        if finding is None and (shown is None or shown.is_true or not self.is_known(application)):
            return
        reason, message = finding or self.calm
        condition = status.condition(application, finding is None, reason, message, type=self.type)
        if shown is not None and (shown.reason, shown.message) == (reason, conditions.truncated(message)):
            return
        settled = conditions.set_condition(application.status.conditions, condition, self.clock.now())
        try:
            await self.writer.write_in_place(
                application, msgspec.structs.replace(application.status, conditions=settled)
            )
        except ApiError as error:
            _log.warning("the condition %s of CAPApplication %s is not written yet: %s", self.type, key, error)
            self._due.add(key)
            return
        if finding is not None and self.recorder is not None:
            self.recorder.send(application, Notice(reason, message, Severity.WARNING, action=self.action))
