"""Secrets and ConfigMaps of a MiB, and a chart that fails with them, do not block the event loop."""

from __future__ import annotations

import pytest

from stellwerk.kube.masking import LONGEST_TEXT
from stellwerk.testing.checks.loop_stalls import LONGEST_STALL_SECONDS, measured_stalls
from tests.cluster.component.given import Given
from tests.cluster.component.manifests import config
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then

WORDS = "words:\n" + "".join(f"- secret-{number:06}\n" for number in range(40_000))
"""Two thirds of a MiB that has to be masked word by word."""
SETTINGS = "settings:\n" + "".join(f"  key-{number:05}: {{a: [{number}]}}\n" for number in range(25_000))
CHART = {"Chart.yaml": "apiVersion: v2\nname: app\nversion: 1.0.0\n"}


@pytest.mark.req("R-412")
async def test_large_secrets_and_config_maps_and_a_failing_chart_do_not_block_the_event_loop(
    given: Given, running: Running, then: Then
) -> None:
    counting = config("counted", "{{ len .Values.words }} {{ len .Values.settings }}")
    await given.source({**CHART, "templates/one.yaml": counting}, revision="good")
    await given.source({**CHART, "templates/one.yaml": '{{ fail (join " " .Values.words) }}'}, "broken")
    await given.secret("words", values=WORDS)
    await given.config("settings", values=SETTINGS)
    inputs = [{"kind": "Secret", "name": "words"}, {"kind": "ConfigMap", "name": "settings"}]
    await running.start()
    with measured_stalls() as stalls:
        await given.component("good", "source", valuesFrom=inputs)
        await then.ready("good", revision="good", within=60)
        await given.component("broken", "broken", valuesFrom=inputs)
        shown = await then.shows("Error", name="broken", saying="***", within=60)
        await running.rests()
    assert stalls.longest_seconds < LONGEST_STALL_SECONDS
    assert (await then.config("counted")).data == {"value": "40000 25000"}
    assert shown.status is not None
    said = " ".join(condition.message for condition in shown.status.conditions)
    assert "secret-0" not in said
    assert len(said) < 2 * LONGEST_TEXT
