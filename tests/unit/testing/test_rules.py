"""Rules choose their moments, and say so in words."""

from __future__ import annotations

from stellwerk.testing.faults import ANYTHING, WRITES, FaultRule, after_first, always, chance, first, nth, requests
from stellwerk.testing.faults.rules import Occasions
from stellwerk.testing.faults.traffic import RecordedRequest, understand

CREATE = understand("POST", "/api/v1/namespaces/here/configmaps", body=b'{"metadata": {"name": "one"}}')
READ = understand("GET", "/api/v1/namespaces/here/configmaps/one")
STATUS = understand("PUT", "/apis/example.com/v1/namespaces/here/things/one/status")


def chosen(occasions: Occasions, out_of: int = 10) -> list[int]:
    return [number for number in range(1, out_of + 1) if occasions(number)]


def test_occasions_choose_among_the_matches() -> None:
    assert chosen(always, 3) == [1, 2, 3]
    assert chosen(nth(2, 5)) == [2, 5]
    assert chosen(first(3)) == [1, 2, 3]
    assert chosen(after_first(8)) == [9, 10]


def test_a_seed_repeats_its_choice_and_another_seed_does_not() -> None:
    assert chosen(chance(0.3, seed=1), 1000) == chosen(chance(0.3, seed=1), 1000)
    assert chosen(chance(0.3, seed=1), 1000) != chosen(chance(0.3, seed=2), 1000)
    assert 250 < len(chosen(chance(0.3, seed=1), 1000)) < 350


def test_conditions_match_what_they_name() -> None:
    assert requests("create", "configmaps", namespace="here", name="one")(CREATE)
    assert not requests("create", "configmaps", name="two")(CREATE)
    assert requests(["get", "list"])(READ)
    assert requests(resource="things.example.com", subresource="status")(STATUS)
    assert not requests(resource="things.example.com", subresource="")(STATUS)


def test_conditions_can_be_joined_and_read() -> None:
    condition = (WRITES & ~requests(resource="configmaps")) | requests("get", "configmaps")
    assert [condition(request) for request in (CREATE, READ, STATUS)] == [False, True, True]
    assert str(condition) == "(any write and not (any request configmaps) or get configmaps)"


def test_a_rule_counts_what_matched_and_what_happened() -> None:
    rule: FaultRule[RecordedRequest] = FaultRule(WRITES, nth(2), what="cut", required=True)
    assert [rule.takes(request) for request in (CREATE, READ, CREATE, CREATE)] == [False, False, True, False]
    assert str(rule) == "cut on any write: matched 3, happened 1"


def test_a_rule_is_in_force_for_a_window() -> None:
    rule: FaultRule[RecordedRequest] = FaultRule(ANYTHING, always, what="cut", required=True)
    with rule:
        assert rule.takes(READ)
    assert not rule.takes(READ)
