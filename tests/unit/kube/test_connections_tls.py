"""Calls over TLS: both sides prove who they are, and no moment is a bad one for giving up."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import ssl
import struct
from collections.abc import Callable, Iterator

import aiohappyeyeballs
import pytest
import uvloop
from tests.unit.kube.identities import authority, client_side, server_side
from tests.unit.kube.scripted import OK, ask, connected_to, serving
from tests.unit.sockets import open_sockets, open_towards

from stellwerk.kube.http.connection_pool import Connections
from stellwerk.kube.http.dialer import Dialer
from stellwerk.kube.http.messages import ConnectionBroken, NoAnswer, NotConnected, ServerCertificateInvalid
from stellwerk.kube.http.sockets import OwnSocket, Sockets
from stellwerk.kube.http.transport import Request, Transport
from stellwerk.kube.login.auth import Material
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import Unreachable
from stellwerk.testing.eventually import eventually

pytestmark = pytest.mark.heavy

NewLoop = Callable[[], asyncio.AbstractEventLoop]
on_both_loops = pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
TURNS = 60
"""More than a call over a new connection takes."""


@on_both_loops
def test_a_renewed_login_is_a_new_connection(new_loop: NewLoop) -> None:
    async def calls() -> int:
        old, new = client_side("old"), client_side("new")
        async with serving(OK, tls=server_side()) as (server, connections):
            for tls in (old, old, new, new):
                assert (await ask(connections, tls=tls)).body == b"ok"
        return server.connections

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(calls()) == 2


@on_both_loops
def test_a_result_over_tls_does_not_end_with_its_connection_and_a_refusal_may(new_loop: NewLoop) -> None:
    """A break on the way looks like the end to the event loop."""

    async def calls() -> None:
        words = {b"/result": b"HTTP/1.1 200 OK\r\n\r\n[1, 2]", b"/refused": b"HTTP/1.0 503 Unavailable\r\n\r\nlater"}
        async with serving(lambda _, request: words[request.split()[1]], tls=server_side(), hangs_up=True) as (
            _,
            connections,
        ):
            with pytest.raises(ConnectionBroken, match="has no length"):
                await ask(connections, "/result", tls=client_side(), repeatable=False)
            refusal = await ask(connections, "/refused", tls=client_side(), repeatable=False)
            assert (refusal.code, refusal.body) == (503, b"later")

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(calls())


def refuse(listening: socket.socket) -> None:
    """Shake hands with somebody who has no certificate, and say what is wrong with that."""
    connection, _ = listening.accept()
    with listening, connection.dup() as still_open:
        with contextlib.suppress(ssl.SSLError):
            server_side(asks_for_certificates=True).wrap_socket(connection, server_side=True)
        with contextlib.suppress(ConnectionError):
            while still_open.recv(1024):  # to close now would be a reset, which takes the word with it
                pass


@on_both_loops
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_server_that_does_not_accept_our_certificate_was_sent_nothing(
    new_loop: NewLoop, version: ssl.TLSVersion
) -> None:
    async def call() -> None:
        tls = client_side()
        tls.maximum_version = version
        listening = socket.create_server(("127.0.0.1", 0))
        connections = connected_to(listening.getsockname()[1])
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(asyncio.to_thread(refuse, listening))
            with pytest.raises(NotConnected, match="ALERT"):
                await ask(connections, tls=tls, repeatable=False)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(call())


@on_both_loops
def test_a_server_that_does_not_prove_itself_is_told_nothing(new_loop: NewLoop) -> None:
    async def call() -> None:
        async with serving(OK, tls=server_side()) as (server, connections):
            with pytest.raises(ServerCertificateInvalid, match=r"self-signed|issuer"):
                await ask(connections, tls=ssl.create_default_context())
            with pytest.raises(ServerCertificateInvalid, match="not valid for"):
                await ask(connections, tls=client_side(), name="other.example")
        assert server.asked == []

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(call())


@on_both_loops
@pytest.mark.parametrize("name", [".example", "", "x" * 70 + ".example"])
def test_a_name_that_no_certificate_can_have_is_named_as_that(new_loop: NewLoop, name: str) -> None:
    async def call() -> None:
        async with serving(OK, tls=server_side()) as (_, connections):
            with pytest.raises(NotConnected, match="no certificate can have its name"):
                await ask(connections, tls=client_side(), name=name)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(call())


@on_both_loops
def test_a_server_that_never_shakes_hands_was_sent_nothing(new_loop: NewLoop) -> None:
    async def call() -> None:
        async with serving(lambda number, request: None) as (_, connections):
            with pytest.raises(NotConnected, match="no TLS handshake"):
                await ask(connections, tls=client_side(), seconds=0.5)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(call())


@on_both_loops
def test_a_server_that_hangs_up_on_the_handshake_was_sent_nothing(new_loop: NewLoop) -> None:
    async def call() -> None:
        listening = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        async with listening:
            before = open_sockets()
            for _ in range(20):
                with pytest.raises(NotConnected):
                    await ask(connected_to(port), tls=client_side(), repeatable=False)
            await eventually(lambda: open_sockets() <= before, describe="the loop has closed all")

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(call())


def reset(listening: socket.socket, times: int) -> None:
    """As a balancer does that has nobody behind it."""
    for _ in range(times):
        connection, _ = listening.accept()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()


@on_both_loops
@pytest.mark.parametrize("encrypted", [False, True])
def test_a_server_that_resets_at_once_leaves_no_socket_that_closes_what_has_its_number_later(
    new_loop: NewLoop, encrypted: bool
) -> None:
    made, sockets = list[OwnSocket](), Sockets()

    def make(address: aiohappyeyeballs.AddrInfoType) -> OwnSocket:
        made.append(sockets.make(address))
        return made[-1]

    async def calls() -> None:
        tls = client_side() if encrypted else None
        with socket.create_server(("127.0.0.1", 0)) as listening:
            port = listening.getsockname()[1]
            connections = Connections(Dialer("127.0.0.1", port, 5, make), limit=2)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(asyncio.to_thread(reset, listening, 300))
                for _ in range(300):
                    with pytest.raises(NoAnswer):
                        await ask(connections, tls=tls, repeatable=False)
        await eventually(lambda: {one.fileno() for one in made} == {-1}, describe="every socket is known to be closed")

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(calls())


@contextlib.contextmanager
def frozen_heap() -> Iterator[None]:
    """A collection in the block looks at what was made in it, and not at what thousands of tests have imported."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@on_both_loops
