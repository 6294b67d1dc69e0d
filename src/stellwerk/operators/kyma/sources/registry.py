"""An OCI registry, as far as modules need it: the descriptor of a component by its version, and layers by their digest.

    pull = Pull(client, rules, repository, NAME, login)
    await pull.descriptor(VERSION)    manifest, config blob, then the layer with the descriptor
    await pull.layer(DIGEST)          the bytes of a layer

It sits on the HTTP client of the renderer's sources, so the egress rules hold for each redirect, for the server of
tokens, and where a socket is connected. How a registry wants to be logged in to is asked of it: nothing is shown to it
before it asks, and nothing to another server, except that the server of tokens gets the login, as the protocol wants.
See designs/oci-client.md.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import msgspec
from yarl import URL

from stellwerk.api.core import Secret
from stellwerk.kube import threads
from stellwerk.kube.types.errors import LoginFailed
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.kyma.sources.descriptors import (
    DESCRIPTORS_FOLDER,
    MOST_DESCRIPTOR_LAYER_BYTES,
    MOST_MANIFEST_BYTES,
    BadDescriptor,
    Descriptor,
    LayerReference,
    json_object,
)
from stellwerk.operators.kyma.sources.signatures import Trust
from stellwerk.render.errors import EgressRefused, SourceError, Unavailable, shown
from stellwerk.render.files.digests import Verifier
from stellwerk.render.sources.artifact_disk_cache import Received, Shelf
from stellwerk.render.sources.egress import EgressRules, parsed, shown_url
from stellwerk.render.sources.http import (
    MOST_REDIRECTS,
    HttpCall,
    HttpClient,
    OriginCredentials,
    TlsMaterial,
    bounded_body,
    refused,
    target_of,
    too_many_redirects,
)

if TYPE_CHECKING:
    import aiohttp

_MOST_JSON_BYTES = 1024 * 1024
"""Of an image manifest, a config blob, or the answer with a token."""
TOTAL_SECONDS = 60.0
_MANIFESTS = ", ".join(
    ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")
)
_PART = r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*"
_NAME = re.compile(f"{_PART}(?:/{_PART})*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_PARAMETER = re.compile(r'(\w+)="([^"]*)"')
_DOCKER_CONFIG = ".dockerconfigjson"
_AUTHORITY = "ca.crt"


class LoginUnusable(SourceError):
    """The Secret with the login to a registry is missing, or cannot be used. Quotes nothing of it."""

    @classmethod
    def missing(cls, key: ObjectKey) -> LoginUnusable:
        """There is no such Secret."""
        return cls(f"no private oci registry auth secret found: {key}")


@dataclass(frozen=True, slots=True)
class Repository:
    """A registry, and the path in it below which modules are."""

    host: str
    path: str = ""
    is_plain: bool = False
    """Whether it is called without TLS. Never guessed from the host."""

    @classmethod
    def of(cls, address: str, path: str = "") -> Repository:
        """From an address such as `http://localhost:5000` or `registry.example.com/mirror`, and a path in it."""
        scheme, _, rest = address.rpartition("://")
        host, _, above = rest.partition("/")
        return cls(host, "/".join(filter(None, (above.strip("/"), path.strip("/")))), scheme == "http")

    def named(self, reference: str) -> Repository:
        """The one that a Manifest names; without TLS only if this one is, and on its host.

        Former releases wrote the folder of components into the name.
        """
        found = Repository.of(reference.rstrip("/").removesuffix(f"/{DESCRIPTORS_FOLDER}"))
        return replace(found, is_plain=self.is_plain and found.host == self.host)

    def url(self, component: str, what: str, reference: str) -> URL:
        """Of a manifest or blob. Raises BadDescriptor for a name or reference that no registry has, EgressRefused."""
        path = "/".join(filter(None, (self.path, DESCRIPTORS_FOLDER, component)))
        if not component or not _NAME.fullmatch(path) or len(path) > 255:
            raise BadDescriptor(f"{shown(path)!r} is no name of a repository")
        return parsed(f"{self.origin}/v2/{path}/{what}/{reference}")

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        return f"{'http' if self.is_plain else 'https'}://{self.host}"

    def __str__(self) -> str:
        """As Manifests name it."""
        return f"{self.host}/{self.path}" if self.path else self.host


@dataclass(frozen=True, slots=True)
class Login:
    """What a Secret has about a registry."""

    address: str
    user: str = ""
    password: str = field(default="", repr=False)
    authority: bytes = field(default=b"", repr=False)
    """The authorities to trust instead of the system's, as PEM."""

    @classmethod
    def of(cls, key: ObjectKey, secret: Secret | None) -> Login:
        """From a Secret of the type kubernetes.io/dockerconfigjson, and its key ca.crt. Raises LoginUnusable."""
        if secret is None:
            raise LoginUnusable.missing(key)
        try:
            data = secret.decoded()
            config = msgspec.json.decode(data.get(_DOCKER_CONFIG, b""), type=_DockerConfig)
            entries = [(address, *entry.words()) for address, entry in config.auths.items()]
            authority = data.get(_AUTHORITY, b"")
            if authority:
                TlsMaterial(authority).context()
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise LoginUnusable(f"Secret {key}: {_DOCKER_CONFIG} is missing, or no configuration of Docker") from None
        except LoginFailed as error:
            raise LoginUnusable(f"Secret {key}: {_AUTHORITY}: {error}") from None
        if len(entries) != 1:
            raise LoginUnusable(f"Secret {key}: {_DOCKER_CONFIG} has {len(entries)} registries; expected exactly one")
        return cls(*entries[0], authority)

    def shown_to(self, url: str) -> OriginCredentials:
        """User and password for one server."""
        return replace(OriginCredentials.basic(url, self.user, self.password), tls=self.tls)

    @property
    def tls(self) -> TlsMaterial | None:
        """How the server is known; None for the authorities of the system."""
        return TlsMaterial(self.authority) if self.authority else None


