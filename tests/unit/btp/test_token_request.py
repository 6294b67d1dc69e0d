"""What is sent to a token server, and what its answers say of the credentials."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as some

from stellwerk.operators.btp.credentials.token_request import CredentialsVerdict, TokenRequest, judged


def data(**values: str) -> dict[str, str]:
    keys = {"tls_crt": "tls.crt", "tls_key": "tls.key"}
    return {keys.get(key, key): base64.b64encode(value.encode()).decode() for key, value in values.items()}


BASIC = {"clientid": "me!b1|sm", "clientsecret": "s3cret", "tokenurl": "https://token.example.com/"}


def test_a_token_is_asked_for_as_the_operand_does() -> None:
    request = TokenRequest.of(data(**BASIC))
    assert request.url == "https://token.example.com/oauth/token"
    assert request.form == {"grant_type": "client_credentials", "client_id": "me!b1|sm", "client_secret": "s3cret"}
    assert not request.certificate


def test_the_secret_may_name_another_suffix() -> None:
    assert TokenRequest.of(data(**BASIC, tokenurlsuffix="/token")).url == "https://token.example.com/token"


def test_a_certificate_comes_before_a_secret_and_has_an_address_of_its_own() -> None:
    pair = {"tls_crt": "CERTIFICATE", "tls_key": "KEY"}
    request = TokenRequest.of(data(**BASIC, **pair, certurl="https://cert.example.com"))
    assert request.url == "https://cert.example.com/oauth/token"
    assert request.form == {"grant_type": "client_credentials", "client_id": "me!b1|sm"}
    assert (request.certificate, request.key) == (b"CERTIFICATE", b"KEY")
    assert TokenRequest.of(data(**BASIC, **pair)).url == "https://token.example.com/oauth/token"
    assert TokenRequest.of(data(**BASIC, tls_crt="CERTIFICATE")).client_secret == "s3cret", "half a pair is none"


@pytest.mark.req("R-801")
def test_a_request_shows_nothing_of_the_secret() -> None:
    assert repr(TokenRequest.of(data(**BASIC))) == "TokenRequest()"


def said(**words: object) -> bytes:
    return json.dumps(words).encode()


@pytest.mark.parametrize(
    ("status", "body", "verdict", "why"),
    [
        (200, said(access_token="t", token_type="bearer"), CredentialsVerdict.ACCEPTED, ""),
        (200, said(token_type="bearer"), CredentialsVerdict.UNANSWERED, "the answer holds no token"),
        (200, b"<html>sign in</html>", CredentialsVerdict.UNANSWERED, "the answer holds no token"),
        (401, said(error="invalid_client"), CredentialsVerdict.REFUSED, "invalid_client"),
        (401, said(error="s3cret is wrong"), CredentialsVerdict.REFUSED, "HTTP 401"),
        (401, b"", CredentialsVerdict.REFUSED, "HTTP 401"),
        (
            400,
            said(error="unauthorized_client", error_description="s3cret"),
            CredentialsVerdict.REFUSED,
            "unauthorized_client",
        ),
        (400, said(error="invalid_request"), CredentialsVerdict.UNANSWERED, "HTTP 400"),
        (403, b"a proxy says no", CredentialsVerdict.UNANSWERED, "HTTP 403"),
        (302, b"", CredentialsVerdict.UNANSWERED, "HTTP 302"),
        (404, b"", CredentialsVerdict.UNANSWERED, "HTTP 404"),
        (429, said(error="invalid_client"), CredentialsVerdict.UNANSWERED, "HTTP 429"),
        (503, said(error="invalid_client"), CredentialsVerdict.UNANSWERED, "HTTP 503"),
    ],
)
def test_only_a_word_about_the_credentials_condemns_them(
    status: int, body: bytes, verdict: CredentialsVerdict, why: str
) -> None:
    answer = judged(status, body)
    assert (answer.verdict, answer.why) == (verdict, why)


@given(some.integers(100, 599), some.binary(max_size=200))
def test_no_answer_is_too_strange_and_none_is_repeated(status: int, body: bytes) -> None:
    answer = judged(status, body)
    assert answer.why in ("", "the answer holds no token", f"HTTP {status}", "invalid_client")


@pytest.mark.req("R-401", "R-410")
@pytest.mark.parametrize("body", [b'{"a":' * 10_000, b"[" * 60_000, b"\xff\xfe", b"null", b'{"error":1}'])
@pytest.mark.parametrize("status", [200, 400, 401, 403, 500, 999])
def test_an_answer_that_is_no_answer_is_none(body: bytes, status: int) -> None:
    assert judged(status, body).verdict in (CredentialsVerdict.UNANSWERED, CredentialsVerdict.REFUSED)


@pytest.mark.req("R-601", "R-603")
@pytest.mark.parametrize("suffix", ["@elsewhere.example.com/", ".example.com", ":8443/oauth", "?x=/oauth", "oauth"])
def test_a_suffix_that_is_no_path_leads_nowhere_else(suffix: str) -> None:
    values = {"tokenurl": "https://token.example.com", "clientid": "c", "clientsecret": "s", "tokenurlsuffix": suffix}

    request = TokenRequest.of({key: base64.b64encode(value.encode()).decode() for key, value in values.items()})

    assert request.url == ""
