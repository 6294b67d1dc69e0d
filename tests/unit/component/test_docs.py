"""Documentation names what there is: every flag, metric, word and link of it exists."""

from __future__ import annotations

import re
from pathlib import Path

from stellwerk.cli import verb_tree
from stellwerk.operators.component import api
from stellwerk.operators.component.insight import help_topics
from stellwerk.operators.component.observers import observers
from stellwerk.operators.component.reasons import CHART_WARNING, OBJECTS_NOT_WATCHED, Cause, Reason
from stellwerk.operators.component.settings import TABLE
from stellwerk.operators.component.sources import blueprints
from stellwerk.operators.component.sources.sources import SourceKind
from stellwerk.operators.component.targets import abandon_remote
from stellwerk.runtime.control.controller import PASS_STUCK
from stellwerk.runtime.process.manager import UNREADABLE
from stellwerk.runtime.settings.process_settings import PROCESS

DOCS = Path(__file__).parents[3] / "docs"
GUIDE = DOCS / "component-operator.md"
TEXT = GUIDE.read_text()


def _of_the_command_line() -> set[str]:
    verbs = [verb.load(name) for name, verb in verb_tree.VERBS.items()]
    parameters = [*PROCESS.options(), *(parameter for verb in verbs for parameter in verb.params)]
    return {option.lstrip("-") for parameter in parameters for option in parameter.opts}


def test_every_flag_that_is_named_exists() -> None:
    known = {row.flag for row in TABLE.rows} | {"components", "egress-"} | _of_the_command_line()

    assert set(re.findall(r"--([a-z][a-z-]+)", TEXT)) <= known


def test_every_source_and_annotation_has_its_line() -> None:
    assert {row[0] for row in help_topics.TOPICS["sources"].rows} == set(SourceKind)
    suffixes = {
        value.removeprefix(f"{api.RECONCILER}/")
        for name, value in vars(api).items()
        if name.endswith("_ANNOTATION") and isinstance(value, str) and value.startswith(api.RECONCILER)
    }
    assert {row[0] for row in help_topics.TOPICS["annotations"].rows} == suffixes - {"digest", "disable-events"}


def test_every_reason_of_an_event_has_its_line() -> None:
    sources = Path(help_topics.__file__).parents[1].rglob("*.py")
    said = {word for source in sources for word in re.findall(r'Notice\(\s*"(\w+)"', source.read_text())}
    kept = {
        observers.REMARKED,
        abandon_remote.REASON,
        blueprints.DELETION_BLOCKED,
        PASS_STUCK,
        "UpdateError",
        "DeleteError",
    }
    kept |= {UNREADABLE, OBJECTS_NOT_WATCHED, CHART_WARNING}

    assert said >= {"Created", "DriftDetected"}
    assert {row[0] for row in help_topics.TOPICS["events"].rows} == said | kept


def test_no_topic_is_named_like_a_reason() -> None:
    words = {word.lower() for word in (*Reason, *Cause)}

    assert not words & set(help_topics.TOPICS)
