"""Our HTTP server and a well-kept one read the same bytes: ours hands on what the other one does, or less.

The other one is h11, which follows RFC 9112 to the letter and shares no line with llhttp. aiohttp was refused for this:
its server parses by llhttp, as ours does, so both would be wrong together.

What counts is what handlers get, in order, also of the bytes that follow a request: a difference there is how requests
are smuggled. Ours may hand on less; which of these inputs it refuses alone is listed here, so that a new one is seen.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import h11
import pytest

from stellwerk.runtime.serving.http import ListenAddress, Server, ServerLimits
from stellwerk.runtime.serving.http_messages import Request, Response, text
from stellwerk.runtime.serving.routes import Route
from stellwerk.testing import sweeps

pytestmark = [pytest.mark.heavy, pytest.mark.req("R-962")]

LIMITS = ServerLimits(arrival_seconds=2, connections=4_096, requests=4_096)
AT_ONCE = 64
"""With 160 of them, complete ones waited on a busy machine until their time was over."""
BUSY_SECONDS = 0.5
"""After so long a connection waits for what does not come, and costs nothing: another one takes its turn."""
PARTS = 13
"""One of so many odd bytes is sent in a run, if the sweep is not whole: a number that divides no list of them."""
HOST = b"Host: a\r\n"
END = b"GET /end HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
"""What follows each input on its connection."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A request as a handler gets it."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


def request(*lines: bytes, first: bytes = b"GET /a HTTP/1.1", body: bytes = b"") -> bytes:
    """A request with these headers."""
    return b"".join(line + b"\r\n" for line in (first, *lines)) + b"\r\n" + body


def post(*lines: bytes, body: bytes = b"") -> bytes:
    """A POST with these headers besides its host."""
    return request(b"Host: a", *lines, first=b"POST /a HTTP/1.1", body=body)


