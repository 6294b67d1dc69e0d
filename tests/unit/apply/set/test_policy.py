"""What authors may ask for, in all the ways they spell it; what means nothing is refused."""

from __future__ import annotations

import contextlib
from enum import Enum

import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st
from tests.unit.apply.set.given import R

from stellwerk.apply.readiness.readiness import Hints
from stellwerk.apply.set.model.policy import (
    AdoptionPolicy,
    DeletePolicy,
    Directive,
    InvalidDirective,
    Policies,
    ReconcilePolicy,
    TypePattern,
    TypePatterns,
    UpdatePolicy,
    directive,
    kebab,
)
from stellwerk.apply.set.plan.plan_input import RECLAIMS

POLICIES = Policies(
    adoption=AdoptionPolicy.NEVER,
    update=UpdatePolicy.SSA_OVERRIDE,
    delete=DeletePolicy.ORPHAN_ON_DELETE,
    reapply_seconds=120.0,
)


def asked(**annotations: str) -> Directive:
    """What annotations ask for; `apply_order` stands for `<prefix>/apply-order`."""
    named = {f"{R}/{suffix.replace('_', '-')}": value for suffix, value in annotations.items()}
    return directive(named, R, POLICIES)


def test_an_object_that_says_nothing_follows_its_set() -> None:
    assert asked() == Directive(
        adoption=AdoptionPolicy.NEVER,
        reconcile=ReconcilePolicy.ON_OBJECT_CHANGE,
        update=UpdatePolicy.SSA_OVERRIDE,
        delete=DeletePolicy.ORPHAN_ON_DELETE,
        apply_order=0,
        purge_order=None,
        delete_order=0,
        reapply_seconds=120.0,
        hints=Hints(),
    )


def spellings(word: str) -> list[str]:
    """`IfUnowned`, `ifUnowned`, `if-unowned`, `if_unowned`."""
    return [word, word[0].lower() + word[1:], kebab(word), kebab(word).replace("-", "_")]


WORDS: list[tuple[str, Enum]] = [
    (suffix, word)
    for suffix, words in {
        "adoption_policy": AdoptionPolicy,
        "reconcile_policy": ReconcilePolicy,
        "update_policy": UpdatePolicy,
        "delete_policy": DeletePolicy,
    }.items()
    for word in words
]


@pytest.mark.parametrize(
    ("suffix", "spelling", "word"),
    [(suffix, spelling, word) for suffix, word in WORDS for spelling in spellings(str(word.value))],
)
def test_a_word_may_be_spelled_in_every_usual_way(suffix: str, spelling: str, word: Enum) -> None:
    assert getattr(asked(**{suffix: spelling}), suffix.removesuffix("_policy")) is word


@pytest.mark.parametrize(("text", "word"), [("SSAMerge", "ssa-merge"), ("ssa merge", "ssa-merge"), ("A1", "a1")])
def test_words_are_compared_in_kebab_case(text: str, word: str) -> None:
    assert kebab(text) == word


@pytest.mark.parametrize("suffix", ["update_policy", "delete_policy"])
@pytest.mark.parametrize("spelling", ["default", "Default"])
def test_default_says_that_the_set_decides(suffix: str, spelling: str) -> None:
    assert asked(**{suffix: spelling}) == asked()


@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        ("adoption_policy", "sometimes"),
        ("adoption_policy", "default"),
        ("adoption_policy", "never!"),
        ("adoption_policy", ""),
        ("reconcile_policy", "on-change"),
        ("reconcile_policy", "default"),
        ("update_policy", "merge"),
        ("update_policy", "ssa-merge,ssa-override"),
        ("delete_policy", "del ete"),
        ("delete_policy", "orphan-on-update"),
        ("apply_order", "first"),
        ("apply_order", "1.0"),
        ("apply_order", ""),
        ("apply_order", "32768"),
        ("apply_order", "-32769"),
        ("apply_order", "1 "),
        ("apply_order", "٣"),
        ("purge_order", "40000"),
        ("delete_order", "x"),
        ("reapply_interval", "5"),
        ("reapply_interval", "1 d"),
        ("reapply_interval", "-5m"),
        ("status_hint", "has-ready"),
        ("status_hint", "conditions"),
        ("status_hint", "has-ready-condition=x"),
    ],
)
@pytest.mark.req("R-401", "R-408")
def test_what_means_nothing_is_refused_and_named(suffix: str, text: str) -> None:
    with pytest.raises(InvalidDirective) as refused:
        asked(**{suffix: text})
    (complaint,) = refused.value.complaints
    assert complaint.startswith(f"annotation {R}/{suffix.replace('_', '-')} is {text!r}: ")


def test_all_complaints_come_at_once() -> None:
    with pytest.raises(InvalidDirective) as refused:
        asked(adoption_policy="x", delete_order="y", status_hint="z")
    assert len(refused.value.complaints) == 3


@pytest.mark.parametrize("text", ["-32768", "32767", "+5", "0", "-0", "007"])
def test_an_order_is_a_16_bit_number(text: str) -> None:
    found = asked(apply_order=text, purge_order=text, delete_order=text)
    assert (found.apply_order, found.purge_order, found.delete_order) == (int(text),) * 3


def test_an_interval_of_zero_says_that_the_set_decides() -> None:
    assert asked(reapply_interval="0s").reapply_seconds == 120.0
    assert asked(reapply_interval="1h30m").reapply_seconds == 5400.0


