"""The entry point. Start time is a feature: `--version` is answered before click is imported."""

from __future__ import annotations

import gc
import os
import sys
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


def main() -> None:
    """Run as the program, and exit."""
    closed_streams.open_all()
    if os.environ.get(COMPLETE):
        _complete()
    sys.exit(run(sys.argv[1:]))


def _complete() -> NoReturn:
    """Answer a shell whose user waits. Skips the clean-up of Python, which takes a tenth of that time."""
    gc.disable()
    code: object
    try:
        code = run(sys.argv[1:])
    except SystemExit as end:  # click's way to end an answer
        code = end.code
    sys.stdout.flush()
    os._exit(code if isinstance(code, int) else 0)


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
