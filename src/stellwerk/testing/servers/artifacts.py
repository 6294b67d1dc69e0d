"""A server of artifacts on loopback that behaves as badly as a test asks.

    async with ArtifactServer() as server:
        artifact = server.publish("app.tar.gz", {"a.yaml": "kind: ..."})        or a folder, or bytes
        artifact.url  artifact.digest  artifact.revision                        as of a source-controller

Publishing a path again replaces its content, and with it digest, revision and ETag; `behave` changes how it is served.
"""

from __future__ import annotations

import asyncio
import bz2
import gzip
import hashlib
import io
import tarfile
import zipfile
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias

from aiohttp import web

from stellwerk.testing.eventually import Signal, eventually
from stellwerk.testing.servers.tls_server import HOST, TlsServer

Form = Literal["tar.gz", "tar.bz2", "tar", "zip"]
Content: TypeAlias = Mapping[str, str | bytes] | Path | bytes


# ---- how it is served


@dataclass(frozen=True, slots=True)
class Serve:
    """As a server should."""


@dataclass(frozen=True, slots=True)
class Slow:
    """In pieces, with a pause before each."""

    pieces: int = 10
    pause_seconds: float = 0.1


@dataclass(frozen=True, slots=True)
class HangingDownload:
    """Reads the request and sends no answer; with `after`, so many bytes of the content come first."""

    after: int | None = None


@dataclass(frozen=True, slots=True)
class TruncatedDownload:
    """The connection ends after so many bytes of the content."""

    after: int = 10


@dataclass(frozen=True, slots=True)
class GarbageDownload:
    """Something else than the artifact, under its headers: digest and content do not belong together."""

    content: bytes = b"<html>maintenance</html>"


@dataclass(frozen=True, slots=True)
class Refuse:
    """A status and nothing else."""

    status: int = 503


@dataclass(frozen=True, slots=True)
class Redirect:
    """Leads elsewhere. With `carries_headers` it sends digest and revision itself."""

    to: str
    status: int = 302
    carries_headers: bool = False


@dataclass(frozen=True, slots=True)
class Endless:
    """Content without end, and without a length."""

    piece: bytes = bytes(64 * 1024)


@dataclass(frozen=True, slots=True)
class Guarded:
    """Only for who sends this word in `Authorization`."""

    authorization: str = field(repr=False)


Behaviour: TypeAlias = (
    Serve | Slow | HangingDownload | TruncatedDownload | GarbageDownload | Refuse | Redirect | Endless | Guarded
)


@dataclass(frozen=True, slots=True)
class Published:
    """The content under a path."""

    url: str
    content: bytes = field(repr=False)
    revision: str
    content_type: str = "application/octet-stream"
    behaviour: Behaviour = Serve()
    headers: Mapping[str, str] = field(default_factory=dict)
    """More headers of the answer; an empty value takes away one of ours."""

    @property
    def digest(self) -> str:
        """As Flux writes it."""
        return f"sha256:{hashlib.sha256(self.content).hexdigest()}"

    @property
    def etag(self) -> str:
        """With its quotes, as in the header."""
        return f'"{self.digest[7:23]}"'


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """A request that came."""

    method: str
    path: str
    headers: Mapping[str, str]


def packed(content: Content, form: Form = "tar.gz") -> bytes:
    """Files as an archive; the same files are the same bytes every time."""
    if isinstance(content, bytes):
        return content
    tree = _read(content) if isinstance(content, Path) else content
    files = {name: text.encode() if isinstance(text, str) else text for name, text in sorted(tree.items())}
    if form == "zip":
        return _zip(files)
    raw = _tar(files)
    return {"tar": raw, "tar.gz": gzip.compress(raw, mtime=0), "tar.bz2": bz2.compress(raw)}[form]


