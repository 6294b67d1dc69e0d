"""An operator whose changes wait to be gathered has not settled."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.runtime.control.controller import Controller
from stellwerk.runtime.control.queue import Priority, WorkQueue
from stellwerk.testing.clock import FakeClock
from stellwerk.testing.scenarios.harness import SOON_SECONDS, OperatorHarness

KEY = ObjectKey("shop", "domain")


class OneController(OperatorHarness):
    """An operator with one controller, which does not run."""

    queue: WorkQueue

    @property
    def controllers(self) -> Sequence[Controller[Any, Any]]:
        return [cast("Controller[Any, Any]", SimpleNamespace(queue=self.queue))]


@pytest.mark.parametrize(("seconds", "is_busy"), [(SOON_SECONDS / 2, True), (2 * SOON_SECONDS, False)])
def test_an_operator_is_busy_while_a_change_is_due_soon(seconds: float, is_busy: bool) -> None:
    harness = OneController(Path("unused"))
    harness.queue = WorkQueue(clock=FakeClock())
    assert not harness.is_busy
    harness.queue.add_after(KEY, seconds, Priority.CHANGE)
    assert harness.is_busy is is_busy
