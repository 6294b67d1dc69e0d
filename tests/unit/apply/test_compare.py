"""Wanted is found in live where the API server would say so, and nowhere else."""

from __future__ import annotations

import copy
from decimal import Decimal

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

from stellwerk.apply.fields.compare import FieldComparison, compare, quantity
from stellwerk.kube.types.model import JsonObject, JsonValue

pytestmark = pytest.mark.heavy

Case = tuple[JsonObject, JsonObject]


def spec(value: JsonValue) -> JsonObject:
    return {"spec": value}


EQUAL: list[Case] = [
    ({}, {}),
    (spec({"a": 1}), spec({"a": 1})),
    (spec({"a": 1}), spec({"a": 1.0})),
    (spec({"a": None}), spec({})),
    (spec({"a": {}}), spec({})),
    (spec({"a": []}), spec({"a": None})),
    (spec({}), {}),
    ({}, spec({})),
    (spec({"a": [{"name": "x"}]}), spec({"a": [{"name": "x"}]})),
    ({"metadata": {"name": "a"}}, {"metadata": {"name": "a", "uid": "1", "resourceVersion": "3", "generation": 2}}),
    ({"metadata": {"name": "a"}}, {"metadata": {"name": "a", "creationTimestamp": "x", "managedFields": [1]}}),
    (
        {"metadata": {"name": "a"}},
        {"metadata": {"name": "a", "finalizers": ["x/y"], "ownerReferences": [{"uid": "1"}]}},
    ),
    ({"metadata": {"finalizers": ["x/y"]}}, {"metadata": {"finalizers": ["x/y"]}}),
    ({}, {"status": {"phase": "Active"}}),
    ({"status": {"wanted": 1}}, {"status": {"live": 2}}),
    (spec({"resources": {"limits": {"cpu": "1000m"}}}), spec({"resources": {"limits": {"cpu": "1"}}})),
    (spec({"resources": {"limits": {"cpu": 1}}}), spec({"resources": {"limits": {"cpu": "1"}}})),
    (spec({"resources": {"requests": {"memory": "1024Mi"}}}), spec({"resources": {"requests": {"memory": "1Gi"}}})),
    (spec({"resources": {"requests": {"cpu": 0.5}}}), spec({"resources": {"requests": {"cpu": "500m"}}})),
    (spec({"hard": {"limits.cpu": "2000m"}}), spec({"hard": {"limits.cpu": "2"}})),
    (spec({"emptyDir": {"sizeLimit": "1e3"}}), spec({"emptyDir": {"sizeLimit": "1k"}})),
]


@pytest.mark.parametrize(("wanted", "live"), EQUAL)
def test_these_are_equal_without_remainder(wanted: JsonObject, live: JsonObject) -> None:
    assert compare(wanted, live) == FieldComparison((), ())


DIFFERENT: list[tuple[JsonObject, JsonObject, str]] = [
    (spec({"a": 1}), spec({}), "spec.a is missing"),
    (spec({"a": 1}), {}, "spec differs|spec is missing"),
    (spec({"replicas": 1}), spec({"replicas": 3}), "spec.replicas is 3, wanted 1"),
    (spec({"a": True}), spec({"a": False}), "spec.a is false, wanted true"),
    (spec({"a": True}), spec({"a": 1}), "spec.a is 1, wanted true"),
    (spec({"a": "1"}), spec({"a": 1}), "spec.a differs"),
    (spec({"a": "1000m"}), spec({"a": "1"}), "spec.a differs"),
    (spec({"a": "secret"}), spec({"a": "other"}), "spec.a differs"),
    (spec({"a": {}}), spec({"a": {"b": 1}}), ""),
    (spec({"a": None}), spec({"a": 1}), "spec.a differs"),
    (spec({"a": [1, 2]}), spec({"a": [2, 2]}), "spec.a[0] is 2, wanted 1"),
    (spec({"a": [1]}), spec({"a": [1, 2]}), "spec.a differs"),
    (spec({"a": [{"name": "x"}, {"name": "y"}]}), spec({"a": [{"name": "y"}]}), "spec.a differs"),
    (spec({"a": [{"name": "x", "b": 1}]}), spec({"a": [{"name": "x", "b": 2}]}), "spec.a[x].b is 2, wanted 1"),
    (
        spec({"a": [{"name": "x", "b": 1}]}),
        spec({"a": [{"name": "y"}, {"name": "x", "b": 2}]}),
        "spec.a[x].b is 2, wanted 1",
    ),
    (spec({"a": [{"name": "x"}]}), spec({"a": [{"name": "y"}, {"name": "z"}]}), "spec.a[x] is missing"),
    (spec({"a": [{"name": "x"}]}), spec({"a": [{"name": "y"}, {"name": "y"}]}), "spec.a differs"),
    ({"metadata": {"labels": {"a/b": "1"}}}, {"metadata": {"labels": {}}}, 'metadata.labels["a/b"] is missing'),
    (spec({"limits": {"cpu": "1"}}), spec({"limits": {"cpu": "2"}}), "spec.limits.cpu differs"),
    (spec({"limits": {"cpu": "many"}}), spec({"limits": {"cpu": "few"}}), "spec.limits.cpu differs"),
]


