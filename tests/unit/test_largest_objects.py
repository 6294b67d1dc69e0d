"""Indexes and plans of Components, BtpOperators and CAPOperators, however large the objects are that users store."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from stellwerk.kube.schema.crd import Definition
from stellwerk.kube.types.model import UNREADABLE, JsonObject, Kind, dig, view
from stellwerk.operators.btp import api as btp
from stellwerk.operators.btp.btpoperator.probe import ProbeFinding
from stellwerk.operators.cap_manager import api as cap_manager
from stellwerk.operators.cap_manager.capoperator import plan
from stellwerk.operators.component import api as component
from stellwerk.operators.component.api import Blueprint, Component
from stellwerk.operators.component.api_spec import ReferenceKind
from stellwerk.operators.component.api_status import Artifact
from stellwerk.operators.component.dependencies import dependencies
from stellwerk.operators.component.dependencies.dependency_graph import DependencyGraph
from stellwerk.operators.component.errors import ComponentFailed
from stellwerk.operators.component.references import digests, references
from stellwerk.operators.component.sources import blueprint_versions, sources
from stellwerk.render.errors import SourceError
from stellwerk.runtime.reconciler import ReconcileError
from stellwerk.testing import sweeps
from stellwerk.testing.checks.loop_stalls import LONGEST_STALL_SECONDS
from stellwerk.testing.largest_objects import Largest

pytestmark = [pytest.mark.req("R-931"), pytest.mark.heavy, pytest.mark.sweep]

SAMPLED = 18
"""One of so many variants is tried if the sweep is not whole: others each day."""

METADATA: JsonObject = {"name": "shop", "namespace": "team", "uid": "uid", "generation": 1}
COMPONENT: JsonObject = {
    "metadata": METADATA,
    "spec": {
        "sourceRef": {"blueprint": {"name": "source"}},
        "dependencies": [{"name": "base"}],
        "valuesFrom": [{"name": "values"}],
        "postBuild": {"substituteFrom": [{"name": "variables"}]},
    },
}
CAP_OPERATOR: JsonObject = {
    "metadata": METADATA,
    "spec": {
        "subscriptionServer": {"subDomain": "cap-op"},
        "ingressGatewayLabels": [{"name": "istio", "value": "ingressgateway"}],
    },
}


def of_component(made: Component) -> Iterator[Callable[[], object]]:
    base = msgspec.convert({"metadata": {**METADATA, "name": "base", "uid": "b"}, "spec": {}}, Component)
    graph = DependencyGraph(lambda _: ())
    graph.change(None, base)
    yield lambda: [*dependencies.index_by_dependency(made)]
    for kind in ReferenceKind:
        yield lambda named=kind: [*references.index(named, made)]  # type: ignore[misc]
    yield lambda: [*sources.index_by_source(made)]
    yield lambda: dependencies.judged(made)
    yield lambda: dependencies.has_expressions(made)
    yield lambda: graph.change(None if made.key not in graph._numbers else made, made)
    yield lambda: dependencies.check(made, lambda _: base, graph, None)
    yield lambda: made.target


def of_blueprint(made: Blueprint) -> Iterator[Callable[[], object]]:
    key, taken = made.key, Artifact(url="blueprint://team/shop/x", digest="x", revision="x")
    yield lambda: digests.of_blueprint(made.spec)
    yield lambda: blueprint_versions.artifact(made)
    yield lambda: blueprint_versions.files(made.spec.files)
    yield lambda: blueprint_versions.version_of(key, taken, blueprint_versions.files(made.spec.files))


def of_cap_operator(made: cap_manager.CAPOperator) -> Iterator[Callable[[], object]]:
    yield lambda: plan.gateway_selector(made.spec)
    yield lambda: plan.gateway_labels(made.spec)
    yield lambda: plan.server_domain(made.spec, "example.com")
    yield lambda: plan.chart_values(made.spec, "example.com", "target.example.com")


CASES: list[tuple[Definition, JsonObject, Callable[[Any], Iterator[Callable[[], object]]]]] = [
    (component.COMPONENTS, COMPONENT, of_component),
    (component.BLUEPRINTS, {"metadata": METADATA, "spec": {"files": {"a.yaml": "{}"}}}, of_blueprint),
    (cap_manager.DEFINITION, CAP_OPERATOR, of_cap_operator),
    (btp.DEFINITION, {"metadata": METADATA, "spec": {}}, lambda made: iter((lambda: ProbeFinding.on(made),))),
]


@pytest.mark.parametrize(("definition", "base", "work_of"), CASES, ids=[each[0].name for each in CASES])
def test_no_plan_or_index_of_a_large_object_holds_the_event_loop(
    definition: Definition, base: JsonObject, work_of: Callable[[Any], Iterator[Callable[[], object]]]
) -> None:
    kind: type[Kind] = definition.versions[0].kind
    versions = dig(definition.body(), "spec", "versions")
    assert isinstance(versions, list)
    schema = dig(versions[0], "schema", "openAPIV3Schema")
    assert isinstance(schema, dict)
    offenders: list[str] = []
    every = 1 if sweeps.IS_WHOLE else SAMPLED
    for variant, body in Largest(schema, base, levels=3, text_levels=3, every=every, first=sweeps.turn()).singles():
        try:
            made = view(kind).decode(msgspec.json.encode(body))
        except UNREADABLE:
            continue  # the cache shows its metadata, and that it cannot be read
        for number, work in enumerate(work_of(made)):
            if (took := seconds(work)) > LONGEST_STALL_SECONDS:
                offenders.append(f"{variant}: work {number} took {took:.3f} s")
    assert offenders == []


def seconds(work: Callable[[], object]) -> float:
    """What the work takes the processor; the least of three tries where it is too much."""
    least = float("inf")
    for _ in range(3):
        began = time.thread_time()
        with contextlib.suppress(ComponentFailed, ReconcileError, SourceError, ValueError):
            work()
        least = min(least, time.thread_time() - began)
        if least < LONGEST_STALL_SECONDS:
            break
    return least
