"""Polls the web servers of Components' manifests, because no watch shows their changes.

Every half minute each address is asked for its headers, once for each namespace, however many Components name it and
show it the same Secret. What several namespaces ask for at the same time is one call (`Downloads`). An answer that
differs from what a Component has taken last wakes it; what is then done, and what a failure means, is the pass's
business.

Each address is asked in a task of its own, and not again while that is under way. A server that hangs delays no pass,
no download and no other namespace, not even one that names the same address; only where a namespace has more silent
servers than slots for polls (`Downloads`) are its other addresses asked less often. That does not last: a server that
does not answer is asked less and less often.

A round looks at all Components once. An answer looks only at those that name its address, which an index finds.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.component.api import Component
from stellwerk.operators.component.api_spec import HttpRepository
from stellwerk.operators.component.api_status import Artifact
from stellwerk.operators.component.errors import ComponentFailed
from stellwerk.operators.component.references import references
from stellwerk.operators.component.sources import sources
from stellwerk.render.errors import SourceError, Unavailable
from stellwerk.runtime.cache.store import Store
from stellwerk.runtime.control.periodic import Periodic
from stellwerk.runtime.supervision.backoff import Backoff
from stellwerk.runtime.supervision.tasks import Background, Border, background

_log = logging.getLogger(__name__)

_BY_ADDRESS = "http repository"

_UNEXPECTED = Backoff(first_seconds=15.0, limit_seconds=1800.0, jitter=0.25)
_SILENT = Backoff(first_seconds=15.0, limit_seconds=300.0, jitter=0.25)
"""Shorter than a round at first, so that a server that restarts is asked in the next one."""


class RepositoryAddress(NamedTuple):
    """What is asked for: the same for all Components of a namespace that name it so."""

    namespace: str
    """On whose behalf: another namespace may have no slot for a poll for minutes."""
    url: str
    digest_header: str
    revision_header: str
    secret: ObjectKey | None = None
    """What it is shown; not what is in it, so that an edited Secret makes no second address."""


class _Parked(NamedTuple):
    """An address that is left alone after unexpected exceptions, or because its server does not answer."""

    failures: int
    until: float


@dataclass(slots=True, kw_only=True)
class Poller:
    """Asks all addresses now and then. A `manager.Worker`: only the leader does."""

    name = "http repositories"
    components: Store[Component]
    """All of them; gets an index by address."""
    poll: Callable[[Component, HttpRepository], Awaitable[Artifact]]
    """Asks the web server of one. Raises SourceError, ComponentFailed."""
    wake: Callable[[ObjectKey], None]
    """Has a Component looked at."""
    interval_seconds: float
    border: Border
    _rounds: Periodic = field(init=False)
    _under_way: set[RepositoryAddress] = field(init=False, default_factory=set)
    _parked: dict[RepositoryAddress, _Parked] = field(init=False, default_factory=dict)
    _tasks: Background | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.components.add_index(_BY_ADDRESS, _index_by_address)
        self._rounds = Periodic(self.name, self._round, interval_seconds=self.interval_seconds, border=self.border)

    async def run(self) -> None:
        """Ask until stopped or cancelled."""
        async with background() as self._tasks:
            await self._rounds.run()

    def stop(self) -> None:
        """Begin no further round; what is under way is dropped."""
        self._rounds.stop()

    async def _round(self) -> None:
        assert self._tasks is not None  # run() has seen to it
        wanted, now = by_address(self.components.all()), self.border.clock.monotonic()
        self._parked = {address: parked for address, parked in self._parked.items() if address in wanted}
        for address, users in wanted.items():
            parked = self._parked.get(address)
            if address not in self._under_way and (parked is None or parked.until <= now):
                self._under_way.add(address)
                self._tasks.start(self._guarded(address, users[0]), "look at an HTTP repository")

    async def _guarded(self, address: RepositoryAddress, user: Component) -> None:
        """Ask, and leave an address alone for a while where that ends by an unexpected exception."""
        name = f"looking at the HTTP repository of Component {user.key}"
        if not await self.border.once("http repository", name, partial(self._ask, address, user)):
            self._park(address, _UNEXPECTED)

    def _park(self, address: RepositoryAddress, backoff: Backoff) -> None:
        failures = self._parked[address].failures + 1 if address in self._parked else 1
        pause = backoff.delay_seconds(failures, random.random())
        self._parked[address] = _Parked(failures, self.border.clock.monotonic() + pause)

    async def _ask(self, address: RepositoryAddress, user: Component) -> None:
        repository = user.spec.source_ref.http_repository
        assert repository is not None  # it has an address
        try:
            artifact = await self.poll(user, repository)
        except (SourceError, ComponentFailed) as error:
            _log.debug("an HTTP repository was not looked at: %s", error)
            if isinstance(error, Unavailable) and error.status == 0:
                self._park(address, _SILENT)
            else:
                self._parked.pop(address, None)
            return
        finally:
            self._under_way.discard(address)
        self._parked.pop(address, None)
        # Who names the address now, not when it was asked: a slow answer must not miss a new Component.
        for component in self.components.by(_BY_ADDRESS, str(address)):
            if not component.status.has_attempted(artifact):
                self.wake(component.key)


def by_address(components: Iterable[Component]) -> dict[RepositoryAddress, Sequence[Component]]:
    """The addresses to ask, each with the Components that want to know."""
    found: dict[RepositoryAddress, list[Component]] = {}
    for component in components:
        if (address := _address_of(component)) is not None:
            found.setdefault(address, []).append(component)
    return {address: tuple(users) for address, users in found.items()}


def _address_of(component: Component) -> RepositoryAddress | None:
    """What to ask for a Component; None where it does not want to know."""
    repository = component.spec.source_ref.http_repository
    if repository is None or not repository.url or component.spec.suspend or component.metadata.is_terminating:
        return None
    secret = next((reference.target.key for reference in references.for_source(component)), None)
    return RepositoryAddress(component.key.namespace, repository.url, *sources.headers_of(repository), secret)


def _index_by_address(component: Component) -> Iterable[str]:
    address = _address_of(component)
    return () if address is None else (str(address),)
