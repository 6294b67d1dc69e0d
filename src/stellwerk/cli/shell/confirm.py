"""The question before something is deleted for good.

A user at a terminal is asked. A script is not: without a terminal and without `--yes`, nothing is deleted.
"""

from __future__ import annotations

import sys

import click

from stellwerk.cli.shell.errors import Exit, Failure


def removal(what: str, *, yes: bool) -> None:
    """Return when the user agrees. Raises Failure: code 2 where there is no terminal, code 1 after a no."""
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Failure(f"{what} is not removed: there is no terminal to ask at", fix="add --yes", code=Exit.USAGE)
    if not click.confirm(f"Remove {what}?", default=False, err=True):
        raise Failure(f"{what} is not removed", cause="the answer was no", fix="add --yes to skip the question")


def typed(name: str, consequence: str, *, yes: bool) -> None:
    """Return when the user has typed the name. Raises Failure: code 2 where there is no terminal, code 1 otherwise."""
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Failure(
            "nothing is forced: there is no terminal to ask at", cause=consequence, fix="add --yes", code=Exit.USAGE
        )
    answer = click.prompt(f"Then {consequence}.\nType {name} to go on", default="", show_default=False, err=True)
    if answer != name:
        raise Failure("nothing is forced", cause=f"what was typed is not {name}", fix="run it again, or wait")
