"""Who a test server is, and what its clients have to trust."""

from __future__ import annotations

import functools
import ssl
import tempfile
from pathlib import Path

from stellwerk.local import certs


@functools.cache
def authority() -> certs.Authority:
    """The one that signs them all."""
    with tempfile.TemporaryDirectory() as folder:
        return certs.load_or_create_authority(Path(folder))


@functools.cache
def server_side(*, asks_for_certificates: bool = False) -> ssl.SSLContext:
    """A server on loopback."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=authority().pem.decode())
    _load(context, authority().server(["127.0.0.1"]))
    context.verify_mode = ssl.CERT_REQUIRED if asks_for_certificates else ssl.CERT_NONE
    return context


def client_side(user: str = "") -> ssl.SSLContext:
    """A client that trusts it; with a certificate of its own where it has a name."""
    context = ssl.create_default_context(cadata=authority().pem.decode())
    if user:
        _load(context, authority().client(user))
    return context


def _load(context: ssl.SSLContext, credential: certs.Credential) -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(credential.certificate + credential.key)
        file.flush()
        context.load_cert_chain(file.name)
