"""A server presents what lies in a folder, or what it has made itself, and neither runs out."""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from tests.unit.sockets import accepted_at

from stellwerk.runtime.certificates import certs, store
from stellwerk.runtime.certificates.certs import KeyPair
from stellwerk.runtime.certificates.store import CertificateStep, Profile
from stellwerk.runtime.serving.health import HealthChecks
from stellwerk.runtime.serving.http import CannotListen, ListenAddress, Server, ServerLimits
from stellwerk.runtime.serving.http_messages import Request, Response, text
from stellwerk.runtime.serving.routes import Route
from stellwerk.runtime.serving.tls import Certified, MountedCertificates, SelfSigned
from stellwerk.runtime.supervision.tasks import Border
from stellwerk.runtime.telemetry.metrics import Metrics
from stellwerk.testing.clock import FakeClock
from stellwerk.testing.eventually import eventually

NOW = datetime.now(UTC)
PROFILE = Profile(names=("localhost",))
FRESH = store.made(CertificateStep.EVERYTHING, None, PROFILE, NOW)


@asynccontextmanager
async def presented(context: ssl.SSLContext) -> AsyncIterator[Server]:
    server = Server("test", ListenAddress("127.0.0.1", 0), [], tls=context)
    await server.start()
    yield server
    await server.stop()


async def shown_by(server: Server) -> x509.Certificate:
    """What a caller sees that verifies nothing."""
    careless = ssl.create_default_context()
    careless.check_hostname, careless.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=careless)
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return x509.load_der_x509_certificate(der)


def test_mounted_files_are_taken_when_both_fit(tmp_path: Path) -> None:
    mounted = MountedCertificates(tmp_path)
    assert not mounted.check()
    other = store.made(CertificateStep.LEAF, FRESH, PROFILE, NOW)
    (tmp_path / "tls.crt").write_bytes(FRESH.leaf.certificate)
    (tmp_path / "tls.key").write_bytes(other.leaf.key)
    assert not mounted.check(), "half of a swap"
    (tmp_path / "tls.key").write_bytes(FRESH.leaf.key)
    assert mounted.check()
    (tmp_path / "tls.key").unlink()
    assert mounted.check(), "what was loaded serves on"


async def test_a_certificate_of_its_own_is_replaced_in_time() -> None:
    clock = FakeClock()
    own = SelfSigned(names=("localhost",), lifetime=timedelta(days=10), clock=clock)
    own.check()
    async with presented(own.context) as server:
        first = await shown_by(server)
        clock.jump(timedelta(days=5).total_seconds())
        own.check()
        assert await shown_by(server) == first
        clock.jump(timedelta(days=2).total_seconds())
        own.check()
        assert await shown_by(server) != first


async def test_a_certified_server_listens_once_it_has_a_certificate(tmp_path: Path) -> None:
    clock = FakeClock()
    mounted = MountedCertificates(tmp_path, clock=clock)
    server = Server("test", ListenAddress("127.0.0.1", 0), [], tls=mounted.context)
    running = asyncio.create_task(Certified(mounted, server, Border(Metrics(), clock)).run())
    await clock.until_sleeping()
    assert not server.is_listening
    (tmp_path / "tls.crt").write_bytes(FRESH.leaf.certificate)
    (tmp_path / "tls.key").write_bytes(FRESH.leaf.key)
    await clock.advance(2)
    await eventually(lambda: server.is_listening)
    assert (await shown_by(server)).serial_number > 0
    running.cancel()
    await asyncio.wait([running])
    assert not server.is_listening


async def test_a_certified_server_whose_port_is_taken_ends_with_the_address() -> None:
    clock = FakeClock()
    first = Server("first", ListenAddress("127.0.0.1", 0), [])
    running = asyncio.create_task(first.run())
    await eventually(lambda: first.is_listening)
    certificate = SelfSigned(names=("localhost",), clock=clock)
    second = Server("second", ListenAddress("127.0.0.1", first.port), [], tls=certificate.context)
    with pytest.raises(CannotListen, match=f"127.0.0.1:{first.port}"):
        await Certified(certificate, second, Border(Metrics(), clock)).run()
    running.cancel()
    await asyncio.wait([running])


async def healthy(server: Server) -> str:
    """What a probe by HTTPS is answered."""
    careless = ssl.create_default_context()
    careless.check_hostname, careless.verify_mode = False, ssl.CERT_NONE
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=careless)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    answered = (await reader.read()).decode()
    writer.close()
    return answered.split("\r\n\r\n")[-1]


