"""The verbs that change objects."""

from __future__ import annotations

import click

from stellwerk.assembly import OPERATORS
from stellwerk.cli.arguments import object_argument, options
from stellwerk.cli.arguments.options import DRY_RUN, TIMEOUT
from stellwerk.cli.arguments.verb import verb


@verb("reconcile", work="act.reconcile:reconcile")
@object_argument.many
@click.option("--with-source", is_flag=True, help="Reconcile its source, too.")
@click.option("--force", is_flag=True, help="Put back now what others have changed in its objects.")
@click.option("--wait", is_flag=True, help="Return when it was reconciled and is Ready, or failed.")
@TIMEOUT
@DRY_RUN
@options.all_of
def reconcile() -> None:
    """Reconcile an object now."""


@verb("suspend", work="act.suspension:suspend")
@object_argument.many
@click.option("--reason", default="", metavar="TEXT", help="Why; shown wherever the object's state is.")
@DRY_RUN
@options.all_of
def suspend() -> None:
    """Suspend the reconciliation of an object until it is resumed. A deletion is still carried out."""


@verb("resume", work="act.suspension:resume")
@object_argument.many
@click.option("--wait", is_flag=True, help="Return when it is Ready, or failed.")
@TIMEOUT
@DRY_RUN
@options.all_of
def resume() -> None:
    """Resume the reconciliation of a suspended object."""


@verb("wait", work="act.wait:wait")
@object_argument.many
@click.option(
    "--for",
    "awaited",
    default="ready",
    show_default=True,
    metavar="WHAT",
    help="What to wait for: ready, deleted, condition=TYPE, condition=TYPE=STATUS, jsonpath='{PATH}' or "
    "jsonpath='{PATH}'=VALUE.",
)
@TIMEOUT
@options.all_of
def wait() -> None:
    """Return when objects are ready, gone, or show a condition or a value. Exits with 4 when that takes too long.

    With `--timeout 0` the objects are looked at once.
    """


@verb("adopt", work="act.adopt:adopt")
@click.argument("operator", type=click.Choice([*OPERATORS]))
@click.option("--yes", is_flag=True, help="Do not ask.")
@TIMEOUT
@click.option("--dry-run", is_flag=True, help="Only show what would change; exit with 3 if something would.")
@options.all_of
def adopt() -> None:
    """Take over what the original of an operator looks after: show what would change, and stop the original.

    The objects of users stay as they are. It is refused if our operator would delete an object or create it again.
    Nothing is started: the next steps are printed, and the way back.
    """


@verb("unstick", work="act.unstick:unstick")
@object_argument.one()
@click.option("--force", is_flag=True, help="Take the unsafe step; the object's name must then be typed.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@DRY_RUN
@options.all_of
def unstick() -> None:
    """Explain what blocks the deletion of an object, and force it if that is wanted."""
