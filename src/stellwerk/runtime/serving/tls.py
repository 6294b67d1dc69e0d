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
        check_seconds: float = 10.0,
        clock: Clock | None = None,
    ) -> None:
        """`certificate` and `key` are files in the folder, or absolute paths."""
        self.context: ssl.SSLContext = certs.server_context()
        self._certificate, self._key = folder / certificate, folder / key
        self._check_seconds = check_seconds
        self._clock = clock or SystemClock()
        self._presented: KeyPair | None = None

    async def ensure(self) -> None:
        """Return when the folder holds a certificate and its key."""
        while not self.check():
            _log.warning("no serving certificate yet: %s and %s are expected", self._certificate, self._key)
            await self._clock.sleep(_RETRY_SECONDS)

    async def run(self) -> None:
        """Load what changes, until cancelled."""
        while True:
            await self._clock.sleep(self._check_seconds)
            self.check()

    def check(self) -> bool:
        """Load the files if they have changed. Returns whether there is a certificate to present."""
        try:
            pair = KeyPair(self._certificate.read_bytes(), self._key.read_bytes())
        except OSError:
            return self._presented is not None
        # While a volume is being swapped the two may not fit; the old pair is kept until they do.
        if pair != self._presented and certs.key_fits(pair):
            certs.load_into(self.context, pair)
            self._presented = pair
        return self._presented is not None


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