async def beset(limits: ServerLimits) -> None:
    """Ask for health while strangers hold connections open that never begin, or never end, a handshake."""
    own = SelfSigned(names=("localhost",))
    own.check()
    server = Server("test", ListenAddress("127.0.0.1", 0), HealthChecks().routes(), tls=own.context, limits=limits)
    await server.start()
    writers = []
    for number in range(200):
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"\x16\x03\x01" if number % 2 else b"GET / HTTP/1.1\r\n\r\n")
        writers.append(writer)
    for _ in range(3):
        async with asyncio.timeout(20):
            assert await healthy(server) == "ok"
    port = server.port
    await eventually(lambda: len(accepted_at(port)) <= 50)
    for writer in writers:
        writer.close()
    await server.stop()


LOOPS = {"asyncio": asyncio.new_event_loop}
if sys.platform != "win32":
    import uvloop

    LOOPS["uvloop"] = uvloop.new_event_loop


@pytest.mark.req("R-701")
@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_handshakes_that_do_not_end_cost_nobody_an_answer(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(beset(ServerLimits(connections=50, arrival_seconds=60)))


@pytest.mark.req("R-701")
@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_a_connection_does_not_give_way_to_itself_when_its_handshake_ends(
    loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def ask() -> None:
        own = SelfSigned(names=("localhost",))
        own.check()
        limits = ServerLimits(connections=1)
        server = Server("test", ListenAddress("127.0.0.1", 0), HealthChecks().routes(), tls=own.context, limits=limits)
        await server.start()
        assert await healthy(server) == "ok"
        await server.stop()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(ask())


@pytest.mark.req("R-701")
async def test_a_handshake_has_a_deadline() -> None:
    own = SelfSigned(names=("localhost",))
    own.check()
    limits = ServerLimits(arrival_seconds=0.3)
    server = Server("test", ListenAddress("127.0.0.1", 0), HealthChecks().routes(), tls=own.context, limits=limits)
    await server.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    async with asyncio.timeout(20):
        assert await reader.read() == b""
    assert server.connections == 0
    writer.close()
    await server.stop()


def _authority(name: str) -> KeyPair:
    return certs.new_authority(certs.Wish(common_name=name, names=(), lifetime=timedelta(days=1), now=NOW))


def _client(authority: KeyPair, name: str = "runtime-1") -> ssl.SSLContext:
    """TLS of a client with a certificate of this authority, which verifies nothing."""
    wish = certs.Wish(common_name=name, names=(), lifetime=timedelta(days=1), now=NOW)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    certs.load_into(context, certs.issue(authority, wish))
    return context


async def _name_seen(server: Server, context: ssl.SSLContext) -> str:
    """The common name that the server sees of a client; the failure if it sees none."""
    request = b"GET /who HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
        writer.write(request)
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
    except OSError:
        return "refused"
    return answer.rpartition(b"\r\n")[2].decode() or "refused"


@pytest.mark.req("R-704")
async def test_only_clients_of_the_authorities_as_the_folder_has_them_now_are_let_in(tmp_path: Path) -> None:
    first, second = _authority("first"), _authority("second")
    mounted = MountedCertificates(tmp_path, clients="ca.crt")
    (tmp_path / "tls.crt").write_bytes(FRESH.leaf.certificate)
    (tmp_path / "tls.key").write_bytes(FRESH.leaf.key)
    assert not mounted.check(), "without an authority nobody could be let in"
    (tmp_path / "ca.crt").write_bytes(first.certificate)
    assert mounted.check()

    async def who(request: Request) -> Response:
        return text(certs.facts(KeyPair(ssl.DER_cert_to_PEM_cert(request.certificate).encode(), b"")).common_name)

    server = Server("test", ListenAddress("127.0.0.1", 0), [Route("GET", "/who", who)], tls=mounted.context)
    await server.start()
    ours, others, nobody = _client(first), _client(second), ssl._create_unverified_context()
    assert [await _name_seen(server, each) for each in (ours, others, nobody)] == ["runtime-1", "refused", "refused"]

    (tmp_path / "ca.crt").write_bytes(second.certificate)
    assert mounted.check()
    assert [await _name_seen(server, each) for each in (ours, others)] == ["refused", "runtime-1"]
    (tmp_path / "ca.crt").write_bytes(b"")
    assert mounted.check()
    assert [await _name_seen(server, each) for each in (ours, others)] == ["refused", "runtime-1"]
    await server.stop()
