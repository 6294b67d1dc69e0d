"""`stellwerk explain`: the page of a reason or a topic, from the catalogues that the operators themselves use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from textwrap import wrap

from stellwerk.cli import kinds
from stellwerk.cli.shell import settings, text
from stellwerk.cli.shell.errors import Exit, Failure
from stellwerk.cli.shell.text import Style
from stellwerk.runtime.insight.help_topics import Topic
from stellwerk.runtime.insight.reason_catalog import Meaning

_WIDTH = 100
"""Letters of a line of running text: what people still read with ease."""


@dataclass(frozen=True, slots=True)
class ReasonEntry:
    """One reason of one kind."""

    kind: str
    reason: str
    meaning: Meaning[StrEnum]
    turn: str


@dataclass(frozen=True, slots=True)
class TopicEntry:
    """One topic of one kind."""

    kind: str
    name: str
    topic: Topic


def words() -> Iterator[tuple[str, str]]:
    """All topics and reasons, each with its kind."""
    yield from ((entry.name, entry.kind) for entry in topics())
    yield from ((entry.reason, entry.kind) for entry in catalogue())


def explain(word: str) -> None:
    """Print the pages of a topic or reason, or, without a word, the list of all. Raises Failure."""
    style = settings.current().style()
    entries, subjects = list(catalogue()), list(topics())
    if not word:
        settings.show([*list_of_topics(subjects), "", *overview(entries)])
        return
    pages = [topic_page(subject, style) for subject in subjects if subject.name.lower() == word.lower()]
    pages += [page(entry, style) for entry in entries if entry.reason.lower() == word.lower()]
    # The reason of an Event, or an annotation: the page of a topic has a line about it.
    pages = pages or [topic_page(subject, style) for subject in subjects if word.lower() in _names_in(subject.topic)]
    pages = pages or [page(entry, style) for entry in _of_message(word, entries)]
    if not pages:
        raise _unknown(word, [*(subject.name for subject in subjects), *(entry.reason for entry in entries)])
    settings.show(["\n\n".join("\n".join(lines) for lines in pages)])


def catalogue() -> Iterator[ReasonEntry]:
    """All reasons of all our kinds."""
    for row in kinds.OWN:
        known = row.help().catalogue
        for reason, meaning in known.meanings.items():
            yield ReasonEntry(row.resource.kind, reason.value, meaning, known.turn(reason))


def _of_message(text: str, entries: Sequence[ReasonEntry]) -> Iterator[ReasonEntry]:
    """The reasons of a message that a user has copied: kinds whose statuses have no reasons show only that."""
    found = {(row.resource.kind, row.help().catalogue.word_of(text)) for row in kinds.OWN}
    yield from (entry for entry in entries if (entry.kind, entry.reason) in found)


def topics() -> Iterator[TopicEntry]:
    """All topics of all our kinds; an operator may have none."""
    for row in kinds.OWN:
        for name, topic in row.help().topics.items():
            yield TopicEntry(row.resource.kind, name, topic)


def list_of_topics(subjects: Sequence[TopicEntry]) -> list[str]:
    """A line for each topic."""
    rows = [[subject.kind, subject.name, subject.topic.about] for subject in subjects]
    return text.table([text.TableColumn(title) for title in ("KIND", "TOPIC", "ABOUT")], rows)


def topic_page(subject: TopicEntry, style: Style) -> list[str]:
    """The lines about a topic."""
    topic = subject.topic
    lines = [f"{style.painted(subject.name, 'strong')}  ({subject.kind}: {topic.about})"]
    for paragraph in topic.text:
        lines += ["", *wrap(paragraph, _WIDTH, break_on_hyphens=False, break_long_words=False)]
    if topic.rows:
        longest = max(len(name) for name, _ in topic.rows)
        lines += ["", *(f"  {name:<{longest}}  {text}" for name, text in topic.rows)]
    if topic.commands:
        lines += ["", "Commands:", *(f"  {command}" for command in topic.commands)]
    return lines


def overview(entries: Sequence[ReasonEntry]) -> list[str]:
    """A line for each reason."""
    rows = [[entry.kind, entry.reason, entry.meaning.shown_state, entry.meaning.meaning] for entry in entries]
    columns = [text.TableColumn(title) for title in ("KIND", "REASON", "STATE", "MEANING")]
    return text.table(columns, rows)


def page(entry: ReasonEntry, style: Style) -> list[str]:
    """The lines about a reason."""
    meaning = entry.meaning
    lines = [f"{style.painted(entry.reason, 'strong')}  ({entry.kind}, state {meaning.shown_state})", ""]
    lines += [meaning.meaning, entry.turn]
    if meaning.message:
        lines += ["", f"Message: {meaning.message}"]
    for title, items in meaning.advice:
        lines += ["", f"{title}:", *(f"  - {item}" for item in items)]
    return lines


def _names_in(topic: Topic) -> set[str]:
    return {name.lower() for name, _ in topic.rows}


def _unknown(word: str, known: Sequence[str]) -> Failure:
    by_lower = {one.lower(): one for one in known}
    near = [by_lower[similar] for similar in get_close_matches(word.lower(), by_lower, n=3, cutoff=0.5)]
    return Failure(
        f"there is no reason and no topic {word!r}",
        cause=f"near to it: {', '.join(near)}" if near else "no operator of ours uses this word",
        fix="stellwerk explain lists all",
        code=Exit.USAGE,
    )
