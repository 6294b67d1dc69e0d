"""A tar archive, read entry by entry from a stream of bytes.

We refused the standard library's `tarfile`. Its reader takes an archive that was cut between two entries for a whole
one, recurses from header to header (a chain of extension headers ends in RecursionError), and parses extension records
with a regular expression whose time has been quadratic in some releases. What follows is one loop over ustar, pax
(local and global) and GNU long names, which is all that people's tools write for sources; everything else is refused.

The only memory is the content of the entry at hand. How much may come is for the caller to count: `read` is asked for
every byte, and raises when there have been too many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from stellwerk.render.errors import BadArchive

BLOCK = 512
_LARGEST_HEADER = 1 << 20
"""An extension header holds a name or a few attributes."""
_ZEROS = bytes(BLOCK)


class EntryKind(Enum):
    """What an entry is, as far as it can be kept."""

    FILE = "file"
    FOLDER = "folder"
    SYMLINK = "symbolic link"
    HARD_LINK = "hard link"


@dataclass(frozen=True, slots=True)
class TarEntry:
    """One entry of an archive, as it calls itself."""

    name: str
    kind: EntryKind
    content: bytes = b""
    target: str = ""
    """Of a link: relative to its own folder if symbolic, to the root of the archive if hard."""


_KINDS = {
    b"0": EntryKind.FILE,
    b"\0": EntryKind.FILE,
    b"7": EntryKind.FILE,  # "contiguous": a hint that no reader follows
    b"1": EntryKind.HARD_LINK,
    b"2": EntryKind.SYMLINK,
    b"5": EntryKind.FOLDER,
}
_REFUSED = {
    b"3": "a character device",
    b"4": "a block device",
    b"6": "a named pipe",
    b"S": "a sparse file",
    b"M": "the continuation of a file of another volume",
}

Read = Callable[[int], bytes]
"""Gives exactly so many bytes, or fewer at the end of the stream."""


def looks_like(head: bytes) -> bool:
    """Whether the first block of something is a tar header."""
    return len(head) >= BLOCK and (head[:BLOCK] == _ZEROS or _checksum_fits(head[:BLOCK]))


def entries(read: Read) -> Iterator[TarEntry]:
    """The entries in order. Raises `BadArchive`; the end must be marked, and nothing but zeros may follow."""
    everywhere: dict[str, str] = {}
    extension: dict[str, str] = {}
    while (block := _exactly(read, BLOCK)) != _ZEROS:
        if not _checksum_fits(block):
            raise BadArchive("a header of the tar archive is damaged: its checksum does not fit")
        type_ = block[156:157]
        if type_ in b"xgLK":
            found = _extension(type_, _content(read, _number(block[124:136]), _LARGEST_HEADER))
            (everywhere if type_ == b"g" else extension).update(found)
            continue
        yield _entry(read, block, {**everywhere, **extension})
        extension = {}
    if extension:
        raise BadArchive("the tar archive ends between a header and its entry")
    _expect_end(read)


def _entry(read: Read, block: bytes, attributes: Mapping[str, str]) -> TarEntry:
    name = attributes.get("path") or _plain_name(block)
    type_ = block[156:157]
    if any(key.startswith("GNU.sparse") for key in attributes):
        type_ = b"S"
    kind = _KINDS.get(type_)
    if kind is None:
        what = _REFUSED.get(type_, f"of the unknown type {type_.decode('latin-1')!a}")
        raise BadArchive(f"it is {what}; only files, folders and links are taken", entry=name)
    size = _size(attributes, block)
    if kind is EntryKind.FILE and name.endswith("/"):
        kind = EntryKind.FOLDER  # how archives before POSIX marked one
    content = _content(read, size, None) if kind is EntryKind.FILE else b""
    return TarEntry(name, kind, content, attributes.get("linkpath") or _text(block[157:257], "the target of a link"))


def _size(attributes: Mapping[str, str], block: bytes) -> int:
    text = attributes.get("size")
    if text is None:
        return _number(block[124:136])
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise BadArchive("an extension header of the tar archive has a size that is no number")
    return int(text)


def _plain_name(block: bytes) -> str:
    name = _text(block[:100], "a name")
    prefix = _text(block[345:500], "a name") if block[257:263] == b"ustar\0" else ""
    return f"{prefix}/{name}" if prefix else name


def _content(read: Read, size: int, most: int | None) -> bytes:
    if most is not None and size > most:
        raise BadArchive(f"an extension header of the tar archive is larger than {most >> 20} MiB")
    content = _exactly(read, size)
    if padding := -size % BLOCK:
        _exactly(read, padding)
    return content


def _exactly(read: Read, size: int) -> bytes:
    data = read(size)
    if len(data) < size:
        raise BadArchive("the tar archive is cut off")
    return data


def _expect_end(read: Read) -> None:
    """Some tools pad with zeros to the size of a tape's record. Anything else was smuggled in, or glued on."""
    while data := read(BLOCK * 128):
        if data.count(0) != len(data):
            raise BadArchive("data follows the end of the tar archive")


# ---- fields


def _checksum_fits(block: bytes) -> bool:
    try:
        expected = _number(block[148:156])
    except BadArchive:
        return False
    return expected == sum(block[:148]) + 8 * ord(" ") + sum(block[156:])


def _number(field: bytes) -> int:
    """Octal digits, or base 256 where the first bit is set."""
    if field[0] & 0x80:
        value = int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
        if field[0] & 0x40 or value >= 1 << 62:
            raise BadArchive("a number in a header of the tar archive is out of range")
        return value
    digits = field.split(b"\0", 1)[0].strip()
    try:
        return int(digits or b"0", 8) if digits.isalnum() or not digits else _no_number()
    except ValueError:
        return _no_number()


def _no_number() -> int:
    raise BadArchive("a number in a header of the tar archive is none")


def _text(field: bytes, what: str) -> str:
    try:
        return field.split(b"\0", 1)[0].decode()
    except UnicodeDecodeError as error:
        raise BadArchive(f"{what} in the tar archive is not UTF-8") from error


def _extension(type_: bytes, content: bytes) -> dict[str, str]:
    if type_ == b"L":
        return {"path": _text(content, "a name")}
    if type_ == b"K":
        return {"linkpath": _text(content, "the target of a link")}
    return dict(_records(content))


def _records(content: bytes) -> Iterator[tuple[str, str]]:
    """pax records: "<length> <key>=<value>\\n", the length counting itself."""
    at = 0
    while at < len(content):
        space = content.find(b" ", at, at + 10)
        digits = content[at:space] if space > at else b""
        end = at + int(digits) if digits.isdigit() else 0
        key, separator, value = content[space + 1 : end - 1].partition(b"=")
        if not (space < end <= len(content) and separator and content[end - 1 : end] == b"\n"):
            raise BadArchive("an extension header of the tar archive is damaged")
        if key in (b"path", b"linkpath", b"size") or key.startswith(b"GNU.sparse"):
            yield key.decode("latin-1"), _value(value)
        at = end


def _value(value: bytes) -> str:
    if b"\0" in value:
        raise BadArchive("an extension header of the tar archive holds a zero byte")
    return _text(value, "a name")
