"""What the CA-bundle probe is given, and what its finding means."""

from __future__ import annotations

import pytest

from stellwerk.kube.model import JsonValue, dig
from stellwerk.operators.btp.probe import Finding, ProbeSettings, job

POD = ("spec", "template", "spec")


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
    assert Finding(status, value, last, "now").restarts_operand is restarts
