"""The hook that fails a test whose mark names no requirement: such a proof would be counted for nothing."""

from __future__ import annotations

import pytest
from tests.requirements.catalogue import REQUIREMENTS


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail before anything is set up for it."""
    for mark in item.iter_markers("req"):
        unknown = [str(name) for name in mark.args if name not in REQUIREMENTS]
        if unknown or not mark.args:
            pytest.fail(f"the mark req names no requirement: {', '.join(unknown) or 'nothing'}", pytrace=False)