def test_streams_that_are_reset_at_once_close_nobody_else_s_connection(new_loop: NewLoop) -> None:
    others = contextlib.ExitStack()
    talks = list[tuple[socket.socket, socket.socket]]()

    async def streams() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            login = ClusterConfig(
                server=f"https://127.0.0.1:{listening.getsockname()[1]}", authority=Material(authority().pem)
            )
            async with asyncio.TaskGroup() as tasks, Transport(login, user_agent="test") as transport:
                tasks.create_task(asyncio.to_thread(reset, listening, 40))
                for _ in range(40):
                    with pytest.raises(Unreachable):
                        await _read(transport)
                    near, far = socket.socketpair()  # they get the numbers that are free now
                    talks.append((others.enter_context(near), others.enter_context(far)))
                    gc.collect()

    with others, frozen_heap():
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(streams())
        gc.collect()
        for near, far in talks:
            near.sendall(b"?")
            assert far.recv(1) == b"?"


@on_both_loops
@pytest.mark.parametrize("encrypted", [False, True])
def test_a_call_may_be_given_up_at_any_moment(new_loop: NewLoop, encrypted: bool) -> None:
    """Whichever turn of the event loop it is: no socket stays open, and the next call has an answer of its own."""

    async def is_given_up_after(turns: int, tls: ssl.SSLContext | None) -> bool:
        async with asyncio.timeout(60), serving(OK, tls=server_side() if encrypted else None) as (server, connections):
            task = asyncio.create_task(ask(connections, tls=tls))
            await server.dialled.wait()
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled() or task.result().body == b"ok"
            assert (await ask(connections, tls=tls)).body == b"ok"
        return task.cancelled()

    async def all_turns() -> None:
        before = open_sockets()
        tls = client_side() if encrypted else None
        assert {await is_given_up_after(turns, tls) for turns in range(TURNS)} == {True, False}
        for _ in range(TURNS):
            await asyncio.sleep(0)
        assert open_sockets() - before == set()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(all_turns())


@on_both_loops
def test_a_stream_may_be_given_up_at_any_moment_and_leaves_no_socket(new_loop: NewLoop) -> None:
    """Also before the handshake has begun and in the middle of a polite end of TLS."""

    async def is_given_up_after(turns: int) -> None:
        async with serving(lambda number, request: None, tls=server_side()) as (server, _):
            address, trusted = f"https://127.0.0.1:{server.port}", Material(authority().pem)
            async with Transport(ClusterConfig(server=address, authority=trusted), user_agent="test") as transport:
                task = asyncio.create_task(_read(transport))
                for _ in range(turns):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
            assert open_towards(server.port) == set()

    async def all_turns() -> None:
        for turns in range(TURNS):
            await is_given_up_after(turns)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(all_turns())


async def _read(transport: Transport) -> None:
    async with transport.stream(Request("GET", "/", about="look"), silence_seconds=10) as chunks:
        async for _ in chunks:
            pass
