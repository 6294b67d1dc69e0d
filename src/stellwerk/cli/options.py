"""Options that several verbs share beyond those of `settings`."""

from __future__ import annotations

from collections.abc import Callable

import click

from stellwerk.cli.settings import C, Duration
from stellwerk.local import names


class SystemName(click.ParamType[str]):
    """Reads the name of a local system."""

    name = "text"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name as it is."""
        text = str(value)
        if not names.is_name(text):
            self.fail(f"{text!r} cannot be a name; it has {names.RULE}.", param, ctx)
        return text


def local_name(help: str) -> Callable[[C], C]:
    """The option that says which local system is meant."""
    from stellwerk.cli.completion import complete_system

    return click.option(
        "--name",
        type=SystemName(),
        default="local",
        show_default=True,
        shell_complete=complete_system,
        help=help,
    )


TIMEOUT = click.option("--timeout", type=Duration(), default="5m", show_default=True, help="How long to wait at most.")
DRY_RUN = click.option("--dry-run", is_flag=True, help="Have the API server check the change, and keep nothing of it.")
