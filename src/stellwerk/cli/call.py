"""One call of the command line: from its arguments to the exit code.

All failures end here, as four parts on standard error (see `shell/errors`). Only a bug has a stack, and it is shown
only with `--verbose`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from io import TextIOWrapper
from typing import TextIO

import click
from click.exceptions import NoArgsIsHelpError, UsageError

from stellwerk.cli.completion import powershell
from stellwerk.cli.shell import closed_streams
from stellwerk.cli.shell.errors import Exit, Failure, NotReady, ReaderLeft
from stellwerk.cli.verb_tree import command
from stellwerk.lazy_imports import lazy_imports

with lazy_imports(__name__):
    from stellwerk.cli.shell import error_reports


def call(arguments: Sequence[str], *, program: str, complete: str = "") -> int:
    """Run the verb. `complete` is what a shell that asks for completions wants. Returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        _fit(stream, os.environ)
    if complete.startswith("powershell"):
        powershell.register()
    try:
        ended = command.main(list(arguments), prog_name=program, standalone_mode=False)
        return ended if isinstance(ended, int) else Exit.DONE
    except NotReady:
        return Exit.FAILED
    except (click.Abort, KeyboardInterrupt):
        return Exit.INTERRUPTED
    except ReaderLeft:
        return _reader_left()
    except SystemExit:  # click's answer to a pipe that breaks, and its end of a completion
        if complete or not closed_streams.has_no_reader(sys.stdout):
            raise
        return _reader_left()
    except NoArgsIsHelpError as error:
        print(error.format_message())
        return Exit.USAGE
    except click.ClickException as error:
        path = error.ctx.command_path if isinstance(error, UsageError) and error.ctx else program
        failure: Exception = Failure(error.format_message(), fix=f"{path} --help shows how it is used", code=Exit.USAGE)
    except Exception as error:
        failure = error
    return error_reports.print_failure(failure, verbose=not {"-v", "--verbose"}.isdisjoint(arguments))


def _fit(stream: TextIO, environment: Mapping[str, str]) -> None:
    """Escape letters that the encoding of the terminal lacks: they must not end the program.

    Python writes UTF-8 in the locale C. A user who has chosen that locale has asked for ASCII.
    """
    if not isinstance(stream, TextIOWrapper):
        return
    locale = next(filter(None, map(environment.get, ("LC_ALL", "LC_CTYPE", "LANG"))), "")
    is_ascii = locale in ("C", "POSIX") and not {"PYTHONUTF8", "PYTHONIOENCODING"} & {*environment}
    stream.reconfigure(encoding="ascii" if is_ascii else None, errors="backslashreplace")


def _reader_left() -> int:
    """A success: the reader got what it wanted."""
    closed_streams.abandon(sys.__stdout__ or sys.stdout)
    return Exit.DONE
