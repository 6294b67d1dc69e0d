"""`stellwerk wait`: return when an object is ready, or gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stellwerk.cli import settings
from stellwerk.cli.completion import complete_subject
from stellwerk.cli.options import TIMEOUT
from stellwerk.cli.subject import Subject, SubjectType

if TYPE_CHECKING:
    from stellwerk.cli.cluster import Cluster


@click.command("wait")
@click.argument("subject", metavar="KIND/NAME", type=SubjectType(), shell_complete=complete_subject)
@click.option(
    "--for",
    "what",
    type=click.Choice(["ready", "deleted"]),
    default="ready",
    show_default=True,
    help="What to wait for.",
)
@TIMEOUT
@settings.all_of
def command(subject: Subject, what: str, timeout: float) -> None:
    """Return when an object is ready, or gone. Exits with 4 when that takes too long."""
    from stellwerk.cli.cluster import carry_out

    carry_out(lambda cluster: _wait(cluster, subject, what, timeout))


async def _wait(cluster: Cluster, subject: Subject, what: str, timeout: float) -> None:
    from stellwerk.cli import following, health
    from stellwerk.cli.errors import Failure

    try:
        obj = await cluster.object(subject)
    except Failure:
        if what == "deleted":
            settings.show([f"{subject.kind}/{subject.key} is gone"])
            return
        raise
    resource = await cluster.resource(subject.kind)
    holds: following.Holds = lambda seen: seen is None  # noqa: E731  # two one-line answers beside each other
    if what == "ready":
        holds = lambda seen: seen is not None and health.of(seen).is_ready  # noqa: E731
    seen = await following.until(cluster, resource, obj, holds, wanted=what, timeout_seconds=timeout)
    settings.show([following.last_line(seen) if seen is not None else f"{obj.ref} is gone"])
