"""Checks the rights of the process: asks the API server at start, and reports what is missing.

A right that is missing shows only when it is used, and some are used once in the life of a cluster: a removal that
stops half way is the worst moment to find out. So each right that the operator declares is asked about by a
SelfSubjectAccessReview, which every account may create. One line of the log for each missing right names what will not
work and how to grant it, and `stellwerk_missing_rights` has a series for it.

It is a hint and no gate: readiness does not wait for it, and a question that gets no answer is asked again later. A
process that has all its rights asks nothing more, until the API server refuses it something: then the rights on that
resource are asked about again. What is missing is asked about every minute. No watch shows that a right was granted, so
this is also what wakes the objects that had failed in the meantime (`regained`).

We refused SelfSubjectRulesReview, which answers with all rules in one request: it does not separate rights in the whole
cluster from those in one namespace, and authorizers other than RBAC may leave it incomplete.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from stellwerk.api import authorization
from stellwerk.api.authorization import ResourceAttributes
from stellwerk.kube.client.client import Client
from stellwerk.kube.nested import nested
from stellwerk.kube.types.errors import ApiError
from stellwerk.runtime.clock import Clock, SystemClock, happens_within
from stellwerk.runtime.control.periodic import JITTER
from stellwerk.runtime.telemetry.metrics import Metrics

RECHECK_SECONDS = 60.0
"""How long a right that was missing, or not answered about, waits for its next question."""
CALM_SECONDS = 5.0
"""The least pause before a round: refusals come in bursts, and may have other causes than a right."""
ROUND_SECONDS = 30.0
AT_ONCE = 4
"""How many questions are open at a time: work is more urgent than they are."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Need:
    """A right that the operator needs. `resource` has its subresource behind a slash."""

    group: str
    resource: str
    verb: str
    purpose: str
    """What does not work without it, as the end of a sentence."""
    at_home: bool = False
    """Needed in the operator's own namespace only, not in the whole cluster."""
    name: str = ""
    """Needed on the object of this name only."""
    namespace: str = ""
    """Needed in this namespace only."""

    def __str__(self) -> str:
        name, _, subresource = self.resource.partition("/")
        full = ".".join(part for part in (name, self.group) if part)
        what = f"{self.verb} {full}/{subresource}" if subresource else f"{self.verb} {full}"
        return f"{what} {self.name}" if self.name else what


@dataclass(frozen=True, slots=True)
class Rights:
    """All that an operator needs, and where it is written down for the administrator who grants it."""

    needs: tuple[Need, ...] = ()
    granted_by: str = ""
    """As the end of "grant it: "."""


class RightsCheck:
    """Asks about an operator's rights and reports what is missing. A `manager.Runnable`.

    `client` must not be fenced: a review is no change, and who waits for the lead wants to know, too.
    """

    def __init__(
        self,
        client: Client,
        rights: Rights,
        *,
        namespace: str,
        metrics: Metrics,
        regained: Callable[[], None],
        clock: Clock | None = None,
        is_ending: Callable[[str], bool] = lambda namespace: False,
    ) -> None:
        """`namespace` is the operator's own. `regained` is called when a right that was missing is there.

        `is_ending`: whether a namespace is absent or is being deleted, so that rights in it are not missed.
        """
        self._is_ending = is_ending
        self._client = client
        self._rights = rights
        self._namespace = namespace
        self._metrics = metrics
        self._regained = regained
        self._clock = clock or SystemClock()
        self._order = {need: number for number, need in enumerate(rights.needs)}
        self._open = set(rights.needs)
        self._missing: set[Need] = set()
        self._doubted = asyncio.Event()

    @property
    def missing(self) -> tuple[Need, ...]:
        """What was found missing and has not come back."""
        return self._sorted(self._missing)

    def invalidate(self, resource: str) -> None:
        """The API server has refused something about this resource: were rights taken away?"""
        about = {need for need in self._rights.needs if need.resource.partition("/")[0] == resource}
        if doubted := about - self._missing:
            self._open |= doubted
            self._doubted.set()

    async def run(self) -> None:
        """Ask until cancelled; not in the first seconds, in which a start has better things to ask."""
        await self._clock.sleep(CALM_SECONDS)
        while True:
            self._doubted.clear()
            await self._round()
            await self._clock.sleep(CALM_SECONDS)
            await self._until_worth_a_round()

    async def _until_worth_a_round(self) -> None:
        if not self._open:
            await self._doubted.wait()
            return
        pause = RECHECK_SECONDS * (1.0 + random.uniform(-JITTER, JITTER))
        await happens_within(self._clock, pause, self._doubted)

    async def _round(self) -> None:
        later = {need for need in self._open if need.namespace and self._is_ending(need.namespace)}
        asked, self._open = self._sorted(self._open - later), later
        answers: dict[Need, bool] = {}
        try:
            await self._ask(asked, answers)
        except* (ApiError, TimeoutError) as errors:
            unanswered, why = len(asked) - len(answers), errors.exceptions[0]
            _log.warning("%d rights could not be checked, they are asked about again: %s", unanswered, why)
        finally:
            self._open.update(need for need in asked if not answers.get(need))
        self._report(answers)

    async def _ask(self, needs: Iterable[Need], answers: dict[Need, bool]) -> None:
        """Fill `answers`, which keeps what was answered before a failure."""
        waiting = iter(needs)

        async def ask() -> None:
            for need in waiting:
                answers[need] = await self._may(need)

        async with asyncio.timeout(ROUND_SECONDS), asyncio.TaskGroup() as asking:
            for number in range(AT_ONCE):
                asking.create_task(nested(ask), name=f"rights {number}")

    async def _may(self, need: Need) -> bool:
        resource, _, subresource = need.resource.partition("/")
        attributes = ResourceAttributes(
            verb=need.verb,
            group=need.group,
            resource=resource,
            subresource=subresource,
            name=need.name,
            namespace=self._namespace if need.at_home else need.namespace,
        )
        return await authorization.may(self._client, attributes)

    def _report(self, answers: dict[Need, bool]) -> None:
        lost = {need for need, allowed in answers.items() if not allowed} - self._missing
        back = {need for need, allowed in answers.items() if allowed} & self._missing
        for need in self._sorted(lost):
            _log.warning(
                "missing right: %s in %s. Without it %s. Grant it: %s",
                *(need, self._place(need), need.purpose, self._rights.granted_by),
            )
        for need in self._sorted(back):
            _log.info("this right is granted now: %s in %s", need, self._place(need))
        still = {(need.group, need.resource, need.verb) for need in (self._missing | lost) - back}
        for need in (*lost, *back):
            right = (need.group, need.resource, need.verb)
            self._metrics.right(*right, missing=right in still)
        self._missing = (self._missing | lost) - back
        if back:
            self._regained()

    def _place(self, need: Need) -> str:
        namespace = self._namespace if need.at_home else need.namespace
        return f"namespace {namespace}" if namespace else "all namespaces"

    def _sorted(self, needs: Iterable[Need]) -> tuple[Need, ...]:
        """In the order in which they were declared."""
        return tuple(sorted(needs, key=self._order.__getitem__))
