"""A tree as a layer: a compressed tar archive that has the same bytes each time.

Everything that a tar archive takes from its surroundings is fixed: the order of the names, times, owners by number
without names, the format, and the header of gzip. The compressed bytes also depend on zlib, so a layer has two
digests, as the OCI image specification defines them: of the archive (`diff_id`), which depends on the tree alone, and
of the compressed archive (`digest`).
"""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from deploy.image.tree import Directory, File, Link, Node, Tree, with_parents

MODIFIED = 315532800
"""The time of all files, 1980-01-01: fixed, so that a layer changes only with its files, and the first that a zip
archive can store."""
_LEVEL = 6
"""Of gzip: 9 takes twice the time for half a percent."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A written layer. `size` is that of the file, `unpacked_size` that of the tar archive, in bytes."""

    file: Path
    digest: str
    size: int
    diff_id: str
    unpacked_size: int
    comment: str = ""


def write(tree: Tree, file: Path, comment: str = "") -> Layer:
    """Write a tree as a layer. `comment` describes it in the history of the image."""
    with file.open("wb") as stream:
        compressed = _Digested(stream)
        with gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=compressed, mtime=0) as packer:
            archive = _Digested(packer)
            with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as target:
                for path, node in with_parents(tree).items():
                    target.addfile(*_member(path, node))
    return Layer(file, compressed.digest, compressed.written, archive.digest, archive.written, comment)


class _Digested(io.RawIOBase):
    """A stream that counts and digests what passes through it."""

    def __init__(self, stream: IO[bytes] | gzip.GzipFile) -> None:
        self._stream = stream
        self._hash = hashlib.sha256()
        self.written = 0

    def write(self, content: object) -> int:
        data = bytes(memoryview(content))  # type: ignore[arg-type] # anything with a buffer, as RawIOBase defines it
        self._hash.update(data)
        self.written += len(data)
        return self._stream.write(data)

    def tell(self) -> int:
        return self.written

    @property
    def digest(self) -> str:
        return f"sha256:{self._hash.hexdigest()}"


def _member(path: str, node: Node) -> tuple[tarfile.TarInfo, IO[bytes] | None]:
    member = tarfile.TarInfo(path)
    member.mtime = MODIFIED
    match node:
        case Directory(mode, uid, gid):
            member.type, member.mode, member.uid, member.gid = tarfile.DIRTYPE, mode, uid, gid
        case Link(target):
            member.type, member.mode, member.linkname = tarfile.SYMTYPE, 0o777, target
        case File(content, mode, uid, gid):
            member.size, member.mode, member.uid, member.gid = len(content), mode, uid, gid
            return member, io.BytesIO(content)
    return member, None
