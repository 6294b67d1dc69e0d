"""What there is to know about an operator besides its reasons: `stellwerk explain TOPIC`, and a reference page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """One subject, for people who use the operator. `text` is a paragraph each, `commands` are typed as they stand."""

    about: str
    """In one line, for the list."""
    text: tuple[str, ...]
    rows: tuple[tuple[str, str], ...] = ()
    """A name and what it means, where the subject is a set of names."""
    commands: tuple[str, ...] = ()


def page(title: str, topics: Mapping[str, Topic]) -> str:
    """The reference page of all topics of one operator, as Markdown."""
    lines = [f"# {title}", "", "`stellwerk explain TOPIC` prints the same text.", ""]
    for name, topic in topics.items():
        lines += [f"## {name}", ""]
        for paragraph in topic.text:
            lines += [paragraph, ""]
        if topic.rows:
            lines += [
                "| name | meaning |",
                "| --- | --- |",
                *(f"| `{word}` | {text} |" for word, text in topic.rows),
                "",
            ]
        if topic.commands:
            lines += ["```sh", *topic.commands, "```", ""]
    return "\n".join(lines)