class _DockerLogin(msgspec.Struct, frozen=True):
    username: str = ""
    password: str = ""
    auth: bytes = b""
    """Base64 of both; msgspec decodes it."""

    def words(self) -> tuple[str, str]:
        """User and password. Raises ValueError."""
        if self.username:
            return self.username, self.password
        user, colon, password = self.auth.decode().partition(":")
        if not colon:
            raise ValueError("no user and password")
        return user, password


class _DockerConfig(msgspec.Struct, frozen=True):
    auths: dict[str, _DockerLogin] = {}


class Pull:
    """Reads one component of a registry. Logs in when it is first asked to, and keeps that for its further calls."""

    def __init__(
        self,
        client: HttpClient,
        rules: EgressRules,
        repository: Repository,
        component: str,
        login: Login | None = None,
        *,
        shelf: Shelf | None = None,
        total_seconds: float = TOTAL_SECONDS,
    ) -> None:
        """`component`: its path below the folder of components. `total_seconds`: for each answer.

        `shelf`: where layers are on disk. What needs a login is not kept there.
        """
        self._client = client
        self._rules = replace(rules, http=repository.is_plain)  # a registry with TLS leads to none without
        self._repository = repository
        self._component = component
        self._login = login
        self._shelf = shelf if login is None else None
        self._seconds = total_seconds
        self._shown = OriginCredentials.anonymous(repository.origin)
        if login is not None:
            self._shown = replace(self._shown, tls=login.tls)

    async def descriptor(self, version: str, trust: Trust | None = None) -> Descriptor:
        """The descriptor of a version, signed with a key of `trust` if it is given. Raises SourceError."""
        if not _TAG.fullmatch(version):
            raise BadDescriptor(f"{shown(version)!r} is no version that a registry has")
        url = self._repository.url(self._component, "manifests", version)
        manifest = json_object(await self._get(url, _MOST_JSON_BYTES, accept=_MANIFESTS), "the image manifest")
        config = await self._blob(LayerReference.of(manifest.get("config"), "config"), _MOST_JSON_BYTES)
        layer = await self._blob(LayerReference.of_descriptor(config), MOST_DESCRIPTOR_LAYER_BYTES)
        return await threads.run(lambda: Descriptor.packed(layer, trust))

    async def layer(self, digest: str) -> bytes:
        """A layer as it is there, whose content has the digest. Raises SourceError."""
        reference = LayerReference.of({"digest": digest}, "the layer")
        if self._shelf is None:
            return await self._blob(reference, MOST_MANIFEST_BYTES)
        url = self._repository.url(self._component, "blobs", digest)
        self._rules.check_url(url)  # what must not be called is not served from the disk either
        kept = await self._shelf.take(str(url), digest, self._component)
        if kept is not None:
            return kept.data
        layer = await self._blob(reference, MOST_MANIFEST_BYTES)
        await self._shelf.put(str(url), digest, Received(layer, url.name, ""), self._component)
        return layer

    async def _blob(self, reference: LayerReference, most_bytes: int) -> bytes:
        if reference.size > most_bytes:
            raise BadDescriptor(f"{reference.digest} has more than {most_bytes >> 10} KiB")
        url = self._repository.url(self._component, "blobs", reference.digest)
        return await self._get(url, most_bytes, digest=reference.digest)

    async def _get(self, url: URL, most_bytes: int, *, accept: str = "", digest: str = "") -> bytes:
        call = HttpCall("GET", url, self._rules, self._shown, accept=accept)
        async with in_time(url, self._seconds):
            found = await answer(self._client, call, most_bytes, digest)
            if isinstance(found, Challenge):
                self._shown = await self._logged_in(found)
                found = await answer(self._client, replace(call, credentials=self._shown), most_bytes, digest)
        if isinstance(found, Challenge):
            raise found.error
        return found

    async def _logged_in(self, challenge: Challenge) -> OriginCredentials:
        """What the registry is shown from now on. Raises SourceError."""
        if challenge.parameters is None:
            if self._login is None or not challenge.is_basic:
                raise challenge.error
            return self._login.shown_to(self._repository.origin)
        token = await self._token(challenge.parameters)
        return replace(OriginCredentials.bearer(self._repository.origin, token), tls=self._shown.tls)

    async def _token(self, challenge: Mapping[str, str]) -> str:
        realm = parsed(challenge.get("realm", ""))
        if realm.user is not None:
            raise EgressRefused(f"{shown_url(realm)} is not called for a token: there is a login in it")
        url = realm.update_query({key: challenge[key] for key in ("service", "scope") if key in challenge})
        if self._login is None:
            credentials = OriginCredentials.anonymous(str(realm))
        elif self._repository.is_plain and realm.authority != parsed(self._repository.origin).authority:
            raise EgressRefused(
                f"{shown_url(realm)} gets no login: {self._repository.host}, which named it, is called without TLS"
            )
        else:
            credentials = self._login.shown_to(str(realm))
        async with self._client.hop(HttpCall("GET", url, self._rules, credentials)) as response:
            if response.status != 200:
                raise refused(response, "GET")
            answer = json_object(await bounded_body(response, _MOST_JSON_BYTES), "the answer with a token")
        token = answer.get("token") or answer.get("access_token")
        if not isinstance(token, str) or not (token.isascii() and token.isprintable()) or " " in token:
            raise Unavailable(f"GET {shown_url(realm)} was answered without a token", status=response.status)
        return token


