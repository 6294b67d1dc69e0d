"""`stellwerk run PROGRAM`: one operator, or one of its servers, in the foreground, as a container runs it.

The flags are those of the Go original, in both spellings of Go's flag package, so that a Deployment of the original
starts ours with its arguments unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from stellwerk.assembly import PROCESSES
from stellwerk.cli.arguments import options
from stellwerk.lazy_imports import lazy_imports
from stellwerk.runtime.settings.table import from_go

with lazy_imports(__name__):
    from stellwerk.cli.local import run

if TYPE_CHECKING:
    from stellwerk.delivery.operator_spec import ProcessSpec


class GoCommand(click.Command):
    """A command that also takes `-chart-path=x` and `--leader-elect=false`."""

    def __init__(self, name: str, normalised: Callable[[list[str]], list[str]], **attributes: Any) -> None:
        """`normalised` brings Go's spellings into click's."""
        super().__init__(name, **attributes)
        self._normalised = normalised

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Bring Go's spellings into click's before parsing."""
        return super().parse_args(ctx, self._normalised(args))


class ProgramGroup(click.Group):
    """Reads the settings of a program when it is asked for: a process does not hold those of all others."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All programs."""
        return list(PROCESSES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A program by name."""
        return _command(PROCESSES[cmd_name]) if cmd_name in PROCESSES else None


@click.group("run", cls=ProgramGroup)
@options.general
def command() -> None:
    """Run an operator, or one of its servers, in the foreground."""


def _command(spec: ProcessSpec) -> GoCommand:
    process, table = spec.process(), spec.settings()
    return GoCommand(
        spec.name,
        lambda arguments: from_go(arguments, (process, table)),
        params=[*process.options(), *table.options()],
        callback=lambda **flags: run.run(spec, flags),
        help=f"Run the {spec.title}: {spec.purpose}.",
    )
