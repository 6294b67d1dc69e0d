"""Help files are read as they are written, and a file that does not follow the form is refused."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import pytest

from stellwerk.runtime.insight.help_files import read_reasons, read_topics
from stellwerk.runtime.insight.reason_catalog import ReasonFacts


class State(StrEnum):
    Working = "Working"


class Reason(StrEnum):
    Busy = "Busy"


FACTS = {Reason.Busy: ReasonFacts(State.Working, "Busy now", only_user_can_fix=True)}
REASONS = """# Reasons

## Busy

Work goes on
in ${PLACE}.

Causes:

- One.
- Two, on
  two lines.

How to check:

- `kubectl get all`

How to fix:

- Wait for it: `kubectl wait job ${PLACE}`
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "help.md"
    file.write_text(text)
    return file


def test_a_reason_has_its_facts_from_the_code_and_its_text_from_the_file(tmp_path: Path) -> None:
    meaning = read_reasons(written(tmp_path, REASONS), FACTS, {"PLACE": "here"})[Reason.Busy]
    assert (meaning.state, meaning.message, meaning.only_user_can_fix) == (State.Working, "Busy now", True)
    assert meaning.meaning == "Work goes on in here."
    assert meaning.causes == ("One.", "Two, on two lines.")
    assert meaning.check == ("kubectl get all",)
    assert meaning.fix == ("Wait for it: kubectl wait job here",)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (REASONS.replace("## Busy", "## Idle"), ValueError),
        (REASONS + "\n## Idle\n\nNothing.\n", ValueError),
        (REASONS.replace("${PLACE}", "${ELSEWHERE}"), KeyError),
        (REASONS.replace("Causes:", "Reasons:"), KeyError),
    ],
)
def test_a_file_that_does_not_follow_the_form_is_refused(tmp_path: Path, text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        read_reasons(written(tmp_path, text), FACTS, {"PLACE": "here"})


TOPICS = """# About lamps

## light: how to see

One paragraph
on two lines.

Another, with `code`.

| name | meaning |
| --- | --- |
| `on` | light |
| `off` | $$0 |

```sh
lamp on
lamp off
```

## dark: how not to

Wait.
"""


def test_a_topic_has_paragraphs_a_table_and_commands(tmp_path: Path) -> None:
    light, dark = read_topics(written(tmp_path, TOPICS), {}).values()
    assert (light.about, light.text) == ("how to see", ("One paragraph on two lines.", "Another, with `code`."))
    assert light.rows == (("on", "light"), ("off", "$0"))
    assert light.commands == ("lamp on", "lamp off")
    assert (dark.about, dark.text, dark.rows, dark.commands) == ("how not to", ("Wait.",), (), ())


def test_a_table_that_the_code_defines_takes_the_place_of_one_in_the_file(tmp_path: Path) -> None:
    topics = read_topics(written(tmp_path, TOPICS), {}, {"dark": (("night", "no light"),)})
    assert topics["dark"].rows == (("night", "no light"),)
