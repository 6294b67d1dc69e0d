"""Every parser of foreign text returns a value or raises the error that it documents, within its time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta, timezone

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as some
from tests.unit.kube.scripted import serving
from tests.unit.promptly import promptly

from stellwerk.api.core import ConfigMap, Secret
from stellwerk.apply.fields.compare import quantity
from stellwerk.kube.client.client import Client
from stellwerk.kube.http import warnings
from stellwerk.kube.http.transport import Transport
from stellwerk.kube.login import proxy_settings
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types import duration
from stellwerk.kube.types.duration import NotADuration
from stellwerk.kube.types.errors import ApiError, Unreachable
from stellwerk.kube.types.model import UNREADABLE, metadata_of, unstructured, view
from stellwerk.kube.types.object_meta import Condition, rfc3339

pytestmark = pytest.mark.heavy

LONG = some.sampled_from(["9" * 5_000, "1" * 100_000, "." * 5_000, "\u0669" * 50, "-" * 5_000])


@pytest.mark.req("R-401")
@pytest.mark.req("R-413")
@given(some.text(max_size=30) | LONG
       | some.from_regex(r"[+-]?([0-9.]{0,30}(ns|us|\u00b5s|ms|s|m|h|d)?){0,4}", fullmatch=True)
       | some.tuples(LONG, some.sampled_from(["s", "h", "ns", ".5s"])).map("".join))  # fmt: skip
@example("9" * 5_000 + "s")
@example("0." + "9" * 5_000 + "h")
@promptly
def test_any_text_is_a_duration_or_is_not(text: str) -> None:
    try:
        found = duration.parse(text)
    except NotADuration as error:
        assert len(str(error)) < 1_000  # noqa: PT017  # the other outcome is a value
    else:
        assert isinstance(duration.format(found), str)


@pytest.mark.req("R-401")
@given(some.text(max_size=20) | LONG | some.floats() | some.integers() | some.booleans()
       | some.from_regex(r"[+-]?[0-9.]{0,30}([eE][+-]?[0-9]{0,5}|[KMGTPE]i?|[numk])?", fullmatch=True))  # fmt: skip
@promptly
def test_any_value_is_a_quantity_or_is_not(value: str | float) -> None:
    quantity(value)


@pytest.mark.req("R-401")
@pytest.mark.req("R-413")
@given(some.from_regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9:.]{0,15}([Zz]|[+-][0-9:]{0,6})?", fullmatch=True)
       | some.datetimes(timezones=some.integers(-1_439, 1_439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
                        ).map(datetime.isoformat))  # fmt: skip
@example("0001-01-01T00:00:00+23:59")
@example("9999-12-31T23:59:59-23:59")
@example("2020-01-01T00:00:00+99:99")
def test_any_timestamp_is_read_and_written_or_refused(text: str) -> None:
    body = msgspec.json.encode({"type": "Ready", "status": "True", "lastTransitionTime": text})
    with contextlib.suppress(msgspec.DecodeError):
        assert isinstance(rfc3339(msgspec.json.decode(body, type=Condition).last_transition_time), str)


@pytest.mark.req("R-401")
@given(some.dictionaries(some.text(max_size=5), some.text(max_size=20) | some.binary(max_size=9).map(repr), max_size=3))
def test_the_values_of_any_secret_are_bytes_or_a_value_error(data: dict[str, str]) -> None:
    secret = Secret(data=data)
    with contextlib.suppress(ValueError):
        secret.decoded()
    for key in data:
        with contextlib.suppress(ValueError):
            secret.text(key)


@pytest.mark.req("R-401")
@given(some.text(max_size=40), some.text(max_size=40), some.text(max_size=40))
def test_any_environment_names_a_proxy_or_none(server: str, proxy: str, spared: str) -> None:
    environment = {"HTTPS_PROXY": proxy, "HTTP_PROXY": proxy, "NO_PROXY": spared}
    assert isinstance(proxy_settings.of_environment(f"https://{server}", environment), str)


@pytest.mark.req("R-401")
@given(some.lists(some.text(max_size=60) | some.from_regex(r'(299 \S{1,5} "[^"]{0,20}"?,? ?){0,4}', fullmatch=True)))
@example(['299 - "' + "\\" * 100_000, "299 " * 50_000])
@promptly
def test_any_warning_is_noted_or_ignored(lines: list[str]) -> None:
    with warnings.Listening() as heard:
        warnings.note(lines)
    assert len(heard) <= warnings.MOST


JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(max_size=5) | LONG,
    lambda inner: (
        some.lists(inner, max_size=4)
        | some.dictionaries(
            some.sampled_from(["type", "object", "metadata", "items", "name", "uid", "status", "code", "data", "a"]),
            inner,
        )
    ),
    max_leaves=20,
)


@pytest.mark.req("R-401")
@given(some.binary(max_size=200) | JSON.map(msgspec.json.encode)
       | some.text("[]{}:,\"a0 ", max_size=60).map(str.encode), some.integers(1, 3_000))  # fmt: skip
@promptly
def test_any_bytes_are_an_object_a_page_or_an_event_or_are_unreadable(data: bytes, times: int) -> None:
    for target in (view(ConfigMap), unstructured(ConfigMap.resource), metadata_of(ConfigMap)):
        for read in (
            target.decode,
            target.decode_list,
            target.decode_each,
            target.decode_event,
            target.decode_odd_event,
        ):
            for text in (data, data * min(times, 100_000 // (len(data) + 1))):
                with contextlib.suppress(*UNREADABLE):
                    read(text)


# ---- whole answers, heads included


async def by_call(client: Client) -> object:
    return await client.document("/version")


async def by_watch(client: Client) -> object:
    return [event async for event in client.watch(ConfigMap, "here", resource_version="1", silence_seconds=5)]


HEADS = some.lists(
    some.sampled_from(
        [
            *(b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 404 \r\n", b"HTTP/1.1 99999 X\r\n", b"HTTP/1.1 101 Switching\r\n"),
            *(b"HTTP/2 200\r\n", b"HTTP/1.1 103 Early\r\n\r\n", b"Content-Length: 2\r\n", b"Content-Length: -1\r\n"),
            *(b"Content-Length: 2, 3\r\n", b"Content-Length: " + b"9" * 5_000 + b"\r\n"),
            *(b"Content-Length: \xd9\xa2\r\n", b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: gzip\r\n"),
            *(b"Content-Encoding: gzip\r\n", b"Content-Encoding: \xff\r\n", b"Upgrade: h2c\r\n"),
            *(b"Connection: upgrade\r\n", b"Connection: close\r\n", b"Retry-After: " + b"9" * 400 + b"\r\n"),
            *(b"Location: x\r\n", b"X: \x00\r\n", b"X\r\n", b": y\r\n", b" folded\r\n", b"Set-Cookie: a=b\r\n"),
            *(b"\r\n", b"2\r\n{}\r\n0\r\n\r\n", b"{}", b"ffffffffffffffffff\r\n", b"-1\r\n", b"\xff\xfe"),
            b'Warning: 299 - "x\r\n',
        ]
    ),
    max_size=7,
).map(b"".join)


@pytest.mark.req("R-401")
@pytest.mark.req("R-512")
@pytest.mark.parametrize("way", [by_call, by_watch])
@pytest.mark.parametrize("road", ["own", "proxy"])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(HEADS | some.binary(max_size=60))
def test_any_bytes_on_the_line_are_an_answer_or_an_error_of_ours(
    road: str, way: Callable[[Client], Awaitable[object]], said: bytes
) -> None:
    async def asked() -> None:
        async with serving(said, hangs_up=True) as (server, _):
            address = f"http://127.0.0.1:{server.port}"
            config = ClusterConfig(server=address) if road == "own" else proxied(address)
            async with Client(Transport(config, user_agent="test", rest=_at_once), field_manager="test") as client:
                with contextlib.suppress(ApiError):  # any other exception fails the test
                    await way(client)

    asyncio.run(asked())


def proxied(address: str) -> ClusterConfig:
    return ClusterConfig(server="http://behind.example", proxy=address)


async def _at_once(seconds: float) -> None:
    await asyncio.sleep(0)


@pytest.mark.req("R-413")
@pytest.mark.parametrize("proxy", ["", "http://127.0.0.1:1"])
@pytest.mark.parametrize(
    "server",
    ["https://" + "a" * 64, "https://a..b", "https://a.invalid", "https://127.0.0.1:1"],
)
async def test_a_server_to_which_no_connection_can_be_made_is_unreachable(server: str, proxy: str) -> None:
    transport = Transport(ClusterConfig(server=server, proxy=proxy), user_agent="test", rest=_at_once)
    async with Client(transport, field_manager="test") as client:
        for way in (by_call, by_watch):
            with pytest.raises(Unreachable, match="does not answer"):
                await way(client)
