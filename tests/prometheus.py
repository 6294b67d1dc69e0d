"""Prometheus and promtool, where the machine has them: the Debian package `prometheus` brings both."""

from __future__ import annotations

import shutil

import pytest


def program(name: str) -> str:
    """The path of `prometheus` or `promtool`. Skips the test where there is none."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"there is no {name} on this machine (Debian: apt install prometheus)")
    return path
