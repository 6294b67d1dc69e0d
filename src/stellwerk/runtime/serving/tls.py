"""Certificates that one server alone presents: from a folder, or self-signed.

The certificates of webhooks are in `certificates.store`: the API server has to trust them, and replicas share them.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

from stellwerk.runtime.certificates import certs
from stellwerk.runtime.certificates.certs import KeyPair
from stellwerk.runtime.certificates.store import RENEW_AT, CertificateStep, Profile, made
from stellwerk.runtime.clock import Clock, SystemClock
from stellwerk.runtime.serving.http import Server
from stellwerk.runtime.supervision.tasks import Border, background, first_of

_RETRY_SECONDS = 2.0

_log = logging.getLogger(__name__)


class MountedCertificates:
    """A certificate that another program, such as cert-manager, maintains in a folder."""

    def __init__(
        self,
        folder: Path,
        *,
        certificate: str = "tls.crt",
        key: str = "tls.key",
        clients: str = "",
        check_seconds: float = 10.0,
        clock: Clock | None = None,
    ) -> None:
        """`certificate`, `key` and `clients` are files in the folder, or absolute paths.

        `clients`: the authorities of client certificates. With it, a client has to show one. All of it counts from the
        next handshake on, also that an authority is gone: no session is resumed.
        """
        self._certificate, self._key = folder / certificate, folder / key
        self._clients = folder / clients if clients else None
        self.context: ssl.SSLContext = certs.server_context()
        if self._clients is not None:
            self.context = _asking_clients(b"")
            self.context.sni_callback = self._present
        self._current = self.context
        self._check_seconds = check_seconds
        self._clock = clock or SystemClock()
        self._presented: tuple[KeyPair, bytes] | None = None

    async def ensure(self) -> None:
        """Return when the folder holds a certificate and its key."""
        while not self.check():
            _log.warning("no serving certificate yet: %s are expected", " and ".join(map(str, self._files)))
            await self._clock.sleep(_RETRY_SECONDS)

    async def run(self) -> None:
        """Load what changes, until cancelled."""
        while True:
            await self._clock.sleep(self._check_seconds)
            self.check()

    def check(self) -> bool:
        """Load the files if they have changed. Returns whether there is a certificate to present."""
        try:
            certificate, key, *clients = (each.read_bytes() for each in self._files)
        except OSError:
            return self._presented is not None
        found = KeyPair(certificate, key), b"".join(b"".join(certs.split(each)) for each in clients)
        # While a volume is being swapped the two may not fit; the old pair is kept until they do. Nor does a file
        # without a certificate replace authorities.
        is_whole = certs.key_fits(found[0]) and (self._clients is None or bool(found[1]))
        if found != self._presented and is_whole:
            if self._clients is not None:
                self._current = _asking_clients(found[1])
            certs.load_into(self._current, found[0])
            self._presented = found
        return self._presented is not None

    @property
    def _files(self) -> tuple[Path, ...]:
        return (self._certificate, self._key, *((self._clients,) if self._clients is not None else ()))

    def _present(self, handshake: ssl.SSLSocket | ssl.SSLObject, *_: object) -> None:
        """Authorities cannot be taken out of a context, so each handshake gets the newest one."""
        handshake.context = self._current


def _asking_clients(authorities: bytes) -> ssl.SSLContext:
    """TLS that asks for a certificate of one of these, in each handshake: a session that is resumed shows none."""
    context = certs.server_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0
    context.verify_mode = ssl.CERT_REQUIRED
    if authorities:
        context.load_verify_locations(cadata=authorities.decode())
    return context


class SelfSigned:
    """A certificate that only this process vouches for, replaced in time: for callers who do not verify, as scrapers of
    controller-runtime's secure metrics do."""

    def __init__(
        self,
        *,
        names: Sequence[str],
        lifetime: timedelta = timedelta(days=365),
        check_seconds: float = 3600.0,
        clock: Clock | None = None,
    ) -> None:
        self.context: ssl.SSLContext = certs.server_context()
        self._profile = Profile(names=names, leaf_lifetime=lifetime)
        self._check_seconds = check_seconds
        self._clock = clock or SystemClock()
        self._ends: datetime | None = None

    async def ensure(self) -> None:
        """Return when there is a certificate to present: at once."""
        self.check()

    async def run(self) -> None:
        """Replace it in time, until cancelled."""
        while True:
            await self._clock.sleep(self._check_seconds)
            self.check()

    def check(self) -> None:
        """Make a new one where there is none, or it nears its end."""
        now, lifetime = self._clock.now(), self._profile.leaf_lifetime
        if self._ends is None or now > self._ends - (1 - RENEW_AT) * lifetime:
            leaf = made(CertificateStep.EVERYTHING, None, self._profile, now).leaf
            certs.load_into(self.context, leaf)
            self._ends = now + lifetime


class ServerCertificates(Protocol):
    """Maintains the certificate of a server."""

    async def ensure(self) -> None: ...
    async def run(self) -> None: ...


class Certified:
    """A server that listens once its certificate is there, and keeps it fresh: one thing for a manager."""

    def __init__(self, certificates: ServerCertificates, server: Server, border: Border) -> None:
        self._certificates = certificates
        self._border = border
        self._server = server

    async def run(self) -> None:
        """Serve until cancelled. Raises CannotListen."""
        await self._certificates.ensure()
        name = f"certificate of {self._server.name}"
        try:
            async with background() as tasks:
                tasks.start(self._border.keep("certificate", name, self._certificates.run), name)
                await self._server.run()
        except BaseExceptionGroup as failures:
            raise first_of(failures) from None  # the manager ends the process for a CannotListen, not for a group
