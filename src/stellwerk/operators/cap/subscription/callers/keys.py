"""The keys of token issuers, fetched and kept within bounds.

Anybody can write the name of an issuer into a token, so a fetch may be caused by a caller that is not known. Callers
that are not known may cause so many fetches and no more, each peer fewer than all together, and displace no issuer that
has signed a good token. An issuer that a binding names, or that has signed a good token, is fetched whatever they do:
otherwise a flood of invented names would keep out the registries after a restart.

Keys are used for five minutes, so that a key which is withdrawn is not good any more after that; they are fetched again
before they end, and when a token names a key that is not among them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import msgspec

from stellwerk.kube.types.model import UNREADABLE
from stellwerk.operators.cap.subscription.callers import tokens
from stellwerk.operators.cap.subscription.callers.tokens import (
    IssuerKey,
    IssuerUnknown,
    KeysAbsent,
    KeysUnusable,
    TokenHeader,
    TokenRefused,
)
from stellwerk.operators.cap.subscription.outgoing import NoAnswer, Outgoing
from stellwerk.render.sources.single_flight import Flights
from stellwerk.runtime.clock import Clock
from stellwerk.runtime.serving.rate_limit import RateLimit

FRESH_SECONDS = 300.0
"""How long keys are used after they were fetched."""
RENEW_SECONDS = 180.0
"""When they are fetched again while they are still used."""
AGAIN_SECONDS = 20.0
"""The least pause between two fetches for one issuer."""
MOST_ISSUERS = 64
"""That have signed a good token; as many others are kept besides them."""
MOST_DOCUMENT_BYTES = 64 * 1024
FETCHES_PER_SECOND, FETCHES_AT_ONCE = 2.0, 20.0
"""Of issuers that no binding names and that have signed no good token yet, all together."""
PEER_FETCHES_PER_SECOND, PEER_FETCHES_AT_ONCE = 0.5, 5.0
"""Of these, the ones that the requests of one peer may cause."""
_UNDER_WAY = 8

_log = logging.getLogger(__name__)


class _Discovery(msgspec.Struct):
    jwks_uri: str = ""


@dataclass(slots=True)
class _Issuer:
    fetched: float
    """When this was tried last."""
    keys: Sequence[IssuerKey] = ()
    fresh_until: float = 0.0
    has_failed: bool = False
    """Whether that brought no keys."""


@dataclass(slots=True, eq=False)
class IssuerKeys:
    """The keys of issuers, by host."""

    outgoing: Outgoing
    clock: Clock
    expected: Callable[[], Collection[str]] = frozenset
    """The issuers that bindings name."""
    _proven: OrderedDict[str, _Issuer] = field(default_factory=OrderedDict)
    _others: OrderedDict[str, _Issuer] = field(default_factory=OrderedDict)
    _flights: Flights[str, None] = field(default_factory=lambda: Flights(lambda: TokenRefused("the server ends")))
    _limit: RateLimit = field(init=False)
    _peer_limit: RateLimit = field(init=False)
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_UNDER_WAY))
    _reserved_slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_UNDER_WAY))
    """For issuers that are not limited: those with invented names may hang."""
    _renewals: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._limit = RateLimit(per_second=FETCHES_PER_SECOND, at_once=FETCHES_AT_ONCE, clock=self.clock, most_keys=1)
        self._peer_limit = RateLimit(per_second=PEER_FETCHES_PER_SECOND, at_once=PEER_FETCHES_AT_ONCE, clock=self.clock)

    async def close(self) -> None:
        """End the fetches under way."""
        for renewal in self._renewals:
            renewal.cancel()
        await self._flights.close()

    async def of(self, header: TokenHeader, peer: str) -> Sequence[IssuerKey]:
        """The keys of the issuer of a token that a peer shows.

        Raises KeysAbsent where they are not to be had from an issuer that is fetched in any case, else IssuerUnknown.
        """
        issuer = self._known(header.issuer)
        now = self.clock.monotonic()
        if issuer is None or now >= issuer.fresh_until or not tokens.fitting(header, issuer.keys):
            # A fetch under way is joined at any time: the pause is between two fetches.
            if issuer is None or header.issuer in self._flights or now - issuer.fetched >= AGAIN_SECONDS:
                if header.issuer not in self._flights:
                    self._start(header.issuer, peer)
                await self._fetched(header.issuer, peer)
                issuer = self._known(header.issuer)
        elif now >= issuer.fresh_until - FRESH_SECONDS + RENEW_SECONDS and now - issuer.fetched >= AGAIN_SECONDS:
            self._start(header.issuer, "")
        is_absent = issuer is None or self.clock.monotonic() >= issuer.fresh_until
        if issuer is None or is_absent or (issuer.has_failed and not tokens.fitting(header, issuer.keys)):
            refused = IssuerUnknown if self._is_limited(header.issuer) else KeysAbsent
            raise refused("the keys of its issuer are not to be had")
        return issuer.keys

    def prove(self, host: str) -> None:
        """A token of this issuer was good."""
        if host in self._others:
            self._proven[host] = self._others.pop(host)
            while len(self._proven) > MOST_ISSUERS:
                self._proven.popitem(last=False)

    def __len__(self) -> int:
        """How many issuers are known."""
        return len(self._proven) + len(self._others)

    def _known(self, host: str) -> _Issuer | None:
        kept = self._proven if host in self._proven else self._others
        issuer = kept.get(host)
        if issuer is not None:
            kept.move_to_end(host)
        return issuer

    def _is_limited(self, host: str) -> bool:
        return host not in self._proven and host not in self.expected()

    def _start(self, host: str, peer: str) -> None:
        """Fetch, whatever becomes of the caller: the next one would be refused in the pause after a fetch that ended
        with it, and without a pause, callers that go away would cause any number of fetches."""

        async def renew() -> None:
            with contextlib.suppress(TokenRefused):
                await self._fetched(host, peer)

        task = asyncio.get_running_loop().create_task(renew(), name="renewal of keys")
        self._renewals.add(task)
        task.add_done_callback(self._renewals.discard)

    async def _fetched(self, host: str, peer: str) -> None:
        await self._flights.join(host, lambda: self._fetch(host, peer), name="fetch of keys")

    async def _fetch(self, host: str, peer: str) -> None:
        is_limited = self._is_limited(host)
        if is_limited and (self._peer_limit.wait_seconds(peer) or self._limit.wait_seconds("")):
            raise IssuerUnknown("too many issuers are asked for their keys")
        issuer = self._known(host)
        if issuer is None:
            issuer = self._others[host] = _Issuer(self.clock.monotonic())
            while len(self._others) > MOST_ISSUERS:
                self._others.popitem(last=False)
        issuer.fetched = self.clock.monotonic()
        try:
            async with self._slots if is_limited else self._reserved_slots:
                issuer.keys = await self._ask(host)
        except (NoAnswer, KeysUnusable) as error:
            _log.warning("the keys of token issuer %s cannot be read: %s", host, error)
            issuer.has_failed = True
            return
        issuer.has_failed = False
        issuer.fresh_until = self.clock.monotonic() + FRESH_SECONDS

    async def _ask(self, host: str) -> Sequence[IssuerKey]:
        """The keys of an issuer: where they are is in its configuration, and must be at an issuer of the same host."""
        document = await self._document(f"https://{host}/.well-known/openid-configuration")
        try:
            uri = msgspec.json.decode(document, type=_Discovery).jwks_uri
        except UNREADABLE:
            raise KeysUnusable("its configuration is not JSON with a jwks_uri") from None
        if tokens.issuer_of(uri, (host,)) != host:
            raise KeysUnusable("its configuration refers to keys of another server")
        return tokens.keys_of(await self._document(f"https://{host}/token_keys"))

    async def _document(self, url: str) -> bytes:
        answer = await self.outgoing.call("GET", url)
        if answer.status != 200:
            raise NoAnswer(f"HTTP {answer.status}")
        if len(answer.body) > MOST_DOCUMENT_BYTES:
            raise NoAnswer(f"the answer has more than {MOST_DOCUMENT_BYTES >> 10} KiB")
        return answer.body
