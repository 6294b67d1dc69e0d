"""Verifications do not occupy the event loop, and each has its share."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import pytest
from joserfc.jwk import RSAKey
from tests.unit.cap.subscription.client_certificates import NOW as TODAY
from tests.unit.cap.subscription.client_certificates import Authority, header
from tests.unit.cap.subscription.issuer import DOMAIN, HOST, NOW, document, rsa, token

from stellwerk.operators.cap.subscription.callers import tokens, verification
from stellwerk.operators.cap.subscription.callers.tokens import ShareUsedUp, TokenRefused
from stellwerk.operators.cap.subscription.callers.verification import Verifier

GOOD, AUTHORITY = token(), Authority()
HEADER = tokens.header_of(GOOD, {DOMAIN})
KEYS = tokens.keys_of(document(rsa()))


@pytest.mark.req("R-921")
@pytest.mark.parametrize("proof", ["token", "certificate"])
async def test_a_proof_is_verified_while_the_event_loop_does_other_things(proof: str) -> None:
    """Both threads are busy until the event loop, which goes on, lets them end."""
    go_on, busy = threading.Event(), threading.Barrier(3)

    def occupy() -> None:
        busy.wait(10)
        go_on.wait(10)

    occupying = [asyncio.create_task(verification.run(occupy)) for _ in range(2)]
    await asyncio.to_thread(busy.wait, 10)
    asked: Coroutine[Any, Any, object] = (
        Verifier().claims(GOOD, HEADER, KEYS, NOW, peer="one", share="home")
        if proof == "token"
        else Verifier().certificate(header(AUTHORITY.client()), [AUTHORITY.pem], TODAY, peer="one")
    )
    verifying = asyncio.create_task(asked)
    for _ in range(100):
        await asyncio.sleep(0)
    assert not verifying.done()
    go_on.set()
    assert await verifying
    await asyncio.gather(*occupying)


@pytest.mark.req("R-921", "R-922")
async def test_tokens_of_one_namespace_leave_places_for_those_of_another_at_the_same_address() -> None:
    verifier = Verifier()
    flood = [
        asyncio.create_task(verifier.claims(GOOD, HEADER, KEYS, NOW, peer="same", share="evil")) for _ in range(1_000)
    ]
    await asyncio.sleep(0)
    claims = await verifier.claims(GOOD, HEADER, KEYS, NOW, peer="same", share="home")
    assert claims.issuer == HOST
    outcomes = await asyncio.gather(*flood, return_exceptions=True)
    assert sum(isinstance(each, ShareUsedUp) for each in outcomes) == 1_000 - verification.PLACES // 2


@pytest.mark.req("R-921", "R-703")
async def test_a_good_signature_is_verified_once_for_one_set_of_keys_and_its_times_always() -> None:
    verifier = Verifier()
    await verifier.claims(GOOD, HEADER, KEYS, NOW, peer="one", share="home")
    again = asyncio.create_task(verifier.claims(GOOD, HEADER, KEYS, NOW, peer="one", share="home"))
    await asyncio.sleep(0)
    assert again.done(), "it waits for no thread"
    with pytest.raises(TokenRefused, match="ended"):
        await verifier.claims(GOOD, HEADER, KEYS, NOW + 7_200, peer="one", share="home")
    others = tokens.keys_of(document(RSAKey.generate_key(2048, {"kid": "one"}, private=True)))
    with pytest.raises(TokenRefused, match="signature"):
        await verifier.claims(GOOD, HEADER, others, NOW, peer="one", share="home")


@pytest.mark.req("R-921")
async def test_a_signature_that_is_not_good_is_not_remembered() -> None:
    verifier = Verifier()
    for _ in range(2):
        with pytest.raises(TokenRefused, match="signature"):
            await verifier.claims(GOOD[:-8] + "AAAAAAAA", HEADER, KEYS, NOW, peer="one", share="home")


@pytest.mark.req("R-921", "R-922")
async def test_client_certificates_leave_places_for_tokens_at_the_same_address() -> None:
    verifier, sent = Verifier(), header(AUTHORITY.client())
    flood = [asyncio.create_task(verifier.certificate(sent, [AUTHORITY.pem], TODAY, peer="same")) for _ in range(200)]
    await asyncio.sleep(0)
    assert (await verifier.claims(GOOD, HEADER, KEYS, NOW, peer="same", share="home")).issuer == HOST
    outcomes = await asyncio.gather(*flood, return_exceptions=True)
    assert sum(isinstance(each, ShareUsedUp) for each in outcomes) == 200 - verification.PLACES // 2
