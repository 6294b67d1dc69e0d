"""How requests follow each other on a connection, and the less usual ones among them."""

from __future__ import annotations

import asyncio
import contextlib

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.runtime.test_http import HASTY, Raw, connected, serving

from stellwerk.runtime.serving.http import ServerLimits
from stellwerk.runtime.serving.http_messages import Fields, Headers, Request, Response, answer, text
from stellwerk.runtime.serving.routes import Route, Routes

pytestmark = pytest.mark.heavy

HOST = b" HTTP/1.1\r\nHost: a\r\n"
OFFER = b"Connection: Upgrade\r\nUpgrade: h2c\r\n"


async def told(request: Request) -> Response:
    """What arrived."""
    return answer(
        {
            "error": "",
            "method": request.method,
            "path": request.path,
            "found": dict(request.found),
            "query": {name: [*request.query.all(name)] for name in request.query},
            "body": request.body.decode(),
        }
    )


ROUTES = [Route("*", "/told/{name}", told), Route("GET", "/rest/{first}/{rest:.*}", told)]


async def read(raw: Raw) -> tuple[bytes, bytes]:
    """Head and body of the next answer."""
    async with asyncio.timeout(20):
        head = await raw.reader.readuntil(b"\r\n\r\n")
        length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length"))
        return head, await raw.reader.readexactly(length)


async def test_requests_that_do_not_wait_for_answers_are_answered_in_their_order() -> None:
    async with serving(routes=ROUTES) as server, connected(server) as raw:
        for start in (0, 5):  # more than fit into one piece come later, while others are answered
            wanted = [f"/told/{number}" for number in range(start, start + 5)]
            await raw.send(b"".join(b"GET %b%b\r\n" % (path.encode(), HOST) for path in wanted))
            for path in wanted:
                _, body = await read(raw)
                assert f'"path":"{path}"'.encode() in body


@st.composite
def wire(draw: st.DrawFn) -> tuple[list[bytes], list[bytes]]:
    """Requests as bytes in pieces, and their bodies."""
    bodies = draw(st.lists(st.binary(max_size=40).map(lambda some: some.hex().encode()), min_size=1, max_size=4))
    whole = b""
    for body in bodies:
        whole += b"PUT /told/x" + HOST
        if draw(st.booleans()):
            whole += b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        else:
            cut = draw(st.integers(0, len(body)))
            chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:cut], body[cut:]) if part)
            whole += b"Transfer-Encoding: chunked\r\n\r\n%b0\r\n\r\n" % chunks
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=12)))
    return [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)], bodies


@given(wire())
@settings(max_examples=60, deadline=None)
def test_requests_arrive_in_any_pieces(requests: tuple[list[bytes], list[bytes]]) -> None:
    pieces, bodies = requests

    async def exchange() -> list[str]:
        async with serving(routes=ROUTES) as server, connected(server) as raw:
            for piece in pieces:
                await raw.send(piece)
                await asyncio.sleep(0)
            return [msgspec.json.decode((await read(raw))[1])["body"] for _ in bodies]

    assert asyncio.run(exchange()) == [body.decode() for body in bodies]


@given(st.lists(st.binary(max_size=60), max_size=6))
@settings(max_examples=60, deadline=None)
def test_whatever_arrives_is_answered_or_ends_its_connection_and_the_server_goes_on(pieces: list[bytes]) -> None:
    async def exchange() -> bytes:
        async with serving(HASTY, routes=ROUTES) as server:
            async with connected(server) as raw:
                with contextlib.suppress(ConnectionError):
                    for piece in pieces:
                        await raw.send(piece)
            async with connected(server) as raw:
                await raw.send(b"GET /told/x" + HOST + b"\r\n")
                return (await read(raw))[0]

    assert asyncio.run(exchange()).startswith(b"HTTP/1.1 200 OK")


ONE = b"GET /told/x" + HOST + b"\r\n"
LAST = b"GET /told/x" + HOST + b"Connection: close\r\n\r\n"


@pytest.mark.req("R-701")
@pytest.mark.parametrize(
    ("sent", "statuses"),
    [
        (ONE + b"nonsense\r\n\r\n", [200, 400]),
        (ONE + ONE + b"nonsense\r\n\r\n", [200, 200, 400]),
        (ONE * 20, [200] * 16 + [429]),
        (LAST + ONE, [200]),
        (ONE + LAST + b"nonsense\r\n\r\n", [200, 200]),
    ],
    ids=["nonsense", "nonsense behind two", "too many", "behind the last", "nonsense behind the last"],
)
async def test_what_arrived_whole_is_answered_before_what_follows_it_is_refused(
    sent: bytes, statuses: list[int]
) -> None:
    async with serving(routes=ROUTES) as server, connected(server) as raw:
        await raw.send(sent)
        assert [(await raw.answer())[0] for _ in statuses] == statuses
        assert await raw.is_closed()


