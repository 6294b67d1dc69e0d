"""The entry point. Start time is a feature: `--version` is answered before click is imported."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import sys
import threading
from collections.abc import Sequence
from typing import NoReturn

from stellwerk.cli.shell import closed_streams
from stellwerk.cli.shell.own_version import own_version
from stellwerk.lazy_imports import lazy_imports

with lazy_imports(__name__):
    from stellwerk.cli import call

PROGRAM = "stellwerk"
COMPLETE = "_STELLWERK_COMPLETE"
"""The variable with which a shell asks for completions; click treats an empty one as unset."""


def main() -> NoReturn:
    """Run as the program, and exit."""
    closed_streams.open_all()
    if os.environ.get(COMPLETE):
        gc.disable()
    try:
        code = run(sys.argv[1:])
    except SystemExit as end:  # click's way to end an answer
        code = end.code if isinstance(end.code, int) else 0
    _leave(code)


def _leave(code: int) -> NoReturn:
    """End the process without Python's clean-up of modules, a sixth of a short call.

    What was registered for the end is done. Other threads, and streams that take no more, are left to Python.
    """
    if threading.active_count() == 1:
        atexit._run_exitfuncs()
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Carry out one call. Returns the exit code."""
    if list(arguments) == ["--version"]:
        try:
            print(f"{PROGRAM} {own_version()}", flush=True)
        except BrokenPipeError:
            closed_streams.abandon(sys.stdout)
        return 0
    return call.call(arguments, program=PROGRAM, complete=os.environ.get(COMPLETE, ""))


if __name__ == "__main__":
    main()
