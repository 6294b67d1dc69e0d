"""Finds words in texts of the project that plain technical English avoids (pure, but for reading the files).

Texts are Markdown outside of code, and in Python docstrings, comments and string literals with a blank in them, which
are messages. Of Go, comments are read. Pages that `make generate` writes are left out, because their source is read.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
FOLDERS = ("src", "native", "docs", "designs", "news", "bench", "deploy")
PAGES = ("README.md", "CONTRIBUTING.md")
GENERATED = ("docs/reference/", "deploy/crds/", "deploy/rbac/")


@dataclass(frozen=True, slots=True)
class Word:
    """An avoided word as a pattern, and what to write instead."""

    pattern: re.Pattern[str]
    instead: str


@dataclass(frozen=True, slots=True)
class Allowed:
    """A phrase that may occur below a path although a word in it is avoided."""

    phrase: str
    where: str


@dataclass(frozen=True, slots=True)
class Finding:
    """An avoided word in a file."""

    path: str
    line: int
    word: str
    instead: str

    def __str__(self) -> str:
        return f'{self.path}:{self.line}: "{self.word}": write: {self.instead}'


def words() -> list[Word]:
    """The word list. Raises KeyError and tomllib.TOMLDecodeError for a file of another form."""
    listed: Mapping[str, str] = tomllib.loads((HERE / "words.toml").read_text())["avoid"]
    return [Word(re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE), instead) for pattern, instead in listed.items()]


def exceptions() -> list[Allowed]:
    """The phrases that are allowed. Raises ValueError for an entry without a reason."""
    found = []
    for entry in tomllib.loads((HERE / "exceptions.toml").read_text())["allowed"]:
        if not entry["reason"].strip():
            raise ValueError(f"{entry['phrase']}: an exception needs a reason")
        found.append(Allowed(entry["phrase"], entry["where"]))
    return found


def bounds() -> Mapping[str, int]:
    """By folder or file, the most findings it may have until its texts are rewritten. What is not listed has none."""
    found: Mapping[str, int] = tomllib.loads((HERE / "pending.toml").read_text())["most"]
    return found


def files() -> list[Path]:
    """The files that are checked, in the order of their paths."""
    found = [ROOT / page for page in PAGES]
    for folder in FOLDERS:
        found += [path for suffix in (".md", ".py", ".go") for path in (ROOT / folder).rglob(f"*{suffix}")]
    return sorted(path for path in found if not str(path.relative_to(ROOT)).startswith(GENERATED))


def findings(avoided: Sequence[Word], allowed: Sequence[Allowed]) -> list[Finding]:
    """All findings in all files."""
    return [
        finding
        for path in files()
        for finding in of_text(str(path.relative_to(ROOT)), path.read_text(), avoided, allowed)
    ]


def of_text(path: str, text: str, avoided: Sequence[Word], allowed: Sequence[Allowed]) -> Iterator[Finding]:
    """The findings in the text of one file. The suffix of `path` says how it is read."""
    phrases = [
        re.compile(r"\s+".join(map(re.escape, one.phrase.split()))) for one in allowed if path.startswith(one.where)
    ]
    for line, part in _parts(path, text):
        spared = part
        for phrase in phrases:
            spared = phrase.sub(lambda match: re.sub(r"\S", " ", match.group()), spared)
        for word in avoided:
            for match in word.pattern.finditer(spared):
                yield Finding(path, line + spared.count("\n", 0, match.start()), match.group(), word.instead)


def _parts(path: str, text: str) -> Iterator[tuple[int, str]]:
    match Path(path).suffix:
        case ".py":
            yield from _python(text)
        case ".go":
            yield from _go(text)
        case _:
            yield from _markdown(text)


def _python(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    tree = ast.parse(text)
    pieces = {id(piece) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for piece in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield (
                node.lineno,
                "".join(
                    piece.value if isinstance(piece, ast.Constant) and isinstance(piece.value, str) else "_"
                    for piece in node.values
                ),
            )
        elif isinstance(node, ast.Constant) and id(node) not in pieces and _is_sentence(node.value):
            yield node.lineno, str(node.value)


def _is_sentence(value: object) -> bool:
    return isinstance(value, str) and " " in value.strip()


def _go(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        _, slashes, comment = line.partition("//")
        if slashes:
            yield number, comment


def _markdown(text: str) -> Iterator[tuple[int, str]]:
    is_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code:
            yield number, re.sub(r"`[^`]*`", "", line)


def over(found: Sequence[Finding], most: Mapping[str, int]) -> list[str]:
    """Messages: findings where none may be, and places whose bound is too high or too low."""
    counts = dict.fromkeys(most, 0)
    lines = []
    for finding in found:
        place = max((place for place in most if finding.path.startswith(place)), key=len, default=None)
        if place is None:
            lines.append(str(finding))
        else:
            counts[place] += 1
    for place, count in counts.items():
        if count > most[place]:
            lines += [str(finding) for finding in found if finding.path.startswith(place)]
            lines.append(f"{place}: {count} avoided words, where pending.toml allows {most[place]}")
        elif count < most[place]:
            lines.append(f"{place}: {count} avoided words; set its number in tests/language/pending.toml to {count}")
    return lines
