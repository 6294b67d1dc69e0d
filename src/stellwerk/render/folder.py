"""Files of a person's own machine, to be rendered."""

from __future__ import annotations

from pathlib import Path

from stellwerk.render.files import Files

_NEVER = frozenset({".git"})
"""Folders that belong to tools, are large, and are no part of any source."""


def read(folder: Path) -> Files:
    """The files below a folder, under their paths from there. Raises OSError, BadArchive."""
    found = {file.relative_to(folder): file for file in sorted(folder.rglob("*")) if file.is_file()}
    return Files.of({str(path): file.read_bytes() for path, file in found.items() if _NEVER.isdisjoint(path.parts)})
