"""When a module whose upgrade needs a downtime may be upgraded, and which policy files are refused."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from stellwerk.operators.kyma.module.expressions import BadExpression, Expression
from stellwerk.operators.kyma.module.windows import BadPolicy, NoWindow, Policy, Window

LEAST = timedelta(minutes=20)
REGION, PLAN = "kyma-project.io/region", "kyma-project.io/broker-plan-name"
NIGHT = {"days": ["Sat"], "begin": "21:00:00+00:00", "end": "00:00:00+00:00"}
ONCE = {"begin": "2026-10-10T20:00:00Z", "end": "2026-10-11T00:00:00Z"}


def at(text: str) -> datetime:
    """A moment of October 2026, of which the 10th is a Saturday."""
    return datetime.fromisoformat(f"2026-10-{text}:00+00:00")


def policy(*rules: dict[str, Any], default: Any = None) -> Policy:
    """A policy from its JSON form."""
    return Policy.parse(msgspec.json.encode({"rules": rules, **({"default": default} if default else {})}))


@pytest.mark.req("KYMA-49")
@pytest.mark.parametrize(
    ("window", "now", "expected"),
    [
        pytest.param(NIGHT, "07T12:00", ("10T21:00", "11T00:00"), id="later in the week"),
        pytest.param(NIGHT, "10T12:00", ("10T21:00", "11T00:00"), id="later that day"),
        pytest.param(NIGHT, "10T22:00", ("10T21:00", "11T00:00"), id="open"),
        pytest.param(NIGHT, "10T23:39", ("10T21:00", "11T00:00"), id="just enough left"),
        pytest.param(NIGHT, "10T23:40", ("17T21:00", "18T00:00"), id="too little left"),
        pytest.param({**NIGHT, "end": "03:00:00Z"}, "11T01:00", ("10T21:00", "11T03:00"), id="begun yesterday"),
        pytest.param({**NIGHT, "end": "21:00:00Z"}, "11T20:00", ("10T21:00", "11T21:00"), id="a whole day"),
        pytest.param(
            {"days": ["Sun"], "begin": "01:00:00+09:00", "end": "04:00:00+09:00"}, "10T17:00",
            ("10T16:00", "10T19:00"), id="the day is that of the time zone of the begin",
        ),
        pytest.param(
            {"days": ["Sat"], "begin": "00:00:00+14:00", "end": "23:00:00-12:00"}, "11T10:00",
            ("09T10:00", "11T11:00"), id="begin and end in different time zones",
        ),
        pytest.param({**NIGHT, "days": ["Mon", "Sat"]}, "11T12:00", ("12T21:00", "13T00:00"), id="several days"),
        pytest.param(ONCE, "01T00:00", ("10T20:00", "11T00:00"), id="one moment"),
        pytest.param(ONCE, "10T23:39", ("10T20:00", "11T00:00"), id="one moment, open"),
        pytest.param(ONCE, "10T23:40", None, id="one moment, too little left"),
        pytest.param(ONCE, "12T00:00", None, id="one moment, over"),
        pytest.param(
            {"begin": "0001-01-01T00:00:00+14:00", "end": "0001-01-01T01:00:00+14:00"}, "12T00:00", None,
            id="a moment before all others",
        ),
    ],
)  # fmt: skip
def test_a_window_is_the_open_one_or_the_next_of_which_enough_is_left(
    window: dict[str, Any], now: str, expected: tuple[str, str] | None
) -> None:
    for found in (policy(default=window), policy({"match": {"plan": "."}, "windows": [window]})):
        if expected is None:
            with pytest.raises(NoWindow, match=r"^matches and defaults also failed to provide a window$"):
                found.window({PLAN: "aws"}, at(now), LEAST)
        else:
            assert found.window({PLAN: "aws"}, at(now), LEAST) == Window(*map(at, expected))


@pytest.mark.req("KYMA-49")
@pytest.mark.parametrize(
    ("kyma_labels", "hour"),
    [
        pytest.param({REGION: "eu-west-1"}, 1, id="the first rule that matches"),
        pytest.param({PLAN: "trial"}, 1, id="any expression of it"),
        pytest.param({REGION: "us-east", PLAN: "Trial"}, 2, id="the next rule; values count in their case"),
        pytest.param({REGION: "asia"}, 9, id="no rule: the default"),
        pytest.param({REGION: "past"}, 9, id="no usable window in its rule: the default, not the next rule"),
        pytest.param({}, 9, id="no label"),
        pytest.param({REGION: ""}, 9, id="an empty label"),
    ],
)
def test_the_first_rule_that_matches_a_label_counts(kyma_labels: dict[str, str], hour: int) -> None:
    def window(hour: int) -> dict[str, Any]:
        return {"days": ["Sat"], "begin": f"0{hour}:00:00Z", "end": f"0{hour}:59:00Z"}

    rules = (
        {"Match": {"REGION": "eu-.*", "Plan": "^(free|trial)$", "platformRegion": ""}, "Windows": [window(1)]},
        {"match": {"region": "past"}, "windows": [ONCE]},
        {"match": {"region": "past|^us|eu"}, "windows": [window(2)]},
        {"match": {}, "windows": [window(3)]},
        {"windows": None},
    )
    found = policy(*rules, default=window(9)).window(kyma_labels, at("13T00:00"), LEAST)
    assert found.begin == at(f"17T0{hour}:00")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is no JSON"),
        (b"\xff", "the file is no JSON"),
        (b"[" * 100_000, "the file is no JSON"),
        (b" " * (2**20 + 1), "the file has more than 1048576 bytes"),
        (b"[]", "the file is no object"),
        (b'{"rules": {}}', "rules is no list"),
        (b'{"rules": [1]}', r"rules\[0\] is no object"),
        (b'{"rules": [{"match": "x"}]}', r"rules\[0\]\.match is no object"),
        (b'{"rules": [{"match": {"plan": 1}}]}', r"rules\[0\]\.match\.plan is no text"),
        (b'{"rules": [{"match": {"plan": "("}}]}', r"rules\[0\]\.match\.plan is no regular expression"),
        (b'{"rules": [{"windows": "x"}]}', r"rules\[0\]\.windows is no list"),
        (b'{"rules": [{"windows": [[]]}]}', r"rules\[0\]\.windows\[0\] is no object"),
        (b'{"default": {"days": "Sat"}}', r"default\.days is no list"),
        (b'{"default": {"days": [1]}}', r"default\.days is no text"),
        (b'{"default": {"days": ["Caturday"]}}', "has 'Caturday', which is none of Mon"),
        (b'{"default": {}}', "is not a moment such as"),
        (b'{"default": {"begin": "2026-10-10T20:00:00", "end": "2026-10-10T21:00:00"}}', "is not a moment such as"),
        (b'{"default": {"begin": "2026-13-10T20:00:00Z", "end": "2026-10-10T21:00:00Z"}}', "is not a moment such as"),
        (b'{"default": {"begin": "2026-10-10T20:00:00Z", "end": "2026-10-10T20:00:00Z"}}', "ends before it begins"),
        (b'{"default": {"days": ["Sat"], "begin": "21:00", "end": "22:00"}}', "is not a time such as"),
        (
            b'{"default": {"begin": "0001-01-01T00:00:00+24:00", "end": "9999-12-31T23:59:59Z"}}',
            "is not a moment such as",
        ),
        (b'{"default": {"days": ["Sat"], "begin": "25:00:00Z", "end": "22:00:00Z"}}', "is not a time such as"),
        (b'{"default": {"days": ["Sat"], "begin": "21:00:00+99:00", "end": "22:00:00Z"}}', "is not a time such as"),
    ],
)
def test_a_policy_file_that_cannot_be_used_is_an_error_that_names_the_place(content: bytes, message: str) -> None:
    with pytest.raises(BadPolicy, match=message):
        Policy.parse(content)


TEXTS = ("", "a", "b", "ab", "aab", "abc", "eu-west-1", "EU", "free", "trial", "xtrialx", "a.b", "]", "aaaaaa")


@pytest.mark.parametrize(
    "expression",
    [
        "", "a", "^a", "b$", "^$", "^(free|trial)$", "(?:eu|us)-.*-[0-9]+", "eu-(west|east)?", "[^a-z]", "a{2}",
        "a{2,}b", "^a{2,4}$", "^a{0,1}$", "(a|aa)+$", "(?i)eu", "(?i)[e]U", r"a\.b", r"\d", r"^\w+$", r"\S\s*",
        r"[\d.]", r"[\]]", "^(a?b?){2}$", "(^|x)trial($|x)", "a*?b", "a||b", "()", "(a*)*b", "(a{2}){3}",
        "^(ab?){2,3}$", r"[a\-z]", "(?P<name>a)b", r"\bfree\b", "[a&b]", "((((((a))))))", "]", "a{",
    ],
)  # fmt: skip
def test_an_expression_matches_what_others_match(expression: str) -> None:
    found = {text for text in TEXTS if Expression(expression).is_in(text)}
    assert found == {text for text in TEXTS if re.search(expression, text)}


@pytest.mark.parametrize(
    "expression",
    ["(", ")", "a)", "[", "[]", "[z-a]", "*", "a**", "a{3,2}", "a{1001}", "(?=a)", r"\1", "\\", "a" * 1001, "(?i",
     "((((a?){1000}){1000}){1000}){1000}c"],
)  # fmt: skip
def test_an_expression_that_is_not_supported_is_refused(expression: str) -> None:
    with pytest.raises(BadExpression):
        Expression(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "^(a|a)*$",
        "^((((a*)*)*)*)$",
        "a*" * 400 + "c",
        "^(a|aa)+$",
        "(a?){1000}c",
        "(a|a?)" * 150 + "c",
    ],
)
def test_no_expression_takes_long(expression: str) -> None:
    begin = time.thread_time()
    assert not Expression(expression).is_in("a" * 63 + "b")
    assert time.thread_time() - begin < 2


def test_a_text_that_is_no_label_matches_nothing() -> None:
    assert not Expression("a").is_in("a" * 254)


@pytest.mark.req("KYMA-50")
def test_without_a_policy_there_is_no_window() -> None:
    with pytest.raises(NoWindow):
        Policy().window({REGION: "eu"}, datetime(2026, 1, 1, tzinfo=UTC), LEAST)
