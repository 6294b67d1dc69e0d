"""Did a secret get out? Plant values that do not occur by chance, run, and search everything that came out.

A leak seldom looks like the secret: it is base64 inside a larger base64, escaped inside JSON inside a log line, or cut
off in the middle. So every planted value carries a core of letters and digits, which no escaping changes, and the core
is searched in each form; a value that the test did not make (a key, a token) is searched whole and line by line.
"""

from __future__ import annotations

import base64
import html
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, quote_plus

_SHORTEST = 8
_AWKWARD = '+/ "\\&<ü\n='
_CONTEXT = 40


@dataclass(frozen=True, slots=True)
class Leak:
    """A leaked secret. `form` is its encoding; `excerpt` is the text around it, without the secret."""

    label: str
    form: str
    source: str
    line: int
    excerpt: str

    def __str__(self) -> str:
        return f"{self.source}:{self.line}: the secret {self.label!r} as {self.form}: {self.excerpt}"


class SecretLeaked(AssertionError):
    """A planted value was found where it must not be."""


class Canary:
    """Marked secret values, and the search for them."""

    def __init__(self) -> None:
        self._needles: dict[str, list[str]] = {}

    def plant(self, label: str, *, awkward: bool = True) -> str:
        """A new secret value. An awkward one holds quotes, backslash, blanks and a line end, which tempt escapers.

        Use `awkward=False` where only letters, digits and dashes are possible.
        """
        core = f"canary{secrets.token_hex(8)}"
        self._needles.setdefault(label, []).append(core)
        return f"{core}{_AWKWARD}end" if awkward else core

    def mark(self, label: str, value: str | bytes) -> None:
        """Search also for a value that exists already; of one with several lines each line counts (PEM).

        Raises ValueError when nothing in it is long enough to be distinguished from chance.
        """
        text = value if isinstance(value, str) else value.decode(errors="replace")
        lines = [line for line in text.splitlines() if len(line) >= _SHORTEST and not line.startswith("-----")]
        if not lines:
            raise ValueError(f"the value of {label!r} is too short to search for")
        self._needles.setdefault(label, []).extend(lines)

    def scan(self, texts: Mapping[str, str | bytes]) -> list[Leak]:
        """Every secret in these texts; the keys name the source of each text."""
        found: list[Leak] = []
        for source, content in texts.items():
            haystack = content if isinstance(content, str) else content.decode(errors="replace")
            found += self._found_in(source, haystack)
        return found

    def scan_files(self, files: Sequence[Path]) -> list[Leak]:
        """Every secret in these files, and in all files below these folders."""
        every = [file for path in files for file in (sorted(path.rglob("*")) if path.is_dir() else [path])]
        return self.scan({str(file): file.read_bytes() for file in every if file.is_file()})

    def assert_unseen(self, texts: Mapping[str, str | bytes], files: Sequence[Path] = ()) -> None:
        """Raises SecretLeaked with all findings; ValueError when nothing is planted, which would prove nothing."""
        if not self._needles:
            raise ValueError("no secret was planted")
        if found := [*self.scan(texts), *self.scan_files(files)]:
            raise SecretLeaked("\n".join(map(str, found)))

    def _found_in(self, source: str, haystack: str) -> Iterator[Leak]:
        for label, needles in self._needles.items():
            for needle in needles:
                for form, spelling in _spellings(needle):
                    if (position := haystack.find(spelling)) >= 0:
                        yield _finding(label, form, source, haystack, position, len(spelling))


def _finding(label: str, form: str, source: str, haystack: str, position: int, length: int) -> Leak:
    before = haystack[max(0, position - _CONTEXT) : position].rpartition("\n")[2]
    after = haystack[position + length : position + length + _CONTEXT].partition("\n")[0]
    return Leak(label, form, source, haystack.count("\n", 0, position) + 1, f"{before}[…]{after}")


def _spellings(value: str) -> Iterator[tuple[str, str]]:
    """The value as it may show, each spelling once, the plainest name first."""
    seen: set[str] = set()
    for form, spelling in _all_spellings(value):
        if spelling not in seen:
            seen.add(spelling)
            yield form, spelling


def _all_spellings(value: str) -> Iterator[tuple[str, str]]:
    content = value.encode()
    yield "plain text", value
    yield "JSON", _json(value)
    yield "JSON in JSON", _json(_json(value))
    yield "JSON, not ASCII", json.dumps(value, ensure_ascii=False)[1:-1]
    yield "reversed", value[::-1]
    yield "reversed JSON", _json(value)[::-1]
    yield "reversed, then JSON", _json(value[::-1])
    yield "URL", quote(value, safe="")
    yield "URL", quote(value)
    yield "URL form", quote_plus(value)
    yield "URL, every byte", "".join(f"%{byte:02X}" for byte in content)
    yield "URL, every byte", "".join(f"%{byte:02x}" for byte in content)
    yield "HTML", html.escape(value)
    yield "repr", repr(value)[1:-1]
    yield "repr of bytes", repr(content)[2:-1]
    yield "hex", content.hex()
    yield "hex", content.hex().upper()
    for inner in _base64_spellings(content):
        yield "base64", inner
        for outer in _base64_spellings(inner.encode()):
            yield "base64 in base64", outer


def _base64_spellings(content: bytes) -> Iterator[str]:
    """The characters that all base64 texts have in common whose source holds the content, for each of three offsets."""
    for offset in range(3):
        whole = base64.b64encode(b"\0" * offset + content).decode().rstrip("=")
        # The first characters mix in what precedes, the last one what follows.
        start = (0, 2, 3)[offset]
        end = (offset + len(content)) * 8 // 6
        yield whole[start:end]
        yield whole[start:end].replace("+", "-").replace("/", "_")


def _json(value: str) -> str:
    return json.dumps(value)[1:-1]
