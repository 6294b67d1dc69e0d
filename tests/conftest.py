"""One test session owns its clusters; see stellwerk.testing.cluster. Nothing starts before a test asks for it."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from stellwerk.testing import cluster as clusters
from stellwerk.testing import sweeps
from tests.requirements.marks import pytest_runtest_setup as pytest_runtest_setup  # a hook is found by its name

_LONGEST = [Path(__file__).parent / "cluster" / name for name in ("cap/application/test_crash.py", "cli/test_pages.py")]
"""Modules with tests of a minute and more."""


def pytest_collection(session: pytest.Session) -> None:
    """While tests are collected, the cycle collector waits: all of them stay until the end.

    In a fresh checkout the assertions of each module must be rewritten first, which is half of the work. So the
    processes begin with different folders: each finds on its disk what another one has rewritten already.
    """
    gc.disable()
    config = session.config
    if hasattr(config, "workerinput") and config.args_source == pytest.Config.ArgsSource.TESTPATHS:
        number, count = int(config.workerinput["workerid"].removeprefix("gw")), int(config.workerinput["workercount"])
        parts = [path for path in Path(__file__).parent.glob("*/*") if path.is_dir() or path.match("test_*.py")]
        config.args = rotated(sorted(str(path) for path in parts if path.name != "__pycache__"), number / count)


def rotated(names: Sequence[str], share: float) -> list[str]:
    """The same names, beginning behind this share of them (pure)."""
    first = int(len(names) * share)
    return [*names[first:], *names[:first]]


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """From here on it looks only at what the tests make."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest tests. Where they come last, one process works and the others have nothing left.

    The modules have one order in all processes, in whichever they were collected.
    """
    items.sort(key=lambda item: (item.path not in _LONGEST, item.path))


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
        sweeps.keep_turn()


def pytest_report_header() -> str:
    """How to repeat what a sweep has found on another day."""
    return f"sweeps: {'whole' if sweeps.IS_WHOLE else sweeps.keep_turn()}"


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """After a whole run, compare the rights of all processes with what was asked of all clusters."""
    config = session.config
    is_chosen = config.option.keyword or config.option.markexpr
    is_whole = config.args_source == pytest.Config.ArgsSource.TESTPATHS and not is_chosen
    if exitstatus or hasattr(config, "workerinput") or config.option.collectonly or not is_whole:
        return
    from tests.cluster import suite_rights  # the operators, for a whole run only

    found = suite_rights.of_run(clusters.kept_audit_logs())
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    assert reporter is not None
    reporter.line("")
    reporter.section("rights used by these tests")
    for line in (line for rights in found for line in rights.lines(verbose=config.option.verbose > 0)):
        reporter.line(line)
    if any(rights.unexplained for rights in found):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        clusters.close_session()
