"""How deep JSON is nested, and what is left of it above a certain depth.

Tenants store what they like: the API server accepts 10,000 levels. Nothing of ours needs a hundred, and code that walks
a value recursively (comparing, encoding, rendering) fails somewhere above them. So an object that is deeper than
`LEVELS` counts as unreadable when it is decoded.

A decoder that meets very deep text gives up on all of it, also on the other objects of the same page. `shallow` cuts
the text so that the rest of the page can be decoded. It looks at each token once, in Python: call it in a thread.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

LEVELS = 100
"""How deep an object may be nested; the object itself is the first level."""

CUT = b"null\r\r\r"
"""Takes the place of what was cut. White space is legal there, and no API server writes any."""

TOO_DEEP = f"nested deeper than {LEVELS} levels"

_CONTAINERS = frozenset((dict, list))
_TOKENS = re.compile(rb'"(?:[^"\\]+|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)  # a string that does not end is one, too


def is_deeper(value: object, levels: int = LEVELS) -> bool:
    """Whether the dicts and lists of a JSON value are nested deeper than so many levels."""
    layer: list[object] = [value] if type(value) in _CONTAINERS else []
    for _ in range(levels):
        if not layer:
            return False
        layer = [child for each in layer for child in _children(each) if type(child) in _CONTAINERS]
    return bool(layer)


def may_be_deeper(text: bytes | memoryview, levels: int = LEVELS) -> bool:
    """Whether a JSON text has enough brackets to be nested deeper than so many levels; most objects have not.

    Of containers that are empty, and managedFields consist of them, only one can be on the way down.
    """
    data = bytes(text)
    opened = data.count(b"{") + data.count(b"[")
    if opened <= levels:
        return False
    empty = data.count(b"{}") + data.count(b"[]")
    return opened - empty + min(empty, 1) > levels


def shallow(text: bytes, levels: int) -> bytes:
    """The text with `CUT` in the place of every value that is nested deeper than so many levels."""
    kept: list[bytes] = []
    depth = taken = begin = 0
    for token in _TOKENS.finditer(text):
        match text[token.start()]:
            case 0x5B | 0x7B:  # [ {
                depth += 1
                if depth == levels + 1:
                    begin = token.start()
            case 0x5D | 0x7D:  # ] }
                if depth == levels + 1:
                    kept += (text[taken:begin], CUT)
                    taken = token.end()
                depth -= 1
    return b"".join((*kept, text[taken:]))


def _children(value: object) -> Iterable[object]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
