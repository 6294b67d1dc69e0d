"""A set of thousands of objects blocks the event loop in no step of a pass: planning one runs in a thread."""

from __future__ import annotations

import pytest

from stellwerk.testing.checks.loop_stalls import LONGEST_STALL_SECONDS, measured_stalls
from tests.cluster.component.given import Given, config_map
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then

COUNT = 3_000


@pytest.mark.req("R-412")
async def test_a_component_of_3000_objects_does_not_block_the_event_loop(
    given: Given, running: Running, then: Then
) -> None:
    text = "---\n".join(config_map(f"config-{number}") for number in range(COUNT))
    await given.source({"all.yaml": text}, revision="r1")
    await running.start()
    with measured_stalls() as stalls:
        await given.component()
        await then.ready(revision="r1", within=120)
    assert stalls.longest_seconds < LONGEST_STALL_SECONDS


@pytest.mark.req("R-411")
@pytest.mark.req("R-412")
async def test_objects_of_many_mib_are_weighed_and_do_not_block_the_event_loop(
    given: Given, running: Running, then: Then
) -> None:
    template = (
        "{{- range $i := until 12 }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: large-{{ $i }}}\n"
        'data: {text: {{ repeat 70000 "some words " | quote }}}\n{{- end }}\n'
    )
    chart = {"Chart.yaml": "apiVersion: v2\nname: app\nversion: 1.0.0\n", "templates/all.yaml": template}
    await given.source(chart, revision="r1")
    await running.start()
    with measured_stalls() as stalls:
        component = await given.component()
        await then.ready(revision="r1", within=120)
        await running.rests()
    assert stalls.longest_seconds < LONGEST_STALL_SECONDS
    assert running.operator.reconciler.services.weights.weight_of(component.key) > 8 * 2**20
