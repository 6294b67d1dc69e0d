"""How many large requests a server has at a time, and that each of them gives its room back."""

from __future__ import annotations

import socket

import pytest
from tests.unit.runtime.test_http import connected, serving
from tests.unit.runtime.test_http_requests import HOST, ROUTES, read
from tests.unit.runtime.test_server_end import Loop, on_both_loops, run

from stellwerk.runtime.serving.http import ServerLimits
from stellwerk.testing.eventually import eventually

pytestmark = [pytest.mark.req("R-701"), pytest.mark.heavy]

SMALL = b"GET /told/x" + HOST + b"\r\n"
LARGE_BODY = b"x" * (65 << 10)
LARGE = (
    b"PUT /told/x" + HOST + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(LARGE_BODY), LARGE_BODY)
)


@on_both_loops
def test_a_large_request_whose_client_goes_before_it_is_answered_leaves_its_room(loop: Loop) -> None:
    """A task that is cancelled before its first step runs none of its code."""

    async def go_at_once() -> None:
        async with serving(ServerLimits(large_requests=1), routes=ROUTES) as server:
            for _ in range(5):
                with socket.create_connection(("127.0.0.1", server.port)) as client:
                    client.sendall(SMALL + LARGE)  # all of it, and the end, is there when the server begins to read
                async with connected(server) as raw:  # a later one: the other was accepted before it
                    await raw.send(SMALL)
                    await read(raw)
            await eventually(lambda: not server.connections)
            async with connected(server) as raw:
                await raw.send(LARGE)
                assert (await read(raw))[0].startswith(b"HTTP/1.1 200")

    run(loop, go_at_once())