async def test_line_breaks_on_a_resting_connection_are_no_request() -> None:
    async with serving(HASTY, routes=ROUTES) as server, connected(server) as raw:
        await raw.send(b"PUT /told/x" + HOST + b"Content-Length: 1\r\n\r\na")
        assert (await raw.answer())[0] == 200
        await raw.send(b"\r\n")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(HASTY.arrival_seconds * 2):
                await raw.reader.read(1)
        await raw.send(b"\r\n" + ONE)
        assert (await raw.answer())[0] == 200


async def test_a_body_that_its_client_offers_behind_another_request_is_taken_when_that_is_answered() -> None:
    async with serving(HASTY, routes=ROUTES) as server, connected(server) as raw:
        await raw.send(ONE + b"PUT /told/y" + HOST + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert b'"path":"/told/x"' in (await read(raw))[1]
        async with asyncio.timeout(20):
            assert await raw.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        await raw.send(b"ab")
        assert b'"body":"ab"' in (await read(raw))[1]


@pytest.mark.req("R-701")
async def test_a_client_may_not_pile_up_requests() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_: Request) -> Response:
        begun.set()
        await go_on.wait()
        return text("done")

    line = b"GET /slow" + HOST + b"\r\n"
    async with serving(ServerLimits(), routes=[Route("GET", "/slow", slow)]) as server, connected(server) as raw:
        await raw.send(line)
        await begun.wait()
        raw.writer.write(line * 500_000)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await raw.writer.drain()  # nothing takes them
        go_on.set()
        head, _ = await read(raw)
        assert head.startswith(b"HTTP/1.1 200")


