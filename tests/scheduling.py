"""Which test process runs which module: one that needs a control plane goes to the process that has started it.

A control plane takes 15 seconds of a processor to start and to prepare, and most folders of cluster tests have one of
their own in each process that runs tests of the folder. So a process stays in a folder until its modules are
distributed, then takes a folder that nobody has begun, then the tests that need no cluster, and only at the end helps
another process, with a control plane more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

_CLUSTER_TESTS = PurePosixPath("tests/cluster")
_WITHOUT_CLUSTER = ""
_FIRST = ("component", "cap", "btp", "runtime", "apply")
"""The folders with most to do, in this order: what is begun late keeps one process while the others have ended."""
LONG = (
    "tests/unit/cap/test_largest_objects.py",
    "tests/cluster/test_hostile_bytes.py",
    "tests/cluster/test_toy_operator.py",
    "tests/unit/test_largest_objects.py",
    "tests/unit/runtime/test_http_differential.py",
)
"""Modules without a folder that take a minute or more though they have few tests: they come before the others."""


class ByFolder(LoadScopeScheduling):  # type: ignore[misc]
    """Distributes modules, the folders of cluster tests first."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._folders: dict[WorkerController, str] = {}
        self._positions: Mapping[str, int] = {}

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.partition("::")[0]

    def _assign_work_unit(self, node: WorkerController) -> None:
        folder = self._next_folder(node)
        module = next_module(folder, self.workqueue)
        self._folders[node] = folder
        unit = self.assigned_work[node][module] = self.workqueue.pop(module)
        if not self._positions:
            self._positions = {nodeid: position for position, nodeid in enumerate(self.registered_collections[node])}
        node.send_runtest_some([self._positions[nodeid] for nodeid, is_done in unit.items() if not is_done])

    def _next_folder(self, node: WorkerController) -> str:
        return next_folder(
            self._folders.get(node),
            Counter(folder_of(module) for module in self.workqueue),
            {folder for each, folder in self._folders.items() if each is not node},
        )


def next_folder(own: str | None, waiting: Mapping[str, int], of_others: set[str]) -> str:
    """The folder whose next module a process takes (pure).

    `own` is the folder of its last module, `waiting` the number of modules of each folder that nobody has, and
    `of_others` the folders of the other processes.
    """
    if own is not None and own in waiting:
        return own
    with_cluster = [folder for folder in (*_FIRST, *sorted(waiting)) if folder in waiting and folder]
    unclaimed = [folder for folder in with_cluster if folder not in of_others]
    if unclaimed:
        return unclaimed[0]
    if _WITHOUT_CLUSTER in waiting:
        return _WITHOUT_CLUSTER
    return max(with_cluster, key=lambda folder: waiting[folder])


def next_module(folder: str, waiting: Iterable[str]) -> str:
    """The module of a folder that comes next (pure): the long ones, then those with most tests, as they wait."""
    modules = [module for module in waiting if folder_of(module) == folder]
    return next((module for module in LONG if module in modules), modules[0])


def folder_of(module: str) -> str:
    """The folder of cluster tests that a module belongs to; empty for a module that needs no cluster."""
    path = PurePosixPath(module)
    is_of_folder = path.is_relative_to(_CLUSTER_TESTS) and path.parent != _CLUSTER_TESTS
    return path.relative_to(_CLUSTER_TESTS).parts[0] if is_of_folder else _WITHOUT_CLUSTER
