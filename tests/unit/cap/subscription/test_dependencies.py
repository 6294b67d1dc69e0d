"""The services that a registry subscribes with an application."""

from __future__ import annotations

import pytest

from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.cap.kinds.application import ServiceInfo
from stellwerk.operators.cap.subscription import dependencies

NAMED: JsonObject = {"xsappname": "app!b1"}


def entries(class_name: str, credentials: JsonObject, *, plan: str = "", dependency: str = "") -> list[JsonObject]:
    """The dependencies of an application with one service."""
    service = ServiceInfo(name="s", class_name=class_name, secret="s", subscription_dependency=dependency)
    return dependencies.of_service(service, {"plan": plan, "credentials": credentials})


@pytest.mark.req("CAP-35")
@pytest.mark.parametrize(
    ("class_name", "plan"), [("destination", "lite"), ("connectivity", ""), ("auditlog", "oauth2")]
)
def test_well_known_services_are_named_by_class(class_name: str, plan: str) -> None:
    assert entries(class_name, NAMED, plan=plan) == [{"appName": class_name, "appId": "app!b1"}]


@pytest.mark.req("CAP-35")
def test_auditlog_of_another_plan_is_no_dependency() -> None:
    assert entries("auditlog", NAMED, plan="standard") == []


def test_a_service_enabled_for_the_registry_is_a_dependency() -> None:
    assert entries("html5", {**NAMED, "saasregistryenabled": True}) == [{"xsappname": "app!b1"}]
    assert entries("html5", {**NAMED, "saasregistryenabled": False}) == []


def test_always_and_never_overrule_the_class() -> None:
    assert entries("xsuaa", NAMED, dependency="Always") == [{"xsappname": "app!b1"}]
    assert entries("destination", NAMED, dependency="Never") == []


def test_the_name_within_uaa_is_used_and_a_service_without_a_name_skipped() -> None:
    assert entries("x", {"uaa": {"xsappname": "u!b1"}}, dependency="Always") == [{"xsappname": "u!b1"}]
    assert entries("x", {"uaa": "text", "xsappname": 1}, dependency="Always") == []


@pytest.mark.req("R-411")
def test_a_name_that_would_fill_the_answer_is_none() -> None:
    assert entries("x", {"xsappname": "n" * 1_024}, dependency="Always")
    assert entries("x", {"xsappname": "n" * 1_025}, dependency="Always") == []
