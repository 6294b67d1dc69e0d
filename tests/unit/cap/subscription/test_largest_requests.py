"""No request holds the event loop of the subscription server, whatever its body, token and certificate are."""

from __future__ import annotations

import base64
import contextlib
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.cap.subscription.client_certificates import NOW
from tests.unit.cap.subscription.issuer import DOMAIN, JKU

from stellwerk.operators.cap.subscription import payloads, registries
from stellwerk.operators.cap.subscription.callers import client_certificates, tokens
from stellwerk.operators.cap.subscription.callers.client_certificates import CertificateRules
from stellwerk.operators.cap.subscription.callers.tokens import Claims, TokenHeader, TokenRefused, TokenRules
from stellwerk.operators.cap.subscription.payloads import PayloadInvalid
from stellwerk.operators.cap.subscription.process import LIMITS
from stellwerk.operators.cap.subscription.registries import Protocol
from stellwerk.runtime.certificates.client_certificates import MOST_HEADER_BYTES, CertificateRefused
from stellwerk.testing.checks.loop_stalls import LONGEST_STALL_SECONDS

ROOM = LIMITS.body_bytes
FORMS: dict[str, Any] = {
    "names that differ in case only": {"".join(f"{c:b}" for c in number.to_bytes(2)): 1 for number in range(3_000)},
    "many names": {f"k{number}": number for number in range(ROOM // 12)},
    "deep": "deep",
    "list": {"keys": [0] * (ROOM // 3)},
    "lists": {"keys": [[]] * (ROOM // 4)},
    "long text": {"subscriptionGUID": "a" * ROOM, "scope": "a " * (ROOM // 2)},
    "a number of many digits": "digits",
    "escapes": {"scope": "\\u0000" * (ROOM // 8)},
}


def text_of(form: str) -> bytes:
    match FORMS[form]:
        case "deep":
            return b'{"a":' * (ROOM // 6) + b"1" + b"}" * (ROOM // 6)
        case "digits":
            return b'{"exp":' + b"9" * (ROOM - 20) + b"}"
        case value:
            return json.dumps(value).encode()[:ROOM]


def part(text: bytes) -> str:
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def seconds(work: Callable[[], object]) -> float:
    """What the work takes the processor; the least of three tries."""
    least = float("inf")
    for _ in range(3):
        began = time.thread_time()
        with contextlib.suppress(PayloadInvalid, TokenRefused, CertificateRefused):
            work()
        least = min(least, time.thread_time() - began)
    return least


@pytest.mark.req("R-931", "R-921")
@pytest.mark.parametrize("form", FORMS)
def test_no_large_request_holds_the_event_loop(form: str) -> None:
    text = text_of(form)
    head = part(json.dumps({"alg": "RS256", "kid": "one", "jku": JKU}).encode())
    header = TokenHeader(algorithm="RS256", key_id="one", issuer=f"zone.{DOMAIN}")
    rules = TokenRules(uaa_domain=DOMAIN, client_id="a!b", app_name="shop")
    words = frozenset(text.decode().split('"')[:2_000])
    claims = Claims(issuer=header.issuer, audiences=words, scopes=words, client_id="", issued_at=0.0)
    credentials: dict[str, Any] = {"appUrls": text.decode(), "app_urls": text.decode()}
    work: dict[str, Callable[[], object]] = {
        "SaaS body": lambda: payloads.saas_subscription(text),
        "SMS body": lambda: payloads.sms_subscription(text),
        "header of a token": lambda: tokens.header_of(f"{part(text)}.{part(text)}.x", {DOMAIN}),
        "content of a token": lambda: tokens.content_of(f"{head}.{part(text)}.x", header, 0.0),
        "claims": lambda: tokens.is_for(claims, rules),
        "host of a token": lambda: tokens.issuer_of(f"https://{'a.' * ROOM}{DOMAIN}/token_keys", {DOMAIN}),
        "certificate": lambda: client_certificates.verified(text.decode()[:MOST_HEADER_BYTES], [], NOW),
        "rules of a certificate": lambda: client_certificates.are_readable(CertificateRules(text.decode(), "{}")),
        "timeout of a registry": lambda: [registries.callback_timeout(each, credentials) for each in Protocol],
    }
    assert {name: took for name, each in work.items() if (took := seconds(each)) > LONGEST_STALL_SECONDS} == {}
