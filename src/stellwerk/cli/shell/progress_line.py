"""Progress on standard error while a verb waits.

On a terminal it is one line, rewritten in place: a spinner, the elapsed time, and the last message. Elsewhere it is a
line for each new message, because logs keep every line.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TextIO

from stellwerk.cli.shell import text
from stellwerk.cli.shell.settings import is_dumb
from stellwerk.cli.shell.text import Style

if TYPE_CHECKING:
    from stellwerk.cli.shell.settings import CallSettings

Say = Callable[[str], None]

_TURN_SECONDS = 0.1
_ERASE = "\r\x1b[K"
_SIGNS = ("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "|/-\\")


@asynccontextmanager
async def line(settings: CallSettings) -> AsyncIterator[Say]:
    """A function that shows a message. On a terminal the line is erased at the end."""
    if settings.quiet:
        yield lambda words: None
    elif not sys.stderr.isatty() or is_dumb():
        yield _Log(sys.stderr).say
    else:
        spinner = Spinner(sys.stderr, settings.style(sys.stderr))
        turning = asyncio.create_task(spinner.turn(), name="spinner")
        try:
            yield spinner.say
        finally:
            turning.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await turning
            spinner.erase()


@dataclass(slots=True)
class _Log:
    stream: TextIO
    last: str = ""

    def say(self, words: str) -> None:
        if words != self.last:
            print(f"  {words}", file=self.stream, flush=True)
        self.last = words


@dataclass(slots=True)
class Spinner:
    """One line of a terminal."""

    stream: TextIO
    style: Style
    words: str = ""
    turns: int = 0
    began: float = field(default_factory=time.monotonic)

    def say(self, words: str) -> None:
        """Show this message from now on."""
        self.words = words
        self.draw()

    def draw(self) -> None:
        """Rewrite the line, no longer than the terminal is wide: a wrapped line cannot be erased."""
        signs = _SIGNS[0] if self.style.symbols else _SIGNS[1]
        whole = f"{signs[self.turns % len(signs)]} {time.monotonic() - self.began:.0f}s  {self.words}"
        width = shutil.get_terminal_size().columns - 1
        self.stream.write(_ERASE + text.shortened(whole, max(width, 4)))
        self.stream.flush()

    def erase(self) -> None:
        """Leave nothing behind."""
        self.stream.write(_ERASE)
        self.stream.flush()

    async def turn(self) -> None:
        """Turn the spinner until cancelled."""
        while True:
            self.draw()
            await asyncio.sleep(_TURN_SECONDS)
            self.turns += 1
