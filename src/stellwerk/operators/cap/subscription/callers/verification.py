"""Signatures are verified off the event loop, and verifications for one stranger do not keep those for others waiting.

A key of 4,096 bits takes a fraction of a millisecond, and a token is verified with two keys at most. So few
verifications wait at a time, and a place among them is shared by the peer and by the namespace that brought the issuer.

A registry shows one token for hours. A signature that was good is not verified again while the keys of its issuer are
the same: on a busy machine, to wait for a thread takes longer than all else that a request needs.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from stellwerk.operators.cap.subscription.callers import client_certificates, tokens
from stellwerk.operators.cap.subscription.callers.client_certificates import ClientCertificate
from stellwerk.operators.cap.subscription.callers.tokens import Claims, IssuerKey, ShareUsedUp, TokenHeader
from stellwerk.runtime.serving.shares import NoPlace, Shares

PLACES = 64
MOST_GOOD_TOKENS = 256
PEER_TIMES = 3
"""Requests of registries may come from few addresses, or through one: a peer may have three quarters of all places."""

R = TypeVar("R")

_threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="verification")
"""Apart from those that read large texts, which any user of the cluster can keep busy."""


async def run(work: Callable[[], R]) -> R:
    """Return what `work` returns, computed in a thread."""
    return await asyncio.get_running_loop().run_in_executor(_threads, work)


@dataclass(frozen=True, slots=True)
class Verifier:
    """Verifies tokens and client certificates in turn."""

    _places: Shares = field(default_factory=lambda: Shares(PLACES))
    _good: OrderedDict[bytes, Sequence[IssuerKey]] = field(default_factory=OrderedDict)
    """By the hash of each token, the keys of which one has signed it."""

    async def claims(
        self, token: str, header: TokenHeader, keys: Sequence[IssuerKey], now: float, *, peer: str, share: str
    ) -> Claims:
        """The content of a good token, at the expense of a peer and of a `share`. Raises TokenRefused."""
        digest = hashlib.sha256(token.encode()).digest()
        if self._good.get(digest) is not keys:
            await self._in_turn(lambda: tokens.verify(token, header, keys), peer, share)
            self._good[digest] = keys
        self._good.move_to_end(digest)
        while len(self._good) > MOST_GOOD_TOKENS:
            self._good.popitem(last=False)
        return tokens.content_of(token, header, now)

    async def certificate(
        self, header: str, authorities: Sequence[bytes], now: datetime, *, peer: str
    ) -> ClientCertificate:
        """The names of a good client certificate, at the expense of a peer. Raises CertificateRefused, ShareUsedUp."""
        return await self._in_turn(
            lambda: client_certificates.verified(header, authorities, now), peer, "client certificates"
        )

    async def _in_turn(self, work: Callable[[], R], peer: str, share: str) -> R:
        try:
            with self._places.place({f"peer {peer}": PEER_TIMES, share: 1}):
                return await run(work)
        except NoPlace:
            raise ShareUsedUp("too many tokens and certificates are being verified") from None
