"""One HTTP exchange with a server that we do not trust: GET, HEAD, a form, or JSON; redirects followed by hand.

Each hop is checked against the rules before it is called, and each address where its socket is made. Credentials have
an origin and are used nowhere else: neither the header nor the client certificate is shown to another server, and an
authority that a tenant trusts is trusted for that one server. Proxies of the environment are not used: behind one, an
address could not be checked.
"""

from __future__ import annotations

import base64
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, cast

from yarl import URL

from stellwerk.kube.http.sockets import Sockets
from stellwerk.kube.login.auth import Material, tls_context
from stellwerk.kube.masking import WordIndex, spans_in
from stellwerk.lazy_imports import lazy_imports
from stellwerk.render.blocking_calls import beside
from stellwerk.render.errors import EgressRefused, IncompleteAnswer, SourceError, Unavailable
from stellwerk.render.files.digests import Verifier
from stellwerk.render.sources.egress import AddressRefused, EgressRules, guarded, parsed, shown_url, without_login

with lazy_imports(__name__):  # 12 MB of memory, and many a process makes no call to the outside
    import aiohttp

if TYPE_CHECKING:
    from aiohttp.abc import AbstractResolver, ResolveResult

MOST_REDIRECTS = 3
_REDIRECTS = (301, 302, 303, 307, 308)
_LONGEST_HEADERS = 16 * 1024
_CHUNK_BYTES = 16 * 1024
_SHORTEST_REPEATED = 6
"""Characters of a password from which its appearance in a revision is no coincidence."""
_CONTEXTS = 64
"""How many servers' TLS contexts are kept; making one takes milliseconds, and a connection is pooled under it."""


Method: TypeAlias = Literal["GET", "HEAD", "POST", "PUT"]


@dataclass(frozen=True, slots=True)
class TlsMaterial:
    """The trusted authorities instead of the system's, and the client certificate, as PEM. Empty: the defaults."""

    authority: bytes = field(default=b"", repr=False)
    certificate: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)

    def context(self) -> ssl.SSLContext:
        """For connections. Raises LoginFailed, which quotes nothing, where something is unusable."""
        return _context_of(self)


@lru_cache(maxsize=_CONTEXTS)
def _context_of(material: TlsMaterial) -> ssl.SSLContext:
    given = (Material(material.authority), Material(material.certificate), Material(material.key))
    return tls_context(*given, verify=True)


@dataclass(frozen=True, slots=True)
class OriginCredentials:
    """What one origin (scheme, host and port) is shown, and how it is known."""

    origin: str
    header: str = field(default="", repr=False)
    """The value of `Authorization`; empty for none."""
    tls: TlsMaterial | None = None

    @classmethod
    def basic(cls, url: str, user: str, password: str) -> OriginCredentials:
        """User and password for the server of a URL."""
        token = base64.b64encode(f"{user}:{password}".encode()).decode()
        return cls(_origin_in(url), f"Basic {token}")

    @classmethod
    def bearer(cls, url: str, token: str) -> OriginCredentials:
        """A token for the server of a URL."""
        return cls(_origin_in(url), f"Bearer {token}")

    @classmethod
    def anonymous(cls, url: str) -> OriginCredentials:
        """No word for the server of a URL; a certificate may speak for us."""
        return cls(_origin_in(url))

    def is_repeated_in(self, *texts: str) -> bool:
        """Whether one of the texts shows the password or token, escaped or not. A short one proves nothing."""
        word = self.header.partition(" ")[2]
        words = [word]
        with contextlib.suppress(ValueError):
            login = base64.b64decode(word, validate=True).decode(errors="replace")
            words += [login, login.partition(":")[2]] if self.header.startswith("Basic ") else []
        known = WordIndex(each for each in words if len(each) >= _SHORTEST_REPEATED)
        return any(spans_in(text, known) for text in texts)

    def fits(self, url: URL) -> bool:
        """Whether this is the server they belong to."""
        return origin_of(url) == self.origin


