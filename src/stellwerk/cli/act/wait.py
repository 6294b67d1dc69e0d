"""`stellwerk wait`: return when objects are ready, gone, or show a condition."""

from __future__ import annotations

from dataclasses import dataclass

import click

from stellwerk.cli.arguments import object_argument
from stellwerk.cli.arguments.object_argument import ObjectSelection
from stellwerk.cli.objects import health, object_actions, wait_for
from stellwerk.cli.objects.cluster import ClusterSession, with_cluster
from stellwerk.cli.shell import settings
from stellwerk.kube.types.model import Unstructured
from stellwerk.runtime import conditions


@dataclass(frozen=True, slots=True)
class Awaited:
    """What is waited for: `ready`, `deleted`, or a condition with a status."""

    words: str
    condition: str = ""
    status: str = "true"

    @property
    def is_deletion(self) -> bool:
        """Whether the verb waits for the deletion of the object."""
        return self.words == "deleted"

    def holds(self, latest: Unstructured | None) -> bool:
        """Whether the object is in this state; None means that it is gone."""
        if latest is None or self.is_deletion:
            return latest is None and self.is_deletion
        if not self.condition:
            return health.of(latest).is_ready
        return any(
            condition.type.lower() == self.condition.lower()
            and condition.status.lower() == self.status.lower()
            and not 0 < condition.observed_generation < latest.metadata.generation
            for condition in conditions.listed_in(latest.body)
        )


def parsed(value: str) -> Awaited:
    """Read the value of `--for`, in our words and in those of kubectl. Raises BadParameter."""
    word, _, condition = value.partition("=")
    if word == "condition" and condition:
        type_, _, status = condition.partition("=")
        words = f"with condition {type_}" + (f" {status}" if status else "")
        return Awaited(words, type_, status or "true")
    if condition or word not in ("ready", "delete", "deleted"):
        message = f"{value!r} is none of ready, deleted, condition=TYPE, condition=TYPE=STATUS."
        raise click.BadParameter(message, param_hint="'--for'")
    return Awaited("ready" if word == "ready" else "deleted")


def wait(choice: tuple[str, ...], is_all: bool, labels: str, awaited: str, timeout: float) -> None:
    """Wait for the chosen objects, and print each when it is as wanted. Raises Failure after `timeout` seconds."""
    _wait(object_argument.chosen(choice, is_all=is_all, labels=labels), parsed(awaited), timeout)


@with_cluster
async def _wait(cluster: ClusterSession, choice: ObjectSelection, awaited: Awaited, timeout: float) -> None:
    limit = wait_for.WaitLimit(timeout)
    for resource, obj in await object_actions.chosen(cluster, choice, may_be_absent=awaited.is_deletion):
        latest = await wait_for.until(cluster, resource, obj, awaited.holds, wanted=awaited.words, patience=limit)
        settings.show([wait_for.last_line(latest) if latest is not None else f"{obj.ref} is gone"])
