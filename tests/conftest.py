"""One test session owns its clusters; see stellwerk.testing.cluster. Nothing starts before a test asks for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stellwerk.testing import cluster as clusters
from tests.requirements.marks import pytest_runtest_setup as pytest_runtest_setup  # a hook is found by its name

_LONGEST = [Path(__file__).parent / "cluster" / name for name in ("cap/application/test_crash.py", "cli/test_pages.py")]
"""Modules with tests of a minute and more."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest tests. Where they come last, one process works and the others have nothing left."""
    items.sort(key=lambda item: item.path not in _LONGEST)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object | None:
    """Distribute modules by folder, with `--dist loadfile`; otherwise as xdist does."""
    if config.getvalue("dist") != "loadfile":
        return None
    from tests.scheduling import ByFolder  # where there is xdist

    return ByFolder(config, log)


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        clusters.open_session()


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        clusters.close_session()