CHUNKED = b"Transfer-Encoding: chunked"
WHOLE: Mapping[str, bytes] = {
    "plain": request(b"Host: a"),
    "no host": request(),
    "two hosts": request(b"Host: a", b"Host: a"),
    "two hosts in different cases": request(b"Host: a", b"hOST: b"),
    "no host in HTTP/1.0": request(first=b"GET /a HTTP/1.0"),
    "two hosts in HTTP/1.0": request(b"Host: a", b"Host: b", first=b"GET /a HTTP/1.0"),
    "an empty host": request(b"Host:"),
    "a host with a port": request(b"Host: a:80"),
    "a host with a blank": request(b"Host: a b"),
    "a host with a slash": request(b"Host: a/b"),
    "a host with a user": request(b"Host: u@a"),
    "two hosts in one header": request(b"Host: a, b"),
    "a host that is no text": request(b"Host: \xff"),
    "an IPv6 host": request(b"Host: [::1]:8080"),
    "no host in an absolute target": request(first=b"GET http://a/a HTTP/1.1"),
    "an absolute target with another host": request(b"Host: b", first=b"GET http://a/a HTTP/1.1"),
    "an absolute target": request(b"Host: a", first=b"GET http://a/a HTTP/1.1"),
    "an absolute target with a user": request(b"Host: a", first=b"GET http://u:p@a/a HTTP/1.1"),
    "the target of OPTIONS": request(b"Host: a", first=b"OPTIONS * HTTP/1.1"),
    "the target of CONNECT": request(b"Host: a", first=b"CONNECT a:1 HTTP/1.1"),
    "a target without a slash": request(b"Host: a", first=b"GET a HTTP/1.1"),
    "a target with a fragment": request(b"Host: a", first=b"GET /a#b HTTP/1.1"),
    "a target with two slashes": request(b"Host: a", first=b"GET //a HTTP/1.1"),
    "a target with a query": request(b"Host: a", first=b"GET /a?b=c HTTP/1.1"),
    "an empty target": request(b"Host: a", first=b"GET  HTTP/1.1"),
    "no target": request(b"Host: a", first=b"GET HTTP/1.1"),
    "an unknown method": request(b"Host: a", first=b"FROB /a HTTP/1.1"),
    "a method in small letters": request(b"Host: a", first=b"get /a HTTP/1.1"),
    "a method of another protocol": request(b"Host: a", first=b"DESCRIBE rtsp://a/a RTSP/1.0"),
    "the name of another protocol": request(b"Host: a", first=b"GET /a RTSP/1.0"),
    "no version": b"GET /a\r\n\r\n",
    "HTTP/0.9": request(b"Host: a", first=b"GET /a HTTP/0.9"),
    "HTTP/1.2": request(b"Host: a", first=b"GET /a HTTP/1.2"),
    "HTTP/2.0": request(b"Host: a", first=b"GET /a HTTP/2.0"),
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a version in small letters": request(b"Host: a", first=b"GET /a http/1.1"),
    "a version with two digits": request(b"Host: a", first=b"GET /a HTTP/1.10"),
    "line breaks before the request": b"\r\n\r\n" + request(b"Host: a"),
    "a blank before the request": b" " + request(b"Host: a"),
    "two blanks in the first line": request(b"Host: a", first=b"GET  /a HTTP/1.1"),
    "a tab in the first line": request(b"Host: a", first=b"GET\t/a HTTP/1.1"),
    "a blank behind the version": request(b"Host: a", first=b"GET /a HTTP/1.1 "),
    "line feeds alone": b"GET /a HTTP/1.1\nHost: a\n\n",
    "a line feed alone before the last": b"GET /a HTTP/1.1\r\nHost: a\r\n\n",
    "carriage returns alone": b"GET /a HTTP/1.1\rHost: a\r\r",
    "a carriage return in a header": request(b"Host: a", b"A: b\rC: d"),
    "a folded header": request(b"Host: a", b"A: b", b" c"),
    "a folded first header": request(b" A: b", b"Host: a"),
    "a folded host": request(b"Host: a", b" b"),
    "a blank before the colon": request(b"Host: a", b"A : b"),
    "a tab before the colon": request(b"Host: a", b"A\t: b"),
    "a header without a name": request(b"Host: a", b": b"),
    "a header without a colon": request(b"Host: a", b"A"),
    "a header with a zero byte": request(b"Host: a", b"A: b\0c"),
    "a header in Latin-1": request(b"Host: a", b"A: \xe9"),
    "blanks around a value": request(b"Host: a", b"A: \t b \t "),
    "a length": post(b"Content-Length: 3", body=b"abc"),
    "a length of 0": post(b"Content-Length: 0"),
    "a length with a GET": request(b"Host: a", b"Content-Length: 3", body=b"abc"),
    "a length with zeros": post(b"Content-Length: 0003", body=b"abc"),
    "a length with a sign": post(b"Content-Length: +3", body=b"abc"),
    "a negative length": post(b"Content-Length: -3", body=b"abc"),
    "a length in hexadecimal": post(b"Content-Length: 0x3", body=b"abc"),
    "a length with an underscore": post(b"Content-Length: 0_3", body=b"abc"),
    "a length with a fraction": post(b"Content-Length: 3.0", body=b"abc"),
    "a length in other digits": post(b"Content-Length: \xef\xbc\x93", body=b"abc"),
    "an empty length": post(b"Content-Length:", body=b"abc"),
    "a length with a blank inside": post(b"Content-Length: 3 3", body=b"abc"),
    "a length of 2^64 + 3": post(b"Content-Length: 18446744073709551619", body=b"abc"),
    "two equal lengths": post(b"Content-Length: 3", b"Content-Length: 3", body=b"abc"),
    "two lengths": post(b"Content-Length: 3", b"Content-Length: 0", body=b"abc"),
    "two equal lengths in one header": post(b"Content-Length: 3, 3", body=b"abc"),
    "two lengths in one header": post(b"Content-Length: 3, 0", body=b"abc"),
    "a length and chunks": post(b"Content-Length: 3", CHUNKED, body=b"0\r\n\r\n"),
    "chunks and a length": post(CHUNKED, b"Content-Length: 5", body=b"0\r\n\r\n"),
    "chunks": post(CHUNKED, body=b"3\r\nabc\r\n0\r\n\r\n"),
    "chunks with a GET": request(b"Host: a", CHUNKED, body=b"3\r\nabc\r\n0\r\n\r\n"),
    "chunks in HTTP/1.0": request(b"Host: a", CHUNKED, first=b"POST /a HTTP/1.0", body=b"3\r\nabc\r\n0\r\n\r\n"),
    "chunks that are kept in HTTP/1.0": request(
        b"Host: a", b"Connection: keep-alive", CHUNKED, first=b"POST /a HTTP/1.0", body=b"3\r\nabc\r\n0\r\n\r\n"
    ),
    "chunks in capitals": post(b"Transfer-Encoding: CHUNKED", body=b"3\r\nabc\r\n0\r\n\r\n"),
    "chunks twice": post(b"Transfer-Encoding: chunked, chunked", body=b"0\r\n\r\n"),
    "chunks in two headers": post(CHUNKED, CHUNKED, body=b"0\r\n\r\n"),
    "chunks behind compression": post(b"Transfer-Encoding: gzip, chunked", body=b"0\r\n\r\n"),
    "compression behind chunks": post(b"Transfer-Encoding: chunked, gzip", body=b"0\r\n\r\n"),
    "an identity as transfer encoding": post(b"Transfer-Encoding: identity", body=b"0\r\n\r\n"),
    "an unknown transfer encoding": post(b"Transfer-Encoding: chunkedx", body=b"0\r\n\r\n"),
    "an unknown transfer encoding and a length": post(b"Transfer-Encoding: x", b"Content-Length: 3", body=b"abc"),
    "an empty transfer encoding": post(b"Transfer-Encoding:", body=b"0\r\n\r\n"),
    "an empty transfer encoding and a length": post(b"Transfer-Encoding:", b"Content-Length: 3", body=b"abc"),
    "a transfer encoding with a vertical tab": post(b"Transfer-Encoding: \x0bchunked", body=b"0\r\n\r\n"),
    "a transfer encoding with a comma": post(b"Transfer-Encoding: ,chunked", body=b"0\r\n\r\n"),
    "a transfer encoding in quotes": post(b'Transfer-Encoding: "chunked"', body=b"0\r\n\r\n"),
    "a chunk with an extension": post(CHUNKED, body=b"3;a=b\r\nabc\r\n0\r\n\r\n"),
    "a chunk with a quoted extension": post(CHUNKED, body=b'3;a="b;c"\r\nabc\r\n0\r\n\r\n'),
    "a chunk with a blank": post(CHUNKED, body=b"3 \r\nabc\r\n0\r\n\r\n"),
    "a chunk with a blank before it": post(CHUNKED, body=b" 3\r\nabc\r\n0\r\n\r\n"),
    "a chunk with zeros": post(CHUNKED, body=b"0003\r\nabc\r\n0\r\n\r\n"),
    "a chunk with a sign": post(CHUNKED, body=b"+3\r\nabc\r\n0\r\n\r\n"),
    "a negative chunk": post(CHUNKED, body=b"-3\r\nabc\r\n0\r\n\r\n"),
    "a chunk in hexadecimal": post(CHUNKED, body=b"0x3\r\nabc\r\n0\r\n\r\n"),
    "a chunk in capital letters": post(CHUNKED, body=b"A\r\n0123456789\r\n0\r\n\r\n"),
    "a chunk of 2^64 + 3": post(CHUNKED, body=b"10000000000000003\r\nabc\r\n0\r\n\r\n"),
    "a chunk without a size": post(CHUNKED, body=b"\r\nabc\r\n0\r\n\r\n"),
    "a chunk with a line feed alone": post(CHUNKED, body=b"3\nabc\n0\n\n"),
    "a chunk that ends by a line feed": post(CHUNKED, body=b"3\r\nabc\n0\r\n\r\n"),
    "a chunk that ends by a carriage return": post(CHUNKED, body=b"3\rabc\r0\r\r"),
    "a chunk that ends by other bytes": post(CHUNKED, body=b"3\r\nabcXX0\r\n\r\n"),
    "a chunk that is longer than it says": post(CHUNKED, body=b"3\r\nabcd\r\n0\r\n\r\n"),
    "a line feed in an extension": post(CHUNKED, body=b"3;a\nabc\r\n0\r\n\r\n"),
    "trailers": post(CHUNKED, body=b"0\r\nA: b\r\n\r\n"),
    "trailers with a host": post(CHUNKED, body=b"0\r\nHost: b\r\n\r\n"),
    "trailers with a length": post(CHUNKED, body=b"0\r\nContent-Length: 9\r\n\r\n"),
    "a trailer without a colon": post(CHUNKED, body=b"0\r\nA\r\n\r\n"),
    "a body in HTTP/1.0 without a length": request(first=b"POST /a HTTP/1.0", body=b"abc"),
    "the end of the connection": request(b"Host: a", b"Connection: close"),
    "the end of the connection twice": request(b"Host: a", b"Connection: keep-alive, close"),
    "a connection that is kept in HTTP/1.0": request(b"Connection: keep-alive", first=b"GET /a HTTP/1.0"),
    "an expectation": post(b"Content-Length: 3", b"Expect: 100-continue", body=b"abc"),
    "an unknown expectation": post(b"Content-Length: 3", b"Expect: 200-ok", body=b"abc"),
    "an expectation in HTTP/1.0": request(
        b"Content-Length: 3", b"Expect: 100-continue", first=b"POST /a HTTP/1.0", body=b"abc"
    ),
    "the offer of a web socket": request(b"Host: a", b"Connection: Upgrade", b"Upgrade: websocket"),
    "the offer of HTTP/2": request(b"Host: a", b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c"),
    "an offer with a body": post(b"Connection: Upgrade", b"Upgrade: x", b"Content-Length: 3", body=b"abc"),
    "an offer with chunks": post(b"Connection: Upgrade", b"Upgrade: x", CHUNKED, body=b"0\r\n\r\n"),
    "a header that ends the head": request(b"Host: a", b"A: b\r\n", b"C: d"),
    "a hidden request in a header": request(b"Host: a", b"A: b\nGET /x HTTP/1.1"),
    "two requests at once": request(b"Host: a") + request(b"Host: a", first=b"GET /b HTTP/1.1"),
    "a long target": request(b"Host: a", first=b"GET /" + b"a" * 7_000 + b" HTTP/1.1"),
    "a target that is too long": request(b"Host: a", first=b"GET /" + b"a" * 9_000 + b" HTTP/1.1"),
    "a header that is too long": request(b"Host: a", b"A: " + b"a" * 9_000),
    "too many headers": request(b"Host: a", *(b"A%d: b" % number for number in range(200))),
}


def varied() -> Mapping[str, bytes]:
    """Requests with each byte at each border of their parts."""
    plain = request(b"Host: a", b"A: b")
    chunks = post(CHUNKED, body=b"3;e=f\r\nabc\r\n0\r\nT: u\r\n\r\n")
    length = post(b"Content-Length: 3", body=b"abc")
    places = [
        *((plain, f"plain:{at}", at) for at in range(len(plain))),
        *((chunks, f"chunks:{at}", at) for at in range(chunks.index(b"Tr"), len(chunks))),
        *((length, f"length:{at}", at) for at in range(length.index(b"Co"), length.index(b"\r\n\r\n") + 4)),
    ]
    odd = [0x00, 0x01, *b'\t\n\v\f\r "(),/:;<=@[\\]{}', 0x1C, 0x7F, 0x85, 0xA0, 0xFF, *b"a0"]
    put = {
        f"{name} with {byte:#04x}": data[:at] + bytes([byte]) + data[at:] for data, name, at in places for byte in odd
    }
    replaced = {
        f"{name} as {byte:#04x}": data[:at] + bytes([byte]) + data[at + 1 :]
        for data, name, at in places
        for byte in odd
    }
    missing = {f"{name} missing": data[:at] + data[at + 1 :] for data, name, at in places}
    return {**put, **replaced, **missing}


# ---- both servers


@asynccontextmanager
async def ours(seen: dict[str, list[Seen]]) -> AsyncIterator[int]:
    """The port of the server of this product."""

    async def note(request: Request) -> Response:
        listed = [(name, value) for name in request.headers for value in request.headers.all(name)]
        headers = sorted((name, value.lower() if name == "transfer-encoding" else value) for name, value in listed)
        seen[request.remote].append(Seen(request.method, request.path, tuple(headers), request.body))
        return text("")

    server = Server("ours", ListenAddress("127.0.0.1", 0), [Route("*", "{path:.*}", note)], limits=LIMITS)
    await server.start()
    try:
        yield server.port
    finally:
        await server.stop()


@asynccontextmanager
async def well_kept(seen: dict[str, list[Seen]]) -> AsyncIterator[int]:
    """The port of a server that h11 reads for."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h11.Connection(h11.SERVER)
        with contextlib.suppress(ConnectionError, TimeoutError):
            try:
                await answered(connection, reader, writer, seen[writer.get_extra_info("peername")[0]])
            except h11.RemoteProtocolError as error:
                writer.write(b"HTTP/1.1 %d No\r\nContent-Length: 0\r\n\r\n" % error.error_status_hint)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield int(server.sockets[0].getsockname()[1])


async def answered(
    connection: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seen: list[Seen]
) -> None:
    """Answer requests until the connection ends. Raises RemoteProtocolError."""
    asked, body = h11.Request(method="GET", target="/", headers=[("Host", "a")]), b""
    while True:
        event = connection.next_event()
        match event:
            case h11.NEED_DATA:
                async with asyncio.timeout(LIMITS.arrival_seconds):
                    connection.receive_data(await reader.read(1 << 16))
            case h11.Request():
                asked, body = event, b""
            case h11.Data():
                body += event.data
            case h11.EndOfMessage():
                seen.append(as_seen(asked, body))
                # A refusal, because after another answer to CONNECT the bytes are of another protocol.
                response = h11.Response(status_code=404, headers=[("Content-Length", "0")])
                for part in (response, h11.EndOfMessage()):
                    writer.write(connection.send(part) or b"")
                if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                    return
                connection.start_next_cycle()
            case _:
                return


def as_seen(asked: h11.Request, body: bytes) -> Seen:
    """A request that h11 has read, as a handler of ours would get it."""
    target = asked.target.decode("ascii")
    path = target.partition("?")[0].partition("#")[0] if target.startswith("/") else urlsplit(target).path
    listed = [(name.decode(), value.decode("latin-1")) for name, value in asked.headers]
    headers = sorted((name, value.lower() if name == "transfer-encoding" else value) for name, value in listed)
    return Seen(asked.method.decode(), path, tuple(headers), body)


async def send(port: int, data: bytes, client: str, turn: asyncio.Semaphore) -> None:
    """Send these bytes and the end behind them, in a turn, and wait until the connection is closed."""
    async with turn:
        reading = asyncio.create_task(sent(port, data, client))
        await asyncio.wait([reading], timeout=BUSY_SECONDS)
    await reading


async def sent(port: int, data: bytes, client: str) -> None:
    """Send these bytes and the end behind them, and wait until the connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(client, 0))
    with contextlib.suppress(ConnectionError):
        writer.write(data + END)
        async with asyncio.timeout(60):
            await reader.read()
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


