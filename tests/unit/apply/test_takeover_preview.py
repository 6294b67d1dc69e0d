"""What an object loses when the fields of others become ours."""

from __future__ import annotations

from stellwerk.apply.fields.managed_fields import CONTROL_PLANE, Claims, all_but
from stellwerk.apply.fields.takeover_preview import removed
from stellwerk.kube.types.model import JsonObject, JsonValue, dig

KUBECTL = Claims(lambda manager: manager.startswith("kubectl"))


def entry(manager: str, fields: JsonObject, operation: str = "Update", **more: str) -> JsonObject:
    return {"manager": manager, "operation": operation, "fieldsV1": fields, **more}


def an_object(*entries: JsonObject) -> JsonObject:
    containers: list[JsonValue] = [{"name": "main", "image": "a"}, {"name": "extra", "image": "b"}]
    fields: list[JsonValue] = [*entries]
    metadata: JsonObject = {"name": "x", "labels": {"ours": "1", "theirs": "2"}, "managedFields": fields}
    return {"metadata": metadata, "spec": {"replicas": 3, "containers": containers, "args": ["a", "b"]}}


WANTED: JsonObject = {"metadata": {"name": "x", "labels": {"ours": "1"}}}


def without(live: JsonObject, claims: Claims, wanted: JsonObject = WANTED) -> JsonObject | None:
    return removed(live, live, wanted, "me", claims)


OURS = entry("me", {"f:metadata": {"f:labels": {"f:ours": {}}}}, "Apply")


def test_a_label_that_somebody_added_goes_and_ours_stays() -> None:
    theirs = entry("kubectl-label", {"f:metadata": {"f:labels": {".": {}, "f:theirs": {}}}})
    left = without(an_object(OURS, theirs), KUBECTL)
    assert dig(left, "metadata", "labels") == {"ours": "1"}


def test_a_field_that_an_unclaimed_manager_owns_as_well_stays() -> None:
    fields: JsonObject = {"f:spec": {"f:replicas": {}}}
    left = an_object(OURS, entry("kubectl-edit", fields), entry("autoscaler", fields))
    assert without(left, KUBECTL) is None
    assert without(left, all_but(CONTROL_PLANE)) is not None


def test_what_our_own_manifest_names_stays() -> None:
    named = entry("me", {"f:spec": {"f:replicas": {}}}, "Apply")
    assert without(an_object(named, entry("kubectl-scale", {"f:spec": {"f:replicas": {}}})), KUBECTL) is None


def test_what_our_manifest_names_from_now_on_stays() -> None:
    theirs = entry("kubectl-scale", {"f:spec": {"f:replicas": {}}})
    assert without(an_object(OURS, theirs), KUBECTL, {"spec": {"replicas": 3}}) is None
    assert without(an_object(OURS, theirs), KUBECTL, {"spec": {}}) is not None


def test_items_of_lists_and_values_of_sets_go_one_by_one() -> None:
    item: JsonObject = {'k:{"name":"extra"}': {".": {}, "f:name": {}, "f:image": {}}}
    fields: JsonObject = {"f:spec": {"f:containers": item, "f:args": {'v:"b"': {}}}}
    left = without(an_object(OURS, entry("kubectl-patch", fields)), KUBECTL)
    assert dig(left, "spec", "containers") == [{"name": "main", "image": "a"}]
    assert dig(left, "spec", "args") == ["a"]


def test_subresources_and_odd_entries_take_nothing_away() -> None:
    scale = entry("kubectl", {"f:spec": {"f:replicas": {}}}, subresource="scale")
    assert without(an_object(OURS, scale), KUBECTL) is None
    assert without({"metadata": {"managedFields": "none"}}, KUBECTL) is None
    assert without({}, KUBECTL) is None
    odd = entry(
        "kubectl", {"f:spec": {"f:nothing": {"f:below": {}}, "f:args": {"v:{": {}}, "f:containers": {"i:0": {}}}}
    )
    assert without(an_object(OURS, odd), KUBECTL) is None
