"""`stellwerk wait`: return when objects are ready, gone, or show a condition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from stellwerk.cli.arguments import object_argument, options
from stellwerk.cli.arguments.object_argument import ObjectSelection
from stellwerk.cli.arguments.options import TIMEOUT
from stellwerk.cli.shell import settings

if TYPE_CHECKING:
    from stellwerk.cli.objects.cluster import ClusterSession
    from stellwerk.kube.types.model import Unstructured


@dataclass(frozen=True, slots=True)
class Awaited:
    """What is waited for: `ready`, `deleted`, or a condition with a status."""

    words: str
    condition: str = ""
    status: str = "true"

    @property
    def is_deletion(self) -> bool:
        """Whether the object has to go."""
        return self.words == "deleted"

    def holds(self, seen: Unstructured | None) -> bool:
        """Whether the object is so; None: it is gone."""
        from stellwerk.cli.objects import health

        if seen is None or self.is_deletion:
            return seen is None and self.is_deletion
        if not self.condition:
            return health.of(seen).is_ready
        return any(
            one.type.lower() == self.condition.lower()
            and one.status.lower() == self.status.lower()
            and not 0 < one.observed_generation < seen.metadata.generation
            for one in health.conditions(seen.body)
        )


class AwaitedType(click.ParamType[Awaited]):
    """Reads `--for`, in our words and in those of kubectl."""

    name = "what"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Awaited:
        """The value as what is waited for."""
        if isinstance(value, Awaited):
            return value
        word, _, condition = str(value).partition("=")
        if word == "condition" and condition:
            type_, _, status = condition.partition("=")
            words = f"with condition {type_}" + (f" {status}" if status else "")
            return Awaited(words, type_, status or "true")
        if condition or word not in ("ready", "delete", "deleted"):
            self.fail(f"{value!r} is none of ready, deleted, condition=TYPE, condition=TYPE=STATUS.", param, ctx)
        return Awaited("ready" if word == "ready" else "deleted")


@click.command("wait")
@object_argument.many
@click.option(
    "--for",
    "what",
    type=AwaitedType(),
    default="ready",
    show_default=True,
    help="What to wait for: ready, deleted, condition=TYPE or condition=TYPE=STATUS.",
)
@TIMEOUT
@options.all_of
def command(choice: tuple[str, ...], is_all: bool, labels: str, what: Awaited, timeout: float) -> None:
    """Return when objects are ready, gone, or show a condition. Exits with 4 when that takes too long."""
    from stellwerk.cli.objects.cluster import carry_out

    wanted = object_argument.chosen(choice, is_all=is_all, labels=labels)
    carry_out(lambda cluster: _wait(cluster, wanted, what, timeout))


async def _wait(cluster: ClusterSession, choice: ObjectSelection, what: Awaited, timeout: float) -> None:
    from stellwerk.cli.objects import object_actions, wait_for

    patience = wait_for.WaitLimit(timeout)
    for resource, obj in await object_actions.chosen(cluster, choice, may_be_absent=what.is_deletion):
        seen = await wait_for.until(cluster, resource, obj, what.holds, wanted=what.words, patience=patience)
        settings.show([wait_for.last_line(seen) if seen is not None else f"{obj.ref} is gone"])
