"""The stages of the pod runner agree about what a fate is."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

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
