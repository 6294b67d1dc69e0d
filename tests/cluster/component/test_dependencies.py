"""A Component comes after those that it depends on, and goes before them."""

from __future__ import annotations

from typing import Any

import pytest

from stellwerk.api.core import ConfigMap
from stellwerk.kube.types.model import JsonObject, metadata_of, unstructured
from stellwerk.operators.component.api import Component
from stellwerk.operators.component.insight import why
from stellwerk.testing.checks.loop_stalls import LONGEST_STALL_SECONDS, measured_stalls
from stellwerk.testing.scenarios.writes import Writes
from tests.cluster.component.given import Given
from tests.cluster.component.manifests import config, gate
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then

PATIENT = "10m"
"""A retryInterval that no test lasts: what happens sooner was woken by an event."""


def after(*names: str, **spec: Any) -> dict[str, Any]:
    """The spec of a Component that depends on others."""
    return {"dependencies": [{"name": name} for name in names], "retryInterval": PATIENT, **spec}


async def test_a_dependant_starts_when_what_it_depends_on_is_ready_and_goes_first(
    given: Given, running: Running, then: Then, writes: Writes
) -> None:
    await given.source({"gate.yaml": gate("base")}, "base")
    await given.source({"one.yaml": config("one")}, "app")
    await running.start()
    await given.component("b", "app", **after("a"))
    await then.shows("Pending", "Retrying", "b", saying=f"dependent component {then.key('a')} not found")
    await given.component("a", "base")
    await then.shows("Pending", "Retrying", "b", saying=f"dependent component {then.key('a')} not ready")
    assert not await then.exists(ConfigMap, "one")
    await given.opened("base")
    await then.ready("a")
    await then.ready("b")

    await given.opened("base", is_open=False)
    await then.shows("Processing", name="a")
    await then.shows("Pending", "Retrying", "b", saying="not ready")
    assert await then.exists(ConfigMap, "one"), "what is there stays"
    await given.opened("base")
    await then.ready("b")

    await given.deleted("a")
    await then.shows(
        "DeletionPending", "DeletionRetrying", "a", saying=f"deletion blocked by depending component {then.key('b')}"
    )
    await given.deleted("b")
    await then.gone("b")
    await then.gone("a")
    assert writes.to("configmaps", "gates")[-2:] == ["delete configmaps/one", "delete gates/base"]


async def test_deleted_in_the_right_order_nobody_waits(given: Given, running: Running, then: Then) -> None:
    await given.source({"a/a.yaml": config("a"), "b/b.yaml": config("b")})
    await given.component("a", path="a")
    await given.component("b", path="b", **after("a"))
    await running.start()
    await then.ready("b")
    await given.deleted("b")
    await then.gone("b")
    await given.deleted("a")
    await then.gone("a")
    assert "DeletionRetrying" not in then.reasons("a")


async def test_of_two_with_a_common_source_the_dependant_waits_until_the_other_has_the_new_revision(
    given: Given, running: Running, then: Then
) -> None:
    files = {"base/gate.yaml": gate("base"), "app/one.yaml": config("one", "1")}
    await given.source(files, revision="r1")
    await given.component("a", path="base")
    await given.component("b", path="app", **after("a"))
    await running.start()
    await given.opened("base")
    await then.ready("b", revision="r1")

    # A new revision whose base cannot be had yet: nobody may take B's half of it.
    files = {"base/gate.yaml": gate("base"), "base/next.yaml": gate("next"), "app/one.yaml": config("one", "2")}
    await given.source(files, revision="r2")
    await then.shows("Processing", name="a")
    await then.shows("Pending", "Retrying", "b", saying=f"dependent component {then.key('a')} not")
    assert (await then.config("one")).data == {"value": "1"}
    await given.opened("next")
    await then.ready("a", revision="r2")
    await then.ready("b", revision="r2")
    assert (await then.config("one")).data == {"value": "2"}


