"""The names of operators as arguments of a verb."""

from __future__ import annotations

import click

from stellwerk.assembly import OPERATORS

OPERATOR_NAMES = click.argument(
    "operators", nargs=-1, metavar=" ".join(f"[{name}]" for name in OPERATORS), type=click.Choice([*OPERATORS])
)
"""Any number of operators; none means all."""