async def judged(inputs: Mapping[str, bytes]) -> Mapping[str, tuple[list[Seen], list[Seen]]]:
    """What handlers of both servers get of each input: of ours, and of the other one."""
    clients = {name: f"127.1.{number // 250}.{1 + number % 250}" for number, name in enumerate(inputs)}
    seen = [{client: list[Seen]() for client in clients.values()} for _ in range(2)]
    turn = asyncio.Semaphore(AT_ONCE)

    async with ours(seen[0]) as our_port, well_kept(seen[1]) as other_port, asyncio.TaskGroup() as tasks:
        for name, data in inputs.items():
            tasks.create_task(send(our_port, data, clients[name], turn))
            tasks.create_task(send(other_port, data, clients[name], turn))
    return {name: (seen[0][client], seen[1][client]) for name, client in clients.items()}


def shown(found: Sequence[Seen]) -> str:
    """What handlers got, in short."""
    return " ".join(f"{each.method} {each.path} {each.body!r}" for each in found) or "nothing"


def is_stricter(ours: Sequence[Seen], other: Sequence[Seen]) -> bool:
    """Whether handlers of ours get no request that those of the other server do not get likewise."""
    return [*ours] == [*other[: len(ours)]]


TOLERATED = {
    # RFC 9112, 2.2: a server should ignore them; clients have sent them behind bodies.
    "line breaks before the request": "GET /a b'' GET /end b''",
    # RFC 9112, 3: a server may take any blanks as one; the parts are the same.
    "two blanks in the first line": "GET /a b'' GET /end b''",
    # h11 ends each connection of HTTP/1.0; the end of the request is as clear as in HTTP/1.1.
    "a connection that is kept in HTTP/1.0": "GET /a b'' GET /end b''",
    # llhttp reads other protocols and does not tell; the request has the form of HTTP/1.0, and its connection ends.
    "the name of another protocol": "GET /a b''",
}
"""The inputs of which ours hands on more, and what. None of them can be read in two ways."""