async def test_a_dependant_is_not_synced_until_the_other_has_taken_over_the_common_source(
    given: Given, running: Running, then: Then
) -> None:
    await given.source({"a/a.yaml": config("a"), "b/b.yaml": config("b")}, revision="r1")
    await given.component("a", path="a", revision="r1")
    await given.component("b", path="b", **after("a"))
    await running.start()
    await then.ready("b", revision="r1")
    await given.source({"a/a.yaml": config("a", "2"), "b/b.yaml": config("b", "2")}, revision="r2")
    await then.shows("Pending", "Retrying", "a", saying="does not match specified revision")
    await then.shows("Pending", "Retrying", "b", saying=f"dependent component {then.key('a')} not synced")
    await given.component("a", path="a")
    await then.ready("a", revision="r2")
    await then.ready("b", revision="r2")


@pytest.mark.req("R-409")
async def test_a_circle_is_named_on_its_members_and_goes_away_when_it_is_cut(
    given: Given, running: Running, then: Then
) -> None:
    await given.source({f"{name}/{name}.yaml": config(name) for name in "abc"} | {"gate/gate.yaml": gate("gate")})
    await given.component("a", path="a", **after("c"))
    await given.component("b", path="b", **after("a"))
    await given.component("c", path="c", **after("b"))
    await running.start()
    a, b, c = (then.key(name) for name in "abc")
    told = (
        await then.shows("Error", "Error", "a", saying=f"dependency cycle: {a} -> {c} -> {b} -> {a}"),
        await then.shows("Error", "Error", "b", saying=f"dependency cycle: {b} -> {a} -> {c} -> {b}"),
        await then.shows("Error", "Error", "c", saying=f"dependency cycle: {c} -> {b} -> {a} -> {c}"),
    )
    await running.has_seen(*told)
    assert not await then.exists(ConfigMap, "a")
    await running.rests()
    passes = running.passes
    await running.clock.skip(minutes=5)
    await running.rests()
    assert running.passes == passes, "nobody looks again before something changes"

    # C is out of the circle and takes its time: the others wait for it, and say so.
    await given.component("c", path="gate")
    await then.shows("Processing", name="c")
    await then.shows("Pending", "Retrying", "a", saying=f"dependent component {c} not ready")
    await then.shows("Pending", "Retrying", "b", saying=f"dependent component {a} not ready")
    await given.opened("gate")
    await then.ready("a")
    await then.ready("b")


@pytest.mark.req("R-409")
async def test_a_circle_does_not_outlive_its_members(given: Given, running: Running, then: Then) -> None:
    await given.source({f"{name}/{name}.yaml": config(name) for name in "ab"})
    await given.component("a", path="a")
    await given.component("b", path="b", **after("a"))
    await given.component("self", path="b", **after("self"))
    await running.start()
    await then.ready("b")
    await given.component("a", path="a", **after("b"))
    await then.shows("Error", "Error", "a", saying="dependency cycle")
    await then.shows("Error", "Error", "self", saying=f"dependency cycle: {then.key('self')} -> {then.key('self')}")
    await given.deleted("self")
    await then.gone("self")
    await given.deleted("a")
    await then.shows("DeletionPending", name="a", saying=f"blocked by depending component {then.key('b')}")
    await given.deleted("b")
    await then.gone("a")
    await then.gone("b")
    assert not await then.exists(ConfigMap, "a")
    assert not await then.exists(ConfigMap, "b")


async def test_a_dependant_names_the_failure_of_its_dependency_and_follows_it(
    given: Given, running: Running, then: Then
) -> None:
    await given.source({"gate/gate.yaml": gate("gate"), "b/b.yaml": config("b")})
    await given.component("a", path="nowhere")
    await given.component("b", path="b", **after("a", retryInterval="1h"))
    await running.start()
    a = then.key("a")
    await then.shows("Error", "Error", "a")
    await then.shows("Pending", "Retrying", "b", saying=f"{a} not ready: its state is Error (RenderingFailed)")
    await given.component("a", path="gate", dependencies=[{"name": "a"}])
    await then.shows("Error", "Error", "a", saying="dependency cycle")
    await then.shows("Pending", "Retrying", "b", saying=f"{a} not ready: its state is Error (DependencyCycle)")
    await given.component("a", path="gate", dependencies=[])
    await then.shows("Processing", "Processing", "a")
    await then.shows("Pending", "Retrying", "b", saying=f"{a} not ready: its state is Processing")
    await given.opened("gate")
    await then.ready("b")


