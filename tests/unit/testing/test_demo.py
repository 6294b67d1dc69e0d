"""The demo shows no Warning that a user has to ignore."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from stellwerk.assembly import OPERATORS
from stellwerk.cli.local.operators import SAMPLE_LABEL, WAITING

ROOT = Path(__file__).parents[3]
MAKEFILE = ROOT / "Makefile"


@pytest.mark.parametrize("text", ["Makefile", "README.md"])
def test_the_demo_states_which_of_its_objects_are_broken_on_purpose(text: str) -> None:
    files = [file.read_text() for file in sorted((ROOT / "samples").glob("*/*.yaml"))]
    metadata = [body["metadata"] for each in files for body in yaml.safe_load_all(each)]
    broken = [each["name"] for each in metadata if each.get("labels", {}).get(SAMPLE_LABEL) == WAITING]
    assert broken
    (line,) = [
        line
        for line in (ROOT / text).read_text().split("\n\n" if text == "README.md" else "\n")
        if "roken on purpose" in line or "are broken on purpose" in line
    ]
    assert [name for name in broken if name not in line] == []


def test_the_token_issuer_of_the_demo_serves_before_the_sample_asks_it_for_a_token() -> None:
    text = MAKEFILE.read_text()
    steps = text[text.index("\ndemo: control-plane") :].split("\n\n")[0].splitlines()[1:]
    (issuer,) = (number for number, step in enumerate(steps) if step.endswith("demo_registry start"))
    (samples,) = (number for number, step in enumerate(steps) if step.endswith("up --samples"))
    assert issuer < samples, "the subscription server would report IdentityUnproved by a Warning"


def test_the_local_system_takes_modules_from_files() -> None:
    flags = [*OPERATORS["kyma"].installation().local_flags(Path())]

    assert "--raw-manifest-links=file" in flags
    assert "--without-registry" in flags
