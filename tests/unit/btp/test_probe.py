"""What the CA-bundle probe is given, and what its finding means."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import cast

import pytest

from stellwerk.kube.client.client import Client
from stellwerk.kube.types.model import JsonValue, dig
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.operators.btp.btpoperator.probe import Probe, ProbeFinding, ProbeSettings, job
from stellwerk.operators.btp.settings import Settings
from stellwerk.runtime.supervision.tasks import Border
from stellwerk.runtime.telemetry.metrics import Metrics
from stellwerk.testing.checks.surprises import SURPRISES
from stellwerk.testing.clock import FakeClock

POD = ("spec", "template", "spec")
EXPECTED = 2
"""TimeoutError and Unreachable: what a cycle may raise is logged without a stack."""


def test_without_an_image_there_is_no_probe() -> None:
    assert ProbeSettings.of({}) is None
    assert ProbeSettings.of({"PROBE_IMAGE": "", "PROBE_FORCE_HASH": "x"}) is None


def test_the_probe_runs_once_under_its_own_account_and_outside_the_mesh() -> None:
    body = job(ProbeSettings("probe:1"), "kyma-system")

    assert dig(body, "metadata", "name") == "btp-manager-ca-bundle-probe"
    assert dig(body, "spec", "backoffLimit") == 0
    assert dig(body, *POD, "restartPolicy") == "Never"
    assert dig(body, *POD, "serviceAccountName") == "btp-manager-ca-bundle-probe"
    for place in ("labels", "annotations"):
        assert dig(body, "spec", "template", "metadata", place, "sidecar.istio.io/inject") == "false"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, {"PROBE_NAMESPACE": "kyma-system"}),
        (
            {"PROBE_TOKENURL_OVERRIDE": "https://token.example.com", "PROBE_FORCE_HASH": "abc"},
            {
                "PROBE_NAMESPACE": "kyma-system",
                "PROBE_TOKENURL_OVERRIDE": "https://token.example.com",
                "PROBE_FORCE_HASH": "abc",
            },
        ),
    ],
)
def test_the_probe_is_told_what_the_environment_says(environment: dict[str, str], expected: dict[str, str]) -> None:
    settings = ProbeSettings.of({"PROBE_IMAGE": "probe:1", **environment})
    assert settings is not None

    containers = dig(job(settings, "kyma-system"), *POD, "containers")

    assert isinstance(containers, list)
    assert [(dig(one, "name"), dig(one, "image")) for one in containers] == [("probe", "probe:1")]
    assert told(dig(containers[0], "env")) == expected


def told(variables: JsonValue) -> dict[JsonValue, JsonValue]:
    assert isinstance(variables, list)
    return {dig(one, "name"): dig(one, "value") for one in variables}


@pytest.mark.parametrize(
    ("status", "value", "last", "restarts"),
    [
        ("ok", "new", "old", True),
        ("ok", "same", "same", False),
        ("ok", "first", "", False),
        ("alert", "new", "old", False),
    ],
)
def test_only_a_bundle_that_has_changed_and_is_good_restarts_the_operand(
    status: str, value: str, last: str, restarts: bool
) -> None:
    assert ProbeFinding(status, value, last, "now").restarts_operand is restarts


@pytest.mark.req("R-512")
async def test_whatever_a_cycle_raises_the_next_one_begins() -> None:
    clock, metrics, due = FakeClock(), Metrics(), [*SURPRISES.values()]

    def leader() -> BtpOperator | None:
        if due:
            raise due.pop()()
        probe.stop()
        return None

    probe = Probe(
        cast(Client, None),  # no cycle gets as far as a request
        ProbeSettings("probe:1"),
        lambda: Settings(probe_interval=timedelta(hours=1)),
        Border(metrics, clock),
        leader=leader,
        report=lambda alerts: None,
    )
    running = asyncio.create_task(probe.run())
    for _ in SURPRISES:
        await clock.until_sleeping()
        await clock.advance(3600)
    async with asyncio.timeout(10):
        await running
    unexpected = metrics.registry.get_sample_value("stellwerk_task_failures_total", {"kind": probe.name})
    assert unexpected == len(SURPRISES) - EXPECTED
