"""One object that cannot be decoded is one object: the others of its page, and the watch, are as they were."""

from __future__ import annotations

import asyncio
import contextlib
import json
from datetime import UTC, datetime
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from stellwerk.api.flux import GitRepository
from stellwerk.kube.client.client import WatchEvent
from stellwerk.kube.client.request_builder import decoded
from stellwerk.kube.http.transport import Request
from stellwerk.kube.types.depth import LEVELS, TOO_DEEP, is_deeper, may_be_deeper, shallow
from stellwerk.kube.types.errors import Status, Undecodable, UnreadableObject
from stellwerk.kube.types.escapes import NO_TEXT
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import (
    UNREADABLE,
    Kind,
    Listing,
    PartialObjectMetadata,
    Unreadable,
    Unstructured,
    View,
    metadata_of,
    unstructured,
    view,
)
from stellwerk.kube.types.object_meta import Condition, ObjectMeta, Record
from stellwerk.kube.watch.watch_states import Listed as ListedInput
from stellwerk.kube.watch.watch_states import Odd, Removed, Synced, Watching, step
from stellwerk.operators.component.api import Component
from stellwerk.testing.checks.loop_stalls import LONGEST_STALL_SECONDS, measured_stalls

pytestmark = pytest.mark.heavy


class LampSpec(Record, frozen=True, kw_only=True):
    lit: bool = False


class LampStatus(Record, frozen=True, kw_only=True):
    conditions: tuple[Condition, ...] = ()
    seen_at: datetime | None = None


class Lamp(Kind, frozen=True, kw_only=True):
    resource: ClassVar[Resource] = Resource("example.com", "v1", "Lamp", "lamps", namespaced=True)

    spec: LampSpec = LampSpec()
    status: LampStatus = LampStatus()


TYPED = view(Lamp)
FREE = unstructured(Lamp.resource)
NO_TIME = "2020-01-01T00:00:00+99:99"


def lamp(name: str = "one", **content: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "hall", "uid": f"uid-{name}", "resourceVersion": "7"}
    return {"apiVersion": "example.com/v1", "kind": "Lamp", "metadata": metadata, **content}


def page(*items: Any) -> bytes:
    return json.dumps({"kind": "LampList", "metadata": {"resourceVersion": "9"}, "items": items}).encode()


def nested(levels: int, innermost: str = "1") -> Any:
    """Lists in lists; a string where json.dumps cannot go so deep."""
    return "[" * levels + innermost + "]" * levels


def deep_lamp(levels: int, name: str = "deep") -> bytes:
    """A lamp that is nested so many levels deep, itself and its spec included."""
    text = json.dumps(lamp(name, spec={"values": "HERE"}))
    return text.replace('"HERE"', nested(levels - 2)).encode()


def page_of(*items: bytes) -> bytes:
    return b'{"metadata":{"resourceVersion":"9"},"items":[' + b",".join(items) + b"]}"


def event(object_: Any, type_: str = "MODIFIED") -> bytes:
    return b'{"type":"%s","object":%s}' % (type_.encode(), json.dumps(object_).encode())


# ---- pages


@pytest.mark.req("R-510")
def test_an_item_of_the_wrong_shape_is_left_out_and_named() -> None:
    data = page(lamp("good"), lamp("bad", spec={"lit": "very"}), lamp("better"))
    with pytest.raises(msgspec.ValidationError):
        TYPED.decode_list(data)
    found = TYPED.decode_each(data)
    assert [obj.metadata.name for obj in found.items] == ["good", "better"]
    assert found.resource_version == "9"
    [bad] = found.unreadable
    assert str(bad) == "Lamp hall/bad cannot be read: spec.lit: expected bool, got str"
    assert (bad.metadata.uid, bad.metadata.resource_version) == ("uid-bad", "7")


