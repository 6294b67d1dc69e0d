"""Several sources of values become one, and each value still knows where it came from."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.promptly import promptly

from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.render.errors import InvalidValues
from stellwerk.render.request.values import Layer, Leaf, checked, masked, merge, origins, read, secret_words

KEYS = st.text("abc", min_size=1, max_size=2)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.text("xyz", max_size=3))
VALUES: st.SearchStrategy[JsonValue] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=8,
)
MAPPINGS: st.SearchStrategy[JsonObject] = st.dictionaries(KEYS, VALUES, max_size=4)


def layers(*values: JsonObject) -> list[Layer]:
    return [Layer(str(number), value) for number, value in enumerate(values)]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"c": 3}}, {"a": {"b": 1, "c": 3}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": {"b": 1}}, {"a": 5}, {"a": 5}),
        ({"a": 5}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        ({"a": {"b": 1}}, {"a": None}, {"a": None}),
        ({"a": {"b": 1}}, {"a": {"b": None}}, {"a": {"b": None}}),
        ({"a": {"b": 1}}, {"a": {}}, {"a": {"b": 1}}),
        ({"a": None}, {"a": {}}, {"a": {}}),
    ],
)
def test_mappings_are_merged_and_everything_else_is_replaced(
    first: JsonObject, second: JsonObject, expected: JsonObject
) -> None:
    assert merge(layers(first, second)) == expected


@given(MAPPINGS)
def test_merging_with_nothing_or_itself_changes_nothing(values: JsonObject) -> None:
    assert merge(layers(values)) == merge(layers({}, values)) == merge(layers(values, {}, values)) == values


@given(MAPPINGS, MAPPINGS, MAPPINGS)
def test_merging_in_steps_is_merging_at_once(one: JsonObject, two: JsonObject, three: JsonObject) -> None:
    assert merge(layers(merge(layers(one, two)), three)) == merge(layers(one, two, three))


@given(MAPPINGS, MAPPINGS)
def test_no_layer_is_changed_by_merging(one: JsonObject, two: JsonObject) -> None:
    before = copy.deepcopy((one, two))
    merge(layers(one, two, {"a": {"b": {"c": 1}}}))
    assert (one, two) == before


# ---- reading


def test_whole_numbers_stay_whole() -> None:
    found = read("replicas: 1000000\nbig: 9007199254740993\nratio: 0.5\nfloat: 1e3\ntext: '007'", "x")
    assert json.dumps(found) == json.dumps(
        {"replicas": 1000000, "big": 9007199254740993, "ratio": 0.5, "float": 1000, "text": "007"}
    )


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "{}", "null"])
def test_nothing_is_no_values(text: str) -> None:
    assert read(text, "x") == {}


SOURCE = "Secret default/app key values.yaml"


@pytest.mark.req("R-401")
@pytest.mark.req("R-801")
@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("password: hunter2\n  broken: hunter2", 2, "is not YAML"),
        ("a: 1\nhunter2: 1\nhunter2: 2", 3, "a key appears twice"),
        ("a: !!int hunter2", 1, "!!int"),
        ("- hunter2", 0, "found a list"),
        ("hunter2", 0, "found a text"),
        ("a: 1\n---\nb: hunter2", 3, "expected one document"),
        ("a: .inf", 1, "infinite"),
        ("\ufffehunter2: \x07", 0, "text"),
        (f"a: {'[' * 101}{']' * 101}", 1, "deeper than 100"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place_and_without_its_content(text: str, line: int, why: str) -> None:
    with pytest.raises(InvalidValues, match=why) as caught:
        read(text, SOURCE)
    assert str(caught.value).startswith(f"values of {SOURCE}")
    assert caught.value.line == line
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize("value", [[1], "text", 5, True])
def test_values_of_a_spec_must_be_a_mapping(value: JsonValue) -> None:
    with pytest.raises(InvalidValues, match="expected a mapping"):
        checked(value, "spec.values")
    assert checked(None, "spec.values") == {}


@pytest.mark.req("R-402")
def test_values_of_a_spec_may_be_100_levels_deep() -> None:
    value: JsonValue = 1
    for _ in range(100):
        value = {"a": value}
    assert checked(value, "spec.values")
    with pytest.raises(InvalidValues, match="deeper than 100"):
        checked({"a": value}, "spec.values")


@pytest.mark.req("R-401")
@settings(max_examples=200)
@given(st.one_of(st.binary(max_size=200), st.text("{}[]:-,&*<>!|'\"#%@? \na0.", max_size=80)))
@promptly
def test_any_text_is_values_or_refused(text: str | bytes) -> None:
    try:
        assert isinstance(read(text, SOURCE), dict)
    except InvalidValues as error:
        shown = str(error)
    else:
        shown = ""
    assert shown == "" or shown.startswith("values of")


# ---- where it came from


def test_each_leaf_knows_its_source_and_what_it_overrides() -> None:
    found = origins(
        [
            Layer("Secret a", {"db": {"password": "hunter2", "host": "one"}, "x": 1}, secret=True),
            Layer("Secret b", {"db": {"host": "two"}, "x": {"y": 1}}, secret=True),
            Layer("spec.values", {"db": {"host": "three"}, "list": [1], "empty": {}, "a.b": None}),
        ]
    )
    assert found == (
        Leaf(("a.b",), "spec.values", None),
        Leaf(("db", "host"), "spec.values", "three", ("Secret b", "Secret a")),
        Leaf(("db", "password"), "Secret a", "***"),
        Leaf(("empty",), "spec.values", {}),
        Leaf(("list",), "spec.values", [1]),
        Leaf(("x", "y"), "Secret b", "***"),
    )
    assert found[0].name == "a\\.b"


@given(MAPPINGS, MAPPINGS, MAPPINGS)
def test_the_leaves_are_those_of_the_merged_values(one: JsonObject, two: JsonObject, three: JsonObject) -> None:
    sources = layers(one, two, three)
    rebuilt = merge([Layer(str(leaf.path), _nested(leaf)) for leaf in origins(sources)])
    assert rebuilt == merge(sources)


def _nested(leaf: Leaf) -> JsonObject:
    value = leaf.shown
    for key in reversed(leaf.path):
        value = {key: value}
    assert isinstance(value, dict)
    return value


@pytest.mark.req("R-801")
def test_words_of_secrets_are_masked_and_short_ones_left_alone() -> None:
    words = secret_words(
        [
            Layer("s", {"a": "hunter2", "b": ["line one\n  line two\n", 123456, True], "c": "on"}, secret=True),
            Layer("spec.values", {"d": "visible"}),
        ]
    )
    assert words >= {"hunter2", "line one", "line two", "123456"}
    assert not words & {"on", "visible", "True"}
    assert masked("cannot use hunter2 at line two of 123456, on", words) == "cannot use *** at *** of ***, on"


@pytest.mark.req("R-801")
def test_no_repr_shows_values() -> None:
    assert "hunter2" not in repr(Layer("s", {"a": "hunter2"}))


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ('parsing "hun\\"ter\'2\\n": invalid', 'parsing "***\\n": invalid'),
        ("the value 'hun\"ter''2' is refused", "the value '***' is refused"),
        ('cannot unmarshal !!str `hun"ter...` into int', "cannot unmarshal !!str `***` into int"),
        ("error parsing regexp: missing closing ]: `n\"ter'2`", "error parsing regexp: missing closing ]: `***`"),
        ('it goes on and on about hun"t...', "it goes on and on about ***..."),
        ("nothing to see here...", "nothing to see here..."),
        ('there is no template "hun"', 'there is no template "hun"'),
    ],
)
def test_a_word_is_masked_however_a_message_spells_it_and_in_parts(message: str, shown: str) -> None:
    assert masked(message, {"hun\"ter'2"}) == shown


def test_a_word_with_line_breaks_and_control_characters_is_masked_as_go_and_json_write_it() -> None:
    word = "a\x01\u200b<b>\\n\nc"
    for spelled in (r"a\x01\u200b<b>\\n\nc", r"a\u0001ZW\u003cb\u003e\\n\nc".replace("ZW", "\u200b")):
        assert masked(f'parsing "{spelled}"', {word}) == 'parsing "***"'
