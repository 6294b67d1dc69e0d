"""How an answer is delivered to a registry: a token of its issuer, then the answer.

Credentials are read for each attempt, because they may have been rotated since the last one. Problems are named by
their kind, never by what a server has answered.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from urllib.parse import unquote

from yarl import URL

from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.cap.subscription import client_credentials, registries
from stellwerk.operators.cap.subscription.outgoing import NoAnswer, Outgoing
from stellwerk.operators.cap.subscription.registries import Protocol
from stellwerk.render.errors import EgressRefused
from stellwerk.render.sources.egress import parsed
from stellwerk.render.sources.http import OriginCredentials, origin_of

LONGEST_PATH = 2_048
_PATH = re.compile(r"/[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*")
_SEPARATORS = re.compile(r"[/\\;]")
"""What servers take for the end of a part of a path; some drop what follows a semicolon."""
_MOST_DECODINGS = 5
_FINAL = (400, 404, 405, 409, 410, 422)
"""With these, the registry does not want the answer: it would give the same for another attempt."""


class Delivery(Enum):
    """What came of an attempt."""

    DELIVERED = "delivered"
    REFUSED = "refused"
    AGAIN = "again"


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt, and why it failed."""

    delivery: Delivery
    problem: str = ""


class CallbackInvalid(ValueError):
    """A callback path would lead somewhere else than to the registry."""


class RegistryUnusable(CallbackInvalid):
    """The credentials name no server, whatever the path. They may be replaced, or not all written yet."""


def is_usable(registry_url: str) -> bool:
    """Whether credentials name a server at all: a URL that is absent parses, as one without a host."""
    try:
        return bool(parsed(registry_url).host)
    except EgressRefused:
        return False


def callback_url(registry_url: str, path: str) -> URL:
    """The address of an answer: a path at the server of the registry, and nothing else. Raises CallbackInvalid."""
    if len(path) > LONGEST_PATH or not _PATH.fullmatch(path):
        raise CallbackInvalid("the callback path must begin with one '/', and have no blanks or fragments")
    if not _stays(path.partition("?")[0]):
        raise CallbackInvalid("the callback path must stay at the server of the registry")
    try:
        base = parsed(registry_url)
    except EgressRefused:
        raise RegistryUnusable("the credentials of the registry have no usable URL") from None
    try:
        found = parsed(registry_url.rstrip("/") + path)
    except EgressRefused:
        raise CallbackInvalid("the callback path makes no URL") from None
    if origin_of(base) != origin_of(found):
        raise CallbackInvalid("the callback path must stay at the server of the registry")
    return found


def _stays(path: str) -> bool:
    """Whether a path leads nowhere else, however often a server or a proxy decodes it."""
    for _ in range(_MOST_DECODINGS):
        segments = _SEPARATORS.split(path)
        if not segments[1] and len(segments) > 2:  # "//elsewhere" names a server
            return False
        if not path.isprintable() or "\ufffd" in path or any(each.strip() in (".", "..") for each in segments):
            return False
        decoded = unquote(path)
        if decoded == path:
            return True
        path = decoded
    return False


@dataclass(frozen=True, slots=True)
class RegistryClient:
    """Delivers answers."""

    outgoing: Outgoing

    async def deliver(
        self, protocol: Protocol, credentials: JsonObject, path: str, body: str, *, is_promised: bool = True
    ) -> Attempt:
        """Send one answer once. Only the registry that it was promised to can refuse it for good."""
        try:
            url = callback_url(registries.registry_url(protocol, credentials), path)
        except CallbackInvalid as error:
            is_final = not isinstance(error, RegistryUnusable)
            return Attempt(Delivery.REFUSED if is_final else Delivery.AGAIN, str(error))
        try:
            token = await client_credentials.token(self.outgoing, credentials)
        except NoAnswer as error:
            return Attempt(Delivery.AGAIN, f"no token: {error}")
        try:
            shown = OriginCredentials.bearer(str(url), token)
            answer = await self.outgoing.call("PUT", str(url), shown, json=body.encode())
        except NoAnswer as error:
            return Attempt(Delivery.AGAIN, f"the registry: {error}")
        if 200 <= answer.status < 300:
            return Attempt(Delivery.DELIVERED)
        final = Delivery.REFUSED if answer.status in _FINAL and is_promised else Delivery.AGAIN
        return Attempt(final, f"the registry: HTTP {answer.status}")
