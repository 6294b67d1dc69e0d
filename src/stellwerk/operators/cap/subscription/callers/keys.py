"""The keys of token issuers, fetched and kept within bounds.

Anybody can write the name of an issuer into a token, and any user of the cluster can bring an issuer by the binding of
a CAPApplication. So each fetch is at the expense of a namespace that brought the issuer, and that of an issuer which is
not proven also at the expense of the peer that named it: each may cause so many fetches and no more, takes a share of
the places for fetches and for requests that wait for them, and displaces its own issuers before those of others. A
share that is used up is no refusal for good. An issuer that a binding names, or that has signed a good token, is
fetched however many others are invented.

Keys are used for five minutes, so that a key which is withdrawn is not good any more after that. Those in use are
fetched again in the background before they end, and all are when a token names a key that is not among them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import msgspec

from stellwerk.kube.types.model import UNREADABLE
from stellwerk.operators.cap.subscription.callers import tokens, verification
from stellwerk.operators.cap.subscription.callers.tokens import (
    IssuerKey,
    IssuerUnknown,
    KeysAbsent,
    KeysUnusable,
    ShareUsedUp,
    TokenHeader,
    TokenRefused,
)
from stellwerk.operators.cap.subscription.outgoing import NoAnswer, Outgoing
from stellwerk.render.sources.single_flight import Flights
from stellwerk.runtime.clock import Clock
from stellwerk.runtime.serving.rate_limit import RateLimit
from stellwerk.runtime.serving.shares import NoPlace, Shares

FRESH_SECONDS = 300.0
"""How long keys are used after they were fetched."""
RENEW_SECONDS = 180.0
"""When they are fetched again while they are still used."""
CHECK_SECONDS = 5.0
"""How often it is looked for keys to renew."""
AGAIN_SECONDS = 20.0
"""The least pause between two fetches for one issuer."""
MOST_ISSUERS = 64
"""That have signed a good token; as many others are kept besides them."""
MOST_DOCUMENT_BYTES = 64 * 1024
FETCHES_PER_SECOND, FETCHES_AT_ONCE = 2.0, 20.0
"""Of issuers that no binding names and that have signed no good token yet, for each namespace that brought them."""
PEER_FETCHES_PER_SECOND, PEER_FETCHES_AT_ONCE = 0.5, 5.0
"""Of these, the ones that the requests of one peer may cause."""
FETCHES, WAITING_REQUESTS = 32, 128
"""Places for fetches under way, and for requests that wait for one."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Origin:
    """Why an issuer is trusted."""

    namespaces: Collection[str] = ()
    """Those with a binding that brought it."""
    is_named: bool = False
    """Whether it is named there; otherwise it is within the UAA domain."""


class _Discovery(msgspec.Struct):
    jwks_uri: str = ""


@dataclass(slots=True)
class _Issuer:
    share: str
    """At whose expense it is known."""
    tried: float = -math.inf
    """When a fetch began last."""
    keys: Sequence[IssuerKey] = ()
    fresh_until: float = -math.inf
    has_failed: bool = False
    """Whether that brought no keys."""


