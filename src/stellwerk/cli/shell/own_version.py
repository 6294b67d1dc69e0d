"""Facts about this program itself. Light to import, because `--version` is answered from here before click is there."""

from __future__ import annotations

from importlib.metadata import version


def own_version() -> str:
    """The version of the installed package."""
    return version("stellwerk")
