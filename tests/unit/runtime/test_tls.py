"""A server presents what lies in a folder, or what it has made itself, and neither runs out."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509

from stellwerk.runtime import serving
from stellwerk.runtime.http import Address, Server
from stellwerk.runtime.serving import Profile, Step
from stellwerk.runtime.tls import Certified, MountedCertificates, SelfSigned
from stellwerk.testing.clock import FakeClock
from stellwerk.testing.eventually import eventually

NOW = datetime.now(UTC)
PROFILE = Profile(names=("localhost",))
FRESH = serving.made(Step.EVERYTHING, None, PROFILE, NOW)


@asynccontextmanager
async def presented(context: ssl.SSLContext) -> AsyncIterator[Server]:
    server = Server("test", Address("127.0.0.1", 0), [], tls=context)
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
    other = serving.made(Step.LEAF, FRESH, PROFILE, NOW)
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
    server = Server("test", Address("127.0.0.1", 0), [], tls=mounted.context)
    running = asyncio.create_task(Certified(mounted, server).run())
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