@pytest.mark.req("R-510", "R-410")
@pytest.mark.parametrize("levels", [LEVELS + 1, 500, 9_000, 100_000])
def test_an_item_that_is_nested_too_deep_is_left_out_and_the_others_are_read(levels: int) -> None:
    data = page_of(json.dumps(lamp("good")).encode(), deep_lamp(levels), json.dumps(lamp("better")).encode())
    found = FREE.decode_each(data)
    assert [obj.metadata.name for obj in found.items] == ["good", "better"]
    assert [(obj.key, obj.why) for obj in found.unreadable] == [(ObjectKey("hall", "deep"), TOO_DEEP)]


@pytest.mark.req("R-410")
def test_an_item_of_exactly_the_depth_that_is_allowed_is_read() -> None:
    found = FREE.decode_list(page_of(deep_lamp(LEVELS)))
    assert [obj.metadata.name for obj in found.items] == ["deep"]
    with pytest.raises(msgspec.ValidationError, match=TOO_DEEP):
        FREE.decode_list(page_of(deep_lamp(LEVELS + 1)))


def test_items_of_a_free_form_list_are_said_to_be_of_their_kind() -> None:
    bare = {"metadata": {"name": "one"}}
    for found in (FREE.decode_list(page(bare)), FREE.decode_each(page(bare))):
        assert str(found.items[0].gvk) == "example.com/v1 Lamp"


@pytest.mark.req("R-510")
@pytest.mark.parametrize("item", [{}, {"metadata": {"uid": "1"}}, {"metadata": {"name": "n" * 2_000}}, 5, "text", None])
def test_a_page_with_an_item_that_has_no_identity_is_refused_whole(item: Any) -> None:
    """What it is cannot be known, so nothing may be concluded about what is absent."""
    with pytest.raises(UNREADABLE):
        TYPED.decode_each(page(lamp("good"), item if not isinstance(item, dict) else {**item, "spec": 5}))


@pytest.mark.req("R-413")
@pytest.mark.parametrize("field", ["uid", "resourceVersion", "name", "namespace"])
def test_megabytes_in_the_place_of_a_name_are_not_kept(field: str) -> None:
    huge = lamp("good")
    huge["metadata"][field] = "x" * 1_000_000
    for target in (TYPED, metadata_of(Lamp)):
        with pytest.raises(UNREADABLE):
            target.decode_list(page(huge))


@pytest.mark.req("R-510")
def test_a_metadatum_that_cannot_be_read_leaves_the_identity() -> None:
    odd = lamp("odd")
    odd["metadata"]["deletionTimestamp"] = NO_TIME
    [found] = TYPED.decode_each(page(odd)).unreadable
    assert found.metadata == ObjectMeta(name="odd", namespace="hall", uid="uid-odd", resource_version="7")


NO_CHARACTER = [r"\ud800", r"a\uDC00", r"\ud800A", r"\\\ud800", r"\x", r"\u12", r"\ud83d\ud83d\ude00"]
"""Escapes that stand for no character; the last one is a half surrogate before a whole one."""


@pytest.mark.req("R-510", "R-413")
@pytest.mark.parametrize("place", ["metadata", "spec", "unknown"])
@pytest.mark.parametrize("escape", NO_CHARACTER)
@pytest.mark.parametrize("what", [TYPED, FREE, metadata_of(Lamp)], ids=["typed", "free", "metadata"])
def test_an_escape_of_no_character_makes_only_its_object_unreadable(what: Any, escape: str, place: str) -> None:
    odd = lamp("odd", **{place if place != "metadata" else "more": {"a": "HERE"}})
    if place == "metadata":
        odd["metadata"]["labels"] = {"a": "HERE"}
    good = lamp("good", spec={"lit": True}, note="\U0001f600 \\ud800 \n")
    text = page(odd, good).replace(b"HERE", escape.encode())
    found = what.decode_each(text)
    assert [obj.metadata.name for obj in found.items] == ["good"]
    assert [str(obj) for obj in found.unreadable] == [
        "Lamp hall/odd cannot be read: has an escape that encodes no character"
    ]
    event = json.dumps({"type": "ADDED", "object": odd}).replace("HERE", escape).encode()
    happened, told = what.decode_odd_event(event)
    assert (happened, told) == ("ADDED", found.unreadable[0])
    single = json.dumps(odd).replace("HERE", escape).encode()
    named = what.unreadable(single, msgspec.DecodeError("malformed"))
    assert named is not None
    assert named.metadata.uid == "uid-odd"


