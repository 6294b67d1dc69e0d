"""Files that only their owner can read."""

from __future__ import annotations

import os
from pathlib import Path

_MODE = 0o600


def write_private(file: Path, content: bytes) -> None:
    """Write a file that only its owner can read; readers see the old content or the new, never half of it.

    That holds after a power cut, too, which could otherwise leave an empty file under the name. A file with this
    content is left alone: `up` writes a dozen files each time, and a disk needs milliseconds for each.
    """
    if _has(file, content):
        return
    new = file.with_name(f".{file.name}.{os.getpid()}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _MODE)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(descriptor)
    new.replace(file)


def _has(file: Path, content: bytes) -> bool:
    try:
        return file.stat().st_mode & 0o777 == _MODE and file.read_bytes() == content
    except OSError:
        return False
