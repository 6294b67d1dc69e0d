"""Standard streams that are closed, and readers that have left: `stellwerk get | head`, `stellwerk get >&-`.

A reader that has left got what it wanted: that is a silent success. Imports nothing heavy, since each call does it.
"""

from __future__ import annotations

import os
import select
import sys
from typing import TextIO


def open_all() -> None:
    """Have a stream that the caller has closed lead nowhere. Python has None in its place."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115  # for as long as the program runs
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115


def has_no_reader(stream: TextIO) -> bool:
    """Whether the stream is a pipe, or a socket, without a reader at its other end."""
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):  # a test's stream
        return False
    waiting = select.poll()
    waiting.register(descriptor, 0)
    return any(event & select.POLLERR for _, event in waiting.poll(0))


def abandon(stream: TextIO) -> None:
    """Have the stream lead nowhere: Python's flush at its exit must not complain about the closed pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