def test_an_object_may_be_too_deep_beside_one_with_an_escape_of_no_character() -> None:
    odd = json.dumps(lamp("odd", spec={"a": "HERE"})).replace("HERE", r"\ud800").encode()
    text = page("ONE", "TWO", lamp("good")).replace(b'"ONE"', deep_lamp(5_000)).replace(b'"TWO"', odd)
    found = FREE.decode_each(text)
    assert [obj.metadata.name for obj in found.items] == ["good"]
    assert [(obj.metadata.name, obj.why) for obj in found.unreadable] == [("deep", TOO_DEEP), ("odd", NO_TEXT)]


@pytest.mark.req("R-413")
def test_text_that_is_not_utf8_makes_only_its_object_unreadable() -> None:
    odd = json.dumps(lamp("odd", spec={"note": "HERE"})).encode().replace(b"HERE", b"\xff")
    label = json.dumps(lamp("label")).encode().replace(b'"name"', b'"labels": {"a": "\xff"}, "name"')
    found = FREE.decode_each(page_of(odd, label, json.dumps(lamp("good")).encode()))
    assert [obj.metadata.name for obj in found.items] == ["good"]
    assert [obj.metadata.name for obj in found.unreadable] == ["odd", "label"]


@pytest.mark.req("R-510", "R-410")
@pytest.mark.parametrize("levels", [500, 9_000])
def test_metadata_are_read_however_deep_the_managed_fields_of_an_object_are(levels: int) -> None:
    """Who stores deep objects has the API server write managedFields that are as deep."""
    fields = '{"f:a":' * levels + "{}" + "}" * levels
    text = json.dumps(lamp("deep")).replace('"name"', '"managedFields":[{"manager":"m","fieldsV1":HERE}],"name"')
    deep = text.replace("HERE", fields).encode()
    target = metadata_of(Lamp)
    found = target.decode_each(page_of(deep, json.dumps(lamp("good")).encode()))
    assert [obj.metadata.name for obj in found.items] == ["deep", "good"]
    assert found.items[0].metadata.managers[0].manager == "m"
    seen, obj = target.decode_odd_event(b'{"type":"MODIFIED","object":%s}' % deep)
    assert isinstance(obj, PartialObjectMetadata)
    assert (seen, obj.key.name) == ("MODIFIED", "deep")


@pytest.mark.req("R-510")
async def test_the_one_object_that_is_asked_for_is_named_where_it_cannot_be_read() -> None:
    request = Request("GET", "/", about="get Lamp hall/bad")
    bad = json.dumps(lamp("bad", spec={"lit": "very"})).encode()
    with pytest.raises(UnreadableObject, match=r"cannot get Lamp hall/bad: object cannot be read: spec\.lit: expected"):
        await decoded(TYPED, bad, request)
    with pytest.raises(UnreadableObject, match=TOO_DEEP):
        await decoded(FREE, deep_lamp(9_000), request)
    with pytest.raises(Undecodable) as caught:
        await decoded(TYPED, b"<html>", request)
    assert not isinstance(caught.value, UnreadableObject)
    assert (await decoded(metadata_of(Lamp), deep_lamp(9_000), request)).key.name == "deep"


# ---- timestamps of a status


