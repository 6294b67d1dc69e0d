"""`stellwerk get`: what is there, and how it is doing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stellwerk.cli.arguments import object_argument
from stellwerk.cli.arguments.object_argument import ObjectArgument
from stellwerk.cli.look import object_list
from stellwerk.cli.look.object_list import ObjectQuery
from stellwerk.cli.objects.cluster import ClusterSession, with_cluster
from stellwerk.cli.shell import settings
from stellwerk.lazy_imports import lazy_imports

with lazy_imports(__name__):
    from stellwerk.cli.look import get_watch

if TYPE_CHECKING:
    from stellwerk.cli.shell.jsonpath import Node


def get(
    words: tuple[str, ...],
    not_ready: bool,
    labels: str,
    fields: str,
    sort_by: tuple[Node, ...],
    show_labels: bool,
    watch: bool,
) -> None:
    """Print objects with their health; with `watch`, changes until interrupted. Raises UsageError."""
    kinds, subjects = _kinds_and_names(words)
    if subjects and (labels or fields):
        raise click.UsageError("Objects are picked by name or by a selector, not by both.")
    query = ObjectQuery(kinds, subjects, not_ready, labels, fields, sort_by, show_labels)
    if watch:
        get_watch.follow(query)
    else:
        _list(query)


def _kinds_and_names(words: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[ObjectArgument, ...]]:
    if not words:
        return (), ()
    first, *names = words
    try:
        if "/" in first:
            subjects = object_argument.parsed(words)
            return tuple(dict.fromkeys(subject.kind for subject in subjects)), subjects
        kinds = tuple(dict.fromkeys(word for word in first.split(",") if word))
        if not kinds:
            raise ValueError(f"{first!r} names no kind.")
        return kinds, tuple(subject for kind in kinds if names for subject in object_argument.parsed((kind, *names)))
    except ValueError as error:
        raise click.UsageError(str(error)) from None


@with_cluster
async def _list(cluster: ClusterSession, query: ObjectQuery) -> None:
    if query.subjects:
        shows_unread = cluster.settings.output.is_table  # for programs, a part would pass for the whole
        named = [await cluster.object(subject, shows_unread=shows_unread) for subject in query.subjects]
        objects = object_list.ordered(named, query)
        object_list.print_found(objects, cluster, as_list=len(objects) > 1, show_labels=query.show_labels)
        return
    resources = await object_list.resources(cluster, query)
    everything = await object_list.read(cluster, resources, labels=query.labels, fields=query.fields)
    objects = object_list.ordered(object_list.selected(everything, query), query)
    object_list.print_found(objects, cluster, as_list=True, show_labels=query.show_labels)
    if not objects:
        settings.say(object_list.nothing_found(cluster, query, resources, looked_at=len(everything)))
