"""Artifacts on disk, so that a restart does not fetch everything again from servers that may be down just then.

    shelf = Shelf(folder, most_bytes=512 * 2**20)
    await shelf.take(place, digest, tenant) -> Received | None
    await shelf.put(place, digest, received, tenant)

`place` is any text that identifies the origin of the artifact and who may read it.

It is a convenience and never a reason to fail: a disk that is full, read-only, slow or broken is counted, logged once,
and left alone for a minute, while artifacts come by the network as before. Its content is trusted no more than what
a server sends: it is compared with the promised digest each time it is read, and what does not fit is thrown away. So
only artifacts with a digest that can be verified are kept, found again by place and digest together, because who knows
a digest has not shown that it may read the content. What was fetched with credentials does not go to disk.

Files are written under another name, synced and renamed: a crash leaves the old file, the new one, or none. Only the
process's user can look into the folder. Where room is needed, what was read longest ago goes. A tenant fills three
quarters of the folder at most, or has one file: what it stores beyond that costs its own older files. Whose file it is
is part of its name; it serves all tenants.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import os
import re
import secrets
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from stellwerk.render.blocking_calls import beside
from stellwerk.render.errors import WrongDigest
from stellwerk.render.files.digests import Verifier

T = TypeVar("T")

Outcome: TypeAlias = Literal["hit", "miss", "stored", "damaged", "evicted", "read failed", "write failed"]
"""What became of a try; `damaged` and `evicted`: a file was thrown away."""

PATIENCE_SECONDS = 5.0
"""How long the disk may take. A network file system that hangs must not hang those who wait for the artifact."""

REST_SECONDS = 60.0
"""For how long a disk that failed is left alone."""

_log = logging.getLogger(__name__)

_FINISHED = re.compile(r"([0-9a-f]{64})(?:\.([0-9a-f]{16}))?")
"""Format and owner; files of former versions have no owner."""
_UNFINISHED = re.compile(r"\.[0-9a-f]{64}(?:\.[0-9a-f]{16}){1,2}")
_STALE_SECONDS = 3_600.0
_LONGEST_HEAD = 8 * 1024


class Received(NamedTuple):
    """An artifact as it came: its bytes, the last part of its URL, and its type."""

    data: bytes
    name: str
    content_type: str


class _Damaged(Exception):
    """A file is not what was written there."""


class _File(NamedTuple):
    path: Path
    tenant: str
    size: int
    used_at: float


class Shelf:
    """A folder of artifacts, bounded in size. Several processes may share it."""

    def __init__(
        self,
        folder: Path,
        *,
        most_bytes: int,
        tell: Callable[[Outcome], None] = lambda outcome: None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Any owner may have `folder`; the cache is a folder of its own in it. Any thread may report outcomes."""
        self._folder = folder / "artifacts"
        self._most = most_bytes
        self._most_of_tenant = most_bytes * 3 // 4
        self._tell = tell
        self._now = now
        self._rests_until = {"read": float("-inf"), "write": float("-inf")}
        self._writing = threading.Lock()

    async def take(self, place: str, digest: str, tenant: str = "") -> Received | None:
        """What was put there for any tenant; None where there is nothing, or nothing that can be used."""
        path = self._path(place, digest, tenant)
        found = await self._try("read", lambda: self._read(path, digest) or self._read_of_others(path, digest))
        self._tell("hit" if found is not None else "miss")
        return found

    async def put(self, place: str, digest: str, received: Received, tenant: str = "") -> None:
        """Keep an artifact, at the expense of those that were not read for longest, the tenant's own first."""
        path = self._path(place, digest, tenant)
        if await self._try("write", lambda: self._write(path, received)):
            self._tell("stored")

    def _path(self, place: str, digest: str, tenant: str) -> Path:
        what = hashlib.sha256(f"{place}\0{digest.lower()}".encode()).hexdigest()
        return self._folder / f"{what}.{hashlib.sha256(tenant.encode()).hexdigest()[:16]}"

    async def _try(self, verb: Literal["read", "write"], work: Callable[[], T | None]) -> T | None:
        if self._now() < self._rests_until[verb]:
            return None
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await beside(work, name=f"artifact {verb}")
        except OSError as error:  # a TimeoutError is one
            self._rests_until[verb] = self._now() + REST_SECONDS
            self._tell("read failed" if verb == "read" else "write failed")
            why = error.strerror or f"it takes longer than {PATIENCE_SECONDS:g} s"
            _log.warning("artifacts are downloaded again: cannot %s the cache %s: %s", verb, self._folder, why)
            return None

    # ---- reading, in a thread

    def _read_of_others(self, path: Path, digest: str) -> Received | None:
        """The same artifact, as another tenant has put it there."""
        if not self._folder.is_dir():
            return None
        others = [file.path for file in self._files() if file.path.stem == path.stem and file.path != path]
        return next((found for other in others if (found := self._read(other, digest)) is not None), None)

    def _read(self, path: Path, digest: str) -> Received | None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            try:
                found = self._verified(file.read(self._most + _LONGEST_HEAD), digest)
            except (_Damaged, WrongDigest, ValueError):
                _throw_away(path)
                self._tell("damaged")
                return None
        with contextlib.suppress(OSError):  # a read-only disk remembers no use, and needs none
            os.utime(path)
        return found

    def _verified(self, text: bytes, digest: str) -> Received:
        checksum, _, rest = text.partition(b"\n")
        head, _, data = rest.partition(b"\n")
        if hashlib.sha256(head).hexdigest().encode() != checksum:
            raise _Damaged
        name, content_type = json.loads(head)
        verifier = Verifier(digest)
        verifier.update(data)
        verifier.finish()
        return Received(data, str(name), str(content_type))

    # ---- writing, in a thread

    def _write(self, path: Path, received: Received) -> bool:
        head = json.dumps([received.name, received.content_type]).encode()
        size = len(received.data) + len(head) + 66
        if size > self._most or len(head) > _LONGEST_HEAD:
            return False
        with self._writing:
            self._prepare()
            self._make_room(size, path)
            checksum = hashlib.sha256(head).hexdigest().encode()
            _write_whole(path, (checksum, b"\n", head, b"\n", received.data))
        return True

    def _prepare(self) -> None:
        """Make the folder private. Raises OSError where it belongs to another user."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        seen = self._folder.lstat()
        if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.geteuid():
            raise PermissionError(1, "it is no folder of this user")
        if stat.S_IMODE(seen.st_mode) != 0o700:
            self._folder.chmod(0o700)

    def _make_room(self, size: int, path: Path) -> None:
        files = sorted((file for file in self._files() if file.path != path), key=lambda file: file.used_at)
        own = [file for file in files if file.tenant == path.suffix[1:]]
        gone = self._evicted(own, sum(file.size for file in own) + size - self._most_of_tenant)
        left = [file for file in files if file not in gone]
        self._evicted(left, sum(file.size for file in left) + size - self._most)

    def _evicted(self, files: Sequence[_File], excess: int) -> set[_File]:
        """Throw away the first files until so many bytes are gone, and return them."""
        gone: set[_File] = set()
        for file in files:
            if excess <= 0:
                break
            _throw_away(file.path)
            self._tell("evicted")
            gone.add(file)
            excess -= file.size
        return gone

    def _files(self) -> Iterator[_File]:
        """The artifacts; what a crash has left of a write goes. Other files stay."""
        with os.scandir(self._folder) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):  # another process was faster
                    seen = entry.stat(follow_symlinks=False)
                    if finished := _FINISHED.fullmatch(entry.name):
                        yield _File(Path(entry.path), finished[2] or "", seen.st_size, seen.st_mtime)
                    elif _UNFINISHED.fullmatch(entry.name) and time.time() - seen.st_mtime > _STALE_SECONDS:
                        _throw_away(Path(entry.path))


def _write_whole(path: Path, pieces: tuple[bytes, ...]) -> None:
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(unfinished, flags, 0o600), "wb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        _throw_away(unfinished)
        raise


def _throw_away(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
