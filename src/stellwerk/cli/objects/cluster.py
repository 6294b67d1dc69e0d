"""The connection of a verb to its cluster, and the objects there that the user names."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from stellwerk.cli import kinds
from stellwerk.cli.arguments.object_argument import ObjectArgument
from stellwerk.cli.objects.unreadable import unread
from stellwerk.cli.shell import login
from stellwerk.cli.shell.errors import INSTALL, NOT_SERVED, Exit, Failure
from stellwerk.cli.shell.settings import CallSettings, current, say
from stellwerk.cli.shell.text import escaped
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import ApiError, NotFound, NotServed, Unreachable, UnreadableObject
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import Unreadable, Unstructured, metadata_of, unstructured
from stellwerk.runtime.conditions import first_of

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class ClusterSession:
    """A connection, and the settings of the call."""

    client: Client
    settings: CallSettings

    @property
    def namespace(self) -> str:
        """The namespace of the call or of the context; empty for all namespaces."""
        if self.settings.all_namespaces:
            return ""
        return self.settings.namespace or self.client.config.namespace or "default"

    async def resource(self, word: str) -> Resource:
        """The resource that the cluster serves under this word. Raises Failure where there is none."""
        if ours := kinds.by_word(word):
            return ours
        served = await self.client.mapper.all()
        if found := kinds.among(word, served):
            return found[0]
        shorts = ", ".join(row.short for row in kinds.OWN)
        near = kinds.near(word, served)
        raise Failure(
            f"the cluster does not know the kind {word!r}",
            cause="no resource that it serves has this kind or plural",
            fix=f"did you mean {' or '.join(near)}?"
            if near
            else f"use one of {shorts}, or a kind of the cluster by kind or plural, such as deployments.apps",
        )

    async def list(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "", shows_unread: bool = False
    ) -> list[Unstructured]:
        """All objects of a resource, in no order. Raises Failure where the cluster does not serve it.

        Objects that cannot be decoded are reported and left out, or, with `shows_unread`, are there as `Unread`.
        """
        try:
            listing = await self.client.list(
                unstructured(resource), namespace, labels=labels, fields=fields, skip_unreadable=True
            )
        except (NotFound, NotServed):  # of a collection, NotFound can mean nothing else
            raise not_installed(f"there is no resource {resource.group_resource}") from None
        if shows_unread:
            return [*listing.items, *map(unread, listing.unreadable)]
        for odd in listing.unreadable:
            say(escaped(str(odd)))
        return listing.items

    async def object(self, subject: ObjectArgument, *, shows_unread: bool = False) -> Unstructured:
        """The object that the words name, in the namespace of the call or of the context.

        With `-A` the object may be in any namespace. Raises Absent where there is no such object, Failure where `-A`
        matches more than one, and UnreadableObject where it cannot be decoded; with `shows_unread` it is an `Unread`.
        """
        resource = await self.resource(subject.kind)
        namespace = subject.key.namespace or self.namespace
        if resource.namespaced and not namespace:
            named = await self._named(resource, subject.key.name, shows_unread=shows_unread)
            return self._only(resource, subject.key.name, named)
        try:
            return await self.client.get(unstructured(resource), subject.key.name, namespace)
        except UnreadableObject as error:
            if not shows_unread:
                raise
            found = await self.client.get(metadata_of(resource), subject.key.name, namespace)
            return unread(Unreadable(resource, found.metadata, error.why))
        except NotFound:
            elsewhere = await self._elsewhere(resource, subject.key.name)
            raise Absent(resource, resource.key(namespace, subject.key.name), elsewhere) from None

    async def _named(self, resource: Resource, name: str, *, shows_unread: bool = True) -> Sequence[Unstructured]:
        return await self.list(resource, fields=f"metadata.name={name}", shows_unread=shows_unread)

    async def _elsewhere(self, resource: Resource, name: str) -> Sequence[str]:
        """Namespaces that have an object of this name, as far as the user may list them. For an error message."""
        if not resource.namespaced:
            return []
        try:
            return sorted(obj.key.namespace for obj in await self._named(resource, name))
        except (ApiError, Failure):
            return []

    def _only(self, resource: Resource, name: str, objects: Sequence[Unstructured]) -> Unstructured:
        match objects:
            case [obj]:
                return obj
            case []:
                raise Absent(resource, ObjectKey("", name))
        raise ambiguous(f"{resource.plural} named {name}", [obj.key for obj in objects])


class Absent(Failure):
    """There is no such object. The fix offers the namespaces that have one of the same name."""

    def __init__(self, resource: Resource, key: ObjectKey, elsewhere: Sequence[str] = ()) -> None:
        word = row.short if (row := kinds.by_gvk(resource.gvk)) else resource.plural
        where = (f" in namespace {key.namespace}" if key.namespace else " in any namespace") * resource.namespaced
        cause, fix = "it was never created, or it has been deleted", f"see what is there: stellwerk get {word} -A"
        if elsewhere:
            cause = f"there is a {word}/{key.name} in {first_of(elsewhere, most=10)}"
            fix = f"name its namespace: -n {elsewhere[0] if len(elsewhere) == 1 else 'NAMESPACE'}"
        super().__init__(f"there is no {resource.kind} {key.name}{where}", cause=cause, fix=fix)


def ambiguous(what: str, keys: Sequence[ObjectKey]) -> Failure:
    """The failure where several namespaces have what the user names."""
    return Failure(
        f"there are {len(keys)} {what}",
        cause=f"in the namespaces {first_of(sorted(key.namespace for key in keys), most=10)}",
        fix="name one of the namespaces: -n NAMESPACE",
        code=Exit.USAGE,
    )


@asynccontextmanager
async def connected(settings: CallSettings) -> AsyncIterator[ClusterSession]:
    """The cluster that these settings choose. Raises Failure or ApiError."""
    if settings.groups and not settings.user:
        raise Failure("--as-group needs a user", fix="name one with --as", code=Exit.USAGE)
    config = login.configuration(settings)
    seconds = settings.request_timeout or None
    async with Client.connect(config, user_agent="stellwerk-cli", call_seconds=seconds) as client:
        chosen = client.acting_as(settings.user, settings.groups) if settings.user else client
        try:
            yield ClusterSession(chosen, settings)
        except Unreachable as error:
            if not (start := login.start_command(config.server)):
                raise
            fix = f"start the local system: {start}"
            raise Failure("the API server of the local system does not answer", cause=str(error), fix=fix) from None


def with_cluster(work: Callable[Concatenate[ClusterSession, P], Awaitable[R]]) -> Callable[P, R]:
    """Turn the work into a function that connects first, as the settings of the current call require."""

    @wraps(work)
    def connected_work(*args: P.args, **kwargs: P.kwargs) -> R:
        settings = current()

        async def whole() -> R:
            async with connected(settings) as cluster:
                return await work(cluster, *args, **kwargs)

        return asyncio.run(whole())

    return connected_work


def not_installed(cause: str) -> Failure:
    """The cluster is there and the kind is not."""
    return Failure(NOT_SERVED, cause=cause, fix=INSTALL)