def test_hints_may_have_blanks() -> None:
    found = asked(status_hint="has-observed-generation, conditions=A; B")
    assert found.hints == Hints(has_observed_generation=True, conditions=("A", "B"))


@for_all(st.text(max_size=40))
@settings(deadline=None)
@pytest.mark.req("R-401")
def test_no_text_does_anything_but_mean_something_or_be_refused(text: str) -> None:
    for suffix in ("adoption_policy", "apply_order", "reapply_interval", "status_hint", "delete_policy"):
        with contextlib.suppress(InvalidDirective):
            asked(**{suffix: text})


@pytest.mark.parametrize(
    ("policy", "on_apply", "on_delete"),
    [
        (DeletePolicy.DELETE, False, False),
        (DeletePolicy.ORPHAN, True, True),
        (DeletePolicy.ORPHAN_ON_APPLY, True, False),
        (DeletePolicy.ORPHAN_ON_DELETE, False, True),
    ],
)
def test_an_orphan_stays_in_the_cases_that_its_policy_names(
    policy: DeletePolicy, on_apply: bool, on_delete: bool
) -> None:
    assert (policy.orphans_on_apply, policy.orphans_on_delete) == (on_apply, on_delete)


@pytest.mark.parametrize(
    ("pattern", "group", "is_meant"),
    [
        ("*.foo", "baz.bar.foo", True),
        ("*.foo", "bar.foo", True),
        ("foo.*", "foo.bar", False),
        ("*.*.foo", "baz.bar.foo", False),
        ("*r.foo", "bar.foo", False),
        ("*.foo", "foo", False),
        ("*.foo", ".foo", False),
        ("*.foo", "xfoo", False),
        ("*", "anything.org", True),
        ("*", "", True),
        ("", "", True),
        ("", "apps", False),
        ("apps", "apps", True),
        ("apps", "app", False),
    ],
)
def test_a_group_is_meant_exactly_or_by_its_domain(pattern: str, group: str, is_meant: bool) -> None:
    assert TypePattern(pattern, "Thing").matches(group, "Thing") is is_meant


def test_a_kind_is_meant_exactly_or_by_a_star() -> None:
    assert TypePattern("apps", "*").matches("apps", "Deployment")
    assert TypePattern("apps", "Deployment").matches("apps", "Deployment")
    assert not TypePattern("apps", "Deploy*").matches("apps", "Deployment")


@pytest.mark.parametrize(
    ("pattern", "text"),
    [(TypePattern("*.x.io", "*"), "*.*.x.io"), (TypePattern("x.io", "A"), "A.x.io"), (TypePattern("", "Pod"), "Pod")],
)
def test_a_pattern_is_shown_as_it_was_written(pattern: TypePattern, text: str) -> None:
    assert str(pattern) == text


@pytest.mark.parametrize(
    ("policy", "claimed"),
    [
        (UpdatePolicy.RECREATE, []),
        (UpdatePolicy.REPLACE, []),
        (UpdatePolicy.SSA_MERGE, [R]),
        (UpdatePolicy.SSA_OVERRIDE, [R, "kubectl", "kubectl-edit", "helm", "before-first-apply"]),
    ],
)
def test_only_what_a_policy_says_is_taken_from_others(policy: UpdatePolicy, claimed: list[str]) -> None:
    claims = policy.claims(R, RECLAIMS)
    everybody = [R, "kubectl", "kubectl-edit", "helm", "before-first-apply", "other", "my-kubectl", ""]
    assert [name for name in everybody if claims.managers(name)] == claimed


GROUPS = st.sampled_from(["", "foo", "bar.foo", "a.bar.foo", "xfoo"])
KINDS = st.sampled_from(["A", "B"])
PATTERNS = st.lists(
    st.builds(
        TypePattern,
        st.one_of(GROUPS, st.sampled_from(["*", "*.foo", "*.bar.foo", "*.*.foo", "foo.*"])),
        st.sampled_from("AB*"),
    ),
    max_size=6,
)


@for_all(PATTERNS, GROUPS, KINDS)
def test_many_patterns_mean_what_each_of_them_means(patterns: list[TypePattern], group: str, kind: str) -> None:
    together, meaning = TypePatterns(patterns), [each for each in patterns if each.matches(group, kind)]
    assert together.matches(group, kind) is bool(meaning)
    assert together.first(group, kind) == (meaning[0] if meaning else None)
    may_mean = together.of_group(group)
    assert (may_mean is not None) is any(each.matches(group, each.kind) for each in patterns)
    assert may_mean is None or may_mean in patterns


@for_all(PATTERNS, st.lists(st.tuples(GROUPS, KINDS), max_size=6))
def test_kinds_come_under_their_first_pattern_in_the_order_of_the_patterns(
    patterns: list[TypePattern], kinds: list[tuple[str, str]]
) -> None:
    groups = TypePatterns(patterns).grouped(kinds, lambda kind: kind)
    assert [pattern for pattern, _ in groups] == sorted((pattern for pattern, _ in groups), key=patterns.index)
    expected = [
        (first, kind) for kind in kinds if (first := next((p for p in patterns if p.matches(*kind)), None)) is not None
    ]
    assert sorted((pattern, kind) for pattern, found in groups for kind in found) == sorted(expected)
