"""The pages for readers, as text to run: their blocks of shell commands and the files that they show.

A page says in comments of Markdown, which no reader sees, what a test needs to know of the block that follows:

    <!-- test: skip REASON -->     the commands of this block do not run in a test
    <!-- test: save FILE -->       the block is the content of this file
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md"))]
GENERATED = "docs/reference/"
"""Pages below are made from the program: their commands have placeholders and are checked by words only."""

_BLOCK = re.compile(
    r"^(?P<indent> *)(?:<!-- test: (?P<verb>skip|save) (?P<what>.+?) -->\n\n? *)?"
    r"```(?P<language>[a-z]*)[^\n]*\n(?P<text>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)
_COMMAND = re.compile(r"^ *(?:[a-z.]*/bin/)?(?:stellwerk|kubectl|make|helm|export) ", re.MULTILINE)
_PLACEHOLDER = re.compile(r"\b[A-Z]{4,}\b")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block. `skipped`: why it does not run. `file`: where its content belongs."""

    language: str
    text: str
    skipped: str = ""
    file: str = ""

    @property
    def has_commands(self) -> bool:
        """Whether a reader is asked to type some of it."""
        return _COMMAND.search(self.text) is not None


def blocks(page: str) -> Iterator[Block]:
    """All fenced blocks of a page, in order, without their indentation."""
    for match in _BLOCK.finditer((ROOT / page).read_text()):
        indent = match["indent"]
        text = "".join(line.removeprefix(indent) for line in match["text"].splitlines(keepends=True))
        skipped, file = (match["what"] if match["verb"] == verb else "" for verb in ("skip", "save"))
        yield Block(match["language"], text, skipped, file)


def script(page: str, values: Mapping[str, str]) -> str:
    """What a reader of a page types, with `values` for the words in capitals that stand for the reader's own."""
    parts = []
    for block in blocks(page):
        if block.file:
            parts.append(f"cat > {block.file} <<'END OF FILE'\n{block.text}END OF FILE\n")
        elif block.language == "sh" and not block.skipped:
            parts.append(block.text)
    return _PLACEHOLDER.sub(lambda word: values.get(word[0], word[0]), "".join(parts))