@pytest.mark.parametrize(("wanted", "live", "what"), DIFFERENT)
def test_these_differ_and_the_field_is_named(wanted: JsonObject, live: JsonObject, what: str) -> None:
    found = [str(difference) for difference in compare(wanted, live).differences]
    assert found in ([one] if one else [] for one in what.split("|"))


REMAINDER: list[tuple[JsonObject, JsonObject, str]] = [
    (spec({}), spec({"a": 1}), "spec.a"),
    ({"metadata": {"labels": {"a": "1"}}}, {"metadata": {"labels": {"a": "1", "b": "2"}}}, "metadata.labels.b"),
    (spec({"a": [{"name": "x"}]}), spec({"a": [{"name": "x"}, {"name": "y"}]}), "spec.a[y]"),
    (spec({"a": [{"b": 1}]}), spec({"a": [{"b": 1, "c": 2}]}), "spec.a[0].c"),
]


@pytest.mark.parametrize(("wanted", "live", "path"), REMAINDER)
def test_what_nobody_asked_for_is_no_difference_but_named(wanted: JsonObject, live: JsonObject, path: str) -> None:
    assert compare(wanted, live) == FieldComparison((), (path,))


def test_a_false_or_zero_that_nobody_asked_for_is_named_too() -> None:
    assert compare({}, spec({"a": False, "b": 0})).extras == ("spec",)


def test_the_remainder_is_cut_when_it_says_nothing_new() -> None:
    assert len(compare({}, {str(number): 1 for number in range(100)}).extras) == 20


@pytest.mark.req("R-801")
def test_a_difference_does_not_show_texts() -> None:
    (difference,) = compare({"data": {"password": "hunter2"}}, {"data": {"password": "hunter3"}}).differences
    assert "hunter" not in repr(difference)


def test_the_same_difference_is_equal_and_another_value_is_another_difference() -> None:
    one, same, other = (compare(spec({"a": "x"}), spec({"a": live})).differences for live in ("y", "y", "z"))
    assert one == same != other


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("1", "1"),
        (1, "1"),
        (0.5, "0.5"),
        ("100m", "0.1"),
        ("1Ki", "1024"),
        ("1.5Gi", str(3 * 2**29)),
        ("2k", "2000"),
        ("5n", "0.000000005"),
        ("7u", "0.000007"),
        ("1e3", "1000"),
        ("1E3", "1000"),
        ("1E", str(10**18)),
        ("-1", "-1"),
        ("+1.", "1"),
        (".5", "0.5"),
    ],
)
def test_a_quantity_stands_for_an_amount(text: JsonValue, amount: str) -> None:
    assert quantity(text) == Decimal(amount)


@pytest.mark.parametrize("text", ["", "1 Gi", "Gi", "1gi", "1KiB", "1e", "0x10", True, None, [], "1e9999", "٣"])
def test_what_is_no_quantity_stands_for_nothing(text: JsonValue) -> None:
    assert quantity(text) is None


SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5))
VALUES: st.SearchStrategy[JsonValue] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=3), inner, max_size=4)),
)
OBJECTS = st.dictionaries(st.text(max_size=3), VALUES, max_size=5)


@for_all(OBJECTS)
def test_every_object_equals_itself(body: JsonObject) -> None:
    assert compare(body, copy.deepcopy(body)).is_equal


@for_all(OBJECTS, OBJECTS)
def test_any_two_objects_can_be_compared(one: JsonObject, other: JsonObject) -> None:
    compare(one, other)


@for_all(OBJECTS, st.dictionaries(st.text(min_size=4, max_size=6), SCALARS, max_size=3))
def test_defaults_on_top_never_make_a_difference(body: JsonObject, defaults: JsonObject) -> None:
    assert not compare(body, {**defaults, **body}).differences
