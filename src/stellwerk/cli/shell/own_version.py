"""The version of this program. Light to import, because `--version` is answered before click is imported."""

from __future__ import annotations

from stellwerk.lazy_imports import lazy_imports

with lazy_imports(__name__):
    from importlib import metadata


def own_version() -> str:
    """The version of the installed package."""
    return metadata.version("stellwerk")