async def test_a_client_that_asks_whether_it_may_send_its_body_may() -> None:
    async with serving(routes=ROUTES) as server, connected(server) as raw:
        await raw.send(b"PUT /told/x" + HOST + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        async with asyncio.timeout(20):
            assert await raw.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        await raw.send(b"ab")
        _, body = await read(raw)
        assert b'"body":"ab"' in body


@pytest.mark.req("R-701")
async def test_one_whose_body_would_be_too_large_may_not() -> None:
    async with serving(routes=ROUTES) as server, connected(server) as raw:
        await raw.send(b"PUT /told/x" + HOST + b"Expect: 100-continue\r\nContent-Length: 2000\r\n\r\n")
        assert (await raw.answer())[0] == 413
        assert await raw.is_closed()


@pytest.mark.req("R-411")
async def test_an_encoded_body_is_not_unpacked() -> None:
    async with serving(routes=ROUTES) as server, connected(server) as raw:
        await raw.send(b"PUT /told/x" + HOST + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n\x1f\x8b")
        assert await raw.answer() == (415, "the body is encoded: send it as it is")


async def test_the_answer_to_head_has_no_body() -> None:
    async with serving(routes=ROUTES) as server, connected(server) as raw:
        await raw.send(b"HEAD /told/x" + HOST + b"\r\nGET /told/y" + HOST + b"\r\n")
        async with asyncio.timeout(20):
            assert b"Content-Length: " in await raw.reader.readuntil(b"\r\n\r\n")
        _, body = await read(raw)
        assert b'"path":"/told/y"' in body


@pytest.mark.parametrize(
    ("head", "keeps_alive"),
    [
        (b"GET /told/x HTTP/1.0\r\n", False),
        (b"GET /told/x HTTP/1.0\r\nConnection: keep-alive\r\n", True),
        (b"GET /told/x" + HOST, True),
        (b"GET /told/x" + HOST + b"Connection: close\r\n", False),
        (b"GET /told/x" + HOST + OFFER, False),
        (b"GET http://elsewhere.example/told/x HTTP/1.1\r\nHost: a\r\n", True),
    ],
    ids=["1.0", "1.0 kept", "1.1", "1.1 closed", "another protocol offered", "absolute"],
)
async def test_a_connection_is_kept_as_its_client_wants_it(head: bytes, keeps_alive: bool) -> None:
    async with serving(routes=ROUTES) as server, connected(server) as raw:
        await raw.send(head + b"\r\n")
        answered, body = await read(raw)
        assert b'"path":"/told/x"' in body
        assert (b"Connection: keep-alive" in answered) is keeps_alive
        if not keeps_alive:
            assert await raw.is_closed()


async def test_a_body_with_an_offer_of_another_protocol_arrives() -> None:
    async with serving(routes=ROUTES) as server, connected(server) as raw:
        await raw.send(b"PUT /told/x" + HOST + OFFER + b"Content-Length: 3\r\n\r\na")
        await raw.send(b"b")
        await raw.send(b"c")
        _, body = await read(raw)
        assert b'"body":"abc"' in body
        assert await raw.is_closed()


async def test_one_of_unknown_length_is_refused() -> None:
    async with serving(routes=ROUTES) as server, connected(server) as raw:
        await raw.send(b"PUT /told/x" + HOST + OFFER + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n")
        assert (await raw.answer())[0] == 411


@pytest.mark.req("R-411")
@pytest.mark.parametrize(
    "sent",
    [
        b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nTrailer: " + b"x" * 200_000,
        b"Transfer-Encoding: chunked\r\n\r\n1;extension=" + b"x" * 200_000,
        b"A: " + b"x" * 200_000,
    ],
    ids=["trailer", "extension", "header"],
)
async def test_what_is_no_body_has_a_limit_of_its_own(sent: bytes) -> None:
    async with serving(ServerLimits(), routes=ROUTES) as server, connected(server) as raw:
        await raw.send(b"PUT /told/x" + HOST + sent)
        assert (await raw.answer())[0] == 400


@pytest.mark.req("R-701")
@pytest.mark.parametrize(
    "sent",
    [
        b"PUT /told/x" + HOST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"PUT /told/x" + HOST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
        b"PUT /told/x" + HOST + b"Content-Length: -2\r\n\r\nab",
        b"GET /told/\xff" + HOST + b"\r\n",
        b"GET /told/x?" + b"&".join(b"a=1" for _ in range(200)) + HOST + b"\r\n",
        b"CONNECT a:1" + HOST + b"\r\n",
    ],
    ids=["two lengths", "two other lengths", "negative", "no text", "many parameters", "connect"],
)
async def test_what_may_be_read_in_two_ways_is_refused(sent: bytes) -> None:
    async with serving(routes=ROUTES) as server, connected(server) as raw:
        await raw.send(sent)
        assert (await raw.answer())[0] in (400, 404)
        assert await raw.is_closed()


@pytest.mark.req("R-701")
async def test_half_a_request_behind_a_whole_one_has_a_deadline() -> None:
    async with serving(HASTY, routes=ROUTES) as server, connected(server) as raw:
        await raw.send(b"GET /told/x" + HOST + b"\r\nGET /to")
        assert (await raw.answer())[0] == 200
        assert (await raw.answer())[0] == 408


@pytest.mark.req("R-701")
@pytest.mark.parametrize(
    ("begin", "rest", "late"),
    [(b"GET /to", b"ld/x HTTP/1.1\r\n", "request"), (b"PUT /x" + HOST + b"Content-Length: 9\r\n\r\na", b"b", "body")],
    ids=["head", "body"],
)
async def test_it_has_one_also_where_more_of_it_comes_during_the_answer(begin: bytes, rest: bytes, late: str) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_: Request) -> Response:
        begun.set()
        await go_on.wait()
        return answer({})

    limits = ServerLimits(arrival_seconds=0.4)
    routes = [*ROUTES, Route("GET", "/slow", slow)]
    async with serving(limits, routes=routes) as server, connected(server) as raw, connected(server) as other:
        await raw.send(b"GET /slow" + HOST + b"\r\n" + begin)
        await begun.wait()
        await raw.send(rest)
        await other.send(b"GET /told/x" + HOST + b"\r\n")
        await other.answer()  # the rest was read before
        go_on.set()
        assert (await raw.answer())[0] == 200
        assert await raw.answer() == (408, f"the {late} did not arrive in time")


async def test_a_path_gives_its_parts_and_its_parameters() -> None:
    async with serving(routes=ROUTES) as server, connected(server) as raw:
        await raw.send(b"GET /rest/a%2Fb/c/d%20e?x=1&x=2&y" + HOST + b"\r\n")
        _, body = await read(raw)
    assert b'"found":{"first":"a/b","rest":"c/d e"}' in body
    assert b'"query":{"x":["1","2"],"y":[""]}' in body


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/told", 404), ("GET", "/told/a/b", 404), ("GET", "/rest/a", 404), ("PUT", "/rest/a/b", 405)],
)
def test_a_path_without_a_route_is_refused(method: str, path: str, status: int) -> None:
    found = Routes(ROUTES).find(Request(method=method, path=path, headers=Headers(())))
    assert isinstance(found, Response)
    assert (found.status, found.headers.get("Allow")) == (status, "GET" if status == 405 else None)


def test_headers_have_the_same_name_in_any_case_and_parameters_do_not() -> None:
    headers, query = Headers([("X-One", "1"), ("x-one", "2")]), Fields([("One", "1")])
    assert (headers["x-ONE"], headers.all("X-One"), "X-TWO" in headers) == ("1", ["1", "2"], False)
    assert (query.get("One"), query.get("one"), len(query)) == ("1", None, 1)


async def test_a_header_with_a_line_break_is_not_sent_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def split(_: Request) -> Response:
        return Response(headers={"Location": "/a\r\nSet-Cookie: evil"})

    async with serving(routes=[Route("GET", "/", split)]) as server, connected(server) as raw:
        await raw.send(b"GET /" + HOST + b"\r\n")
        assert await raw.is_closed()
    assert "cannot send an answer" in caplog.text
