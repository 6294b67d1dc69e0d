"""What a person is told to do about a Component that is not ready."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from stellwerk.delivery.sets.unsettled_objects import UnsettledObject
from stellwerk.kube.types.model import JsonObject, Unstructured
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.component.api import Component
from stellwerk.operators.component.insight import why


def component(ready: str, cause: str, message: str) -> Component:
    conditions: list[JsonObject] = [
        {"type": "Ready", "status": "Unknown", "reason": ready, "message": message},
        {"type": "Stalled", "status": "True", "reason": cause, "message": message},
    ]
    body = {
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {},
        "status": {"observedGeneration": 0, "conditions": conditions},
    }
    return msgspec.convert(body, Component)


def next_step(ready: str, cause: str) -> str:
    seen = component(ready, cause, "something is in the way")
    return why.explain(why.ComponentSurroundings(component=seen, now=datetime(2026, 1, 1, tzinfo=UTC))).next_step


def test_the_next_step_is_the_first_way_to_mend_it_and_names_the_page() -> None:
    assert next_step("DeletionRetrying", "DependantsExist") == (
        "delete the Components that the message names, or remove their dependency (stellwerk explain DependantsExist)"
    )


def test_a_command_in_it_is_for_this_very_component() -> None:
    assert next_step("Suspended", "Suspended").startswith("resume it: stellwerk resume comp/web -n shop (")


def test_where_only_waiting_helps_the_page_alone_is_named() -> None:
    assert next_step("Restarting", "Restarting") == "stellwerk explain Restarting"


def test_an_object_is_waited_for_until_it_shows_what_its_author_hints_at() -> None:
    hint: JsonObject = {"annotations": {"component-operator.cs.sap.com/status-hint": "conditions=Synced"}}
    thing: JsonObject = {"apiVersion": "example.com/v1", "kind": "Thing"}
    odd: JsonObject = {**thing, "metadata": {"name": "odd"}, "status": {"conditions": "none"}}
    hinted: JsonObject = {**thing, "metadata": {"name": "a", **hint}}
    lives = [Unstructured.of(body) for body in (hinted, odd)]
    seen = why.ComponentSurroundings(
        component=component("Processing", "ObjectsNotReady", "Waiting"),
        dependents=tuple(UnsettledObject(live.ref, live) for live in lives),
        now=datetime(2026, 1, 1, tzinfo=UTC),
    )

    (finding,) = why.explain(seen).findings
    assert [(one.text, one.is_root_cause) for one in finding.because] == [
        ("Thing a: condition Synced is not True", True),
        ("Thing odd: status.conditions is not a list", True),
    ]


def test_a_remark_is_no_finding_and_is_there_whether_the_component_is_ready_or_not() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    remark = 'the chart: values.yaml: line 2: the key "a" appears twice'
    failed = component("Error", "RenderingFailed", "no")
    broken = why.explain(why.ComponentSurroundings(component=failed, remarks=(remark,), hidden=("pods in x",), now=now))
    new = why.explain(
        why.ComponentSurroundings(component=Component(metadata=ObjectMeta(name="web")), remarks=(remark,), now=now)
    )

    assert broken.remarks == new.remarks == (remark,)
    assert (broken.hidden, new.hidden) == (("pods in x",), ())
    assert remark not in [finding.text for finding in (*broken.findings, *new.findings)]
