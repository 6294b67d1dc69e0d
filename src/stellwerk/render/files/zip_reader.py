"""A zip archive, read entry by entry.

The standard library's `zipfile` reads its table of contents whole before anything can be counted, so its size is looked
at first. Afterwards it is asked for one entry at a time, in pieces that a `Meter` counts; sizes that the table claims
are never believed. Nothing may precede or follow the archive that its directory describes.
"""

from __future__ import annotations

import io
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator

from stellwerk.render.errors import BadArchive
from stellwerk.render.files.limits import Meter, too_many
from stellwerk.render.files.tar_reader import EntryKind, TarEntry

_END = struct.Struct("<4s4H2LH")
_END_MAGIC, _ENTRY_MAGIC = b"PK\x05\x06", b"PK\x01\x02"
_LOCAL_MAGIC = b"PK\x03\x04"
_PIECE = 256 * 1024
_LARGEST_COMMENT = 65_535
_ENCRYPTED = 0x1
_MADE_ON_UNIX = 3
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)

# What zipfile raises for bytes that are no zip archive, besides its own error; found by fuzzing.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    OSError,
    RuntimeError,
    ValueError,
)


def looks_like(data: bytes) -> bool:
    """Whether something is a zip archive, an empty one included."""
    return data.startswith((_LOCAL_MAGIC, _END_MAGIC))


def entries(data: bytes, meter: Meter) -> Iterator[TarEntry]:
    """The entries in the order of the table of contents. Raises `BadArchive`."""
    _check_end(data, meter)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for info in archive.infolist():
                yield _entry(archive, info, meter)
    except _DAMAGE as error:
        raise BadArchive("the zip archive is damaged") from error


def _check_end(data: bytes, meter: Meter) -> None:
    at = data.rfind(_END_MAGIC, max(0, len(data) - _END.size - _LARGEST_COMMENT))
    if at < 0 or len(data) - at < _END.size:
        raise BadArchive("the zip archive is cut off, or data follows its end")
    *_, table_size, table_at, comment = _END.unpack_from(data, at)
    if at + _END.size + comment != len(data):
        raise BadArchive("the zip archive is cut off, or data follows its end")
    # Counted in the bytes themselves: an entry cannot be listed without its mark.
    if data.count(_ENTRY_MAGIC, 0, at) > meter.limits.entries:
        raise too_many(meter.limits)
    if 0xFFFFFFFF not in (table_size, table_at) and table_at + table_size != at:
        raise BadArchive("the zip archive has data that its table of contents does not list")


def _entry(archive: zipfile.ZipFile, info: zipfile.ZipInfo, meter: Meter) -> TarEntry:
    name = info.orig_filename if "\0" in info.orig_filename else info.filename
    if info.flag_bits & _ENCRYPTED:
        raise BadArchive("it is encrypted", entry=name)
    if info.compress_type not in _METHODS:
        raise BadArchive(f"it is packed by the unknown method {info.compress_type}", entry=name)
    kind = _kind(info, name)
    if kind is EntryKind.FOLDER:
        return TarEntry(name, kind)
    content = _content(archive, info, meter)
    if kind is EntryKind.FILE:
        return TarEntry(name, kind, content)
    try:
        return TarEntry(name, kind, target=content.decode())
    except UnicodeDecodeError as error:
        raise BadArchive("the target of the link is not UTF-8", entry=name) from error


def _kind(info: zipfile.ZipInfo, name: str) -> EntryKind:
    if name.endswith("/"):
        return EntryKind.FOLDER
    mode = stat.S_IFMT(info.external_attr >> 16) if info.create_system == _MADE_ON_UNIX else 0
    if mode == stat.S_IFLNK:
        return EntryKind.SYMLINK
    if mode == stat.S_IFDIR:
        return EntryKind.FOLDER
    if mode not in (0, stat.S_IFREG):
        raise BadArchive("it is a device, a pipe or a socket; only files, folders and links are taken", entry=name)
    return EntryKind.FILE


def _content(archive: zipfile.ZipFile, info: zipfile.ZipInfo, meter: Meter) -> bytes:
    found = io.BytesIO()
    with archive.open(info) as stream:
        while piece := stream.read(_PIECE):
            meter.count(len(piece))
            found.write(piece)
    return found.getvalue()
