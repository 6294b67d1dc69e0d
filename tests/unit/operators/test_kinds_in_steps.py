"""What holds for each kind that decides by steps, in random worlds. A kind is found by its logic, not by a list.

The worlds of a kind are `in_steps` in `worlds.py` beside its tests: tests/unit/<operator>/<kind>/worlds.py.
"""

from __future__ import annotations

import importlib
import importlib.util
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stellwerk import operators
from stellwerk.testing.steps import (
    World,
    assert_aspects_have_no_version,
    assert_crashes_converge,
    assert_rests,
    assert_waits_wake,
)

FOLDER = Path(operators.__path__[0])
WORLDS = 100
"""Of each kind; it takes a few hundredths of a second for each world."""
Worlds = Callable[[random.Random], World[Any, Any]]


def packages() -> Iterator[str]:
    """The folders of operators that have the logic of a kind, as `cap.tenant`."""
    for file in sorted(FOLDER.rglob("*.py")):
        text = file.read_text("utf-8")
        if "\n    def decide(" in text and "\n    def unexpected(" in text:
            yield ".".join(file.parent.relative_to(FOLDER).parts)


KINDS = [*dict.fromkeys(packages())]


@pytest.fixture
def worlds(kind: str) -> Worlds:
    """Makes random worlds of a kind."""
    name = f"tests.unit.{kind}.worlds"
    made = importlib.import_module(name) if importlib.util.find_spec(name) is not None else None
    found: Worlds | None = getattr(made, "in_steps", None)
    if found is None:
        pytest.skip(f"no worlds of {kind}: give {name.replace('.', '/')}.py a function in_steps")
    return found


def test_the_kinds_in_steps_are_found() -> None:
    assert {"cap.tenant", "cap.operation", "kyma.watcher"} <= {*KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_that_rests_writes_nothing_and_keeps_its_status(worlds: Worlds) -> None:
    for seed in range(WORLDS):
        assert_rests(worlds(random.Random(seed)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_crash_between_any_two_effects_of_a_pass_leads_to_the_same_end(worlds: Worlds) -> None:
    for seed in range(WORLDS):
        assert_crashes_converge(worlds(random.Random(seed)))


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_kind_waits_for_is_asked_for_and_wakes_once(worlds: Worlds) -> None:
    waits = sum(assert_waits_wake(worlds(random.Random(seed))) for seed in range(WORLDS))
    assert waits > 0, "no world waits for an object"


@pytest.mark.parametrize("kind", KINDS)
def test_no_answer_changes_with_the_version_of_its_object_alone(worlds: Worlds) -> None:
    for seed in range(WORLDS):
        assert_aspects_have_no_version(worlds(random.Random(seed)))
