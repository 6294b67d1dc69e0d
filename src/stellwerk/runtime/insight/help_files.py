"""Help texts as Markdown files next to the code: the reasons of a kind, and topics about it.

A file has sections with headings, paragraphs, lists, a table, and commands in code. Values that the code defines are
placeholders, `${NAME}`, so that no text becomes outdated. Files are part of the product: one that does not follow the
form raises ValueError, which a test finds before a user does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from importlib.resources.abc import Traversable
from string import Template
from typing import TypeVar

from stellwerk.runtime.insight.help_topics import Topic
from stellwerk.runtime.insight.reason_catalog import ADVICE, Meaning, ReasonFacts

S = TypeVar("S", bound=StrEnum)
W = TypeVar("W", bound=StrEnum)

_SECTION = re.compile(r"^## ", re.MULTILINE)
_QUOTED_COMMAND = re.compile(r"(^|: )`([^`]+)`$")
_ROW = re.compile(r"\| `([^`]+)` \| (.+) \|")


def read_reasons(
    file: Traversable, facts: Mapping[W, ReasonFacts[S]], values: Mapping[str, str]
) -> dict[W, Meaning[S]]:
    """The meaning of each reason, in the order of `facts`.

    A section has the name of its reason, the meaning, and up to three titled lists (`ADVICE`). Raises ValueError where
    a reason has no section, or a section has no reason, and KeyError for an unknown placeholder.
    """
    sections = dict(_sections(file, values))
    if sections.keys() != {str(word) for word in facts}:
        raise ValueError(f"{file.name}: reasons and sections differ: {sections.keys() ^ {str(word) for word in facts}}")
    return {word: _meaning(sections[str(word)], about) for word, about in facts.items()}


def read_topics(
    file: Traversable, values: Mapping[str, str], rows: Mapping[str, tuple[tuple[str, str], ...]] | None = None
) -> dict[str, Topic]:
    """The topics of a file. A heading is `name: about in one line`; `rows` are tables that the code defines."""
    topics: dict[str, Topic] = {}
    for heading, body in _sections(file, values):
        name, _, about = heading.partition(": ")
        blocks = body.split("\n\n")
        tables = [block for block in blocks if block.startswith("| ")]
        commands = [block for block in blocks if block.startswith("```sh\n")]
        topics[name] = Topic(
            about=about,
            text=tuple(_joined(block) for block in blocks if block not in tables and block not in commands),
            rows=(rows or {}).get(name) or tuple((row[1], row[2]) for table in tables for row in _ROW.finditer(table)),
            commands=tuple(line for block in commands for line in block.split("\n")[1:-1]),
        )
    return topics


def _sections(file: Traversable, values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    text = Template(file.read_text(encoding="utf-8")).substitute(values)
    for section in _SECTION.split(text)[1:]:
        heading, _, body = section.partition("\n")
        yield heading.strip(), body.strip()


def _meaning(body: str, about: ReasonFacts[S]) -> Meaning[S]:
    text, *blocks = body.split("\n\n")
    advice: dict[str, tuple[str, ...]] = {}
    for title, items in zip(blocks[::2], blocks[1::2], strict=True):
        advice[ADVICE[title.removesuffix(":")]] = tuple(
            _QUOTED_COMMAND.sub(r"\1\2", _joined(item)) for item in re.split(r"(?:^|\n)- ", items)[1:]
        )
    return Meaning(
        state=about.state,
        message=about.message,
        only_user_can_fix=about.only_user_can_fix,
        turn=about.turn,
        meaning=_joined(text),
        **advice,
    )


def _joined(block: str) -> str:
    """A paragraph on one line."""
    return " ".join(line.strip() for line in block.split("\n"))
