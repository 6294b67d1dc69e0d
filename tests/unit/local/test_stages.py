"""The stages of the pod runner agree about what a fate is."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
import yaml

from stellwerk.cli.objects import object_summary
from stellwerk.delivery import workloads
from stellwerk.kube.types.model import JsonObject, Unstructured
from stellwerk.local import stages

DOCUMENTED = Path(__file__).parents[3] / "docs" / "local.md"


def fate_expressions(stage: Path) -> list[dict[str, object]]:
    """The conditions of a stage that read the fate."""
    listed = yaml.safe_load(stage.read_text())["spec"]["selector"]["matchExpressions"]
    return [each for each in listed if each["key"].startswith(stages.FATE)]


def test_every_stage_reads_the_fate_by_the_same_expression() -> None:
    assert {stage.stem: len(fate_expressions(stage)) for stage in stages.files()} == dict.fromkeys(
        (stage.stem for stage in stages.files()), 1
    )


def test_the_fates_that_are_played_documented_and_named_for_a_misspelt_one_are_the_same() -> None:
    rows = [line.split("`")[1] for line in DOCUMENTED.read_text().splitlines() if line.startswith("| `")]
    documented = {each for each in rows if not each.startswith("stellwerk ")}
    played = {
        str(value)
        for stage in stages.files()
        for expression in fate_expressions(stage)
        for value in [*expression.get("values", [])]  # type: ignore[misc]
    }
    (unknown,) = (stage for stage in stages.files() if stage.stem == "pod-unknown-fate")
    (expression,) = fate_expressions(unknown)
    key = str(expression["key"])
    known = set(json.loads(key[key.index('select(["') + 7 : key.index(" | index(")]))
    assert documented == played == known
    assert f'is not one of {", ".join(sorted(known))}"' in unknown.read_text()


def workload(kind: str, place: str, fate: str, template: JsonObject) -> Unstructured:
    """An owner of pods with a fate on itself, and the metadata of its pods."""
    return Unstructured.of(
        {
            "apiVersion": "batch/v1" if kind == "Job" else "apps/v1",
            "kind": kind,
            "metadata": {"name": "web", "namespace": "shop", place: {workloads.FATE: fate}},
            "spec": {"template": {"metadata": template}},
        }
    )


@pytest.mark.parametrize("place", ["annotations", "labels"])
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet", "Job"])
def test_a_fate_on_an_owner_of_pods_itself_is_told_to_be_without_effect(kind: str, place: str) -> None:
    owner = workload(kind, place, "it's bad", {})
    told = workloads.misplaced_fate(owner)

    assert f"stellwerk.local/fate=it's bad of {kind} shop/web has no effect" in told
    command = shlex.split(told[told.index("kubectl ") :])
    if kind == "Job":
        assert command == ["kubectl", "get", "job", "web", "-n", "shop", "-o", "yaml"]
    else:
        assert command[:4] == ["kubectl", "patch", kind.lower(), "web"]
        patched = json.loads(command[-1])["spec"]["template"]["metadata"]
        assert workloads.misplaced_fate(workload(kind, place, "it's bad", patched)) == "", "the command ends it"
    assert workloads.misplaced_fate(workload(kind, place, "", {})) == ""
    assert object_summary.expert_for(owner) is workloads.diagnostician


def test_the_fate_that_is_looked_for_is_the_one_that_the_pod_runner_reads() -> None:
    assert f'"{workloads.FATE}"' in stages.FATE