@pytest.mark.req("R-510")
def test_a_timestamp_of_a_status_that_cannot_be_read_counts_as_absent() -> None:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": NO_TIME}
    whole = {"type": "Whole", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}
    read = TYPED.decode(json.dumps(lamp(status={"conditions": [ready, whole], "seenAt": NO_TIME, "more": 1})).encode())
    assert read.status == LampStatus(
        conditions=(
            Condition(type="Ready", status="True"),
            Condition(type="Whole", status="True", last_transition_time=datetime(2020, 1, 1, tzinfo=UTC)),
        )
    )


@pytest.mark.req("R-510")
def test_a_flux_object_with_a_timestamp_that_cannot_be_read_offers_its_artifact() -> None:
    status = {
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": NO_TIME}],
        "artifact": {"url": "http://flux/one", "digest": "sha256:1", "revision": "main", "lastUpdateTime": NO_TIME},
    }
    read = view(GitRepository).decode(json.dumps({**lamp(), "status": status}).encode())
    assert read.status.artifact is not None
    assert read.status.artifact.revision == "main"


@pytest.mark.req("R-510")
def test_an_inventory_that_cannot_be_read_is_never_taken_for_an_empty_one() -> None:
    item = {"group": "", "version": "v1", "kind": "ConfigMap", "name": "kept"}
    component = {**lamp(), "status": {"observedGeneration": 1, "inventory": [item]}}
    with pytest.raises(msgspec.ValidationError, match="inventory"):
        view(Component).decode(json.dumps(component).encode())


@pytest.mark.req("R-510")
def test_an_inventory_survives_the_timestamps_that_cannot_be_read() -> None:
    words = ("adoptionPolicy", "reconcilePolicy", "updatePolicy", "deletePolicy", "digest")
    item = {"group": "", "version": "v1", "kind": "ConfigMap", "name": "kept", "applyOrder": 0, "deleteOrder": 0}
    item |= dict.fromkeys(words, "x") | {"lastAppliedAt": NO_TIME}
    component = {**lamp(), "status": {"observedGeneration": 1, "lastObservedAt": NO_TIME, "inventory": [item]}}
    read = view(Component).decode(json.dumps(component).encode())
    assert [one.name for one in read.status.inventory] == ["kept"]
    assert read.status.inventory[0].last_applied_at is None


