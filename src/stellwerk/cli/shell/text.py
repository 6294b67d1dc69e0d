"""Text for a terminal: symbols, colour, tables, ages, and the escaping of text from the cluster.

Pure, and light to import: it is on the way of every verb. rich would do tables too, for 80 ms of start time that a
list of a thousand objects cannot spare.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

Tone = Literal["good", "bad", "busy", "dim", "strong", ""]

_CODES: Mapping[Tone, str] = {"good": "32", "bad": "31", "busy": "33", "dim": "2", "strong": "1"}
_ASCII = str.maketrans({"✔": "+", "✗": "x", "◌": "o", "⏸": "=", "└": "`", "├": "|", "─": "-", "│": "|"})
_SHORT_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


@dataclass(frozen=True, slots=True)
class Style:
    """What the terminal can show."""

    colour: bool = False
    symbols: bool = True
    """Whether it knows more than ASCII."""

    def drawn(self, symbols: str) -> str:
        """Our own symbols and box lines, or their ASCII substitutes."""
        return symbols if self.symbols else symbols.translate(_ASCII)

    def painted(self, text: str, tone: Tone) -> str:
        """The text in the tone's colour, where there are colours."""
        return f"\x1b[{_CODES[tone]}m{text}\x1b[0m" if self.colour and tone else text


def escaped(text: str) -> str:
    r"""The text on one line, with what could steer a terminal or a reader's eye made visible.

    Names and messages of a cluster may come from anyone: an escape sequence in one could rewrite the screen, and a
    bidirectional override could show another word than the one that is there. Both become `\x1b`, `\u202e`.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(letter if is_harmless(letter) else _escape(letter) for letter in text)


def is_harmless(letter: str) -> bool:
    """Whether a letter takes its place on one line, and neither steers a terminal nor misleads a reader."""
    return letter == " " or unicodedata.category(letter) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")


def _escape(letter: str) -> str:
    code = ord(letter)
    if letter in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[letter]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def shortened(text: str, most: int) -> str:
    """The text in at most so many letters; what is cut off shows as three dots."""
    return text if len(text) <= most else text[: most - 3] + "..."


def age(since: datetime | None, now: datetime) -> str:
    """How long ago, in the largest unit that fits: `12s`, `3m`, `6h`, `9d`; `-` where that is unknown."""
    if since is None:
        return "-"
    seconds = max(0, int((now - since).total_seconds()))
    for unit, length, limit in (("s", 1, 60), ("m", 60, 60), ("h", 3600, 48), ("d", 86400, 730)):
        if seconds < length * limit:
            return f"{seconds // length}{unit}"
    return f"{seconds // (365 * 86400)}y"


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column of a table. Widths are in letters; `least` includes the gap to the next column."""

    title: str
    least: int = 0
    most: int = 0
    """Longer cells are cut; 0 for no limit."""
    gap: int = 2


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns with settled widths: rows that arrive later line up with those before."""

    columns: tuple[TableColumn, ...]
    widths: tuple[int, ...]

    def line(self, cells: Sequence[str], tones: Mapping[int, Tone] | None = None, style: Style | None = None) -> str:
        """One row; cells hold text from the cluster and are escaped here. `tones` colours cells by position."""
        parts: list[str] = []
        for position, (cell, width) in enumerate(zip(self._shown(cells), self.widths, strict=True)):
            padding = " " * max(0 if position == len(cells) - 1 else 1, width - len(cell))
            tone = (tones or {}).get(position, "")
            parts.append((style.painted(cell, tone) if style else cell) + padding)
        return "".join(parts).rstrip()

    def _shown(self, cells: Sequence[str]) -> list[str]:
        safe = [escaped(cell) or "-" for cell in cells]
        return [
            shortened(cell, column.most) if column.most else cell
            for cell, column in zip(safe, self.columns, strict=True)
        ]

    @property
    def header(self) -> str:
        """The titles."""
        return self.line([column.title for column in self.columns])


def layout(columns: Sequence[TableColumn], rows: Iterable[Sequence[str]]) -> Layout:
    """Widths in which these rows fit."""
    widths = [len(column.title) for column in columns]
    for row in rows:
        for position, cell in enumerate(row):
            widths[position] = max(widths[position], len(escaped(cell)))
    capped = [min(width, column.most or width) for width, column in zip(widths, columns, strict=True)]
    spaced = [max(column.least, width + column.gap) for width, column in zip(capped, columns, strict=True)]
    return Layout(tuple(columns), tuple(spaced))


def table(columns: Sequence[TableColumn], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table, titles first."""
    settled = layout(columns, rows)
    return [settled.header, *(settled.line(row) for row in rows)]
