"""Hooks run when a set goes, each once, before its first object and after its last, wherever the process dies."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pytest
from tests.unit.apply.set.given import (
    COMPLETE,
    RESOURCES,
    SSA,
    US,
    R,
    World,
    calm_world,
    config_map,
    document,
    names,
    registered,
)

from stellwerk.apply.objects.desired import Document
from stellwerk.apply.objects.manifests import read_text
from stellwerk.apply.set.model import delete_hooks
from stellwerk.apply.set.model.delete_hooks import Hook, Moment
from stellwerk.apply.set.model.desired_set import DesiredObject, prepared
from stellwerk.apply.set.model.inventory import Inventory, ObjectIdentity
from stellwerk.apply.set.plan import plan_delete_hooks, plan_prune
from stellwerk.apply.set.plan.actions import Create, Remove
from stellwerk.apply.set.plan.plan_delete_hooks import DeleteHookPlan
from stellwerk.apply.set.plan.stage import Stage
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject

KEEPER = ObjectIdentity("", "Secret", ObjectKey("there", "keeper"))
FAILED: JsonObject = {"conditions": [{"type": "Failed", "status": "True", "message": "no luck"}]}


def hook(name: str, when: str, weight: int = 0, kind: str = "Job") -> str:
    return document(kind, name, delete_hook=when, delete_hook_weight=weight, delete_hook_only="true")


@dataclass
class Ending:
    """A set that is rolled out, with its hooks, and how it goes."""

    text: str
    world: World = field(default_factory=calm_world)
    saved: Inventory = field(default_factory=Inventory)
    found: tuple[Hook, ...] = ()

    def __post_init__(self) -> None:
        kept, self.found = delete_hooks.split(read_text(self.text), R)
        objects = self._prepared([*kept, delete_hooks.keeper(self.found, "keeper", "there", R)], "s1")
        self.saved, stage = self.world.roll(objects, registered(objects))
        assert stage.done, str(stage)
        self.world.carried.clear()

    def hooks(self) -> DeleteHookPlan | None:
        """What a new process finds that is still to be done."""
        if KEEPER not in self.saved.by_identity() or KEEPER not in self.world.seen:
            return None
        before, after = (self._open(moment) for moment in Moment)
        return DeleteHookPlan(KEEPER, before, after)

    def _open(self, moment: Moment) -> tuple[DesiredObject, ...]:
        found = [one for one in self.found if moment in one.moments]
        if plan_delete_hooks.is_over(self.saved, moment, len(found)):
            return ()
        return self._prepared([one.at(moment, R) for one in found], moment.value)

    def _prepared(self, documents: list[Document], set_digest: str) -> tuple[DesiredObject, ...]:
        return prepared(documents, RESOURCES, namespace="there", owner=US, policies=SSA, set_digest=set_digest)

    def goes(self, stages: int = 200) -> Stage:
        """A process takes so many steps and dies; only what it has saved is left of what it knew."""
        goodbye, inventory = self.hooks(), self.saved
        stage = Stage(inventory)
        for _ in range(stages):
            state = self.world.state(inventory)
            stage = (
                plan_delete_hooks.next_stage(goodbye, inventory, state) if goodbye else _whole(inventory, self.world)
            )
            inventory = self.world.carry_out(stage)
            if stage.must_be_saved or stage.done or not (stage.groups or stage.again):
                self.saved = inventory
                return stage
        return stage

    def ends(self) -> None:
        """Processes go on until the set is gone, or nothing moves."""
        for _ in range(50):
            before = self.saved
            if self.goes().done and not len(self.saved):
                return
            if self.saved == before:
                return

    @property
    def created(self) -> list[str]:
        return names(action for action in self.world.carried if isinstance(action, Create))

    @property
    def done(self) -> list[str]:
        """What was made and taken away, in order."""
        return [
            f"{'+' if isinstance(action, Create) else '-'}{action.address.key.name}"
            for action in self.world.carried
            if isinstance(action, Create | Remove)
        ]


def _whole(inventory: Inventory, world: World) -> Stage:
    return plan_prune.of_set(inventory, world.state(inventory))


TEXT = (
    config_map("app")
    + hook("second", "pre-delete", 1)
    + hook("first", "pre-delete", -1, "ServiceAccount")
    + hook("last", "post-delete")
)


def test_hooks_run_by_weight_before_the_first_object_goes_and_after_the_last() -> None:
    ending = Ending(TEXT)
    ending.ends()
    assert ending.saved == Inventory()
    assert ending.world.seen == {}
    made = ending.done
    assert made[:2] == ["+first", "+second"]
    assert sorted(made[2:4]) == ["-first", "-second"]
    assert made[4:] == ["-app", "+last", "-last", "-keeper"]


@pytest.mark.req("R-101", "R-509")
def test_that_the_keeper_goes_is_saved_before_it_does() -> None:
    """Otherwise one that is gone after a crash would pass for one that another client deleted."""
    ending = Ending(TEXT)
    leaving: list[bool] = []

    def note(stage: Stage) -> None:
        if any(isinstance(one, Remove) and ObjectIdentity.of(one.address.ref) == KEEPER for one in stage.actions):
            leaving.append(ending.saved.by_identity()[KEEPER].phase.is_leaving)

    ending.world.before = note
    ending.ends()
    assert leaving == [True]


@pytest.mark.parametrize("stages", range(16))
@pytest.mark.req("R-101")
def test_no_hook_runs_twice_wherever_the_process_dies(stages: int) -> None:
    for first in range(6):
        ending = Ending(TEXT)
        for _ in range(first):
            ending.goes()
        ending.goes(stages)
        ending.ends()
        assert ending.saved == Inventory()
        assert Counter(ending.created) == {"first": 1, "second": 1, "last": 1}


def test_a_hook_for_both_moments_runs_at_both() -> None:
    ending = Ending(config_map("app") + hook("both", "pre-delete,post-delete"))
    ending.ends()
    assert ending.done == ["+both", "-both", "-app", "+both", "-both", "-keeper"]
    assert ending.saved == Inventory()


def test_a_hook_that_ran_at_the_installation_too_is_made_anew() -> None:
    job = document("Job", "job", delete_hook="pre-delete", reconcile_policy="once", update_policy="recreate")
    ending = Ending(config_map("app") + job)
    assert len(ending.world.seen) == 3
    ending.ends()
    assert ending.done == ["-job", "+job", "-job", "-app", "-keeper"]


def test_a_hook_that_fails_holds_the_rest_back_and_is_named() -> None:
    ending = Ending(TEXT)
    ending.world.status["Job"] = FAILED
    ending.ends()
    assert "-app" not in ending.done
    assert [str(one) for one in ending.goes().waits] == ["Job there/second: pre-delete hook: Failed: no luck"]
    ending.world.status["Job"] = COMPLETE
    ending.world.gone(ObjectIdentity("batch", "Job", ObjectKey("there", "second")))
    ending.world.passes(60)
    ending.ends()
    assert ending.saved == Inventory()


def test_without_the_keeper_the_set_goes_without_hooks() -> None:
    ending = Ending(TEXT)
    ending.world.gone(KEEPER)
    ending.ends()
    assert (ending.created, ending.saved) == ([], Inventory())


def test_a_namespace_of_the_set_outlives_the_hooks_in_it() -> None:
    ending = Ending(document("Namespace", "there") + TEXT)
    ending.ends()
    assert ending.done[4:] == ["-app", "+last", "-last", "-keeper", "-there"]
    assert ending.saved == Inventory()
