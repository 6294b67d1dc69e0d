"""Files of a person's own machine, to be rendered."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from stellwerk.render.errors import BadArchive
from stellwerk.render.files.files import Files

_NEVER = frozenset({".git"})
"""Folders that belong to tools, are large, and are no part of any source."""


STDIN = Path("-")


def content(file: Path) -> bytes:
    """What a file holds; `-` is standard input, as with kubectl. Raises OSError."""
    return sys.stdin.buffer.read() if file == STDIN else file.read_bytes()


def read(folder: Path) -> Files:
    """The files below a folder, under their paths from there. Raises OSError, BadArchive.

    A link to a file within the folder is read as that file. One that leads out of it is refused, as in an archive: a
    folder from another author must not show files of the reader.
    """
    root = folder.resolve()
    return Files.of({str(path.relative_to(root)): _content(path, root) for path in sorted(_files(root))})


def _files(root: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in _NEVER]
        for path in (Path(place, name) for name in [*names, *folders]):
            if path.is_symlink() and not path.resolve().is_relative_to(root):
                raise BadArchive("it is a link that leads out of the folder", entry=str(path.relative_to(root)))
        yield from (path for name in names if (path := Path(place, name)).is_file())


def _content(path: Path, root: Path) -> bytes:
    """What a file holds. A link is resolved first, so that the file that was checked is the file that is read."""
    real = path.resolve()
    if not real.is_relative_to(root):
        raise BadArchive("it is a link that leads out of the folder", entry=str(path.relative_to(root)))
    descriptor = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        return file.read()
