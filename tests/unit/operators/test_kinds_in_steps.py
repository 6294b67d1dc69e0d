"""What holds for each kind that decides by steps, in random worlds. A kind is found by its logic, not by a list.

The worlds of a kind are `in_steps` in `worlds.py` beside its tests: tests/unit/<operator>/<kind>/worlds.py.
"""

from __future__ import annotations

import importlib
import importlib.util
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from stellwerk import operators
from stellwerk.delivery.step_rights import Use
from stellwerk.kube.types.identifiers import Resource
from stellwerk.operators.kyma.watcher import certificates
from stellwerk.runtime.control.executor import rehearse
from stellwerk.runtime.control.step import Write
from stellwerk.runtime.reading.questions import Collection, Source
from stellwerk.runtime.reading.view import Overlay, Sources, View
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


class Asked:
    """Sources that note which kinds of objects are asked for."""

    def __init__(self, sources: Sources, noted: set[Resource]) -> None:
        self._sources, self._noted = sources, noted

    def of(self, collection: Collection[Any]) -> Source[Any]:
        """As `Sources.of`."""
        self._noted.add(collection.resource)
        return self._sources.of(collection)


def noting(world: World[Any, Any], asked: set[Resource], overlay: Overlay) -> View:
    """A view of a world that notes which kinds are asked for."""
    seen = world.view(overlay)
    return replace(seen, sources=Asked(seen.sources, asked))


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
        assert_crashes_converge(worlds(random.Random(seed)), random.Random(seed))


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_kind_waits_for_is_asked_for_and_wakes_once(worlds: Worlds) -> None:
    waits = sum(assert_waits_wake(worlds(random.Random(seed))) for seed in range(WORLDS))
    assert waits > 0, "no world waits for an object"


@pytest.mark.parametrize("kind", KINDS)
def test_no_answer_changes_with_the_version_of_its_object_alone(worlds: Worlds) -> None:
    for seed in range(WORLDS):
        assert_aspects_have_no_version(worlds(random.Random(seed)))


@pytest.mark.req("R-504")
@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_declares_what_it_asks_for_and_writes_and_nothing_else(worlds: Worlds) -> None:
    used: dict[ModuleType, Used] = {}
    for seed in range(6 * WORLDS):  # some writes are rare
        if seed >= WORLDS and all(each.is_complete for each in used.values()):
            break
        world = worlds(random.Random(seed))
        declared = sys.modules[type(world.logic).__module__]
        if not hasattr(declared, "USES"):
            pytest.skip(f"no rights of {declared.__name__}: give it USES, and OWN if it has a status")
        found = used.setdefault(declared, Used(declared))
        own = world.logic.collection.resource
        found.asked.add(own)
        rehearse(world.logic, world.obj, partial(noting, world, found.asked))
        for write in (part for step in world.settled() for part in world.parts(step)):
            if getattr(write, "cluster", None) is not None:
                continue  # the login of the other cluster has the rights there
            collection, desired = (getattr(write, name, None) for name in ("collection", "desired"))
            resource = collection.resource if collection else desired.address.resource if desired else own
            found.written.add((resource, type(write)))
    for each in used.values():
        assert _kinds(each.uses) <= each.asked <= _kinds(each.uses_with_parts)
        assert _writes(each.uses) <= each.written <= _writes(each.uses_with_parts)


PARTS = {"stellwerk.operators.kyma.kyma.decide": (certificates,)}
"""What other modules ask about and write in the passes of a kind."""


@dataclass(slots=True)
class Used:
    """What passes asked about and wrote, beside what their module declares."""

    declared: ModuleType
    asked: set[Resource] = field(default_factory=set)
    written: set[tuple[Resource, type[Write]]] = field(default_factory=set)

    @property
    def uses(self) -> list[Use[Any]]:
        return [use for name in ("OWN", "USES", "USES_OF_CLUSTER") for use in _uses(self.declared, name)]

    @property
    def uses_with_parts(self) -> list[Use[Any]]:
        return [*self.uses, *(use for part in PARTS.get(self.declared.__name__, ()) for use in _uses(part, "USES"))]

    @property
    def is_complete(self) -> bool:
        """Whether all that is declared has been used."""
        return _kinds(self.uses) <= self.asked and _writes(self.uses) <= self.written


def _kinds(uses: Sequence[Use[Any]]) -> set[Resource]:
    return {each.collection.resource for each in uses}


def _writes(uses: Sequence[Use[Any]]) -> set[tuple[Resource, type[Write]]]:
    return {(each.collection.resource, write) for each in uses for write in each.writes}


def _uses(declared: ModuleType, name: str) -> Sequence[Use[Any]]:
    """What a module declares under a name."""
    found = getattr(declared, name, ())
    return (found,) if isinstance(found, Use) else tuple(found)
