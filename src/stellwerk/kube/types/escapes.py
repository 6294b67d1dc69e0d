"""Escapes in JSON text that stand for no character: half surrogates (`\\ud800`), and what JSON does not know.

No API server of Kubernetes writes them, but one that a tenant chose may. A decoder gives up on all of the text, also on
the other objects of the same page. `marked` puts a mark in the place of each, so that the rest can be decoded; who
decodes takes an object with a mark for unreadable. It looks at each escape once: call it in a thread.
"""

from __future__ import annotations

import re

MARK = b"\\uFdD0"
"""A noncharacter, which Unicode reserves for use inside a program, in a spelling that no encoder uses."""

NO_TEXT = "has an escape that encodes no character"

_ESCAPES = re.compile(
    rb'\\(?:["\\/bfnrt]|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u(?![dD][89a-fA-F])[0-9a-fA-F]{4})'
    rb"|(\\(?:u[0-9a-fA-F]{4}|.?))",
    re.DOTALL,
)


def marked(text: bytes) -> bytes:
    """The text with `MARK` in the place of each escape that is no character."""
    return _ESCAPES.sub(lambda found: MARK if found[1] is not None else found[0], text)
