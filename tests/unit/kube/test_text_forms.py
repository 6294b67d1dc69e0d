"""What users read about a text that has not the form of its field: a sentence with an example, never a pattern."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import pytest

from stellwerk.assembly import OPERATORS
from stellwerk.kube.types import errors
from stellwerk.kube.types.errors import Status, StatusCause, StatusDetails
from stellwerk.kube.types.model import JsonValue, dig
from stellwerk.kube.types.text_forms import FORMS, SEMANTIC_VERSION, TextForm, translated
from stellwerk.operators.kyma import api as kyma

DEFINITIONS = [
    *(each for operator in OPERATORS.values() for each in operator.installation().definitions),
    *kyma.DEFINITIONS,
]
FIELDS_OF_USERS_WITH_A_PATTERN = {
    # Below lists without a bound, so that no rule fits the budget of the API server (designs/text-forms.md).
    "metrics[].calculationPeriod",
    "scrapeConfig.interval",
    "scrapeConfig.scrapeTimeout",
    "domains.secondary[]",
    "modules[].channel",
    "channels[].channel",
    "channels[].version",
}


def fields(schema: JsonValue, path: str) -> Iterator[tuple[str, dict[str, JsonValue]]]:
    """Every field of a schema, with its path."""
    if not isinstance(schema, dict):
        return
    yield path, schema
    properties = schema.get("properties")
    for name, part in properties.items() if isinstance(properties, dict) else ():
        yield from fields(part, f"{path}.{name}")
    yield from fields(schema.get("items"), f"{path}[]")
    yield from fields(schema.get("additionalProperties"), f"{path}{{}}")


def all_fields() -> Iterator[tuple[str, dict[str, JsonValue]]]:
    for definition in DEFINITIONS:
        versions = dig(definition.body(), "spec", "versions")
        assert isinstance(versions, list)
        for version in versions:
            yield from fields(dig(version, "schema", "openAPIV3Schema"), str(definition.name))


def test_every_pattern_of_every_definition_has_a_sentence() -> None:
    known = {form.pattern for form in FORMS}
    patterns = {path: schema["pattern"] for path, schema in all_fields() if "pattern" in schema}

    assert len(patterns) > 50
    assert [path for path, pattern in patterns.items() if pattern not in known] == []


def test_a_pattern_is_left_only_where_no_rule_is_possible_and_in_what_operators_write() -> None:
    left = [
        path
        for path, schema in all_fields()
        if "pattern" in schema and ".status." not in path and not schema.get("x-kubernetes-int-or-string")
    ]

    assert {".".join(path.split(".")[-2:]) for path in left} == FIELDS_OF_USERS_WITH_A_PATTERN


def test_a_rule_of_a_form_has_its_sentence_as_message() -> None:
    sentences = {expression: form.sentence for form in FORMS for expression in form.expressions}
    found = 0
    for path, schema in all_fields():
        rules = schema.get("x-kubernetes-validations")
        for rule in rules if isinstance(rules, list) else ():
            assert isinstance(rule, dict)
            if "matches(" in str(rule["rule"]):
                found += 1
                assert rule["message"] == sentences[str(rule["rule"])], path
    assert found > 10


@pytest.mark.parametrize("form", FORMS, ids=lambda form: str(form.pattern))
def test_a_sentence_has_an_example_that_matches_and_no_counter_example_does(form: TextForm) -> None:
    pattern = re.compile(form.pattern.removesuffix("$") + r"\Z", re.ASCII)
    shown = [*form.sentence.partition("for example ")[2].replace(" or ", ", ").split(", ")]

    assert shown != [""]
    for text in (*form.examples, *shown):
        assert pattern.match(text), text
    for text in form.counter_examples:
        assert not pattern.match(text), text
    assert len(form.counter_examples) >= 4


def test_the_rules_of_a_semantic_version_are_as_its_pattern() -> None:
    texts = [*SEMANTIC_VERSION.examples, *SEMANTIC_VERSION.counter_examples]
    chance = random.Random(7)
    parts = ("0", "1", "10", "01", ".", "-", "+", "a", "0a", "_")
    texts += ["".join(chance.choices(parts, k=chance.randint(0, 9))) for _ in range(20_000)]
    pattern = re.compile(SEMANTIC_VERSION.pattern.removesuffix("$") + r"\Z", re.ASCII)
    rules = [re.search(r"r'(.*)'", each) for each in SEMANTIC_VERSION.conditions]
    wanted, unwanted = (re.compile(each[1].replace("$", r"\Z"), re.ASCII) for each in rules if each is not None)

    assert SEMANTIC_VERSION.conditions[1].startswith("!")
    for text in texts:
        assert bool(pattern.match(text)) == bool(wanted.search(text) and not unwanted.search(text)), text


@pytest.mark.parametrize("form", FORMS, ids=lambda form: str(form.pattern))
def test_a_refusal_is_read_with_the_sentence_in_the_place_of_the_pattern(form: TextForm) -> None:
    said = f"Invalid value: \"x y\": spec.a[0].b in body should match '{form.pattern}'"
    status = Status(
        code=422,
        message=f'Thing "x" is invalid: [spec.a[0].b: {said}, spec.c: Required value]',
        details=StatusDetails(causes=(StatusCause(field="spec.a[0].b", message=said),)),
    )
    refused = errors.refusal(status, "create Thing x")

    assert f'spec.a[0].b: Invalid value: "x y": {form.sentence}, spec.c: Required value' in str(refused)
    assert refused.status.details.causes[0].message == f'Invalid value: "x y": {form.sentence}'
    assert form.pattern not in str(refused)


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ("x in body should match '^other$'", "x in body should match '^other$'"),
        ("nothing of the kind", "nothing of the kind"),
        (
            "a DNS label must be short (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z]+')",
            "a DNS label must be short (e.g. 'my-name',  or '123-abc')",
        ),
        ("must be short (regex used for validation is '[a-z]+')", "must be short"),
        (
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eE]*)$'",
            "a quantity must be a number with an optional unit such as m, k, M, G, Ki, Mi or Gi, "
            "for example 500m or 2Gi",
        ),
        ("quantities must match the regular expression", "quantities must match the regular expression"),
    ],
)
def test_words_of_kubernetes_are_kept_without_their_regular_expressions(said: str, read: str) -> None:
    assert translated(said) == read
