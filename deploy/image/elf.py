"""Programs and libraries without their debugging information.

Wheels ship extension modules with symbols and debugging information: 29 of 46 MB that no process reads. The loader
needs the program headers and what these refer to. Everything behind that is cut off, together with the table of
sections, which only linkers and debuggers read. `strip` of binutils does nearly the same, but its bytes depend on its
version, and the image must not depend on the machine that builds it.
"""

from __future__ import annotations

import struct

_MAGIC = b"\x7fELF\x02\x01"  # 64 bits, little-endian
_PROGRAM_TABLE, _SECTION_TABLE, _COUNTS = 32, 40, 54
_OFFSET, _SIZE = 8, 32


def is_elf(content: bytes) -> bool:
    """Whether this is a program or a library for a 64-bit little-endian machine."""
    return content.startswith(_MAGIC)


def loadable(content: bytes) -> bytes:
    """The part of an ELF file that the loader reads. Anything else is returned as it is."""
    if not is_elf(content):
        return content
    (table,) = struct.unpack_from("<Q", content, _PROGRAM_TABLE)
    entry_size, count = struct.unpack_from("<HH", content, _COUNTS)
    end = table + entry_size * count
    for number in range(count):
        header = table + entry_size * number
        (offset,), (size,) = (struct.unpack_from("<Q", content, header + field) for field in (_OFFSET, _SIZE))
        end = max(end, offset + size)
    kept = bytearray(content[:end])
    struct.pack_into("<Q", kept, _SECTION_TABLE, 0)
    struct.pack_into("<HH", kept, _COUNTS + 6, 0, 0)  # number of sections, and which of them has the names
    return bytes(kept)
