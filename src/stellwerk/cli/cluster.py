"""The cluster that a verb looks at, and the object in it that a person's words mean."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

from stellwerk.cli import kinds
from stellwerk.cli.errors import INSTALL, NOT_SERVED, Exit, Failure
from stellwerk.cli.login import configuration
from stellwerk.cli.settings import Settings, current
from stellwerk.cli.subject import Subject
from stellwerk.kube.client import Client
from stellwerk.kube.errors import NotFound, NotServed
from stellwerk.kube.model import Unstructured, unstructured
from stellwerk.kube.names import Resource

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Cluster:
    """A connection and the choices that go with it."""

    client: Client
    settings: Settings

    @property
    def namespace(self) -> str:
        """Where to look when nothing else is said; empty for all namespaces."""
        if self.settings.all_namespaces:
            return ""
        return self.settings.namespace or self.client.config.namespace or "default"

    async def resource(self, word: str) -> Resource:
        """What the cluster serves under this word. Raises Failure where it is nothing."""
        if ours := kinds.by_word(word):
            return ours
        if found := kinds.among(word, await self.client.mapper.all()):
            return found[0]
        shorts = ", ".join(row.short for row in kinds.OWN)
        raise Failure(
            f"the cluster does not know the kind {word!r}",
            cause="no resource that it serves has this kind or plural",
            fix=f"use one of {shorts}, or a kind of the cluster by kind or plural, such as deployments.apps",
        )

    async def list(self, resource: Resource, namespace: str = "", *, fields: str = "") -> list[Unstructured]:
        """All objects of a resource, in no order. Raises Failure where the cluster does not serve it."""
        try:
            return (await self.client.list(unstructured(resource), namespace, fields=fields)).items
        except (NotFound, NotServed):  # of a collection, NotFound can mean nothing else
            raise not_installed(f"there is no resource {resource.group_resource}") from None

    async def object(self, subject: Subject) -> Unstructured:
        """The object that is meant.

        Without a namespace in the call, one of this name elsewhere is taken when it is the only one: most of our
        objects are the only one of their name. Raises Failure where there is none, or more than one.
        """
        resource = await self.resource(subject.kind)
        namespace = subject.key.namespace or self.namespace
        try:
            if namespace or not resource.namespaced:
                return await self.client.get(unstructured(resource), subject.key.name, namespace)
        except NotFound:
            if subject.key.namespace or self.settings.namespace or not resource.namespaced:
                raise _absent(
                    resource, subject.key.name, f" in namespace {namespace}" if resource.namespaced else ""
                ) from None
        return await self._only_one(resource, subject.key.name)

    async def _only_one(self, resource: Resource, name: str) -> Unstructured:
        match await self.list(resource, fields=f"metadata.name={name}"):
            case [found]:
                return found
            case []:
                raise _absent(resource, name, " in any namespace")
            case found:
                raise Failure(
                    f"there are {len(found)} {resource.plural} named {name}",
                    cause="in the namespaces " + ", ".join(sorted(obj.key.namespace for obj in found)),
                    fix="say which one with -n NAMESPACE",
                    code=Exit.USAGE,
                )


def _absent(resource: Resource, name: str, where: str) -> Failure:
    word = row.short if (row := kinds.own(resource)) else resource.plural
    return Failure(
        f"there is no {resource.kind} {name}{where}",
        cause="it was never created, or it has been deleted",
        fix=f"see what is there: stellwerk get {word} -A",
    )


@asynccontextmanager
async def connected(settings: Settings) -> AsyncIterator[Cluster]:
    """The cluster that these settings choose. Raises Failure or ApiError."""
    config = configuration(settings)
    async with Client.connect(config, user_agent="stellwerk-cli") as client:
        chosen = client.acting_as(settings.user) if settings.user else client
        yield Cluster(chosen, settings)


def carry_out(work: Callable[[Cluster], Awaitable[R]]) -> R:
    """Connect as the current call says, and do the work."""
    settings = current()

    async def whole() -> R:
        async with connected(settings) as cluster:
            return await work(cluster)

    return asyncio.run(whole())


def not_installed(cause: str) -> Failure:
    """The cluster is there and the kind is not."""
    return Failure(NOT_SERVED, cause=cause, fix=INSTALL)
