"""How a binding gets a token from its issuer: by the client credentials that it contains.

Problems are named by their kind, never by what a server has answered.
"""

from __future__ import annotations

import msgspec

from stellwerk.kube.types.model import UNREADABLE, JsonObject
from stellwerk.operators.cap.subscription import registries
from stellwerk.operators.cap.subscription.outgoing import NoAnswer, Outgoing
from stellwerk.render.sources.http import OriginCredentials

TOKEN_PATH = "/oauth/token"  # noqa: S105  # a path
_REFUSALS = (400, 401, 403)


class CredentialsRefused(NoAnswer):
    """The issuer has answered that the credentials are not good."""


class _Token(msgspec.Struct):
    access_token: str = ""


def is_certificate(credentials: JsonObject) -> bool:
    """Whether a client certificate is shown instead of a secret."""
    return registries.text(credentials, "credential-type") == "x509"


def issuer_url(credentials: JsonObject) -> str:
    """Where the issuer of a binding is; empty if that is not named."""
    return registries.text(credentials, "certurl" if is_certificate(credentials) else "url").rstrip("/")


async def token(outgoing: Outgoing, credentials: JsonObject) -> str:
    """A token for the client of a binding. Raises NoAnswer, of which CredentialsRefused is final."""
    client, url = registries.text(credentials, "clientid"), issuer_url(credentials) + TOKEN_PATH
    form = {"client_id": client, "grant_type": "client_credentials"}
    if is_certificate(credentials):
        pem = [registries.text(credentials, name).encode() for name in ("certificate", "key")]
        shown = outgoing.presenting(url, *pem)
    else:
        shown = OriginCredentials.basic(url, client, registries.text(credentials, "clientsecret"))
    answer = await outgoing.call("POST", url, shown, form=form)
    if answer.status != 200:
        raise (CredentialsRefused if answer.status in _REFUSALS else NoAnswer)(f"HTTP {answer.status}")
    try:
        found = msgspec.json.decode(answer.body, type=_Token).access_token
    except UNREADABLE:
        found = ""
    if not found or not found.isascii() or not found.isprintable() or " " in found:
        raise NoAnswer("the answer has none")
    return found
