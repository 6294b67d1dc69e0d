"""Whatever a server answers to a call, the call ends with an answer or with one of our errors, in bounded words."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from tests.unit.kube.scripted import serving

from stellwerk.api.core import ConfigMap
from stellwerk.kube.client.client import Client
from stellwerk.kube.http.error_mapping import refused
from stellwerk.kube.http.messages import Answer
from stellwerk.kube.http.transport import Transport
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import (
    LONGEST_MESSAGE,
    LONGEST_WAIT_SECONDS,
    ApiError,
    ServerFault,
    Status,
    StatusCause,
    StatusDetails,
    StatusError,
    TooManyRequests,
    Undecodable,
    refusal,
)
from stellwerk.kube.types.model import JsonValue, metadata_of, unstructured, view

pytestmark = pytest.mark.heavy

DEEP = b"[" * 100_000
LONGEST_TEXT = LONGEST_MESSAGE + 200


def answer(body: bytes | JsonValue, code: int = 500, **headers: str) -> Answer:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    pairs = tuple((name.replace("_", "-").lower().encode(), value.encode()) for name, value in headers.items())
    return Answer(code, "Reason", pairs, text)


@pytest.mark.req("R-413")
@pytest.mark.req("R-401")
@pytest.mark.parametrize(
    "body",
    [
        b"\xff\xfe",
        b'{"message": "\xff"}',
        b'{"message": "\\ud800"}',
        b'{"details": ' + DEEP,
        b'{"unknown": ' + DEEP,
        b'{"code": ' + b"9" * 5_000 + b"}",
        b'{"details": {"retryAfterSeconds": 1e400}}',
        b'{"details": null}',
        b"[]",
        b"",
        b"<html>a proxy's page</html>",
        b'{"details": {"causes": [' + b"{}," * 500_000 + b"{}]}}",
    ],
)
def test_a_body_that_is_no_status_is_a_refusal_all_the_same(body: bytes) -> None:
    error = refused(answer(body), "look", hides_values=False)
    assert isinstance(error, ServerFault)
    assert error.code == 500
    assert len(str(error)) < LONGEST_TEXT


@pytest.mark.parametrize("code", [401, 403, 404, 409, 422, 429, 500, 502, 599])
@pytest.mark.parametrize(
    "body",
    [
        b"<html>canary</html>",
        b"canary",
        b'{"message": "canary", "reason": "canary"}',
        b'{"kind": "Error", "message": "canary"}',
    ],
)
def test_the_words_of_a_server_that_is_no_api_server_are_not_repeated(body: bytes, code: int) -> None:
    error = refused(answer(body, code), "look", hides_values=False)
    assert error.code == code
    assert "canary" not in str(error)
    assert f"a {code}" in str(error)
    assert "that is not an API server's" in str(error)


@pytest.mark.req("R-413")
@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("5", 5.0),
        ("0", None),
        ("-5", None),
        ("999999999", LONGEST_WAIT_SECONDS),
        ("9" * 400, None),
        ("9" * 5_000, None),
        ("1e9", None),
        ("\u0665", None),
        ("inf", None),
        ("nan", None),
        ("Wed, 21 Oct 2065 07:28:00 GMT", None),
        ("", None),
    ],
)
def test_a_wait_that_a_server_asks_for_in_the_header_is_bounded(header: str, seconds: float | None) -> None:
    error = refused(answer({"code": 429}, 429, Retry_After=header), "look", hides_values=False)
    assert isinstance(error, TooManyRequests)
    assert error.retry_after == seconds


@pytest.mark.req("R-413")
@pytest.mark.parametrize(
    ("asked", "seconds"),
    [(7, 7.0), (0, None), (-7, None), (10**9, LONGEST_WAIT_SECONDS), (int("9" * 400), LONGEST_WAIT_SECONDS)],
)
def test_a_wait_that_a_server_asks_for_in_the_status_is_bounded(asked: int, seconds: float | None) -> None:
    error = refused(
        answer({"kind": "Status", "details": {"retryAfterSeconds": asked}}, 429), "look", hides_values=False
    )
    assert error.retry_after == seconds
    assert refusal(Status(code=429, details=StatusDetails(retry_after_seconds=asked))).retry_after == seconds


@pytest.mark.req("R-413")
def test_the_words_of_a_refusal_are_bounded() -> None:
    long = "x" * 1_000_000
    cause = StatusCause(reason=long, message=long, field=long)
    status = Status(code=422, message=long, reason=long, details=StatusDetails(causes=(cause,) * 2_000))
    kept = refusal(status, "look").status
    assert len(str(refusal(status, "look"))) < LONGEST_TEXT
    assert len(kept.reason) < 1_000
    assert len(kept.details.causes) <= 1_000
    assert all(len(cause.message) < LONGEST_TEXT and len(cause.field) < 1_000 for cause in kept.details.causes)


def test_the_code_of_a_refusal_is_that_of_its_head() -> None:
    assert refused(answer({"code": 404, "reason": "NotFound"}, 503), "look", hides_values=False).code == 503


STATUSES = some.fixed_dictionaries(
    {},
    optional={
        "kind": some.sampled_from(["Status", "List", ""]),
        "status": some.sampled_from(["Failure", "Success", None, 5]),
        "message": some.text(max_size=30) | some.none() | some.integers(),
        "reason": some.sampled_from(["NotFound", "AlreadyExists", "Expired", "", None]),
        "code": some.integers() | some.floats() | some.sampled_from([0, 401, 404, 409, 410, 422, 429, 503]),
        "details": some.none()
        | some.fixed_dictionaries(
            {},
            optional={
                "name": some.text(max_size=5),
                "retryAfterSeconds": some.integers() | some.floats() | some.text(max_size=3),
                "causes": some.none()
                | some.lists(some.dictionaries(some.text(max_size=3), some.integers(), max_size=2)),
            },
        ),
    },
)
HEADERS = some.lists(
    some.tuples(
        some.sampled_from(["Retry-After", "Warning", "Content-Encoding", "Content-Type", "X-Odd", "Connection"]),
        some.text(some.characters(min_codepoint=32, max_codepoint=255), max_size=20),
    ),
    max_size=4,
)


@pytest.mark.req("R-401")
@given(some.integers(300, 599), some.binary(max_size=80) | STATUSES.map(lambda body: json.dumps(body).encode()),
       HEADERS, some.booleans())  # fmt: skip
def test_any_refusal_is_an_error_of_ours(code: int, body: bytes, headers: list[tuple[str, str]], hides: bool) -> None:
    pairs = tuple((name.lower().encode(), value.encode("latin-1")) for name, value in headers)
    error = refused(Answer(code, "", pairs, body), "look", hides_values=hides)
    assert isinstance(error, StatusError)
    assert error.code in (code, 422)
    assert error.retry_after is None or 0 < error.retry_after <= LONGEST_WAIT_SECONDS
    str(error)


async def by_get(client: Client) -> object:
    return await client.get(ConfigMap, "one", "here")


async def by_list(client: Client) -> object:
    return await client.list(unstructured(ConfigMap.resource), "here")


async def by_watch(client: Client) -> object:
    return [event async for event in client.watch(view(ConfigMap), "here", resource_version="1", silence_seconds=5)]


async def by_metadata(client: Client) -> object:
    return await client.list(metadata_of(ConfigMap), "here")


async def by_discovery(client: Client) -> object:
    return await client.mapper.described()


async def by_document(client: Client) -> object:
    return await client.document("/version")


async def by_delete(client: Client) -> object:
    return await client.delete(ConfigMap, "one", "here", uid="1")


WAYS = [by_get, by_list, by_watch, by_metadata, by_discovery, by_document, by_delete]
ways = pytest.mark.parametrize("way", WAYS)


async def outcome(said: bytes, way: Callable[[Client], Awaitable[object]]) -> object:
    """What the call returns, or None where it raises one of our errors."""
    async with reaching(said) as client:
        with contextlib.suppress(ApiError):
            return await way(client)
    return None


@asynccontextmanager
async def reaching(said: bytes) -> AsyncIterator[Client]:
    async with serving(said, hangs_up=True) as (server, _):
        config = ClusterConfig(server=f"http://127.0.0.1:{server.port}")
        async with Client(Transport(config, user_agent="test", rest=_at_once), field_manager="test") as client:
            yield client


async def _at_once(seconds: float) -> None:
    await asyncio.sleep(0)


def said(body: bytes, code: int = 200, *headers: bytes) -> bytes:
    head = b"".join(header + b"\r\n" for header in headers)
    return b"HTTP/1.1 %d Word\r\n%bContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (code, head, len(body), body)


ITEM = b'{"metadata": {"name": "a", "resourceVersion": "%b"}}'


@pytest.mark.req("R-401")
@pytest.mark.req("R-413")
@ways
@pytest.mark.parametrize(
    "body",
    [
        b"\xff",
        DEEP,
        b'{"metadata": ' + b'{"a": ' * 100_000,
        b'{"items": ' + DEEP,
        b'{"items": [' + ITEM % (b"9" * 5_000) + b'], "metadata": {"resourceVersion": "' + b"9" * 5_000 + b'"}}',
        b'{"type": "ADDED", "object": ' + ITEM % (b"9" * 5_000) + b"}\n",
        b'{"type": "ADDED", "object": ' + DEEP + b"\n",
        b'{"type": "ERROR", "object": {"code": 410, "details": {"retryAfterSeconds": ' + b"9" * 400 + b"}}}\n",
        b'{"type": "\xff", "object": {}}\n',
        b'{"metadata": {"creationTimestamp": "0001-01-01T00:00:00+23:59", "name": "a"}, "items": []}',
        b'{"metadata": {"creationTimestamp": "2020-01-01T00:00:00+99:99", "name": "a"}}',
        b'{"metadata": {"generation": ' + b"9" * 400 + b', "name": "a"}}',
        b"null",
        b"",
    ],
)
async def test_whatever_is_answered_is_read_or_is_an_error_of_ours(
    way: Callable[[Client], Awaitable[object]], body: bytes
) -> None:
    await outcome(said(body), way)  # any other exception fails the test


@pytest.mark.req("R-401")
@pytest.mark.req("R-512")
@ways
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    some.integers(200, 599),
    some.binary(max_size=60)
    | some.recursive(
        some.none() | some.integers() | some.text(max_size=4) | some.booleans() | some.floats(),
        lambda inner: (
            some.lists(inner, max_size=3)
            | some.dictionaries(
                some.sampled_from(
                    ["kind", "metadata", "items", "object", "type", "name", "versions", "resources", "data"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    ).map(lambda value: json.dumps(value).encode() + b"\n"),
    some.sampled_from([b"X: y", b"Content-Encoding: gzip", b"Content-Encoding: br", b"X: \xff", b"\xff: \x80"]),
)
def test_any_answer_is_read_or_is_an_error_of_ours(
    way: Callable[[Client], Awaitable[object]], code: int, body: bytes, header: bytes
) -> None:
    asyncio.run(outcome(said(body, code, header), way))


async def test_an_answer_that_quotes_the_server_at_length_makes_no_long_message() -> None:
    async with reaching(said(b'{"metadata": {"name": ["' + b"x" * 100_000 + b'"]}}')) as client:
        with pytest.raises(Undecodable) as error:
            await by_get(client)
    assert len(str(error.value)) < 1_000
