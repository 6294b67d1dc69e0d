"""The credentials of a web server in a Secret, under the keys of Flux's sources (pure).

    username, password      for HTTP basic authentication
    bearerToken             instead of these
    ca.crt                  the authorities to trust instead of the system's
    tls.crt, tls.key        a client certificate

Half of a pair is refused, as is a Secret without any of the keys: a typing error in a key must not have us call the
server anonymously, and get the answer that the artifact does not exist.
"""

from __future__ import annotations

from dataclasses import replace

from stellwerk.kube.types.errors import LoginFailed
from stellwerk.operators.component.errors import InvalidCredentials
from stellwerk.operators.component.references.references import LOGIN_KEYS, LoginSecret
from stellwerk.render.sources.http import OriginCredentials, TlsMaterial

_MOST_BYTES = 64 * 1024
"""Of a certificate file. Reading certificates costs the event loop 50 ms per MiB, and a context keeps them all."""

USER, PASSWORD, TOKEN, AUTHORITY, CERTIFICATE, KEY = LOGIN_KEYS


def of(url: str, login: LoginSecret) -> OriginCredentials:
    """What the server of a URL is shown, and it alone. Raises InvalidCredentials, which quotes nothing."""
    data = login.data
    if not any(key in data for key in LOGIN_KEYS):
        raise InvalidCredentials(login.origin, f"it has none of the keys {', '.join(LOGIN_KEYS)}")
    _check_pairs(login)
    tls = _tls(login) if AUTHORITY in data or CERTIFICATE in data else None
    return replace(_word(url, login), tls=tls)


def _word(url: str, login: LoginSecret) -> OriginCredentials:
    if TOKEN in login.data:
        return OriginCredentials.bearer(url, _token(login))
    if USER in login.data:
        return OriginCredentials.basic(url, _text(login, USER), _text(login, PASSWORD))
    return OriginCredentials.anonymous(url)


def _check_pairs(login: LoginSecret) -> None:
    for one, other in ((USER, PASSWORD), (CERTIFICATE, KEY)):
        lacking = [key for key in (one, other) if key not in login.data]
        if len(lacking) == 1:
            raise InvalidCredentials(login.origin, f"{one} and {other} belong together, and it has no {lacking[0]}")
    if TOKEN in login.data and USER in login.data:
        raise InvalidCredentials(login.origin, f"it has both {USER} and {TOKEN}; keep the one that the server asks for")


def _token(login: LoginSecret) -> str:
    token = _text(login, TOKEN).strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidCredentials(login.origin, f"{TOKEN} is empty or no token")
    return token


def _text(login: LoginSecret, key: str) -> str:
    try:
        text = login.data[key].decode()
    except UnicodeDecodeError:
        raise InvalidCredentials(login.origin, f"{key} is not text") from None
    if key == USER and (not text or ":" in text or not text.isprintable()):
        raise InvalidCredentials(login.origin, f"{USER} is empty, or holds a colon or a line break")
    return text


def _tls(login: LoginSecret) -> TlsMaterial:
    for key in (AUTHORITY, CERTIFICATE, KEY):
        if not login.data.get(key, b"-").strip():
            raise InvalidCredentials(login.origin, f"{key} is empty")
        if len(login.data.get(key, b"")) > _MOST_BYTES:
            raise InvalidCredentials(login.origin, f"{key} is larger than {_MOST_BYTES >> 10} KiB")
    material = TlsMaterial(*(login.data.get(key, b"") for key in (AUTHORITY, CERTIFICATE, KEY)))
    try:
        material.context()
    except LoginFailed as error:
        raise InvalidCredentials(login.origin, str(error)) from None
    return material
