"""Remove secret words from text, in time that is linear in the text and in the words.

Libraries and servers quote what they fail at: whole, escaped as Go, JSON, YAML or a URL writes it, the first letters
only, or from the place at which they failed; and a long message is cut. So a word is removed in each of these forms.

We refused one search per word and spelling: 60,000 words and a text of 20 KiB took 40 seconds. Instead the text is read
in each way in which it may be escaped (`_readings`), and each reading is compared with an index of the words. Where the
comparison would need too many steps, or the words are too many, the rest of the text is masked: nothing is shown that
was not compared.

    Vocabulary(words).masked(text)       the words of one object, with the parts of words that a message quotes
    WordIndex                               a set of words that changes, for text that is read often: log lines
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from stellwerk.kube.types.model import JsonValue

MASK: Final = "***"
SHORTEST: Final = 4
"""Characters from which a word is masked; masking `on` or `80` hides nothing but the message."""
LONGEST_TEXT: Final = 4_096
"""Characters of a message that is masked; a longer one is cut first. A condition shows 1,024 of them."""
WITHHELD: Final = "(withheld: there are too many secret values to compare the message with)"

LONGEST_WORD: Final = 512
"""A longer word is known by its beginning; where that appears, the text is masked from there on."""
_SHORTEST_PART = 6
"""That of a quoted part of a word: a YAML library quotes seven letters."""
_CUTS = ("...", "…")
_MOST_STEPS = 20_000
"""Comparisons for one text. Ordinary words need a few hundred."""
_MOST_LETTERS = 4 * 2**20
_MOST_WORDS = 200_000
"""Of one vocabulary; with more of either nothing is shown."""
_MOST_SEARCHED = 256 * 2**20
"""Letters that are searched for the quoted parts of one text; parts beyond that are masked."""

Span = tuple[int, int]


class _Holders(NamedTuple):
    words: int
    sizes: int
    """Bits: which lengths the words have."""


class WordIndex:
    """Words that are found in a text by their first letters. A word that was added twice must be discarded twice.

    A word is filed under its first 2^n letters, where 2^n is the largest power of two within its length. A place of the
    text is compared with each length that is known for its first letters, the longest first.
    """

    def __init__(self, words: Iterable[str] = ()) -> None:
        self._words: dict[str, int] = {}
        self._heads: dict[str, _Holders] = {}
        self._lengths: dict[str, _Holders] = {}
        for word in words:
            self.add(word)

    def __len__(self) -> int:
        return len(self._words)

    def add(self, word: str) -> None:
        """Find this word from now on. Words shorter than `SHORTEST` are ignored."""
        word = word[:LONGEST_WORD]
        if len(word) < SHORTEST:
            return
        count = self._words.get(word, 0)
        self._words[word] = count + 1
        if not count:
            size = _largest_power(len(word))
            _file(self._heads, word[:SHORTEST], size)
            _file(self._lengths, word[:size], 1 << (len(word) - size))

    def discard(self, word: str) -> None:
        """Undo one `add`."""
        word = word[:LONGEST_WORD]
        count = self._words.get(word, 0)
        if count > 1:
            self._words[word] = count - 1
        elif count:
            del self._words[word]
            _unfile(self._heads, word[:SHORTEST])
            _unfile(self._lengths, word[: _largest_power(len(word))])

    def spans(self, text: str) -> list[Span]:
        """Where the longest word begins and ends at each place that begins one, in the order of the places."""
        heads, found, steps = self._heads, list[Span](), _MOST_STEPS
        for start in [at for at in range(len(text) - SHORTEST + 1) if text[at : at + SHORTEST] in heads]:
            end, taken = self._end(text, start)
            steps -= taken
            if steps < 0:
                found.append((start, len(text)))
                break
            if end:
                found.append((start, end))
        return found

    def _end(self, text: str, start: int) -> tuple[int, int]:
        """Where the longest word that begins here ends (0: none does), and how many comparisons that took."""
        steps, sizes = 0, self._heads[text[start : start + SHORTEST]].sizes
        while sizes:
            size = _largest_power(sizes)
            sizes -= size
            steps += 1
            holders = self._lengths.get(text[start : start + size])
            lengths = holders.sizes if holders is not None else 0
            while lengths:
                bit = lengths.bit_length() - 1
                lengths -= 1 << bit
                steps += 1
                word = text[start : start + size + bit]
                if len(word) == size + bit and word in self._words:
                    return len(text) if len(word) == LONGEST_WORD else start + len(word), steps
        return 0, steps


def _largest_power(number: int) -> int:
    return 1 << (number.bit_length() - 1)


def _file(holders: dict[str, _Holders], key: str, size: int) -> None:
    words, sizes = holders.get(key, (0, 0))
    holders[key] = _Holders(words + 1, sizes | size)


def _unfile(holders: dict[str, _Holders], key: str) -> None:
    words, sizes = holders[key]
    if words == 1:
        del holders[key]
    else:
        holders[key] = _Holders(words - 1, sizes)


# ---- readings


@dataclass(frozen=True, slots=True)
class _Reading:
    """A text with its escapes resolved, and where each letter was written."""

    text: str
    starts: Sequence[int]
    ends: Sequence[int]

    def written(self, span: Span) -> Span:
        """The place in the text as it was written."""
        start, end = span
        return self.starts[start], self.ends[end - 1]


_BACKSLASH = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U00[01][0-9a-fA-F]{5}"
    r"|x[0-9a-fA-F]{2}|[abefnrtv0\\'\"/ ])"
)
_QUOTE = re.compile("''")
_PERCENT = re.compile("(?:%[0-9a-fA-F]{2})+")
_SIMPLE = {
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "0": "\0",
}


def _of_backslash(escape: str) -> str:
    match escape[1]:
        case "u" if len(escape) > 6:
            high, low = int(escape[2:6], 16), int(escape[8:], 16)
            return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))
        case "u" | "x" | "U":
            number = int(escape[2:], 16)
            return chr(number) if number <= 0x10FFFF else escape
        case letter:
            return _SIMPLE.get(letter, letter)


def _of_percent(escape: str) -> str:
    return bytes.fromhex(escape.replace("%", "")).decode(errors="replace")


def _readings(text: str) -> list[_Reading]:
    """The text as it is, and with each kind of escape resolved; backslashes twice, for JSON within a Go string."""
    plain = _Reading(text, range(len(text)), range(1, len(text) + 1))
    readings = [plain]
    if "\\" in text:
        once = _resolved(plain, _BACKSLASH, _of_backslash)
        readings.append(once)
        if "\\" in once.text:
            readings.append(_resolved(once, _BACKSLASH, _of_backslash))
    if "''" in text:
        readings.append(_resolved(plain, _QUOTE, lambda _: "'"))
    if "%" in text:
        readings.append(_resolved(plain, _PERCENT, _of_percent))
    return readings


def _resolved(reading: _Reading, escapes: re.Pattern[str], meaning: Callable[[str], str]) -> _Reading:
    letters: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    at = 0
    for escape in escapes.finditer(reading.text):
        letters.append(reading.text[at : escape.start()])
        starts.extend(reading.starts[at : escape.start()])
        ends.extend(reading.ends[at : escape.start()])
        meant = meaning(escape[0])
        letters.append(meant)
        starts.extend([reading.starts[escape.start()]] * len(meant))
        ends.extend([reading.ends[escape.end() - 1]] * len(meant))
        at = escape.end()
    letters.append(reading.text[at:])
    starts.extend(reading.starts[at:])
    ends.extend(reading.ends[at:])
    return _Reading("".join(letters), starts, ends)


# ---- masking


def spans_in(text: str, words: WordIndex) -> list[Span]:
    """Where the text shows one of the words, escaped or not."""
    return [reading.written(span) for reading in _readings(text) for span in words.spans(reading.text)]


def without(text: str, spans: Iterable[Span]) -> str:
    """The text with a mask in the place of each span; spans that touch share one."""
    pieces: list[str] = []
    at = covered = 0
    for start, end in sorted(spans):
        if start > covered or not pieces:
            pieces.append(text[at:start])
            pieces.append(MASK)
        at = covered = max(covered, end)
    pieces.append(text[at:])
    return "".join(pieces)


def shortened(text: str, limit: int = LONGEST_TEXT) -> str:
    """The text in at most so many characters; a cut one ends in an ellipsis, which `masked` looks at."""
    return text if len(text) <= limit else text[: limit - 3] + _CUTS[0]


class Vocabulary:
    """The secret words of one object."""

    def __init__(self, words: Iterable[str]) -> None:
        """Words shorter than `SHORTEST` are ignored."""
        self._words: tuple[str, ...] = ()
        self._is_complete = True
        kept: set[str] = set()
        letters = 0
        for word in words:
            if len(word) >= SHORTEST and word not in kept:
                kept.add(word)
                letters += len(word)
                if letters > _MOST_LETTERS or len(kept) > _MOST_WORDS:
                    self._is_complete = False
                    return
        self._words = tuple(kept)

    def __bool__(self) -> bool:
        return bool(self._words) or not self._is_complete

    def masked(self, text: str) -> str:
        """The text without the words, in at most `LONGEST_TEXT` characters and a few."""
        if not self or len(text) < SHORTEST:
            return shortened(text)
        if not self._is_complete:
            return WITHHELD
        text = shortened(text)
        readings = _readings(text)
        spans = [span for reading in readings for span in self._in(reading)]
        spans += self._parts(text)
        return without(text, spans)

    def _in(self, reading: _Reading) -> list[Span]:
        text = reading.text
        heads = {text[at : at + SHORTEST] for at in range(len(text) - SHORTEST + 1)}
        candidates = [word for word in self._words if word[:SHORTEST] in heads]
        if not candidates:
            return []
        found = WordIndex(candidates).spans(text)
        if (tail := _tail(text, candidates)) is not None:
            found.append(tail)
        return [reading.written(span) for span in found]

    def _parts(self, text: str) -> list[Span]:
        """Where parts of words stand between two quotation marks, or are all that there is."""
        found: list[Span] = []
        seen: dict[str, bool] = {}
        left = _MOST_SEARCHED
        for mark in "`\"'":
            start = 0
            for piece in text.split(mark):
                end = start + len(piece)
                if len(piece) >= _SHORTEST_PART:
                    if piece not in seen:
                        left -= len(self._joined)
                        seen[piece] = left < 0 or self._holds(piece)
                    if seen[piece]:
                        found.append((start, end))
                start = end + 1
        return found

    def _holds(self, piece: str) -> bool:
        part = piece
        for cut in _CUTS:
            part = part.removesuffix(cut)
        return any(
            len(reading.text) >= _SHORTEST_PART and reading.text.removesuffix("\\") in self._joined
            for reading in _readings(part)
        )

    @cached_property
    def _joined(self) -> str:
        return "\0".join(self._words)


def _tail(text: str, words: Iterable[str]) -> Span | None:
    """Where a word begins in which the message was cut."""
    cut = next((cut for cut in _CUTS if text.endswith(cut)), "")
    if not cut:
        return None
    body = text.removesuffix(cut)
    ordered = sorted(words)
    for start in range(len(body) - SHORTEST + 1):
        begun = body[start:]
        at = bisect_left(ordered, begun)
        if at < len(ordered) and ordered[at].startswith(begun):
            return start, len(body)
    return None


def words_of(value: JsonValue) -> set[str]:
    """The words of a value: its texts and numbers, whole and line by line."""
    words: set[str] = set()
    pending: list[JsonValue] = [value]
    while pending:
        match pending.pop():
            case str() as text:
                words |= {text, text.strip(), *(line.strip() for line in text.splitlines())}
            case list() as items:
                pending.extend(items)
            case dict() as inner:
                pending.extend(inner.values())
            case bool() | None:
                pass
            case number:
                words.add(str(number))
    return {word for word in words if len(word) >= SHORTEST}
