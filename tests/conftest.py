"""One test session owns its clusters; see stellwerk.testing.cluster. Nothing starts before a test asks for it."""

from __future__ import annotations

import pytest

from stellwerk.testing import cluster as clusters
from tests.requirements.marks import pytest_runtest_setup as pytest_runtest_setup  # a hook is found by its name


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        clusters.open_session()


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        clusters.close_session()
