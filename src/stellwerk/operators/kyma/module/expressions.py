"""Regular expressions of an administrator's file, read by RE2, as the original reads them.

RE2 takes a time in proportion to the text, whatever the expression is. Python's own expressions go back and try again,
which takes years for a few dozen characters.
"""

from __future__ import annotations

import re2

MOST_CHARACTERS = 1000
"""Of an expression."""
MOST_TEXT = 253
"""What is longer is no label, and matches nothing."""
_MOST_BYTES = 1 << 20
"""Of memory for one expression."""


class BadExpression(ValueError):
    """A text that is no regular expression."""


class Expression:
    """A regular expression. Raises BadExpression."""

    def __init__(self, text: str) -> None:
        if len(text) > MOST_CHARACTERS:
            raise BadExpression(f"it has more than {MOST_CHARACTERS} characters")
        options = re2.Options()
        options.log_errors, options.max_mem = False, _MOST_BYTES
        try:
            self._compiled = re2.compile(text, options)
        except re2.error as error:
            raise BadExpression(_message(error)) from None

    def is_in(self, text: str) -> bool:
        """Whether some part of the text matches."""
        return len(text) <= MOST_TEXT and self._compiled.search(text) is not None


def _message(error: Exception) -> str:
    """The binding gives bytes."""
    cause = error.args[0] if error.args else ""
    return cause.decode(errors="replace") if isinstance(cause, bytes) else str(cause)
