"""Archives as people's tools write them, and as nobody should."""

from __future__ import annotations

import bz2
import gzip
import io
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

TREE: Mapping[str, bytes] = {
    "Chart.yaml": b"name: a\n",
    "templates/a.yaml": b"kind: A\n",
    "templates/deep/b.yaml": b"kind: B\n",
    "empty.txt": b"",
}


@dataclass(frozen=True)
class Member:
    """An entry of any kind."""

    name: str
    content: bytes = b""
    type: bytes = tarfile.REGTYPE
    target: str = ""
    size: int | None = None


def files(tree: Mapping[str, bytes]) -> list[Member]:
    return [Member(name, content) for name, content in tree.items()]


def tar(
    members: Iterable[Member], *, form: int = tarfile.PAX_FORMAT, headers: Mapping[str, str] | None = None
) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form, pax_headers=headers) as archive:
        for member in members:
            info = tarfile.TarInfo(member.name)
            info.type, info.linkname = member.type, member.target
            info.size = len(member.content) if member.size is None else member.size
            archive.addfile(info, io.BytesIO(member.content))
    return out.getvalue()


def tar_of(tree: Mapping[str, bytes]) -> bytes:
    return tar(files(tree))


def tar_gz(members: Iterable[Member]) -> bytes:
    return gzip.compress(tar(members), mtime=0)


def zipped(tree: Mapping[str, bytes], *, method: int = zipfile.ZIP_DEFLATED, folders: bool = True) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        if folders:
            archive.mkdir("templates")
        for name, content in tree.items():
            archive.writestr(name, content)
    return out.getvalue()


def zip_with_mode(name: str, mode: int, content: bytes, others: Mapping[str, bytes] | None = None) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for other, text in (others or {}).items():
            archive.writestr(other, text)
        info = zipfile.ZipInfo(name)
        info.create_system, info.external_attr = 3, mode << 16
        archive.writestr(info, content)
    return out.getvalue()


PACKERS: Mapping[str, Callable[[Mapping[str, bytes]], bytes]] = {
    "tar": tar_of,
    "tar.gz": lambda tree: gzip.compress(tar_of(tree), mtime=0),
    "tar.bz2": lambda tree: bz2.compress(tar_of(tree)),
    "tar.gz in two parts": lambda tree: gzip.compress(tar_of(tree)[:700]) + gzip.compress(tar_of(tree)[700:]),
    "tar.bz2 in two parts": lambda tree: bz2.compress(tar_of(tree)[:700]) + bz2.compress(tar_of(tree)[700:]),
    "ustar": lambda tree: tar(files(tree), form=tarfile.USTAR_FORMAT),
    "GNU tar": lambda tree: tar(files(tree), form=tarfile.GNU_FORMAT),
    "zip": zipped,
    "zip, stored": lambda tree: zipped(tree, method=zipfile.ZIP_STORED, folders=False),
}
