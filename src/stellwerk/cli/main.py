"""The entry point: from the words on the command line to an exit code.

Start time is a feature. `--version` is answered before click is imported, help without importing a verb. Whatever goes
wrong below ends here as four parts on standard error (see `errors`): a stack is shown for our own faults alone, and
only when asked for.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn, TextIO

if TYPE_CHECKING:
    import click

    from stellwerk.cli.shell.errors import FailureReport

PROGRAM = "stellwerk"
_COMPLETE = "_STELLWERK_COMPLETE"
"""The variable with which a shell asks for completions; empty is as good as unset, as for click."""


def main() -> None:
    """Run as the program, and exit."""
    if os.environ.get(_COMPLETE):
        _complete()
    sys.exit(run(sys.argv[1:]))


def _complete() -> NoReturn:
    """Answer a shell whose user waits. What Python does to tidy up takes a tenth of that time."""
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
        from stellwerk.cli.shell.own_version import own_version

        print(f"{PROGRAM} {own_version()}")
        return 0
    return _guarded(arguments)


def _guarded(arguments: Sequence[str]) -> int:
    import click

    from stellwerk.cli.shell.errors import Exit, NotReady, ReaderLeft
    from stellwerk.cli.verb_tree import command

    _tolerate_unwritable(sys.stdout)
    _tolerate_unwritable(sys.stderr)
    if os.environ.get(_COMPLETE, "").startswith("powershell"):
        from stellwerk.cli.completion import powershell

        powershell.register()
    try:
        ended = command.main(list(arguments), prog_name=PROGRAM, standalone_mode=False)
        return ended if isinstance(ended, int) else Exit.DONE
    except NotReady:
        return Exit.FAILED
    except (click.Abort, KeyboardInterrupt):
        return Exit.INTERRUPTED
    except ReaderLeft:
        return _reader_left()
    except click.ClickException as error:
        return _misused(error)
    except Exception as error:
        return _failed(error, verbose=not {"-v", "--verbose"}.isdisjoint(arguments))


def _tolerate_unwritable(stream: TextIO) -> None:
    """A letter that the terminal's encoding lacks is shown escaped; it must not end the program."""
    from io import TextIOWrapper

    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")


def _reader_left() -> int:
    """A success: the reader got what it wanted. Python's flush at exit must not complain about the closed pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _misused(error: click.ClickException) -> int:
    from click.exceptions import NoArgsIsHelpError, UsageError

    from stellwerk.cli.shell.errors import Exit, FailureReport

    if isinstance(error, NoArgsIsHelpError):
        print(error.format_message())
        return Exit.USAGE
    path = error.ctx.command_path if isinstance(error, UsageError) and error.ctx else PROGRAM
    _tell(FailureReport(error.format_message(), fix=f"{path} --help shows how it is used"))
    return Exit.USAGE


def _failed(error: Exception, verbose: bool) -> int:
    from stellwerk.cli.shell.errors import Exit, explained, our_fault

    if known := explained(error):
        report, code = known
        _tell(report)
        return code
    if verbose:
        import traceback

        from stellwerk.runtime.telemetry import logs

        print(logs.redacted("".join(traceback.format_exception(error))), file=sys.stderr)
    _tell(our_fault(error))
    return Exit.FAILED


def _tell(report: FailureReport) -> None:
    from stellwerk.cli.shell.settings import style_of
    from stellwerk.runtime.telemetry import logs

    style = style_of(sys.stderr)
    first, *others = map(logs.redacted, report.lines())  # a refusal may quote a Secret that a verb has read
    print(style.painted(first[:6], "bad") + first[6:], *others, sep="\n", file=sys.stderr)


if __name__ == "__main__":
    main()
