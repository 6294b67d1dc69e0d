"""The identity of our calls: credentials that change while the process runs.

The kubelet renews tokens in a file, certificates are renewed on disk, a login program returns short-lived credentials.
So nothing here is read once: a token file is looked at again when it changed, what a program printed is kept until
shortly before it ends, and `refresh` drops everything when the server returned 401.
"""

from __future__ import annotations

import base64
import json
import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Protocol

import msgspec

from stellwerk.kube.types.errors import LoginFailed
from stellwerk.lazy_imports import lazy_imports

with lazy_imports(__name__):  # they take longer to load than a shell waits for a completion, and few logins need them
    import asyncio
    import tempfile

    from stellwerk.kube.login import private_keys

_MARGIN = timedelta(seconds=30)
_PROGRAM_SECONDS = 60.0
_LONGEST_TOKEN = 64 << 10
"""No server reads a longer header."""
_EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


@dataclass(frozen=True, slots=True)
class Material:
    """A certificate, key or token: given inline, or in a file, which may be replaced at any time."""

    data: bytes = field(default=b"", repr=False)
    file: Path | None = None

    def __bool__(self) -> bool:
        return bool(self.data or self.file)

    def read(self) -> bytes:
        """The bytes as they are now. Raises LoginFailed where the file cannot be read."""
        if self.file is None:
            return self.data
        try:
            return self.file.read_bytes()
        except OSError as error:
            raise LoginFailed(f"cannot read the login file {self.file}: {error.strerror}") from error
        except ValueError as error:  # a NUL in the path
            raise LoginFailed(f"cannot read the login file {str(self.file)!r}: its path is none") from error

    def stamp(self) -> tuple[int, int, int]:
        """Changes when the file does; always the same for inline data and for a file that is absent."""
        if self.file is None:
            return (0, 0, 0)
        try:
            seen = self.file.stat()
        except (OSError, ValueError):
            return (0, 0, 0)
        return (seen.st_mtime_ns, seen.st_size, seen.st_ino)


NO_MATERIAL = Material()


class Credentials(Protocol):
    """What goes into the Authorization header."""

    async def authorization(self) -> str:
        """The header's value; empty for none. Raises LoginFailed."""
        ...

    def refresh(self) -> None:
        """Forget what is remembered: the server refused it."""
        ...


class Anonymous:
    """No header: a client certificate identifies us, or the call is anonymous."""

    async def authorization(self) -> str:
        """Nothing."""
        return ""

    def refresh(self) -> None:
        """Nothing is remembered."""


class Token:
    """A bearer token, inline or in a file that is read again when it changed."""

    def __init__(self, material: Material) -> None:
        """Raises LoginFailed where an inline token is none."""
        self._material = material
        self._header = ""
        self._stamp = (-1, 0, 0)
        if material.file is None:
            self._read()

    async def authorization(self) -> str:
        """The header's value. Raises LoginFailed where the file is absent, empty, or no token."""
        stamp = self._material.stamp()
        if stamp != self._stamp:
            self._header, self._stamp = f"Bearer {self._read()}", stamp
        return self._header

    def refresh(self) -> None:
        """Read the file again, changed or not."""
        self._stamp = (-1, 0, 0)

    def _read(self) -> str:
        text = self._material.read().decode(errors="replace").strip()
        if not text or not text.isascii() or not text.isprintable() or len(text) > _LONGEST_TOKEN:
            raise LoginFailed(f"the token{_place(self._material)} is empty or not a token")
        return text


class Password:
    """HTTP basic authentication; some gateways before an API server still ask for it."""

    def __init__(self, username: str, password: str) -> None:
        pair = f"{username}:{password}".encode()
        self._header = f"Basic {base64.b64encode(pair).decode()}"

    async def authorization(self) -> str:
        """The header's value."""
        return self._header

    def refresh(self) -> None:
        """There is nothing else to try."""


class _ExecStatus(msgspec.Struct, rename="camel"):
    token: str = ""
    expiration_timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    client_certificate_data: str = ""
    client_key_data: str = ""


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _ExecStatus | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialProgram:
    """A program that prints credentials (client.authentication.k8s.io)."""

    command: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    api_version: str = _EXEC_VERSIONS[0]
    install_hint: str = ""
    cluster: Mapping[str, object] | None = None
    """The cluster as the program receives it; None where it does not request it (provideClusterInfo)."""


class LoginProgram:
    """Runs a program when what it printed is about to end. It never asks a user: an operator has no terminal."""

    def __init__(self, program: CredentialProgram) -> None:
        if program.api_version not in _EXEC_VERSIONS:
            raise LoginFailed(
                f"the login program {program.command!r} speaks {program.api_version!r}; "
                f"we know {', '.join(_EXEC_VERSIONS)}"
            )
        self._program = program
        self._header = ""
        self._until = datetime.min.replace(tzinfo=UTC)
        self._running = asyncio.Lock()

    async def authorization(self) -> str:
        """The header's value. Raises LoginFailed when the program fails, hangs, or prints something else."""
        async with self._running:
            if datetime.now(UTC) >= self._until:
                status = _exec_status(self._program, await self._run())
                self._header = f"Bearer {status.token}"
                ends = status.expiration_timestamp
                self._until = ends - _MARGIN if ends else datetime.max.replace(tzinfo=UTC)
            return self._header

    def refresh(self) -> None:
        """Run the program at the next call."""
        self._until = datetime.min.replace(tzinfo=UTC)

    async def _run(self) -> bytes:
        try:
            process = await asyncio.create_subprocess_exec(
                self._program.command,
                *self._program.arguments,
                env={**os.environ, **self._program.environment, "KUBERNETES_EXEC_INFO": self._info()},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,  # it may print secrets, so nothing reads it
            )
        except OSError as error:
            hint = f"; {self._program.install_hint}" if self._program.install_hint else ""
            raise LoginFailed(
                f"cannot run the login program {self._program.command!r}: {error.strerror}{hint}"
            ) from error
        try:
            async with asyncio.timeout(_PROGRAM_SECONDS):
                output, _ = await process.communicate()
        except TimeoutError:
            raise LoginFailed(
                f"the login program {self._program.command!r} did not end within {_PROGRAM_SECONDS:g} s"
            ) from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            raise LoginFailed(f"the login program {self._program.command!r} failed with exit code {process.returncode}")
        return output

    def _info(self) -> str:
        spec: dict[str, object] = {"interactive": False}
        if self._program.cluster is not None:
            spec["cluster"] = dict(self._program.cluster)
        return json.dumps({"apiVersion": self._program.api_version, "kind": "ExecCredential", "spec": spec})


