"""The TLS server of the test kit leaves no connection to the garbage collector, whatever its clients do."""

from __future__ import annotations

import asyncio
import ssl

import pytest
from aiohttp import web
from tests.unit.frozen_clients import FROZEN, Begin, closed_at_the_end
from tests.unit.sockets import accepted_at

from stellwerk.testing.eventually import eventually
from stellwerk.testing.servers.tls_server import TlsServer

LARGE = b"x" * 8_000_000


async def large(_: web.Request) -> web.Response:
    return web.Response(body=LARGE)


@pytest.mark.parametrize("begin", FROZEN.values(), ids=FROZEN)
async def test_no_connection_of_a_frozen_client_outlives_the_server(begin: Begin) -> None:
    with closed_at_the_end() as clients:
        async with TlsServer(large) as server:
            tls = ssl.create_default_context(cadata=server.authority)
            clients.append(await asyncio.to_thread(begin, server.port, tls))
            await eventually(lambda: accepted_at(server.port))
        assert not accepted_at(server.port)
