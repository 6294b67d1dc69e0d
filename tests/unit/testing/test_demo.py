"""The demo shows no Warning that a user has to ignore."""

from __future__ import annotations

from pathlib import Path

MAKEFILE = Path(__file__).parents[3] / "Makefile"


def test_the_token_issuer_of_the_demo_serves_before_the_sample_asks_it_for_a_token() -> None:
    text = MAKEFILE.read_text()
    steps = text[text.index("\ndemo: control-plane") :].split("\n\n")[0].splitlines()[1:]
    (issuer,) = (number for number, step in enumerate(steps) if step.endswith("demo_registry start"))
    (samples,) = (number for number, step in enumerate(steps) if step.endswith("up --samples"))
    assert issuer < samples, "the subscription server would report IdentityUnproved by a Warning"
