"""How much memory a JSON text takes when it is decoded, estimated before it is (pure).

A list of three bytes becomes an object of 56, and an item without fields a typed object of 400. The size of the text
bounds neither memory nor time, so lists and objects are counted by their opening brackets, at a gigabyte a second.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_BRACKET_BYTES = 64
_SMALL_BYTES = 64 << 10
"""Whatever is in it, so little text becomes no more than a few megabytes."""
_EXACT_BYTES = 4 << 20
"""Text up to this size is looked at again without its strings, in which brackets weigh nothing."""
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_STRINGS = re.compile(rb'(?:[^"]*+"[^"\\]*+(?:\\.[^"\\]*+)*+"?){1,4096}+', re.DOTALL)
"""A run of strings, with what is before each."""


def is_heavier(text: bytes, limit: int) -> bool:
    """Whether a text would take more than so many bytes. Exact for one object; a page may count as too heavy."""
    if len(text) <= _SMALL_BYTES or weight(text) <= limit:
        return False
    return len(text) > _EXACT_BYTES or sum(weight(_STRING.sub(b"", part)) for part in _parts(text)) + len(text) > limit


def weight(text: bytes) -> int:
    """About how many bytes a text takes when it is decoded; more where its strings have brackets."""
    return len(text) + _BRACKET_BYTES * brackets(text)


def has_more_containers(text: bytes, most: int) -> bool:
    """Whether a JSON text holds more lists and objects than so many."""
    if brackets(text) <= most:
        return False
    count = 0
    for part in _parts(text):
        count += brackets(_STRING.sub(b"", part))
        if count > most:
            return True
    return False


def containers(text: bytes) -> int:
    """How many lists and objects a JSON text holds; a second for some hundred megabytes."""
    return sum(brackets(_STRING.sub(b"", part)) for part in _parts(text))


def _parts(text: bytes) -> Iterator[bytes]:
    """The text in parts of some thousand strings each. One call about a million strings would let no other thread of
    the process work for a tenth of a second."""
    begin = 0
    while (found := _STRINGS.match(text, begin)) is not None:
        yield found[0]
        begin = found.end()
    yield text[begin:]


def brackets(text: bytes) -> int:
    """How many opening brackets a JSON text holds, those in its strings included."""
    return text.count(b"{") + text.count(b"[")
