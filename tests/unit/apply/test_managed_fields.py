"""Who else writes an object is seen, and becomes us."""

from __future__ import annotations

import msgspec
import pytest

from stellwerk.apply.fields.managed_fields import applied_by, beginning_with, claimed, reclaimed, strangers
from stellwerk.apply.set.model.policy import UpdatePolicy
from stellwerk.kube.types.model import JsonObject
from stellwerk.kube.types.object_meta import FieldManager


def entry(manager: str, operation: str = "Update", subresource: str = "", **fields: JsonObject) -> JsonObject:
    base: JsonObject = {"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1"}
    return {**base, "fieldsV1": dict(fields), **({"subresource": subresource} if subresource else {})}


def owning(manager: str, *metadata: str, operation: str = "Update", **fields: JsonObject) -> JsonObject:
    """An entry that owns these fields of metadata, besides others."""
    inside: JsonObject = {field: {".": {}} for field in metadata}
    own: dict[str, JsonObject] = {"f:metadata": inside, **fields}
    return entry(manager, operation, "", **own)


def read(entries: list[JsonObject]) -> list[FieldManager]:
    """As the caches keep them."""
    return msgspec.convert(entries, list[FieldManager])


def who(manager: str, operation: str = "Update", subresource: str = "") -> FieldManager:
    return FieldManager(manager=manager, operation=operation, subresource=subresource)


@pytest.mark.parametrize(
    ("managers", "found"),
    [
        ([], []),
        ([who("us", "Apply")], []),
        ([who("us", "Apply"), who("kube-controller-manager", "Update", "status")], []),
        ([who("us", "Apply"), who("kubectl", "Update", "scale")], []),
        ([who("kube-controller-manager")], []),
        ([who("kubectl-edit")], ["kubectl-edit"]),
        ([who("kubectl", "Apply"), who("kubectl")], ["kubectl"]),
        ([who("us")], ["us (Update)"]),
        ([who("a"), who("us", "Apply"), who("b")], ["a", "b"]),
        ([who("us", "Apply", "status")], []),
    ],
)
def test_strangers_are_those_who_wrote_the_main_resource_besides_us(
    managers: list[FieldManager], found: list[str]
) -> None:
    assert strangers(managers, "us") == found


def test_writers_can_be_tolerated() -> None:
    assert strangers([who("cainjector")], "us", {"cainjector"}) == []


def test_only_an_apply_to_the_main_resource_makes_us_owner() -> None:
    assert applied_by([who("us", "Apply")], "us")
    assert not applied_by([who("us"), who("us", "Apply", "status"), who("them", "Apply")], "us")


def test_fields_of_strangers_are_joined_with_ours() -> None:
    ours = entry("us", "Apply", spec={"f:a": {}, "f:b": {"f:c": {}}})
    theirs = entry("them", spec={"f:b": {"f:d": {}}, "f:e": {}})
    assert reclaimed([theirs, ours], "us") == [
        entry("us", "Apply", spec={"f:a": {}, "f:b": {"f:c": {}, "f:d": {}}, "f:e": {}})
    ]


def test_without_an_apply_of_ours_the_first_stranger_becomes_it() -> None:
    assert reclaimed([entry("us", a={}), entry("them", b={})], "us") == [entry("us", "Apply", a={}, b={})]


def test_entries_of_subresources_and_of_the_control_plane_stay_as_they_are() -> None:
    status = entry("kube-controller-manager", subresource="status", a={})
    bound = entry("kube-controller-manager", b={})
    ours = entry("us", "Apply", c={})
    assert reclaimed([status, entry("them", d={}), bound, ours], "us") == [
        entry("us", "Apply", c={}, d={}),
        status,
        bound,
    ]


def test_reclaiming_twice_changes_nothing() -> None:
    once = reclaimed([entry("a", x={"f:y": {}}), entry("us", "Apply", z={}), entry("b", "Update", "status")], "us")
    assert reclaimed(once, "us") == once


def test_strangers_keep_their_finalizers_and_owner_references_and_nothing_else() -> None:
    theirs = owning("them", "f:finalizers", "f:labels", spec={"f:b": {}})
    owner = owning("owner", "f:ownerReferences")
    divided = reclaimed([theirs, owner, entry("us", "Apply", spec={"f:c": {}})], "us")
    ours = owning("us", "f:labels", operation="Apply", spec={"f:b": {}, "f:c": {}})
    assert divided == [ours, owning("them", "f:finalizers"), owner]
    assert strangers(read(divided), "us") == []


def test_an_entry_of_which_only_the_finalizers_stay_does_not_make_metadata_ours() -> None:
    theirs = owning("them", "f:finalizers", spec={"f:b": {}})
    assert reclaimed([theirs], "us")[0] == entry("us", "Apply", spec={"f:b": {}})


def test_who_is_claimed_by_name_leaves_nothing_behind() -> None:
    held = owning("helm", "f:finalizers")
    claims = UpdatePolicy.SSA_OVERRIDE.claims("us", beginning_with("helm"))
    assert claimed(read([held]), "us", claims) == ["helm"]
    assert reclaimed([held], "us", claims) == [owning("us", "f:finalizers", operation="Apply")]


@pytest.mark.parametrize(
    ("owns", "only_holds"),
    [
        (owning("them", "f:finalizers"), True),
        (owning("them", "f:finalizers", "f:ownerReferences"), True),
        (owning("them", "f:finalizers", "f:labels"), False),
        (owning("them", "f:finalizers", "f:annotations"), False),
        (owning("them", "f:generateName"), False),
        (owning("them", "f:finalizers", data={"f:a": {}}), False),
        (entry("them", data={}), False),
        (entry("them"), False),
    ],
)
def test_a_field_manager_knows_whether_it_only_holds(owns: JsonObject, only_holds: bool) -> None:
    (found,) = read([owns])
    assert found.only_holds is only_holds
    assert found.fields is None


def test_nothing_is_made_of_nothing() -> None:
    assert reclaimed([], "us") == []


def test_the_given_entries_are_left_alone() -> None:
    ours, theirs = entry("us", "Apply", x={}), entry("them", x={"f:y": {}})
    reclaimed([ours, theirs], "us")
    assert ours == entry("us", "Apply", x={})
    assert theirs == entry("them", x={"f:y": {}})