@dataclass(slots=True, eq=False)
class IssuerKeys:
    """The keys of issuers, by host."""

    outgoing: Outgoing
    clock: Clock
    origin: Callable[[str], Origin] = lambda _: Origin()
    """Which bindings brought an issuer."""
    _proven: OrderedDict[str, _Issuer] = field(default_factory=OrderedDict)
    _others: OrderedDict[str, _Issuer] = field(default_factory=OrderedDict)
    _flights: Flights[str, None] = field(default_factory=lambda: Flights(lambda: TokenRefused("the server ends")))
    _limit: RateLimit = field(init=False)
    _peer_limit: RateLimit = field(init=False)
    _fetches: Shares = field(default_factory=lambda: Shares(FETCHES))
    _waiting: Shares = field(default_factory=lambda: Shares(WAITING_REQUESTS))
    _renewals: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._limit = RateLimit(per_second=FETCHES_PER_SECOND, at_once=FETCHES_AT_ONCE, clock=self.clock)
        self._peer_limit = RateLimit(per_second=PEER_FETCHES_PER_SECOND, at_once=PEER_FETCHES_AT_ONCE, clock=self.clock)

    async def run(self) -> None:
        """Renew the keys in use until cancelled; then end the fetches under way."""
        try:
            while True:
                await self.clock.sleep(CHECK_SECONDS)
                self.renew()
        finally:
            await self.close()

    async def close(self) -> None:
        """End the fetches under way."""
        for renewal in self._renewals:
            renewal.cancel()
        await self._flights.close()

    async def of(self, header: TokenHeader, peer: str) -> Sequence[IssuerKey]:
        """The keys of the issuer of a token that a peer shows.

        Raises KeysAbsent if they are not to be had from an issuer that is fetched in any case, else IssuerUnknown;
        ShareUsedUp if others would have to wait for this.
        """
        issuer, now = self._known(header.issuer), self.clock.monotonic()
        is_wanting = issuer is None or now >= issuer.fresh_until or not tokens.fitting(header, issuer.keys)
        # A fetch under way is joined at any time: the pause is between two fetches.
        is_paused = issuer is not None and header.issuer not in self._flights and now - issuer.tried < AGAIN_SECONDS
        if is_wanting and not is_paused:
            await self._awaited(header.issuer, peer)
            issuer = self._known(header.issuer)
        is_absent = issuer is None or self.clock.monotonic() >= issuer.fresh_until
        if issuer is None or is_absent or (issuer.has_failed and not tokens.fitting(header, issuer.keys)):
            refused = IssuerUnknown if self._is_limited(header.issuer) else KeysAbsent
            raise refused("the keys of its issuer are not to be had")
        return issuer.keys

    def share_of(self, host: str) -> str:
        """At whose expense work for an issuer is."""
        issuer = self._proven.get(host) or self._others.get(host)
        return issuer.share if issuer is not None else self._share(self.origin(host), self._waiting)

    def prove(self, host: str) -> None:
        """A token of this issuer was good."""
        if host in self._others:
            self._proven[host] = self._others.pop(host)
            _bound(self._proven)

    def renew(self) -> None:
        """Begin to fetch the keys of issuers in use that end before long."""
        now = self.clock.monotonic()
        for host, issuer in [*self._proven.items(), *self._others.items()]:
            is_due = now >= issuer.fresh_until - FRESH_SECONDS + RENEW_SECONDS and now - issuer.tried >= AGAIN_SECONDS
            if is_due and host not in self._flights and self._is_in_use(host, issuer):
                self._start(host, "")

    def __len__(self) -> int:
        """How many issuers are known."""
        return len(self._proven) + len(self._others)

    def _known(self, host: str) -> _Issuer | None:
        kept = self._proven if host in self._proven else self._others
        issuer = kept.get(host)
        if issuer is not None:
            kept.move_to_end(host)
        return issuer

    def _is_in_use(self, host: str, issuer: _Issuer) -> bool:
        origin = self.origin(host)
        return bool(issuer.keys and origin.namespaces) and (host in self._proven or origin.is_named)

    def _is_limited(self, host: str) -> bool:
        return host not in self._proven and not self.origin(host).is_named

    def _share(self, origin: Origin, places: Shares) -> str:
        """The namespace that pays: of several the one with the most room, so that none of them can block the others."""
        kind = "issuers of" if origin.is_named else "issuers near"
        return places.least([f"{kind} {each}" for each in origin.namespaces]) or "strangers"

    async def _awaited(self, host: str, peer: str) -> None:
        claims = {self._share(self.origin(host), self._waiting): 1, f"peer {peer}": verification.PEER_TIMES}
        try:
            with self._waiting.place(claims):
                if host not in self._flights:
                    self._start(host, peer)
                await self._fetched(host, peer)
        except NoPlace:
            raise ShareUsedUp("too many requests wait for the keys of its issuer") from None

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
        origin, is_limited = self.origin(host), self._is_limited(host)
        share = self._share(origin, self._fetches)
        if is_limited and (self._peer_limit.wait_seconds(peer) or self._limit.wait_seconds(share)):
            raise IssuerUnknown("too many issuers are asked for their keys")
        claims = {share: 1, **({"strangers": 1, f"peer {peer}": verification.PEER_TIMES} if is_limited else {})}
        try:
            with self._fetches.place(claims):
                await self._fetch_now(host, share)
        except NoPlace:
            raise ShareUsedUp("too many issuers are being asked for their keys") from None

    async def _fetch_now(self, host: str, share: str) -> None:
        issuer = self._known(host)
        if issuer is None:
            issuer = self._others[host] = _Issuer(share)
            _bound(self._others)
        issuer.share, issuer.tried = share, self.clock.monotonic()
        try:
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
        listed = await self._document(f"https://{host}/token_keys")
        return await verification.run(lambda: tokens.keys_of(listed))

    async def _document(self, url: str) -> bytes:
        answer = await self.outgoing.call("GET", url)
        if answer.status != 200:
            raise NoAnswer(f"HTTP {answer.status}")
        if len(answer.body) > MOST_DOCUMENT_BYTES:
            raise NoAnswer(f"the answer has more than {MOST_DOCUMENT_BYTES >> 10} KiB")
        return answer.body


def _bound(kept: OrderedDict[str, _Issuer]) -> None:
    """Let issuers go that are too many: of the share with the most, the one that was used least recently."""
    while len(kept) > MOST_ISSUERS:
        shares = Counter(issuer.share for issuer in kept.values())
        most = max(shares.values())
        del kept[next(host for host, issuer in kept.items() if shares[issuer.share] == most)]
