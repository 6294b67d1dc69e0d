"""Declares a verb of the command line, apart from the module that does its work.

Completion and help need the declarations, and the user waits for them: a declaration imports click and the shared
options, nothing else. It names the function with the work, which is imported when the verb is called. The parameters
of the verb are the parameters of that function; a test compares them for every verb.

Rejected: a declaration that imports its work itself. It has to list every parameter three times, and each verb that
forgets a lazy import makes the completion of all verbs slower.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import click


class VerbCommand(click.Command):
    """A command whose work is imported when it is called."""

    def __init__(self, name: str | None, *, work: str, **attributes: Any) -> None:
        """`work` names the function below `stellwerk.cli` that takes the parameters: `look.trace:trace`."""
        super().__init__(name, **attributes)
        self.work = work

    def load_work(self) -> Callable[..., object]:
        """Import the function that does the work."""
        module, _, function = self.work.partition(":")
        work: Callable[..., object] = getattr(import_module(f"stellwerk.cli.{module}"), function)
        return work

    def invoke(self, ctx: click.Context) -> object:
        """Do the work. What the function returns is the exit code; None is 0."""
        return ctx.invoke(self.load_work(), **ctx.params)


def verb(name: str, *, work: str) -> Callable[[Callable[[], None]], VerbCommand]:
    """Declare a verb by a function with its options and its help text; `work` names the function that does the work."""
    return click.command(name, cls=VerbCommand, work=work)