@dataclass(frozen=True, slots=True)
class HttpCall:
    """What to ask, and how."""

    method: Method
    url: URL
    rules: EgressRules
    credentials: OriginCredentials | None = None
    form: Mapping[str, str] | None = field(default=None, repr=False)
    """What a POST sends."""
    json: bytes | None = field(default=None, repr=False)
    """What a PUT sends."""
    accept: str = ""
    """The media types that are wanted; empty for any."""

    @classmethod
    def of(
        cls,
        method: Method,
        url: str,
        rules: EgressRules,
        credentials: OriginCredentials | None = None,
    ) -> HttpCall:
        """A call for a URL as its author wrote it; a login in it becomes credentials. Raises `EgressRefused`."""
        found = parsed(url)
        if found.user is not None:
            credentials = _with_login(
                credentials, OriginCredentials.basic(str(found), found.user, found.password or "")
            )
        return cls(method, without_login(found).with_fragment(None), rules, credentials)


def _with_login(given: OriginCredentials | None, written: OriginCredentials) -> OriginCredentials:
    """What was given for the call comes before the login in the URL."""
    if given is None:
        return written
    return given if given.header or given.origin != written.origin else replace(given, header=written.header)


def origin_of(url: URL) -> str:
    """Scheme, host and port."""
    return f"{url.scheme}://{(url.host or '').lower().rstrip('.')}:{url.port}"


def _origin_in(url: str) -> str:
    """The origin of a URL as its author wrote it. A malformed one has none, fits no server, and is refused later."""
    try:
        return origin_of(parsed(url))
    except EgressRefused:
        return ""


class Resolver(Protocol):
    """Looks up the addresses of a name, as aiohttp's `AbstractResolver` does."""

    async def resolve(self, host: str, port: int = 0, family: socket.AddressFamily = ...) -> list[ResolveResult]:
        """The addresses. Raises OSError."""
        ...

    async def close(self) -> None:
        """Keep nothing."""
        ...


class HttpClient:
    """Connections to the outside, one pool for each set of rules."""

    def __init__(
        self,
        *,
        tls: ssl.SSLContext | None,
        user_agent: str,
        connect_seconds: float,
        silence_seconds: float,
        resolver: Resolver | None = None,
    ) -> None:
        """`tls`: the trusted authorities, by default the system's. `resolver`: by default the system's."""
        self._tls = tls
        self._resolver = resolver
        self._agent = user_agent
        self._connect_seconds, self._silence_seconds = connect_seconds, silence_seconds
        self._sessions: dict[EgressRules, aiohttp.ClientSession] = {}
        self._sockets = Sockets()

    async def close(self) -> None:
        """Close all connections."""
        sessions, self._sessions = list(self._sessions.values()), {}
        for session in sessions:
            await session.close()
        await self._sockets.hang_up()

    @asynccontextmanager
    async def hop(self, call: HttpCall) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer to one request, a redirect included. Raises `EgressRefused` and `Unavailable`."""
        call.rules.check_url(call.url)
        headers = {"Accept-Encoding": "identity"}
        shown = call.credentials if call.credentials is not None and call.credentials.fits(call.url) else None
        if shown is not None and shown.header:
            headers["Authorization"] = shown.header
        if call.accept:
            headers["Accept"] = call.accept
        if call.json is not None:
            headers["Content-Type"] = "application/json"
        tls = shown.tls.context() if shown is not None and shown.tls is not None else True  # True: as the session does
        with _translated(call):
            async with self._session(call.rules).request(
                call.method,
                call.url,
                headers=headers,
                data=call.form if call.json is None else call.json,
                ssl=tls,
                allow_redirects=False,
            ) as response:
                yield response

    def _session(self, rules: EgressRules) -> aiohttp.ClientSession:
        if session := self._sessions.get(rules):
            return session
        connect, silence = self._connect_seconds, self._silence_seconds
        connector = aiohttp.TCPConnector(
            limit=0,
            limit_per_host=0,
            ssl=self._tls or _verifying(),
            resolver=cast("AbstractResolver", self._resolver or _Resolver()),
            socket_factory=partial(guarded, rules, self._sockets.make),
            ttl_dns_cache=10,
        )
        session = self._sessions[rules] = aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=None, connect=connect, sock_connect=connect, sock_read=silence),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": self._agent},
            auto_decompress=False,
            max_line_size=_LONGEST_HEADERS,
            max_field_size=_LONGEST_HEADERS,
            trust_env=False,
        )
        return session


async def bounded_body(response: aiohttp.ClientResponse, most_bytes: int, verifier: Verifier | None = None) -> bytes:
    """The whole body, in however many pieces it arrives. Raises Unavailable once it has more than `most_bytes`, and
    WrongDigest if it is not what the verifier expects."""
    body = bytearray()
    async for chunk in response.content.iter_chunked(_CHUNK_BYTES):  # which also bounds what a chunk unfolds to
        body += chunk
        if len(body) > most_bytes:
            why = f"the answer has more than {most_bytes >> 10} KiB"
            raise Unavailable(f"{response.method} {shown_url(response.url)}: {why}", why=why)
        if verifier is not None:
            verifier.update(chunk)
    if verifier is not None:
        verifier.finish()
    return bytes(body)


def target_of(response: aiohttp.ClientResponse) -> URL | None:
    """Where a redirect leads; None where the answer is none."""
    if response.status not in _REDIRECTS:
        return None
    location = response.headers.get("Location", "")
    if not location:
        raise IncompleteAnswer(f"{shown_url(response.url)} redirects without saying where to")
    try:
        return response.url.join(parsed(location)).with_fragment(None)
    except (EgressRefused, ValueError) as error:
        raise IncompleteAnswer(f"{shown_url(response.url)} redirects to a malformed URL") from error


def refused(response: aiohttp.ClientResponse, method: str) -> Unavailable:
    """The error for an answer that is none."""
    reason = f" {response.reason}" if response.reason and response.reason.isprintable() else ""
    what = f"{response.status}{reason[:60]}"
    return Unavailable(f"{method} {shown_url(response.url)} was answered with {what}", status=response.status)


def too_many_redirects(call: HttpCall) -> Unavailable:
    """The error for a chain of redirects without end."""
    return Unavailable(f"{shown_url(call.url)} redirects more than {MOST_REDIRECTS} times", status=310)


def _verifying() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


class _Resolver:
    """Looks names up in threads of its own (see `threads`)."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        look_up = partial(socket.getaddrinfo, host, port, family, socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
        infos = await beside(look_up, name=f"resolve {host}"[:60])
        return [_resolved(host, port, found, protocol, str(address[0])) for found, _, protocol, _, address in infos]

    async def close(self) -> None:
        """Nothing is kept."""


