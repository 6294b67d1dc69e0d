"""An archive becomes `Files`, in memory, or nothing of it is used (R-403).

    unpack(data: bytes, *, name="", content_type="", limits=LIMITS) -> Files        raises BadArchive
    unpacked(data: bytes, *, limits=LIMITS) -> bytes                                      raises BadArchive

tar, alone or packed with gzip or bzip2, zip, and a single YAML or JSON file. The content decides which it is; the name
and the content type are used only where it shows nothing, for plain text. Every byte passes a `Meter` on its way out of
a decompressor, so neither size nor ratio depend on what an archive claims.
"""

from __future__ import annotations

import bz2
import codecs
import io
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from stellwerk.render.errors import BadArchive, NotAnArchive
from stellwerk.render.files import tar_reader, zip_reader
from stellwerk.render.files.files import Files
from stellwerk.render.files.limits import LIMITS, ArchiveLimits, Meter, too_large
from stellwerk.render.files.tree import FileTree

_CHUNK = 256 * 1024
_MOST_MEMBERS = 10_000
"""Of one packed file. Parallel packers write one for every 64 KiB or more."""
_TEXT_ENDINGS = (".yaml", ".yml", ".json")


def unpack(data: bytes, *, name: str = "", content_type: str = "", limits: ArchiveLimits = LIMITS) -> Files:
    """The files of an archive. `name` is the last part of its URL. Raises `BadArchive`.

    The largest archives take a second or more: call it from a thread where others wait.
    """
    meter = Meter(limits, len(data))
    for layer in _LAYERS:
        if data.startswith(layer.magic):
            return _packed(layer, data, name, content_type, meter)
    if zip_reader.looks_like(data):
        return _collected(zip_reader.entries(data, meter), meter)
    if tar_reader.looks_like(data):
        return _collected(tar_reader.entries(_Pieces(_counted([data], meter)).read), meter)
    return _single(data, name, content_type, "neither tar (plain, gzip or bzip2) nor zip, nor named as YAML or JSON")


def unpacked(data: bytes, *, limits: ArchiveLimits = LIMITS) -> bytes:
    """The content of one file that may be packed, whatever it is. Raises `BadArchive`.

    For content that `unpack` must not judge by its form. As large ones take a while, call it from a thread.
    """
    meter = Meter(limits, len(data))
    for layer in _LAYERS:
        if data.startswith(layer.magic):
            content = b"".join(_counted(_members(layer, data), meter))
            break
    else:
        content = data
    if len(content) > limits.bytes:
        raise too_large(limits)
    return content


def _collected(entries: Iterable[tar_reader.TarEntry], meter: Meter) -> Files:
    tree = FileTree(meter)
    for entry in entries:
        tree.add(entry)
    return tree.files()


def _single(data: bytes, name: str, content_type: str, otherwise: str) -> Files:
    """One text file. A page of HTML is text as well, so its name or its type must speak for it."""
    media = content_type.partition(";")[0].strip().lower()
    named = name.lower().endswith(_TEXT_ENDINGS)
    if not named and not media.endswith(("yaml", "json")):
        raise NotAnArchive(f"it is {otherwise}" + (f" (content type {media[:60]!r})" if media else ""))
    try:
        _check_text(data)
    except UnicodeDecodeError as error:
        raise BadArchive("it is named as YAML or JSON but is no UTF-8 text") from error
    if b"\0" in data:
        raise BadArchive("it is named as YAML or JSON but holds zero bytes")
    return Files.of({name if named else "manifest.json" if media.endswith("json") else "manifest.yaml": data})


def _check_text(data: bytes) -> None:
    """Raises `UnicodeDecodeError`. Reads piece by piece: one call for 64 MiB would block all threads for 0.2 s."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    for start in range(0, len(data), _CHUNK):
        decoder.decode(data[start : start + _CHUNK])
    decoder.decode(b"", final=True)


# ---- layers of compression


class _Decompressor(Protocol):
    """What zlib and bz2 have in common."""

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class _Layer:
    """A way to pack one stream of bytes."""

    name: str
    ending: str
    magic: bytes
    start: Callable[[], _Decompressor]


_LAYERS = (
    _Layer("gzip", ".gz", b"\x1f\x8b", lambda: zlib.decompressobj(31)),
    _Layer("bzip2", ".bz2", b"BZh", bz2.BZ2Decompressor),
)


def _packed(layer: _Layer, data: bytes, name: str, content_type: str, meter: Meter) -> Files:
    pieces = _Pieces(_counted(_members(layer, data), meter))
    if tar_reader.looks_like(pieces.peek(tar_reader.BLOCK)):
        return _collected(tar_reader.entries(pieces.read), meter)
    what = f"packed with {layer.name}, and what is inside is neither tar nor named as YAML or JSON"
    return _single(pieces.read(meter.limits.bytes), name.removesuffix(layer.ending), content_type, what)


def _members(layer: _Layer, data: bytes) -> Iterator[bytes]:
    """The content of all members: a packed file may be several, one after the other, as parallel packers write it."""
    at = members = 0
    while at < len(data):
        members += 1
        if not data.startswith(layer.magic, at):
            raise BadArchive(f"data follows the end of the {layer.name} data")
        if members > _MOST_MEMBERS:
            raise BadArchive(f"the {layer.name} data has more than {_MOST_MEMBERS} parts")
        try:
            at = yield from _member(layer, data, at)
        except (zlib.error, OSError, ValueError) as error:
            raise BadArchive(f"the {layer.name} data is damaged") from error


def _member(layer: _Layer, data: bytes, at: int) -> Generator[bytes, None, int]:
    """One member's content, in pieces; returns where it ends."""
    member = layer.start()
    fed = b""
    while not member.eof:
        if not fed:
            fed = data[at : at + _CHUNK]
            at += len(fed)
        chunk = member.decompress(fed, _CHUNK)
        fed = getattr(member, "unconsumed_tail", b"")  # bz2 keeps by itself what it could not use yet
        if not chunk and not fed and at == len(data) and not member.eof:
            raise BadArchive(f"the {layer.name} data is cut off")
        yield chunk
    return at - len(member.unused_data)


def _counted(chunks: Iterable[bytes], meter: Meter) -> Iterator[bytes]:
    for chunk in chunks:
        meter.count(len(chunk))
        yield chunk


class _Pieces:
    """A stream of chunks, read in portions of any size."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def peek(self, size: int) -> bytes:
        """The next bytes, which stay where they are."""
        head = self.read(size)
        self._rest = memoryview(head + bytes(self._rest))
        return head

    def read(self, size: int) -> bytes:
        """The next bytes; fewer at the end."""
        if size <= len(self._rest):
            head, self._rest = self._rest[:size], self._rest[size:]
            return bytes(head)
        found = io.BytesIO()  # gives up its buffer without a copy
        while size > 0:
            if not self._rest:
                chunk = next(self._chunks, None)
                if chunk is None:
                    break
                self._rest = memoryview(chunk)
            head, self._rest = self._rest[:size], self._rest[size:]
            size -= found.write(head)
        return found.getvalue()
