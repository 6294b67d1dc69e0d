"""The numbers keep the original's names and labels, and series of a Component go with it."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.unit.component.given import component

from stellwerk.kube.types.errors import Forbidden, Status, Unreachable
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.operators.component.api import Component
from stellwerk.operators.component.errors import ApplyFailed, ReferencesUnresolved
from stellwerk.operators.component.observers.metrics import ComponentMetrics
from stellwerk.runtime.telemetry.metrics import Metrics

P = "component_operator_runtime_"


def item(name: str, phase: str) -> JsonObject:
    policies = dict.fromkeys(("adoptionPolicy", "reconcilePolicy", "updatePolicy", "deletePolicy", "digest"), "x")
    orders: JsonObject = {"applyOrder": 0, "deleteOrder": 0}
    return {"group": "", "version": "v1", "kind": "ConfigMap", "name": name, "phase": phase, **orders, **policies}


def shown(name: str, state: str, *phases: str) -> Component:
    inventory: list[JsonValue] = [item(f"c{number}", phase) for number, phase in enumerate(phases)]
    ready: JsonObject = {"type": "Ready", "status": "False", "reason": "Timeout"}
    return component(name, status={"state": state, "inventory": inventory, "conditions": [ready]})


class Scrape:
    """Metrics with a limit, and what a scrape of them says."""

    def __init__(self, limit: int = 100) -> None:
        self.all = Metrics(object_limit=limit)
        self.own = ComponentMetrics.registered(self.all)

    def tell(self, *components: Component) -> None:
        for one in components:
            self.own.told(one, one.status)

    def values(self, series: str, /, **labels: str) -> list[float]:
        families = text_string_to_metric_families(self.all.exposition().decode())
        return [
            sample.value
            for family in families
            for sample in family.samples
            if sample.name == series and labels.items() <= sample.labels.items()
        ]

    def names(self) -> set[str]:
        families = text_string_to_metric_families(self.all.exposition().decode())
        return {sample.name for family in families for sample in family.samples}

    def labels(self, name: str) -> set[str]:
        families = text_string_to_metric_families(self.all.exposition().decode())
        return {label for family in families for s in family.samples if s.name == name for label in s.labels}


OBJECT = {"controller", "group", "kind", "namespace", "name"}


def test_all_names_and_labels_of_the_original_are_there() -> None:
    scrape = Scrape()
    scrape.tell(shown("web", "Processing", "Ready", "Creating"))
    scrape.own.failed(ApplyFailed("no"))
    scrape.all.requested("GET", "host", 200)

    assert {name: scrape.labels(f"{P}{name}") for name in ("reconcile_total", "reconcile_errors_total")} == {
        "reconcile_total": {"controller"},
        "reconcile_errors_total": {"controller", "type"},
    }
    assert scrape.labels(f"{P}requests_total") == {"controller", "method"}
    assert scrape.labels(f"{P}operations_total") == {"controller", "action"}
    assert scrape.labels(f"{P}created_clients_total") == {"controller"}
    assert scrape.labels(f"{P}active_clients_total") == {"controller"}
    assert scrape.labels(f"{P}component_state") == OBJECT | {"state"}
    assert scrape.labels(f"{P}dependents_total") == OBJECT
    assert scrape.labels(f"{P}unready_dependents_total") == OBJECT


def test_exactly_one_state_of_a_component_is_one() -> None:
    scrape = Scrape()
    scrape.tell(shown("web", "Processing"), shown("db", "Ready"))
    scrape.tell(shown("web", "Error"))

    for name, state in (("web", "Error"), ("db", "Ready")):
        assert sum(scrape.values(f"{P}component_state", name=name)) == 1
        assert len(scrape.values(f"{P}component_state", name=name)) == 6
        assert scrape.values(f"{P}component_state", name=name, state=state) == [1]


def test_dependents_are_counted_and_those_that_are_not_ready() -> None:
    scrape = Scrape()
    scrape.tell(shown("web", "Processing", "Ready", "Completed", "Creating", "Deleting"))

    assert scrape.values(f"{P}dependents_total", name="web", controller="component", kind="Component") == [4]
    assert scrape.values(f"{P}unready_dependents_total", name="web") == [2]


def test_series_of_a_component_vanish_with_it() -> None:
    scrape = Scrape()
    scrape.tell(shown("web", "Deleting"), shown("db", "Ready"))
    scrape.own.forget(ObjectKey("shop", "web"))

    for name in ("component_state", "dependents_total", "unready_dependents_total"):
        assert scrape.values(f"{P}{name}", name="web") == []
        assert scrape.values(f"{P}{name}", name="db") != []


@pytest.mark.req("R-707")
def test_beyond_the_limit_components_have_no_series_of_their_own(caplog: pytest.LogCaptureFixture) -> None:
    scrape = Scrape(limit=2)
    scrape.tell(*(shown(name, "Ready") for name in "abcd"))

    assert len(scrape.values(f"{P}dependents_total")) == 2
    assert scrape.values("component_operator_objects_without_metrics") == [2]
    assert caplog.text.count("--object-metrics-limit") == 1

    scrape.own.forget(ObjectKey("shop", "a"))
    scrape.tell(shown("d", "Ready"))
    assert scrape.values(f"{P}dependents_total", name="d") == [0]
    assert scrape.values("component_operator_objects_without_metrics") == [1]


def test_with_a_limit_of_zero_single_components_have_no_series() -> None:
    scrape = Scrape(limit=0)
    scrape.tell(shown("web", "Ready"))

    assert scrape.values(f"{P}component_state") == []
    assert scrape.values(f"{P}reconcile_total") == [1]


def test_errors_are_counted_by_what_the_api_server_answered_and_waiting_is_none() -> None:
    scrape = Scrape()
    refused = ApplyFailed("may not")
    refused.__cause__ = Forbidden(Status(code=403))
    for error in (refused, ApplyFailed("no"), Unreachable("no"), ReferencesUnresolved("absent")):
        scrape.own.failed(error)

    assert scrape.values(f"{P}reconcile_errors_total", type="403") == [1]
    assert scrape.values(f"{P}reconcile_errors_total", type="other") == [2]


def test_operations_and_requests_add_up() -> None:
    scrape = Scrape()
    scrape.own.carried(component(), 3, 2, 1)
    scrape.own.carried(component(), 1, 0, 0)
    for method, host in (("GET", "a"), ("GET", "b"), ("PATCH", "a")):
        scrape.all.requested(method, host, 200)

    actions = {action: scrape.values(f"{P}operations_total", action=action) for action in ("create", "update", "read")}
    assert actions == {"create": [4], "update": [2], "read": [2]}
    assert scrape.values(f"{P}requests_total", method="PATCH") == [1]
    assert scrape.values(f"{P}requests_total", method="GET") == [2]


def test_clients_are_counted_when_they_are_made_and_while_they_are_used() -> None:
    scrape = Scrape()
    for active in (1, 3, 2, 3):
        scrape.own.clients(active)

    assert scrape.values(f"{P}created_clients_total") == [4]
    assert scrape.values(f"{P}active_clients_total") == [3]