@asynccontextmanager
async def in_time(url: URL, seconds: float = TOTAL_SECONDS) -> AsyncIterator[None]:
    """Raises Unavailable if a body takes longer than this, however steadily it comes."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        why = f"the answer was not complete within {seconds:g} s"
        raise Unavailable(f"GET {shown_url(url)}: {why}", why=why) from error


async def answer(client: HttpClient, call: HttpCall, most_bytes: int, digest: str) -> bytes | Challenge:
    """The content at the end of redirects, or what the server wants first. Raises SourceError.

    Content that has another digest is refused; `digest` may be empty.
    """
    here = call.url
    for _ in range(MOST_REDIRECTS + 1):
        async with client.hop(call) as response:
            if response.status == 401 and call.url == here:
                return Challenge.of(response)
            if (target := target_of(response)) is not None:
                call = replace(call, url=target)  # what is shown has an origin, and is not shown to another
                continue
            if response.status != 200:
                raise refused(response, "GET")
            promised = digest or response.headers.get("Docker-Content-Digest", "")
            return await bounded_body(response, most_bytes, Verifier(promised, strict=bool(digest)))
    raise too_many_redirects(replace(call, url=here))


@dataclass(frozen=True, slots=True)
class Challenge:
    """How a server wants to be logged in to."""

    error: Unavailable
    """If that cannot be done."""
    parameters: Mapping[str, str] | None
    """Where a token is had; None if it wants none."""
    is_basic: bool

    @classmethod
    def of(cls, response: aiohttp.ClientResponse) -> Challenge:
        """From the headers of an answer. A token is preferred, as it leads to one component only."""
        words = [text.strip() for text in response.headers.getall("WWW-Authenticate", [])]
        bearer = [text for text in words if text[:7].lower() == "bearer "]
        parameters = {key.lower(): value for key, value in _PARAMETER.findall(bearer[0])} if bearer else None
        return cls(refused(response, "GET"), parameters, any(text[:5].lower() == "basic" for text in words))