def _resolved(host: str, port: int, family: int, protocol: int, address: str) -> ResolveResult:
    return {
        "hostname": host,
        "host": address,
        "port": port,
        "family": family,
        "proto": protocol,
        "flags": socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
    }


@contextlib.contextmanager
def _translated(call: HttpCall) -> Iterator[None]:
    """What aiohttp raises, in our words."""
    where = f"{call.method} {shown_url(call.url)}"
    try:
        yield
    except aiohttp.ClientConnectorError as error:
        if isinstance(error.os_error, AddressRefused):
            raise EgressRefused(f"{shown_url(call.url)} is not called: {error.os_error.strerror}") from error
        why = f"no connection: {_cause(error)}"
        unknown = isinstance(error, aiohttp.ClientConnectorDNSError)
        raise Unavailable(f"{where}: {why}", why=why, unknown_host=unknown) from error
    except aiohttp.InvalidURL as error:
        raise EgressRefused(f"{shown_url(call.url)} is not called: its host is no name and no address") from error
    except TimeoutError as error:
        raise Unavailable(f"{where}: no answer in time", why="no answer in time") from error
    except SourceError:
        raise
    except Exception as error:  # what a library raises on an answer that it did not expect is an answer that is none
        raise Unavailable(f"{where}: {_cause(error)}", why=_cause(error)) from error


def _cause(error: Exception) -> str:
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return "its certificate is not trusted"
        case aiohttp.ClientConnectorDNSError():
            return "its name is not known"
        case aiohttp.ClientConnectorError():
            return error.os_error.strerror or type(error.os_error).__name__
        case aiohttp.ClientPayloadError() | aiohttp.ServerDisconnectedError():
            return "the answer was cut off"
        case aiohttp.ClientResponseError():
            return "the answer is no HTTP"
        case _:
            return f"the call failed ({type(error).__name__})"
