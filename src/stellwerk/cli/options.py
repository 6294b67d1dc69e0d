"""Options that several verbs share beyond those of `settings`."""

from __future__ import annotations

import click

from stellwerk.kube import duration


class Duration(click.ParamType[float]):
    """Reads `90s`, `5m` or `1h30m`; a bare number is seconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The value in seconds."""
        if isinstance(value, int | float):
            return float(value)
        text = str(value)
        try:
            return float(text) if text.isdecimal() else duration.parse(text).total_seconds()
        except duration.NotADuration as error:
            self.fail(f"{error}.", param, ctx)


TIMEOUT = click.option("--timeout", type=Duration(), default="5m", show_default=True, help="How long to wait at most.")
DRY_RUN = click.option("--dry-run", is_flag=True, help="Have the API server check the change, and keep nothing of it.")