STRICTER = {
    "a host with a blank",
    "a host with a slash",
    "a host with a user",
    "two hosts in one header",
    "a host that is no text",
    "chunks in HTTP/1.0",
    "chunks that are kept in HTTP/1.0",
    "the target of CONNECT",
    "a target without a slash",
    "an unknown method",
    "a method in small letters",
    "HTTP/0.9",
    "HTTP/1.2",
    "HTTP/2.0",
    "the preface of HTTP/2",
    "line feeds alone",
    "a line feed alone before the last",
    "a folded header",
    "a folded host",
    "two equal lengths",
    "two equal lengths in one header",
    "a length and chunks",
    "chunks and a length",
    "a chunk with a blank",
    "trailers with a length",
    "the offer of a web socket",
    "the offer of HTTP/2",
    "an offer with a body",
    "an offer with chunks",
    "a target that is too long",
    "a header that is too long",
    "too many headers",
}
"""The inputs that ours refuses, or after which it ends the connection, and the other server does not."""


async def test_ours_hands_on_what_a_well_kept_server_hands_on_or_less() -> None:
    found = await judged(WHOLE)
    more = {name: shown(ours) for name, (ours, other) in found.items() if not is_stricter(ours, other)}
    assert more == TOLERATED
    fewer = {name for name, (ours, other) in found.items() if len(ours) < len(other)}
    assert fewer == STRICTER, f"new: {fewer - STRICTER}; no longer: {STRICTER - fewer}"
    assert found["plain"][0] == found["plain"][1] != []


@pytest.mark.sweep
async def test_an_odd_byte_at_any_place_is_read_as_by_a_well_kept_server_or_refused() -> None:
    inputs = dict(sweeps.part([*varied().items()], PARTS))
    found = await judged(inputs)
    more = {inputs[name]: shown(ours) for name, (ours, other) in found.items() if not is_stricter(ours, other)}
    assert {data: was for data, was in more.items() if not is_tolerated(data)} == {}
    assert sum(ours == other != [] for ours, other in found.values()) > len(inputs) / 20


def is_tolerated(data: bytes) -> bool:
    """Whether the input has only line breaks before a request, or two blanks in its first line."""
    line = data.lstrip(b"\r\n").partition(b"\r\n")[0]
    return data.startswith((b"\r", b"\n")) or b"  " in line or data.endswith(b"\r\n\r\n\n")
