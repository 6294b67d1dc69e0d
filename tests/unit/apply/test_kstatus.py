"""Our verdicts are those of kstatus itself.

`recorded/kstatus.json` is what kstatus 0.37 (sigs.k8s.io/cli-utils, `status.Compute`) said about objects that are ready
and about those that differ from one in a single field. Left out is where we differ on purpose: a job that runs is not
ready yet.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from stellwerk.apply.readiness.kstatus import ObjectStatus, judge
from stellwerk.kube.types.model import JsonObject, Unstructured

RECORDED: list[tuple[str, JsonObject]] = json.loads((Path(__file__).parent / "recorded" / "kstatus.json").read_text())
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_every_object_is_judged_as_kstatus_judges_it() -> None:
    differing = [
        (verdict, found, body)
        for verdict, body in RECORDED
        if (found := judge(ObjectStatus.of(Unstructured.of(body), NOW)).verdict.value) != verdict
    ]
    assert differing == []
    assert len(RECORDED) > 300