def _exec_status(program: CredentialProgram, output: bytes) -> _ExecStatus:
    try:
        printed = msgspec.json.decode(output, type=_ExecCredential)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # The decoder's words may quote what was printed.
        raise LoginFailed(f"the login program {program.command!r} did not print an ExecCredential") from None
    if printed.status is None or printed.api_version != program.api_version:
        raise LoginFailed(f"the login program {program.command!r} printed no status of {program.api_version}")
    if printed.status.client_certificate_data:
        raise LoginFailed(
            f"the login program {program.command!r} hands out client certificates; only tokens are served"
        )
    token = printed.status.token
    if not token or not token.isascii() or not token.isprintable() or len(token) > _LONGEST_TOKEN:
        raise LoginFailed(f"the login program {program.command!r} printed no token")
    ends = printed.status.expiration_timestamp
    if ends is not None and ends <= datetime.now(UTC):
        raise LoginFailed(f"the login program {program.command!r} printed a token that has ended")
    return printed.status


def tls_context(authority: Material, certificate: Material, key: Material, *, verify: bool) -> ssl.SSLContext:
    """How to know the server, and how it knows us. Raises LoginFailed where a certificate or key is unusable."""
    context = _trusting(authority)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_CIPHERS)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate:
        _present(context, certificate, key)
    return context


_CIPHERS = "@SECLEVEL=2:ECDH+AESGCM:ECDH+CHACHA20:ECDH+AES:!aNULL:!eNULL:!aDSS:!SHA1:!AESCCM"
"""Those of Python, for TLS 1.2, without DHE: there the server chooses numbers of 10,000 bits, and the event loop, which
does the handshake, would compute for a second. Go's clients have none of them either."""


def _trusting(authority: Material) -> ssl.SSLContext:
    if not authority:
        return ssl.create_default_context()
    text = authority.read()
    if b"BEGIN CERTIFICATE" not in text:
        raise LoginFailed(f"the certificate authority{_place(authority)} is no PEM certificate")
    try:
        return ssl.create_default_context(cadata=text.decode("ascii"))
    except (ssl.SSLError, ValueError, OverflowError) as error:
        raise LoginFailed(f"the certificate authority{_place(authority)} cannot be read as PEM certificates") from error


def _present(context: ssl.SSLContext, certificate: Material, key: Material) -> None:
    """Python takes certificate and key from a file only. It is a nameless one in memory where the system has these."""
    pair = b"\n".join([certificate.read(), key.read()])
    try:
        if hasattr(os, "memfd_create"):
            descriptor = os.memfd_create("login", os.MFD_CLOEXEC)
            with os.fdopen(descriptor, "wb", buffering=0) as file:
                file.write(pair)
                context.load_cert_chain(f"/proc/self/fd/{descriptor}", password=_no_password)
        else:
            with tempfile.NamedTemporaryFile() as named:  # mode 0600, and gone at once
                named.write(pair)
                named.flush()
                context.load_cert_chain(named.name, password=_no_password)
    except (ssl.SSLError, ValueError, OverflowError) as error:
        raise LoginFailed(
            f"the client certificate{_place(certificate)} and its key do not fit or are no PEM"
        ) from error


def _no_password() -> bytes:
    """OpenSSL would ask the terminal for the password of an encrypted key, and wait."""
    raise ValueError("the key is encrypted")


_LARGEST_AUTHORITY_BYTES = 64 << 10
_LARGEST_PAIR_BYTES = 64 << 10
_PRIVATE_KEY = re.compile(rb"-----BEGIN [^\r\n]*PRIVATE KEY-----")


def checked_inline(authority: Material, certificate: Material, key: Material) -> None:
    """Check the certificates and the key of a foreign kubeconfig. Raises LoginFailed where they are unusable or heavy.

    The event loop signs with the key in every handshake, and OpenSSL has no limit for its size: a key of a megabyte
    would occupy it for hours.
    """
    if len(authority.data) > _LARGEST_AUTHORITY_BYTES:
        raise LoginFailed(f"the certificate authority is larger than {_LARGEST_AUTHORITY_BYTES >> 10} KiB")
    if len(certificate.data) + len(key.data) > _LARGEST_PAIR_BYTES:
        raise LoginFailed(f"the client certificate and its key are larger than {_LARGEST_PAIR_BYTES >> 10} KiB")
    pair = b"\n".join([certificate.data, key.data])
    if keys := [pair[begin.start() :] for begin in _PRIVATE_KEY.finditer(pair)]:
        for pem in keys:
            private_keys.check(pem)
    if authority:
        _trusting(authority)
    if certificate:
        _present(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), certificate, key)


def _place(material: Material) -> str:
    return f" in {material.file}" if material.file else ""
