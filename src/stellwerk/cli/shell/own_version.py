"""The version of this program. Light to import, because `--version` is answered before click is imported."""

from __future__ import annotations


def own_version() -> str:
    """The version of the installed package."""
    from importlib.metadata import version

    return version("stellwerk")