@pytest.mark.req("R-413")
@pytest.mark.parametrize("since", ["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "2020-01-01T00:00:00"])
def test_a_moment_that_nothing_can_be_counted_from_counts_as_absent(since: str) -> None:
    component = {**lamp(), "status": {"observedGeneration": 1, "processingSince": since}}
    read = view(Component).decode(json.dumps(component).encode())
    assert read.status.processing_since is None
    component["status"]["processingSince"] = "2020-01-01T00:00:00Z"
    assert view(Component).decode(json.dumps(component).encode()).status.processing_since is not None


def test_a_timestamp_that_decides_about_a_deletion_never_counts_as_absent() -> None:
    odd = lamp("odd")
    odd["metadata"]["deletionTimestamp"] = NO_TIME
    with pytest.raises(msgspec.ValidationError):
        TYPED.decode(json.dumps(odd).encode())


@pytest.mark.req("R-410")
@pytest.mark.parametrize("levels", [LEVELS + 1, 400])
def test_values_of_a_component_that_are_nested_too_deep_make_it_unreadable(levels: int) -> None:
    text = json.dumps({**lamp(), "spec": {"values": "HERE"}})

    def component(depth: int) -> bytes:
        return text.replace('"HERE"', nested(depth - 2)).encode()

    assert view(Component).decode(component(LEVELS)).spec.values is not None
    [found] = view(Component).decode_each(page_of(component(levels))).unreadable
    assert TOO_DEEP in found.why


# ---- events


@pytest.mark.req("R-510")
def test_an_event_about_an_object_that_cannot_be_read_names_it() -> None:
    for type_ in ("ADDED", "MODIFIED", "DELETED"):
        seen, obj = TYPED.decode_odd_event(event(lamp("bad", spec={"lit": "very"}), type_))
        assert (seen, type(obj)) == (type_, Unreadable)


@pytest.mark.req("R-510", "R-410")
@pytest.mark.parametrize("levels", [LEVELS + 1, 9_000, 50_000])
def test_an_event_about_an_object_that_is_nested_too_deep_names_it(levels: int) -> None:
    line = b'{"type":"MODIFIED","object":%s}' % deep_lamp(levels)
    seen, obj = FREE.decode_odd_event(line)
    assert seen == "MODIFIED"
    assert isinstance(obj, Unreadable)
    assert (obj.key, obj.why) == (ObjectKey("hall", "deep"), TOO_DEEP)


def test_an_event_that_is_no_event_is_refused() -> None:
    for line in (b"", b"5", b'{"type":"MODIFIED"}', b'{"type":"MODIFIED","object":5}', b'{"type":5,"object":{}}'):
        with pytest.raises(UNREADABLE):
            TYPED.decode_odd_event(line)


def unreadable(name: str = "bad", version: str = "8") -> Unreadable:
    return Unreadable(Lamp.resource, ObjectMeta(name=name, namespace="hall", uid="u", resource_version=version), "why")


@pytest.mark.req("R-510")
def test_a_watch_goes_on_behind_an_object_that_cannot_be_read() -> None:
    seen = step(Watching("7", failures=2), WatchEvent("MODIFIED", unreadable()), TYPED)
    assert (seen.state, seen.change, seen.goes_on) == (Watching("8"), Odd(unreadable()), True)
    seen = step(Watching("7"), WatchEvent("DELETED", unreadable()), TYPED)
    assert (seen.state, seen.change, seen.goes_on) == (Watching("8"), Removed(unreadable()), True)


def test_an_event_without_a_version_does_not_lose_the_place_of_the_watch() -> None:
    assert step(Watching("7"), WatchEvent("MODIFIED", unreadable(version="")), TYPED).state == Watching("7")


@pytest.mark.req("R-510")
def test_a_list_tells_what_of_it_cannot_be_read() -> None:
    listing: Listing[Lamp] = Listing([], "9", unreadable=(unreadable(),))
    seen = step(Watching("7"), ListedInput(listing), TYPED)
    assert seen.change == Synced((), "9", (unreadable(),))


# ---- depth


def test_depth_is_counted_from_the_outermost_container() -> None:
    assert not is_deeper(5, 0)
    assert not is_deeper([], 1)
    assert is_deeper([[]], 1)
    assert not is_deeper({"a": [{"b": 1}], "c": {}}, 3)
    assert is_deeper({"a": [{"b": []}], "c": {}}, 3)


def test_few_brackets_are_never_deep() -> None:
    assert not may_be_deeper(b"[" * LEVELS)
    assert may_be_deeper(b"[{" * LEVELS)
    assert not may_be_deeper(b'{"f:a":{},"f:b":[]}' * (LEVELS - 1))
    assert may_be_deeper(b"[" * (LEVELS + 1) + b"]" * (LEVELS + 1))


def test_text_is_cut_at_the_level_and_nowhere_else() -> None:
    text = rb'{"a":[1,{"b":[2]},"]}[{\"",{}],"c":{"d":[[3]]}}'
    assert msgspec.json.decode(shallow(text, 2)) == {"a": [1, None, ']}[{"', None], "c": {"d": None}}
    assert shallow(text, 5) == text


deep_json = some.recursive(
    some.none() | some.booleans() | some.integers(-9, 9) | some.text('[]{}"\\,:a', max_size=6),
    lambda inner: (
        some.lists(inner, max_size=3) | some.dictionaries(some.text('[]{}"\\', max_size=3), inner, max_size=3)
    ),
    max_leaves=30,
)


@given(deep_json, some.integers(1, 8))
def test_what_is_deeper_always_has_brackets_enough(value: Any, levels: int) -> None:
    if is_deeper(value, levels):
        assert may_be_deeper(msgspec.json.encode(value), levels)


@given(deep_json, some.integers(1, 8))
def test_what_is_cut_is_never_deeper_and_what_is_not_deeper_is_never_cut(value: Any, levels: int) -> None:
    text = json.dumps(value).encode()
    cut = msgspec.json.decode(shallow(text, levels))
    assert not is_deeper(cut, levels)
    assert (cut == value) == (not is_deeper(value, levels)) or is_deeper(value, levels)


# ---- anything at all


anything = some.recursive(
    some.none()
    | some.booleans()
    | some.integers()
    | some.floats(allow_nan=False, allow_infinity=False)
    | some.text(max_size=20)
    | some.just(NO_TIME),
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(some.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)
fields = some.sampled_from(["metadata", "spec", "status", "apiVersion", "kind", "items", "conditions", "inventory"])
objects = some.dictionaries(fields, anything, max_size=6)


@pytest.mark.req("R-401", "R-510")
@given(some.lists(objects, max_size=4), some.sampled_from([Lamp, Component, GitRepository]))
def test_no_object_fails_a_list_that_names_itself(items: list[dict[str, Any]], kind: type[Kind]) -> None:
    named = [{**item, "metadata": {"name": f"n{number}", "uid": "u"}} for number, item in enumerate(items)]
    for target in (view(kind), unstructured(kind.resource), metadata_of(kind)):
        found = target.decode_each(page(*named))
        assert len(found.items) + len(found.unreadable) == len(items)


@pytest.mark.req("R-401")
@given(some.binary(max_size=200) | objects.map(lambda value: json.dumps(value).encode()))
def test_bytes_that_are_no_object_raise_what_is_documented(data: bytes) -> None:
    for target in (TYPED, FREE, metadata_of(Lamp)):
        for read in (target.decode, target.decode_list, target.decode_each, target.decode_event):
            with contextlib.suppress(*UNREADABLE):
                read(data)


def test_a_status_at_an_error_event_is_read() -> None:
    assert TYPED.decode_odd_event(event({"code": 410}, "ERROR")) == ("ERROR", Status(code=410))
    seen, obj = TYPED.decode_odd_event(event(lamp(), "BOOKMARK"))
    assert isinstance(obj, PartialObjectMetadata)
    assert seen == "BOOKMARK"


def test_shapes_keep_what_they_had() -> None:
    obj = FREE.decode(json.dumps(lamp(spec={"lit": True})).encode())
    assert isinstance(obj, Unstructured)
    assert obj.at("spec", "lit") is True
    assert TYPED.decode(json.dumps(lamp(spec={"lit": True})).encode()).spec.lit


@pytest.mark.req("R-412")
async def test_a_megabyte_of_brackets_does_not_hold_up_the_loop() -> None:
    line = b'{"type":"MODIFIED","object":%s}' % deep_lamp(700_000)
    with measured_stalls() as stalls:
        await asyncio.to_thread(FREE.decode_odd_event, line)
    assert stalls.longest_seconds < LONGEST_STALL_SECONDS


# ---- moments


@pytest.mark.req("R-413")
@pytest.mark.parametrize("field", ["creationTimestamp", "deletionTimestamp"])
@pytest.mark.parametrize("target", [TYPED, FREE, metadata_of(Lamp)], ids=["typed", "free", "metadata"])
@pytest.mark.parametrize("moment", ["2020-01-01T00:00:00", "2020-01-01", NO_TIME, 5, {}])
def test_an_object_whose_metadata_have_no_usable_moment_is_left_out_and_named(
    field: str, target: View[Any], moment: Any
) -> None:
    odd = lamp("odd")
    odd["metadata"][field] = moment
    found = target.decode_each(page(lamp("good"), odd))
    assert [obj.metadata.name for obj in found.items] == ["good"]
    [left_out] = found.unreadable
    assert str(left_out).startswith("Lamp hall/odd cannot be read: ")
    assert f"{field}: " in str(left_out)
