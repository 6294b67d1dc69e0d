"""Every field that a program can read is on the page about it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from stellwerk.cli.local import system
from stellwerk.cli.look import status, trace, values
from stellwerk.cli.look.events import Happening
from stellwerk.cli.objects import check_rules, graph
from stellwerk.cli.objects.health import ObjectHealth
from stellwerk.cli.objects.object_summary import ObjectSummary
from stellwerk.cli.releases import dry_run, releasing
from stellwerk.cli.shell.field_diff import Change
from stellwerk.delivery.insight import FleetTable
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, ObjectRef
from stellwerk.kube.types.model import JsonValue
from stellwerk.kube.types.object_meta import Condition
from stellwerk.local.cluster import ClusterStatus, ProcessStatus
from stellwerk.releases.release import Release
from stellwerk.render.request.values import Layer, origins
from stellwerk.runtime.insight.diagnosis import AwaitedObject, Diagnosis, Finding

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "output.md").read_text()
NOW = datetime(2026, 1, 1, tzinfo=UTC)
REF = ObjectRef(GroupVersionKind("apps", "v1", "Deployment"), ObjectKey("a", "b"))
VERDICT = ObjectSummary(
    REF,
    ObjectHealth("False"),
    Diagnosis((Finding("x", because=(Finding("y"),)),), "n", "t", (AwaitedObject(REF, "lacks"),)),
)
SHEET = status.Sheet(
    VERDICT,
    (Condition(type="Ready", status="True", last_transition_time=NOW),),
    (Happening(NOW, "Normal", "r", 1, REF, "n"),),
)
LOCAL = ClusterStatus(Path("/a"), "https://a", "v1", True, [ProcessStatus("etcd", None, Path("/a/log"))])
SHOWN: dict[str, JsonValue] = {
    "status": status.as_json(SHEET),
    "status of a kind": status.fleet_json([FleetTable("Modules", ("MODULE", "STATE"), (("keda", "Ready"),))]),
    "status of the local system": system.as_json(LOCAL, [system.part_of(part) for part in LOCAL.components]),
    "tree": graph.as_json(graph.Node(REF, ObjectHealth("True"), (graph.Node(REF, ObjectHealth("True")),))),
    "trace": trace.as_json([trace.TraceStep("owned by", REF, ObjectHealth("True"))]),
    "diff": dry_run.as_json([dry_run.DiffLine("~", "x", changes=(Change("a", "b", "c"),))], 1),
    "values": values.as_json(origins([Layer("s", {"a": 1})])),
    "check": check_rules.as_json([check_rules.Found("s", "good")]),
    "list": releasing.as_json(Release(key=ObjectKey("a", "b"))),
}


def fields(value: JsonValue) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from fields(inner)
    elif isinstance(value, list):
        for item in value:
            yield from fields(item)


@pytest.mark.parametrize("verb", SHOWN)
def test_every_field_is_on_the_page(verb: str) -> None:
    assert [name for name in set(fields(SHOWN[verb])) if f"`{name}`" not in PAGE] == []