async def test_a_dependency_in_another_namespace_counts_and_a_missing_one_blocks_no_deletion(
    given: Given, running: Running, then: Then
) -> None:
    await given.source({"a/a.yaml": config("a"), "b/b.yaml": config("b")})
    await given.component("b", path="b", dependencies=[{"name": "a", "namespace": "default"}], retryInterval=PATIENT)
    await running.start()
    await then.shows("Pending", "Retrying", "b", saying="dependent component default/a not found")
    source: JsonObject = {"fluxGitRepository": {"name": "source", "namespace": given.namespace}}
    body: JsonObject = {"metadata": {"name": "a", "namespace": "default"}, "spec": {"sourceRef": source, "path": "a"}}
    await given.client.apply(Component, body)
    await then.ready("b")
    await given.client.delete(metadata_of(Component), "a", "default")
    await given.deleted("b")
    await then.gone("b")
    await then.absent(Component, "a", "default")


def judging(expression: str, name: str = "a") -> dict[str, Any]:
    """The spec of a Component with an expression about another one."""
    return {"dependencies": [{"name": name, "readyExpr": expression}], "retryInterval": PATIENT}


async def test_an_expression_says_when_a_dependency_counts_as_ready(given: Given, running: Running, then: Then) -> None:
    await given.source({"gate.yaml": gate("base")}, "base")
    await given.source({"one.yaml": config("one"), "two.yaml": config("two")}, "app")
    await running.start()
    await given.component("b", "app", **judging("dep.status.?state.orValue('') == 'Processing'"))
    await then.shows("Pending", "Retrying", "b", saying=f"dependent component {then.key('a')} not found")
    await given.component("a", "base")
    await then.shows("Processing", name="a")
    await then.ready("b")

    labelled = "has(dep.metadata.labels) && dep.metadata.labels['done'] == self.metadata.labels['wants']"
    await given.component("b", "app", **judging(labelled))
    await then.shows("Pending", "Retrying", "b", saying="not ready: spec.dependencies[0].readyExpr is false")
    assert await then.exists(ConfigMap, "one"), "what is there stays"
    subject = await given.client.get(unstructured(Component.resource), "b", given.namespace)
    [finding] = (await why.diagnostician.diagnose(given.client, subject)).findings
    assert "readyExpr is false" in finding.text
    assert (finding.because, finding.is_root_cause) == ((), True), "the state of the other is not what is waited for"
    await given.labelled("a", done="yes")
    await then.shows("Pending", "Retrying", "b", saying="has no answer yet: no such key: labels")
    await given.labelled("b", wants="yes")
    await then.ready("b")


async def test_an_expression_that_means_nothing_is_named_with_its_place(
    given: Given, running: Running, then: Then
) -> None:
    await given.source({"a/a.yaml": config("a"), "b/b.yaml": config("b")})
    await given.component("a", path="a")
    await given.component("b", path="b", **judging("dep.status.state ==\n  ready"))
    await running.start()
    found = await then.shows("Error", "Error", "b", saying="spec.dependencies[0].readyExpr")
    assert "line 2, column 3: undeclared reference to 'ready'" in then.told("b")
    assert {one.type: one.reason for one in found.status.conditions}["Stalled"] == "InvalidReadyExpression"
    assert not await then.exists(ConfigMap, "b")
    await given.component("b", path="b", **judging("dep.status.state ==\n  'Ready'"))
    await then.ready("b")


@pytest.mark.req("R-412")
async def test_components_that_all_depend_on_each_other_cost_a_few_passes_each(
    given: Given, running: Running, then: Then
) -> None:
    names = [f"comp-{number:02}" for number in range(60)]
    await given.source({f"{name}/one.yaml": config(name) for name in names}, revision="r1")
    for number, name in enumerate(names):
        await given.component(name, path=name, **after(*names[:number]))
    with measured_stalls() as stalls:
        await running.start()
        for name in names:
            await then.ready(name, revision="r1", within=120)
        await running.rests()
    assert running.passes < 15 * len(names), "if each readiness woke all dependants, there were 1,770 passes more"
    assert stalls.longest_seconds < LONGEST_STALL_SECONDS
