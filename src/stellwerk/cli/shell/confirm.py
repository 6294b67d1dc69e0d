"""The question before something is taken away for good.

Somebody who sits at a terminal is asked. A script is not: without a terminal and without `--yes` nothing is done, for
nobody has said yes.
"""

from __future__ import annotations

import sys

import click

from stellwerk.cli.shell.errors import Exit, Failure


def removal(what: str, *, yes: bool) -> None:
    """Return when somebody wants it. Raises Failure, code 2, where nobody can be asked, and code 1 after a no."""
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Failure(f"{what} is not removed: nobody can be asked here", fix="say --yes", code=Exit.USAGE)
    if not click.confirm(f"Remove {what}?", default=False, err=True):
        raise Failure(f"{what} is not removed", cause="the answer was no", fix="say --yes to not be asked")


def typed(name: str, consequence: str, *, yes: bool) -> None:
    """Return when somebody has typed the name. Raises Failure, code 2, where nobody can be asked, and code 1 else."""
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Failure(
            "nothing is forced: nobody can be asked here", cause=consequence, fix="say --yes", code=Exit.USAGE
        )
    answer = click.prompt(f"Then {consequence}.\nType {name} to go on", default="", show_default=False, err=True)
    if answer != name:
        raise Failure("nothing is forced", cause=f"what was typed is not {name}", fix="run it again, or wait")
