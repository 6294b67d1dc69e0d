"""What is to be done when a set goes is told apart from the set, and kept as it was until then."""

from __future__ import annotations

import base64
import gzip

import pytest
from tests.unit.apply.set.given import R, config_map, document

from stellwerk.apply.errors import InvalidSet
from stellwerk.apply.objects.desired import Document
from stellwerk.apply.objects.manifests import read_text
from stellwerk.apply.set.model import delete_hooks
from stellwerk.apply.set.model.delete_hooks import Hook, Moment
from stellwerk.kube.types.model import JsonObject, dig


def split(text: str) -> tuple[list[str], tuple[Hook, ...]]:
    kept, found = delete_hooks.split(read_text(text), R)
    return [str(dig(one.body, "metadata", "name")) for one in kept], found


def secret(*found: Hook) -> Document:
    return delete_hooks.keeper(found, "web.delete-hooks", "shop", R)


def content_of(document: Document) -> bytes:
    return base64.b64decode(str(dig(document.body, "data", delete_hooks.KEY)))


def asked_of(body: JsonObject) -> object:
    return dig(body, "metadata", "annotations")


DELETE_HOOK = document("Job", "f", delete_hook="pre-delete", delete_hook_weight="-3", delete_hook_only="true")
BOTH = document("Job", "b", delete_hook="post-delete,pre-delete", apply_order="7", reconcile_policy="once")


def test_what_is_for_the_end_alone_is_no_object_of_the_set() -> None:
    kept, [hooks, both] = split(config_map("c") + DELETE_HOOK + BOTH)

    assert kept == ["c", "b"]
    assert (hooks.moments, hooks.weight) == ((Moment.BEFORE,), -3)
    assert (both.moments, both.weight) == ((Moment.BEFORE, Moment.AFTER), 0)


def test_an_object_that_is_both_keeps_its_own_annotations_in_the_set_and_loses_them_at_the_end() -> None:
    [kept], [hook] = delete_hooks.split(read_text(BOTH), R)

    assert asked_of(kept.body) == {f"{R}/apply-order": "7", f"{R}/reconcile-policy": "once"}
    assert asked_of(hook.document.body) is None
    assert asked_of(hook.at(Moment.AFTER, R).body) == {
        f"{R}/apply-order": "0",
        f"{R}/purge-order": "32767",
        f"{R}/reconcile-policy": "on-object-or-component-change",
        f"{R}/update-policy": "recreate",
    }


@pytest.mark.parametrize(
    "asked",
    [{"delete_hook": "pre-upgrade"}, {"delete_hook": ""}, {"delete_hook": "pre-delete", "delete_hook_weight": "x"}],
)
def test_a_moment_or_weight_that_means_nothing_is_refused_and_the_object_named(asked: dict[str, object]) -> None:
    with pytest.raises(InvalidSet, match="Job j"):
        split(document("Job", "j", **asked))


def test_what_is_kept_is_read_back_as_it_was() -> None:
    _, found = split(DELETE_HOOK + BOTH)

    back = delete_hooks.unpacked("shop/web.delete-hooks", content_of(secret(*found)))
    assert [(one.moments, one.weight, one.document.body) for one in back] == [
        (one.moments, one.weight, one.document.body) for one in found
    ]
    assert secret(*found).body == secret(*found).body, "equal hooks are no reason for a write"
    assert dig(secret(*found).body, "metadata", "namespace") == "shop"


BROKEN = {
    "nothing": b"",
    "empty": b"",
    "not packed": b"hunter2",
    "another shape": gzip.compress(b'["hunter2"]'),
    "cut off": gzip.compress(b"["),
    "damaged": gzip.compress(b"[]")[:10] + b"\xff" * 8,
    "too large": gzip.compress(b" " * (delete_hooks.MOST_BYTES + 2)),
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
@pytest.mark.req("R-401")
def test_a_secret_that_keeps_something_else_is_named_and_not_quoted(content: bytes) -> None:
    with pytest.raises(
        InvalidSet, match=r"Secret shop/x: does not hold .*; restore it, or go on without delete hooks"
    ) as refused:
        delete_hooks.unpacked("shop/x", content)
    assert "hunter2" not in str(refused.value)
