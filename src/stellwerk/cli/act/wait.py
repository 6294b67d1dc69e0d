"""`stellwerk wait`: return when objects are ready, gone, or show a condition or a value."""

from __future__ import annotations

from dataclasses import dataclass

import click

from stellwerk.cli.arguments import object_argument
from stellwerk.cli.arguments.object_argument import ObjectSelection
from stellwerk.cli.objects import health, object_actions, wait_for
from stellwerk.cli.objects.cluster import ClusterSession, with_cluster
from stellwerk.cli.shell import jsonpath, settings
from stellwerk.cli.shell.jsonpath import Node
from stellwerk.kube.types.model import Unstructured
from stellwerk.runtime import conditions


@dataclass(frozen=True, slots=True)
class Awaited:
    """What is waited for: `ready`, `deleted`, a condition with a status, or what a path leads to."""

    words: str
    condition: str = ""
    status: str = "true"
    path: tuple[Node, ...] = ()
    value: str | None = None
    """What the path has to lead to; None: any value."""

    @property
    def is_deletion(self) -> bool:
        """Whether the verb waits for the deletion of the object."""
        return self.words == "deleted"

    def holds(self, latest: Unstructured | None) -> bool:
        """Whether the object is in this state; None means that it is gone."""
        if latest is None or self.is_deletion:
            return latest is None and self.is_deletion
        if self.path:
            found = [jsonpath.printed(value) for value in jsonpath.values(self.path, latest.body)]
            return bool(found) and all(self.value in (None, text) for text in found)
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
    if word == "jsonpath" and condition:
        return _at_path(condition)
    if condition or word not in ("ready", "delete", "deleted"):
        message = f"{value!r} is none of ready, deleted, condition=TYPE, condition=TYPE=STATUS, jsonpath=PATH=VALUE."
        raise click.BadParameter(message, param_hint="'--for'")
    return Awaited("ready" if word == "ready" else "deleted")


def _at_path(text: str) -> Awaited:
    """A path and, behind an equals sign, its value. Filters inside of braces have equals signs of their own."""
    end = "}" if "{" in text else ""
    path, separator, value = text.partition(f"{end}=")
    path += end if separator else ""
    try:
        nodes = jsonpath.parse(path)
    except jsonpath.PathError as error:
        raise click.BadParameter(f"{path!r}: {error}", param_hint="'--for'") from None
    if not jsonpath.is_path(nodes) or (separator and not value):
        message = f"{text!r} is no path with a value, such as '{{.status.phase}}'=Running."
        raise click.BadParameter(message, param_hint="'--for'")
    return Awaited(f"with {path}" + (f" {value}" if value else ""), path=nodes, value=value or None)


def wait(choice: tuple[str, ...], is_all: bool, labels: str, awaited: str, timeout: float) -> None:
    """Wait for the chosen objects, and print each when it is as wanted. Raises Failure after `timeout` seconds."""
    _wait(object_argument.chosen(choice, is_all=is_all, labels=labels), parsed(awaited), timeout)


@with_cluster
async def _wait(cluster: ClusterSession, choice: ObjectSelection, awaited: Awaited, timeout: float) -> None:
    limit = wait_for.WaitLimit(timeout)
    for resource, obj in await object_actions.chosen(cluster, choice, may_be_absent=awaited.is_deletion):
        latest = await wait_for.until(cluster, resource, obj, awaited.holds, wanted=awaited.words, patience=limit)
        settings.show([wait_for.last_line(latest) if latest is not None else f"{obj.ref} is gone"])
