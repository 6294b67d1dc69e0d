"""A process that is limited to namespaces has the rights that it asks about, and each in its place."""

from __future__ import annotations

import pytest

from stellwerk.assembly import OPERATORS
from stellwerk.delivery import limited_grants, rights_page
from stellwerk.delivery.grants import lacking, needs
from stellwerk.delivery.installation import Installation
from stellwerk.delivery.limited_grants import Limits
from stellwerk.delivery.operator_spec import ProcessSpec
from stellwerk.kube.types.model import JsonObject, dig
from stellwerk.operators.btp import rights as btp

LIMITS = Limits(watched=("books", "shop"), ingress=("gateways",))
LIMITED = [each for spec in OPERATORS.values() for each in spec.processes if each.installation().limited]

pytestmark = pytest.mark.req("R-961")


def granted(installation: Installation) -> set[tuple[str, str, str, str]]:
    """Place, group, resource and verb; a cluster role is in no place."""
    return {
        (str(dig(body, "metadata", "namespace") or ""), group, resource, verb)
        for body in installation.accounts("home", LIMITS)
        for rule in listed(body, "rules")
        for group in map(str, listed(rule, "apiGroups"))
        for resource in map(str, listed(rule, "resources"))
        for verb in map(str, listed(rule, "verbs"))
    }


def listed(body: object, name: str) -> list[JsonObject]:
    found = body.get(name) if isinstance(body, dict) else None
    return found if isinstance(found, list) else []


@pytest.mark.parametrize("spec", LIMITED, ids=lambda spec: str(spec.name))
def test_each_right_that_is_asked_about_is_granted_there_and_no_other(spec: ProcessSpec) -> None:
    installation = spec.installation()
    asked = {
        ("home" if need.at_home else need.namespace, need.group, need.resource, need.verb)
        for need in installation.needs(LIMITS)
    }
    of_events = {("default", "events.k8s.io", "events", verb) for verb in ("create", "patch")}
    assert granted(installation) - of_events == asked


@pytest.mark.parametrize("spec", LIMITED, ids=lambda spec: str(spec.name))
def test_it_may_do_nothing_that_it_may_not_do_without_limits(spec: ProcessSpec) -> None:
    installation = spec.installation()
    wide = {(need.group, need.resource, need.verb) for need in needs(installation.grants)}
    home = {(need.group, need.resource, need.verb) for need in needs(installation.home_grants)}
    added = {("", "namespaces", verb) for verb in ("list", "watch")}
    for place, *right in granted(installation):
        assert tuple(right) in (wide | home if place == "home" else wide | added), (place, right)


@pytest.mark.parametrize("spec", LIMITED, ids=lambda spec: str(spec.name))
def test_no_right_without_a_place_is_about_objects_in_namespaces(spec: ProcessSpec) -> None:
    kinds = {resource.partition("/")[0] for place, _, resource, _ in granted(spec.installation()) if not place}
    assert kinds <= limited_grants.OF_CLUSTER
    assert "secrets" not in kinds


@pytest.mark.parametrize("spec", LIMITED, ids=lambda spec: str(spec.name))
def test_the_page_of_rights_states_the_places(spec: ProcessSpec) -> None:
    page = rights_page.page(spec.title, spec.installation())
    assert "in each watched namespace | `" in page
    assert ("gateways | `" in page) is (spec.name != "cap-webhooks")


def test_only_the_processes_of_the_cap_operator_can_be_limited() -> None:
    assert [each.name for each in LIMITED] == ["cap", "cap-server", "cap-webhooks"]
    assert OPERATORS["btp"].installation().needs(LIMITS) == OPERATORS["btp"].installation().needs()


def test_a_grant_on_kinds_with_and_without_a_namespace_is_split() -> None:
    inside, outside = limited_grants.split(btp.GRANTS)
    both = [each.rule for each in (*inside, *outside)]
    assert lacking([each.rule for each in btp.GRANTS], both) == ()
    assert not {name for each in inside for name in each.rule.resources} & limited_grants.OF_CLUSTER
