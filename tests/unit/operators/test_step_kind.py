"""The rights of a kind that decides by steps are those of its questions and writes."""

from __future__ import annotations

from tests.unit.operators.test_ready_steps import LAMPS, TEXTS, Lamp, decide

from stellwerk.delivery.grants import grant, occasions
from stellwerk.delivery.step_kind import StepKind
from stellwerk.delivery.step_rights import Use, joined, kept
from stellwerk.runtime.control.step import BEHIND, CONFLICT, Create, Delete, Patch, RemoveFinalizer


def rights(kind: StepKind[Lamp]) -> dict[str, set[str]]:
    return {name: {*each.rule.verbs} for each in kind.grants() for name in each.rule.resources}


def test_a_kind_may_do_what_its_passes_ask_and_its_steps_write_and_nothing_else() -> None:
    kind = StepKind(name="lamps", collection=LAMPS, decide=decide, uses=(kept(TEXTS, "no text is written"),))
    assert rights(kind) == {
        "lamps": {"list", "watch"},
        "lamps/status": {"patch", "update"},
        "lamps/finalizers": {"update"},
        "configmaps": {"list", "watch", "get", "create", "patch"},
        "events": {"create", "patch"},
    }
    assert occasions(kind.grants())["", "configmaps", "get"] in (BEHIND, CONFLICT)


def test_what_is_written_of_the_object_itself_is_a_right_on_its_kind() -> None:
    kind = StepKind(name="lamps", collection=LAMPS, decide=decide, writes=(Patch, RemoveFinalizer))
    assert rights(kind)["lamps"] == {"list", "watch", "get", "patch"}


def test_a_right_that_one_write_needs_always_is_not_seldom() -> None:
    use = Use(TEXTS, "no text", (Create, Delete), seldom={"delete": "a text is not needed any more"})
    assert occasions([use.grant()]) == {
        ("", "configmaps", "get"): BEHIND,
        ("", "configmaps", "delete"): "a text is not needed any more",
    }


def test_the_kinds_of_other_clusters_give_no_right_here() -> None:
    kind = StepKind(name="lamps", collection=LAMPS, decide=decide, remote_uses=(kept(TEXTS, "no text"),))
    assert "configmaps" not in rights(kind)


def test_a_right_that_one_of_two_grants_needs_always_is_not_seldom() -> None:
    seldom = grant("", "configmaps", "get create", "no text is written", get="it is rare", create="it is rare, too")
    (both,) = joined([seldom, grant("", "configmaps", "list get", "no text is read")])
    assert (both.purpose, {*both.rule.verbs}) == ("no text is written", {"get", "create", "list"})
    assert occasions([both]) == {("", "configmaps", "create"): "it is rare, too"}
