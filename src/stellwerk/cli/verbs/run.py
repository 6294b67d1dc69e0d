"""`stellwerk run OPERATOR`: one operator in the foreground, as a container runs it.

The flags are those of the Go original, in both spellings of Go's flag package, so that a Deployment of the original
starts ours with its arguments unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from stellwerk.assembly import OPERATORS
from stellwerk.cli.arguments import options
from stellwerk.runtime.settings.process_settings import PROCESS
from stellwerk.runtime.settings.table import from_go

if TYPE_CHECKING:
    from stellwerk.delivery.operator_spec import OperatorSpec


class GoCommand(click.Command):
    """A command that also takes `-chart-path=x` and `--leader-elect=false`."""

    def __init__(self, name: str, normalised: Callable[[list[str]], list[str]], **attributes: Any) -> None:
        """`normalised` brings Go's spellings into click's."""
        super().__init__(name, **attributes)
        self._normalised = normalised

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Bring Go's spellings into click's before parsing."""
        return super().parse_args(ctx, self._normalised(args))


@click.group("run")
@options.general
def command() -> None:
    """Run an operator in the foreground."""


def _run(operator: OperatorSpec, flags: dict[str, object]) -> None:
    from stellwerk.cli.local.run import run

    run(operator, flags)


def _command(operator: OperatorSpec) -> GoCommand:
    table = operator.settings()
    kinds = " and ".join(kind.resource.kind for kind in operator.kinds)
    return GoCommand(
        operator.name,
        lambda arguments: from_go(arguments, (PROCESS, table)),
        params=[*PROCESS.options(), *table.options()],
        callback=lambda **flags: _run(operator, flags),
        help=f"Run the {operator.title}: {kinds}.",
    )


for _operator in OPERATORS.values():
    command.add_command(_command(_operator))
