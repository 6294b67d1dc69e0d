"""The values of the Secrets and ConfigMaps that Components refer to, each read once per version.

The caches hold metadata only: a cluster may have twenty thousand Secrets that are none of our business. A cache opens
when the first Component refers to its kind. What was read is kept for as long as the cache shows that version, and at
most `KEPT` objects of it, oldest use first out. Where we may read a Secret but not watch Secrets, each pass reads it.
"""

from __future__ import annotations

import asyncio
import base64
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from stellwerk.api.core import ConfigMap, Secret
from stellwerk.kube import yaml
from stellwerk.kube.client import Client
from stellwerk.kube.errors import ApiError
from stellwerk.kube.model import HasMetadata, JsonValue, PartialObjectMetadata
from stellwerk.operators.component.api_spec import ReferenceKind
from stellwerk.operators.component.references import Content, Found, Target, Unread
from stellwerk.runtime import logs
from stellwerk.runtime.informer import Informer

KEPT = 2_000
"""How many contents are remembered."""

SHORTEST_HIDDEN = 8
"""Shorter words of a values file are too ordinary to be masked in logs."""

_SMALL = yaml.Limits(bytes=65_536)
"""What may be read on the event loop in a few milliseconds; a larger text is masked as a whole."""

NOT_FOUND = Unread("not found", may_come=True)


Watches: TypeAlias = Callable[[ReferenceKind], Informer[PartialObjectMetadata]]
"""Gives the cache of a kind's metadata, and opens it where there is none yet."""


class Reader:
    """Reads contents with one identity: the operator's own."""

    def __init__(
        self, client: Client, watches: Watches, *, hide: Callable[..., None] = logs.hide, kept: int = KEPT
    ) -> None:
        self._client = client
        self._watches = watches
        self._hide = hide
        self._limit = kept
        self._known: OrderedDict[Target, tuple[str, Content]] = OrderedDict()

    async def read(self, targets: Iterable[Target]) -> Found:
        """The content of each target, or why there is none. Raises nothing that a cluster may answer."""
        wanted = sorted(set(targets))
        async with asyncio.TaskGroup() as reads:
            tasks = [reads.create_task(self._one(target), name=f"read {target}") for target in wanted]
        return {target: task.result() for target, task in zip(wanted, tasks, strict=True)}

    async def fresh(self, targets: Iterable[Target]) -> Found:
        """As `read`, from the API server itself: what a cache does not show may be there all the same."""
        return {target: await self._ask(target) for target in sorted(set(targets))}

    async def _one(self, target: Target) -> Content | Unread:
        cache = self._watches(target.kind)
        await cache.wait_settled()
        if not cache.has_synced:
            return await self._ask(target)
        seen = cache.store.get(target.key)
        if seen is None:
            self._known.pop(target, None)
            return NOT_FOUND
        return self._remembered(target, seen) or await self._ask(target)

    def _remembered(self, target: Target, seen: HasMetadata) -> Content | None:
        version, content = self._known.get(target, ("", None))
        if content is None or version != _version(seen):
            return None
        self._known.move_to_end(target)
        return content

    async def _ask(self, target: Target) -> Content | Unread:
        try:
            found = await self._find(target)
        except ApiError as error:
            return Unread(str(error), may_come=False)
        if found is None:
            self._known.pop(target, None)
            return NOT_FOUND
        return self._kept(target, found)

    async def _find(self, target: Target) -> Secret | ConfigMap | None:
        namespace, name = target.key
        if target.kind is ReferenceKind.Secret:
            return await self._client.find(Secret, name, namespace)
        return await self._client.find(ConfigMap, name, namespace)

    def _kept(self, target: Target, found: Secret | ConfigMap) -> Content:
        content = content_of(found)
        if isinstance(found, Secret):
            self._hide(*_words(content))
        self._known[target] = (_version(found), content)
        self._known.move_to_end(target)
        while len(self._known) > self._limit:
            self._known.popitem(last=False)
        return content


def content_of(found: Secret | ConfigMap) -> Content:
    """What an object holds, as bytes by key."""
    if isinstance(found, Secret):
        return Content(found.decoded())
    binary = {key: base64.b64decode(value) for key, value in found.binary_data.items()}
    return Content({**{key: value.encode() for key, value in found.data.items()}, **binary})


def _version(obj: HasMetadata) -> str:
    return f"{obj.metadata.uid}/{obj.metadata.resource_version}"


def _words(content: Content) -> Iterator[str]:
    """What of a Secret must never stand in a log: single values whole, of structured ones the words in them."""
    for value in content.data.values():
        try:
            yield from _leaves(yaml.read_value(value.decode(), limits=_SMALL))
        except UnicodeDecodeError:
            continue
        except yaml.UnreadableYaml:
            yield value.decode()


def _leaves(value: JsonValue) -> Iterator[str]:
    waiting = [value]
    while waiting:
        match waiting.pop():
            case dict() as mapping:
                waiting.extend(mapping.values())
            case list() as listed:
                waiting.extend(listed)
            case str() as text if len(text) >= SHORTEST_HIDDEN:
                yield text
