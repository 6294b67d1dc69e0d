"""A new version of a module comes to a few clusters at a time, to canaries first, and stops when too many fail."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec
import pytest
from tests.unit.kyma.kyma.worlds import DELETED, HOME, a_kyma, a_meta, a_rollout, metadata

from stellwerk.api.core import ConfigMap
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import Kyma
from stellwerk.operators.kyma.api_manifest import Manifest
from stellwerk.operators.kyma.api_module import ModuleReleaseMeta
from stellwerk.operators.kyma.collections import KYMAS, MANIFESTS, METAS
from stellwerk.operators.kyma.fleet.rollout import (
    ROLLOUTS,
    TURN_OF,
    Candidate,
    ModuleVersion,
    Progress,
    Rollout,
    RolloutLogic,
    RolloutSettings,
    Seen,
    Turn,
    TurnState,
    advance,
    decide,
    has_turn,
    message,
    read,
    waiting_message,
)
from stellwerk.runtime.control.executor import rehearse
from stellwerk.runtime.control.step import Create, Delete, Patch, Step
from stellwerk.runtime.reading.questions import PlainSource
from stellwerk.runtime.reading.view import Overlay, PlainSources, View

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SETTINGS = RolloutSettings(at_once=2, stop_share=0.4, patience=10 * MINUTE)
TEMPLATE = ObjectKey(HOME, "keda-2.0.0")
KEY = ObjectKey(HOME, "rollout-keda-2.0.0")
READY, BUSY = Progress("2.0.0", is_finished=True), Progress("2.0.0", is_finished=False)
RESUME = {labels.RESUME_ANNOTATION: "true"}


UNDER_WAY, FAILED, WITHDRAWN = TurnState.UNDER_WAY, TurnState.FAILED, TurnState.WITHDRAWN


def turns(state: TurnState, *names: str, minutes: int = 1) -> dict[str, Turn]:
    """Turns that have had a state for so long."""
    return {name: Turn(since=NOW - minutes * MINUTE, state=state) for name in names}


def waiting(*names: str, is_canary: bool = False, acts: bool = True) -> list[Candidate]:
    return [Candidate(name, is_canary, acts, ()) for name in names]


# ---- the next state

CANARY = waiting("z", is_canary=True)
CASES: Mapping[str, tuple[Mapping[str, Turn], Seen, Mapping[str, TurnState]]] = {
    "two of three": ({}, Seen(waiting("a", "b", "c"), {}), {"a": UNDER_WAY, "b": UNDER_WAY}),
    "one more": (turns(UNDER_WAY, "a"), Seen(waiting("b", "c"), {"a": BUSY}), {"a": UNDER_WAY, "b": UNDER_WAY}),
    "done": (turns(UNDER_WAY, "a"), Seen(waiting("c"), {"a": READY}), {"c": UNDER_WAY}),
    "no second turn": (turns(UNDER_WAY, "a"), Seen(waiting("a"), {}), {"a": UNDER_WAY}),
    "a Kyma that is gone": (turns(UNDER_WAY, "a"), Seen([], {}, frozenset("a")), {}),
    "its Manifest is not gone": (turns(UNDER_WAY, "a"), Seen([], {"a": BUSY}, frozenset("a")), {"a": UNDER_WAY}),
    "failed": (turns(UNDER_WAY, "a", minutes=10), Seen([], {"a": BUSY}), {"a": FAILED}),
    "not begun": (turns(UNDER_WAY, "a", minutes=10), Seen([], {}), {"a": WITHDRAWN}),
    "withdrawn": (turns(WITHDRAWN, "a"), Seen(waiting("a", "b", "c"), {}), {"a": WITHDRAWN, "b": UNDER_WAY}),
    "begun after all": (turns(WITHDRAWN, "a"), Seen([], {"a": BUSY}), {"a": UNDER_WAY}),
    "begun very late": (turns(WITHDRAWN, "a", minutes=10), Seen([], {"a": BUSY}), {"a": UNDER_WAY}),
    "withdrawn for good": (turns(WITHDRAWN, "a", minutes=10), Seen([], {}), {}),
    "well again": (turns(FAILED, "a", minutes=99), Seen([], {"a": READY}), {}),
    "another version now": (turns(FAILED, "a"), Seen([], {}), {}),
    "canaries first": ({}, Seen([*waiting("a"), *CANARY], {}, blocking=("z",)), {"z": UNDER_WAY}),
    "a canary that does not wait yet": ({}, Seen(waiting("a"), {}, blocking=("z",)), {}),
    "a Kyma that is skipped": ({}, Seen(waiting("a", acts=False), {}), {}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_turn_ends_fails_or_is_withdrawn(case: str) -> None:
    former, seen, expected = CASES[case]
    found = advance(Rollout(turns=former, done=10), seen, SETTINGS, NOW)
    assert {name: turn.state for name, turn in found.turns.items()} == expected
    assert not found.is_stopped


def test_a_rollout_stops_when_too_large_a_share_has_failed_and_until_it_is_resumed() -> None:
    failed = turns(FAILED, "a", "b")
    seen = Seen(waiting("c"), {"a": BUSY, "b": BUSY})
    assert not advance(Rollout(turns=failed, done=3), seen, SETTINGS, NOW).is_stopped, (
        "two of five are no more than 0.4"
    )
    stopped = advance(Rollout(turns=failed, done=2), seen, SETTINGS, NOW)
    assert stopped.is_stopped
    assert "c" not in stopped.turns
    assert "2 failed: a, b. Stopped: " in message(stopped)
    well = advance(stopped, Seen(waiting("c"), {"a": READY, "b": READY}), SETTINGS, NOW)
    assert well.is_stopped
    assert well.turns == {}


# ---- the decision


def kyma(name: str, version: str = "1.0.0", *, waits: bool = False, canary: bool = False, **fields: Any) -> Kyma:
    note = waiting_message("2.0.0") if waits else ""
    module = {"name": "keda", "state": "Ready", "channel": "regular", "version": version, "message": note}
    marks = {labels.CANARY_LABEL: "true"} if canary else {}
    return a_kyma(name, status={"modules": [module]}, labels=marks, **fields)


def manifest(name: str, version: str, state: str = "Ready", *, applied: str | None = None) -> Manifest:
    marks = {labels.KYMA_NAME_LABEL: name, labels.MODULE_NAME_LABEL: "keda"}
    notes = {labels.SYNCED_LAYER_ANNOTATION: f"layer of {version if applied is None else applied}"}
    install = {"name": "raw-manifest", "source": {"ref": f"layer of {version}"}}
    body = {
        "metadata": metadata(f"{name}-keda", labels=marks, annotations=notes),
        "spec": {"version": version, "install": install},
        "status": {"state": state},
    }
    return msgspec.convert(body, Manifest)


def version(**fields: Any) -> ModuleVersion:
    spec = {"moduleName": "keda", "version": "2.0.0"}
    return msgspec.convert({"metadata": metadata("keda-2.0.0", **fields), "spec": spec}, ModuleVersion)


@dataclass
class World:
    """What the control plane has."""

    kymas: Sequence[Kyma] = ()
    manifests: Sequence[Manifest] = ()
    rollouts: Sequence[ConfigMap] = ()
    metas: Sequence[ModuleReleaseMeta] = (a_meta("keda", regular="2.0.0", fast="3.0.0"),)
    settings: RolloutSettings = SETTINGS

    def view(self, overlay: Overlay | None = None, now: datetime = NOW) -> View:
        """A view of it."""
        sources = PlainSources()
        parts = ((KYMAS, self.kymas), (MANIFESTS, self.manifests), (ROLLOUTS, self.rollouts), (METAS, self.metas))
        for collection, objects in parts:
            sources.add(cast("Any", collection), PlainSource(objects))
        return View(sources=sources, now=now, settings=(self.settings,), overlay=overlay or Overlay())

    def step(self, now: datetime = NOW, **fields: Any) -> Step[Any]:
        """The next step of the version."""
        return decide(version(**fields), self.view(now=now))


def shown(rollout: Step[Any], former: ConfigMap | None = None) -> ConfigMap:
    """The ConfigMap after a step."""
    overlay = Overlay()
    for write in rollout.writes:
        write.rehearse(overlay, NOW)
    found = overlay.of(ROLLOUTS).get(KEY, former)
    assert found is not None
    return found


def test_turns_are_given_in_a_config_map_that_people_can_read() -> None:
    world = World(kymas=[kyma(name, waits=True) for name in ("a", "b", "c")])
    step = world.step()
    assert isinstance(step.writes[0], Create)
    made = shown(step)
    assert made.metadata.labels == {labels.ROLLOUT_LABEL: "keda"}
    assert made.metadata.owner_references[0].name == "keda-2.0.0"
    assert made.data["state"] == "Running"
    assert made.data["message"] == "0 done, 2 under way, 0 failed"
    assert made.data["turns"] == (
        '{\n "a": {\n  "since": "2026-01-01T00:00:00Z"\n },\n "b": {\n  "since": "2026-01-01T00:00:00Z"\n }\n}'
    )
    after = replace(world, rollouts=[made])
    assert [has_turn(after.view(), ObjectKey(HOME, name), TEMPLATE) for name in "abc"] == [True, True, False]
    assert after.step().writes == ()
    assert rehearse(RolloutLogic(), version(), lambda overlay: world.view(overlay)).steps[-1].writes == ()


def test_without_a_kyma_that_waits_there_is_no_config_map() -> None:
    made = shown(World(kymas=[kyma("a", waits=True)]).step())
    assert World(kymas=[kyma("a")]).step() == Step()
    over = World(kymas=[kyma("a", "2.0.0")], manifests=[manifest("a", "2.0.0")], rollouts=[made])
    assert isinstance(over.step().writes[0], Delete)
    assert World(rollouts=[made]).step(deletionTimestamp=DELETED, finalizers=["x"]) == Step(), "it goes with its owner"


def test_a_turn_is_over_when_the_layer_is_applied_and_ready() -> None:
    made = shown(World(kymas=[kyma("a", waits=True)]).step())
    for state in (
        manifest("a", "1.0.0"),
        manifest("a", "2.0.0", applied="1.0.0"),
        manifest("a", "2.0.0", "Processing"),
    ):
        assert World(kymas=[kyma("a")], manifests=[state], rollouts=[made]).step().writes == ()


def test_manifests_that_are_being_changed_count_when_a_user_has_deleted_the_config_map() -> None:
    kymas = [kyma("a", "2.0.0"), kyma("b", "2.0.0"), kyma("c", waits=True)]
    under_way = [manifest("a", "2.0.0", "Error"), manifest("b", "2.0.0")]
    made = read(shown(World(kymas=kymas, manifests=under_way).step()))
    assert sorted(made.turns) == ["a", "c"]


def test_canaries_of_the_channel_come_first() -> None:
    canary = kyma("z", canary=True)
    world = World(kymas=[kyma("a", waits=True), canary])
    assert read(shown(world.step())).turns == {}
    waits = replace(world, kymas=[kyma("a", waits=True), kyma("z", waits=True, canary=True)])
    made = shown(waits.step())
    assert sorted(read(made).turns) == ["z"]
    begun = replace(world, kymas=[kyma("a", waits=True), kyma("z", "2.0.0", canary=True)], rollouts=[made])
    assert replace(begun, manifests=[manifest("z", "2.0.0", "Processing")]).step().writes == ()
    after = shown(replace(begun, manifests=[manifest("z", "2.0.0")]).step(), made)
    assert sorted(read(after).turns) == [], "the next step gives the turns of others"
    assert sorted(read(shown(replace(begun, rollouts=[after]).step(), after)).turns) == ["a"]


@pytest.mark.parametrize(
    ("module", "channel", "marks", "fields"),
    [
        ("keda", "fast", {}, {}),
        ("other", "regular", {}, {}),
        ("keda", "regular", {labels.CANARY_LABEL: "false"}, {}),
        ("keda", "regular", {labels.SKIP_RECONCILIATION_LABEL: "True"}, {}),
        ("keda", "regular", {}, {"deletionTimestamp": DELETED, "finalizers": ["x"]}),
    ],
)
def test_a_canary_that_will_not_have_the_version_delays_no_other(
    module: str, channel: str, marks: dict[str, str], fields: dict[str, Any]
) -> None:
    status = {"modules": [{"name": module, "state": "Ready", "channel": channel}]}
    canary = a_kyma("z", status=status, labels={labels.CANARY_LABEL: "true", **marks}, **fields)
    assert sorted(read(shown(World(kymas=[kyma("a", waits=True), canary]).step())).turns) == ["a"]


def test_an_annotation_resumes_a_rollout_once() -> None:
    world = World(kymas=[kyma("a", "2.0.0"), kyma("b", waits=True)], manifests=[manifest("a", "2.0.0", "Error")])
    failed = Rollout(turns=turns(FAILED, "a"), is_stopped=True)
    made = stored(failed)
    assert replace(world, rollouts=[made]).step().writes == ()
    asked = stored(failed, annotations=RESUME)
    step = replace(world, rollouts=[asked]).step()
    assert isinstance(step.writes[0], Patch)
    after = shown(step)
    assert after.metadata.annotations == {}
    assert read(after) == Rollout(turns=turns(UNDER_WAY, "b", minutes=0), forgiven=1)


def stored(rollout: Rollout, **fields: Any) -> ConfigMap:
    turns = {name: msgspec.to_builtins(turn) for name, turn in rollout.turns.items()}
    made = a_rollout("keda-2.0.0", state="Stopped" if rollout.is_stopped else "Running", done=rollout.done, **turns)
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, **fields))


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"state": "Paused"},
        {"turns": ""},
        {"turns": "[]"},
        {"turns": '{"a":{"since":"2026-01-01T00:00:00"}}'},
        {"turns": '{"a":{"since":"2026-01-01T00:00:00Z","state":"Gone"}}'},
        {"turns": '{"a":' * 5_000},
        {"turns": "\ud800"},
        {"done": "many"},
        {"done": "9" * 5_000},
    ],
)
def test_a_state_that_cannot_be_read_gives_no_turn_and_names_the_next_step(data: dict[str, str]) -> None:
    good = stored(Rollout(turns=turns(UNDER_WAY, "a")))
    broken = msgspec.structs.replace(good, data={**good.data, **data} if data else {})
    world = World(kymas=[kyma("b", waits=True)], rollouts=[broken])
    step = world.step()
    assert step.writes == ()
    assert "delete it to count again" in step.waits[0].message
    assert not has_turn(world.view(), ObjectKey(HOME, "b"), TEMPLATE)


def test_a_kyma_has_no_turn_that_was_withdrawn() -> None:
    given = stored(Rollout(turns={**turns(WITHDRAWN, "a"), **turns(FAILED, "b"), **turns(UNDER_WAY, "c")}))
    view = World(rollouts=[given]).view()
    assert [has_turn(view, ObjectKey(HOME, name), TEMPLATE) for name in "abc"] == [False, True, True]


def test_a_question_about_a_turn_is_changed_by_that_turn_alone() -> None:
    before, after = (
        stored(Rollout(turns=turns(UNDER_WAY, "a", "b"))),
        stored(Rollout(turns=turns(UNDER_WAY, "b", "c"))),
    )
    assert {*TURN_OF.of(before)} ^ {*TURN_OF.of(after)} == {f"{KEY}/a", f"{KEY}/c"}


# ---- never more than may be


@dataclass
class Fleet:
    """An API server, caches that lag behind, and processes that crash."""

    chance: random.Random
    size: int = 8
    now: datetime = NOW
    settings: RolloutSettings = field(default_factory=lambda: SETTINGS)
    kymas: dict[str, Kyma] = field(default_factory=dict)
    manifests: dict[str, Manifest] = field(default_factory=dict)
    rollout: ConfigMap | None = None
    writes: int = 0
    cached: World = field(default_factory=World)
    begun: dict[str, datetime] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for number in range(self.size):
            name = f"k{number}"
            self.kymas[name] = kyma(name, canary=number == 5)
            self.manifests[name] = manifest(name, "1.0.0")
        self.settings = replace(
            SETTINGS, at_once=self.chance.randint(1, 3), stop_share=self.chance.choice((0.1, 0.5, 1.0))
        )
        self.catch_up()

    def catch_up(self) -> None:
        """All caches show what is there."""
        self.cached = World(settings=self.settings)
        for part in ("kymas", "manifests", "rollouts"):
            self.show(part)

    def show(self, part: str) -> None:
        """One cache shows what is there."""
        there: dict[str, Any] = {
            "kymas": [*self.kymas.values()],
            "manifests": [*self.manifests.values()],
            "rollouts": [self.rollout] if self.rollout is not None else [],
        }
        setattr(self.cached, part, there[part])

    def give_turns(self) -> None:
        """A pass of the rollout: its write counts only if the cache has shown what is there."""
        step = decide(version(), self.cached.view(now=self.now))
        seen = self.cached.rollouts[0] if self.cached.rollouts else None
        if not step.writes or self.chance.random() < 0.1:  # a crash before the write
            return
        if (seen and seen.metadata.resource_version) != (self.rollout and self.rollout.metadata.resource_version):
            self.show("rollouts")
            return
        overlay = Overlay()
        step.writes[0].rehearse(overlay, self.now)
        made = overlay.of(ROLLOUTS)[KEY]
        self.writes += 1
        if made is None or made.metadata.is_terminating:
            self.rollout = None
        else:
            fresh = msgspec.structs.replace(made.metadata, resource_version=str(self.writes))
            self.rollout = msgspec.structs.replace(made, metadata=fresh)

    def follow(self, name: str) -> None:
        """A pass of a Kyma, which crashes now and then between its writes."""
        seen = next(each for each in self.cached.manifests if each.metadata.labels[labels.KYMA_NAME_LABEL] == name)
        if seen.spec.version == "2.0.0":
            self.kymas[name] = kyma(name, "2.0.0", canary=name == "k5")
        elif has_turn(self.cached.view(now=self.now), ObjectKey(HOME, name), TEMPLATE):
            if self.manifests[name].spec.version != "2.0.0":
                self.manifests[name] = manifest(name, "2.0.0", self.manifests[name].status.state, applied="1.0.0")
                self.begun[name] = self.now
            if self.chance.random() < 0.8:
                self.kymas[name] = kyma(name, "2.0.0", canary=name == "k5")
        else:
            self.kymas[name] = kyma(name, waits=True, canary=name == "k5")

    def progress(self, name: str) -> None:
        """One write of the pass of a Manifest: its state, then its layer, then the next state."""
        if name not in self.begun:
            return
        former = self.manifests[name]
        is_applied = former.metadata.annotations[labels.SYNCED_LAYER_ANNOTATION] == "layer of 2.0.0"
        if former.status.state == "Ready" and not is_applied:
            self.manifests[name] = manifest(name, "2.0.0", "Processing", applied="1.0.0")
        elif not is_applied:
            self.manifests[name] = manifest(name, "2.0.0", "Processing")
        elif former.status.state != "Ready":
            self.manifests[name] = manifest(name, "2.0.0", self.chance.choice(("Ready", "Ready", "Error")))

    def happen(self) -> None:
        """Anything, in any order."""
        name = self.chance.choice([*self.kymas])
        match self.chance.randrange(12):
            case 0 | 1 | 2:
                self.give_turns()
            case 3 | 4 | 5:
                self.follow(name)
            case 6 | 7:
                self.progress(name)
            case 8:
                self.show(self.chance.choice(("kymas", "manifests", "rollouts")))
            case 9:
                self.show("rollouts")
            case 10 if self.chance.random() < 0.3:  # another process leads, with fresh caches
                self.catch_up()
            case _ if self.chance.random() < 0.1:  # no cache is behind for as long as a cluster may take
                self.catch_up()
                self.now += 6 * MINUTE

    def changing(self) -> list[str]:
        """The clusters that get the version now, without those that have taken too long."""
        failed = read(self.rollout).of(FAILED) if self.rollout is not None else []
        return [
            name
            for name in self.begun
            if name not in failed
            and not (
                self.manifests[name].status.state == "Ready"
                and self.manifests[name].metadata.annotations[labels.SYNCED_LAYER_ANNOTATION] == "layer of 2.0.0"
            )
        ]


@pytest.mark.parametrize("seed", range(40))
def test_there_are_never_more_than_the_limit_whatever_happens_in_which_order(seed: int) -> None:
    fleet = Fleet(random.Random(seed))
    for _ in range(400):
        fleet.happen()
        assert len(fleet.changing()) <= fleet.settings.at_once


def test_a_rollout_comes_to_its_end_in_most_of_these_worlds() -> None:
    """Otherwise the limit would be kept by doing nothing."""
    ended = 0
    for seed in range(8):
        fleet = Fleet(random.Random(seed))
        fleet.settings = replace(fleet.settings, stop_share=1.0)
        fleet.catch_up()
        for _ in range(1_200):
            fleet.happen()
        ended += len(fleet.begun) == fleet.size
    assert ended >= 6
