"""Hooks for the end of a release are refused unless a Component says what is to become of them."""

from __future__ import annotations

import pytest
from tests.unit.component.given import component

from stellwerk.apply.errors import InvalidSet
from stellwerk.kube.types.model import JsonObject, dig
from stellwerk.operators.component.api import RECONCILER
from stellwerk.operators.component.component import delete_hooks
from stellwerk.operators.component.errors import InvalidSpec
from stellwerk.render.request.request import Rendered

HOOK: JsonObject = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "bye", "annotations": {f"{RECONCILER}/delete-hook": "pre-delete"}},
}
PLAIN: JsonObject = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "app"}}


def rendered(*objects: JsonObject) -> Rendered:
    return Rendered("helm", objects, ("templates/a.yaml",) * len(objects), None, frozenset(), "d")


@pytest.mark.parametrize(("word", "asked"), [("", "refuse"), ("Refuse", "refuse"), ("Skip", "omit"), ("Run", "keep")])
def test_the_renderer_is_told_what_becomes_of_them(word: str, asked: str) -> None:
    assert delete_hooks.asked(component(spec={"deleteHooks": word}).spec) == asked


def test_a_word_without_meaning_is_refused() -> None:
    with pytest.raises(InvalidSpec, match=r"spec\.deleteHooks: 'run' is unknown; expected one of Refuse, Skip, Run"):
        delete_hooks.asked(component(spec={"deleteHooks": "run"}).spec)


def test_hooks_that_are_to_run_are_kept_in_a_secret_beside_the_objects() -> None:
    running = component(spec={"deleteHooks": "Run", "namespace": "shop-prod"})

    documents, hooks = delete_hooks.documents_of(running, rendered(PLAIN, HOOK))
    assert [one.body["kind"] for one in documents] == ["ConfigMap", "Job", "Secret"]
    assert dig(documents[2].body, "metadata", "name") == "web.delete-hooks"
    assert dig(documents[2].body, "metadata", "namespace") == "shop-prod"
    assert len(hooks) == 1
    assert delete_hooks.documents_of(running, rendered(PLAIN))[1] == ()


def test_where_all_objects_stay_nothing_is_kept_for_the_end() -> None:
    leaving = component(spec={"deleteHooks": "Run", "deletePolicy": "Orphan"})

    documents, hooks = delete_hooks.documents_of(leaving, rendered(PLAIN, HOOK))
    assert ([one.body["kind"] for one in documents], hooks) == (["ConfigMap", "Job"], ())


def test_an_object_that_was_marked_by_hand_is_not_applied_by_mistake() -> None:
    with pytest.raises(InvalidSet, match=r"Job bye: .*set spec\.deleteHooks to Run"):
        delete_hooks.documents_of(component(), rendered(PLAIN, HOOK))