class ArtifactServer:
    """Serves what was published. Opened by `async with`; what is under way at the end is cancelled."""

    def __init__(self, *, tls: bool = False) -> None:
        """With `tls`, `authority` is what clients must trust, as PEM."""
        self.seen: list[SeenRequest] = []
        self.changed = Signal()
        self._published: dict[str, Published] = {}
        self._tls = TlsServer(self._handle) if tls else None
        self._under_way: set[asyncio.Task[web.StreamResponse]] = set()
        self._open = AsyncExitStack()
        self._port = 0

    @property
    def url(self) -> str:
        """Where it listens."""
        return self._tls.url if self._tls else f"http://{HOST}:{self._port}"

    @property
    def authority(self) -> str:
        """The trusted authority; empty without TLS."""
        return self._tls.authority if self._tls else ""

    async def __aenter__(self) -> ArtifactServer:
        if self._tls is not None:
            await self._open.enter_async_context(self._tls)
            return self
        server = web.Server(self._tracked, access_log=None)
        runner = web.ServerRunner(server, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        self._open.push_async_callback(runner.cleanup)
        self._open.push_async_callback(self._cancel)
        await web.TCPSite(runner, HOST, 0).start()
        self._port = runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    def publish(
        self,
        path: str,
        content: Content,
        *,
        form: Form = "tar.gz",
        revision: str = "",
        content_type: str = "application/octet-stream",
        behaviour: Behaviour | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Published:
        """Put files under a path, as an archive; bytes go there as they are."""
        data = packed(content, form)
        revision = revision or f"main@sha1:{hashlib.sha1(data, usedforsecurity=False).hexdigest()}"
        found = Published(f"{self.url}/{path}", data, revision, content_type, behaviour or Serve(), dict(headers or {}))
        self._published[f"/{path}"] = found
        return found

    def behave(self, path: str, behaviour: Behaviour) -> None:
        """Change how a path is served."""
        self._published[f"/{path}"] = replace(self._published[f"/{path}"], behaviour=behaviour)

    def count(self, path: str, method: str = "GET") -> int:
        """How many requests for a path came."""
        return sum(seen.path == f"/{path}" and seen.method == method for seen in self.seen)

    async def asked(self, path: str, count: int = 1, *, method: str = "GET", within: float = 30.0) -> None:
        """Wait until so many requests for a path have come. Raises StillUntrue."""
        describe = f"{method} {path}, {count} times"
        await eventually(lambda: self.count(path, method) >= count, within=within, on=self.changed, describe=describe)

    # ---- answers

    async def _tracked(self, request: web.BaseRequest) -> web.StreamResponse:
        task = asyncio.current_task()
        assert task is not None
        self._under_way.add(task)
        try:
            return await self._handle(request)
        finally:
            self._under_way.discard(task)

    async def _cancel(self) -> None:
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.seen.append(SeenRequest(request.method, request.path, {k.lower(): v for k, v in request.headers.items()}))
        self.changed.ring()
        published = self._published.get(request.path)
        if published is None or request.method not in ("GET", "HEAD"):
            return web.Response(status=404 if published is None else 405)
        return await _answer(request, published)


async def _answer(request: web.BaseRequest, published: Published) -> web.StreamResponse:
    match published.behaviour:
        case Refuse(status):
            return web.Response(status=status)
        case Guarded(word) if request.headers.get("Authorization") != word:
            return web.Response(status=401)
        case Redirect(to, status, carries):
            headers = _headers(published) if carries else {}
            return web.Response(status=status, headers={"Location": to, **headers})
        case HangingDownload(None):
            await _forever()
        case GarbageDownload(content):
            return await _send(request, published, content)
        case Endless(piece):
            return await _stream(request, published, piece)
        case Slow(pieces, pause):
            return await _send(request, published, published.content, pieces=pieces, pause=pause)
        case TruncatedDownload(after) | HangingDownload(int() as after):
            return await _break_off(request, published, after)
    return await _send(request, published, published.content)


async def _send(
    request: web.BaseRequest, published: Published, content: bytes, *, pieces: int = 1, pause: float = 0.0
) -> web.StreamResponse:
    response = _response(published, len(content))
    await response.prepare(request)
    if request.method == "GET":
        size = max(1, -(-len(content) // pieces))
        for start in range(0, len(content), size):
            await asyncio.sleep(pause)
            await response.write(content[start : start + size])
    return response


async def _stream(request: web.BaseRequest, published: Published, piece: bytes) -> web.StreamResponse:
    response = _response(published, None)
    await response.prepare(request)
    while request.method == "GET":
        await response.write(piece)
    return response


async def _break_off(request: web.BaseRequest, published: Published, after: int) -> web.StreamResponse:
    response = _response(published, len(published.content))
    await response.prepare(request)
    if request.method == "GET":
        await response.write(published.content[:after])
        if isinstance(published.behaviour, HangingDownload):
            await _forever()
        assert request.transport is not None
        request.transport.close()
    return response


async def _forever() -> None:
    await asyncio.get_running_loop().create_future()


def _response(published: Published, length: int | None) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": published.content_type, **_headers(published)})
    response.content_length = length
    return response


def _headers(published: Published) -> dict[str, str]:
    ours = {"ETag": published.etag, "X-Revision": published.revision, "X-Digest": published.digest}
    return {name: value for name, value in {**ours, **published.headers}.items() if value}


# ---- archives


def _read(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _tar(files: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def _zip(files: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return out.getvalue()
