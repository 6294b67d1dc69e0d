"""The values of the Secrets and ConfigMaps that Components refer to, each read once per version.

The caches hold metadata only: a cluster may have twenty thousand Secrets that are none of our business. A cache opens
when the first Component refers to its kind. What was read is kept for as long as the cache shows that version, up to a
number of bytes in all and for each namespace, oldest use first out. Where we may read a Secret but not watch Secrets,
each pass reads it. Of a Component that refers to more than it may, no more than that is read.
"""

from __future__ import annotations

import asyncio
import base64
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TypeAlias

from stellwerk.api.core import ConfigMap, Secret
from stellwerk.kube import masking, threads, yaml
from stellwerk.kube.client.client import Client
from stellwerk.kube.nested import nested
from stellwerk.kube.types.errors import ApiError
from stellwerk.kube.types.model import HasMetadata, JsonValue, PartialObjectMetadata
from stellwerk.operators.component.api_spec import ReferenceKind
from stellwerk.operators.component.references.references import (
    Found,
    ReferencedContent,
    ReferencedObject,
    UnreadReference,
    check_size,
)
from stellwerk.render.bounded_cache import Kept
from stellwerk.runtime.cache.informer import Informer
from stellwerk.runtime.control import secrecy
from stellwerk.runtime.telemetry import logs

KEPT_BYTES, KEPT_BYTES_OF_TENANT = 64 * 2**20, 16 * 2**20
"""How much content is remembered, in all and of one namespace."""
_AT_A_TIME = 8
"""How many objects are read at the same time for one Component."""
_OBJECT_BYTES = 2**10
"""What an object weighs besides its content."""
_LIFE_SECONDS = 24 * 3600.0

SHORTEST_HIDDEN = 8
"""Shorter words of a values file are too ordinary to be masked in logs."""

MOST_HIDDEN = 20_000
"""Words of one Secret that are registered; log lines about a namespace with so many show no values at all."""

_SMALL_BYTES = 4_096
"""What is read on the event loop, in two milliseconds at most."""
_STRUCTURED = yaml.YamlLimits(bytes=65_536)
"""Of a larger text the lines and the words are masked, keys included."""
_UNSTRUCTURED = re.compile(rf"[^\s\"'=:,{{}}\[\]]{{{SHORTEST_HIDDEN},}}")

KINDS: Mapping[ReferenceKind, type[Secret] | type[ConfigMap]] = {
    ReferenceKind.Secret: Secret,
    ReferenceKind.ConfigMap: ConfigMap,
}
NOT_FOUND = UnreadReference("not found", may_come=True)


Watches: TypeAlias = Callable[[ReferenceKind], Informer[PartialObjectMetadata]]
"""Gives the cache of a kind's metadata, and opens it where there is none yet."""


@dataclass(slots=True)
class ReferenceReader:
    """Reads contents with one identity: the operator's own."""

    client: Client
    watches: Watches
    hide: Callable[..., None] = logs.hide
    forget: Callable[[str, str], None] = logs.forget
    _known: Kept[ReferencedObject, tuple[str, ReferencedContent]] = field(init=False)

    def __post_init__(self) -> None:
        self._known = Kept(
            KEPT_BYTES,
            now=time.monotonic,
            life_seconds=_LIFE_SECONDS,
            tenant_capacity=KEPT_BYTES_OF_TENANT,
            on_drop=self._dropped,
        )

    async def read(self, targets: Iterable[ReferencedObject]) -> Found:
        """The content of each target, or why there is none. Raises InputsTooLarge, and nothing that a cluster may
        answer."""
        wanted, found = sorted(set(targets)), dict[ReferencedObject, ReferencedContent | UnreadReference]()
        for start in range(0, len(wanted), _AT_A_TIME):
            some = wanted[start : start + _AT_A_TIME]
            async with asyncio.TaskGroup() as reads:
                tasks = [
                    reads.create_task(nested(partial(self._one, target)), name=f"read {target}") for target in some
                ]
            found |= {target: task.result() for target, task in zip(some, tasks, strict=True)}
            if start + _AT_A_TIME < len(wanted):
                check_size(sum(_size(one) for one in found.values() if isinstance(one, ReferencedContent)))
        return _noted(found)

    async def fresh(self, targets: Iterable[ReferencedObject]) -> Found:
        """As `read`, from the API server itself: what a cache does not show may be there all the same."""
        return _noted({target: await self._ask(target) for target in sorted(set(targets))})

    async def _one(self, target: ReferencedObject) -> ReferencedContent | UnreadReference:
        cache = self.watches(target.kind)
        await cache.wait_settled()
        if not cache.has_synced:
            return await self._ask(target)
        seen = cache.store.get(target.key)
        if seen is None:
            self._known.drop(target)
            return NOT_FOUND
        version, content = self._known.get(target) or ("", None)
        return content if content is not None and version == _version(seen) else await self._ask(target)

    async def _ask(self, target: ReferencedObject) -> ReferencedContent | UnreadReference:
        try:
            found = await find(self.client, target)
        except ApiError as error:
            return UnreadReference(str(error), may_come=False)
        if found is None:
            self._known.drop(target)
            return NOT_FOUND
        return await self._kept(target, found)

    async def _kept(self, target: ReferencedObject, found: Secret | ConfigMap) -> ReferencedContent:
        content = content_of(found)
        if isinstance(found, Secret):
            is_small = _size(content) <= _SMALL_BYTES
            words = to_hide(content.words) if is_small else await threads.run(lambda: to_hide(content.words))
            self.hide(*words, tenant=target.key.namespace, source=str(target))
        self._known.put(target, (_version(found), content), _OBJECT_BYTES + _size(content), target.key.namespace)
        return content

    def _dropped(self, target: ReferencedObject) -> None:
        if target.kind is ReferenceKind.Secret:
            self.forget(target.key.namespace, str(target))


async def find(client: Client, target: ReferencedObject) -> Secret | ConfigMap | None:
    """The object, read from the API server. Raises ApiError."""
    namespace, name = target.key
    if target.kind is ReferenceKind.Secret:
        return await client.find(Secret, name, namespace)
    return await client.find(ConfigMap, name, namespace)


def content_of(found: Secret | ConfigMap) -> ReferencedContent:
    """What an object holds, as bytes by key."""
    if isinstance(found, Secret):
        data = found.decoded()
        return ReferencedContent(data, lambda: _words(data))
    binary = {key: base64.b64decode(value) for key, value in found.binary_data.items()}
    return ReferencedContent({**{key: value.encode() for key, value in found.data.items()}, **binary})


def _noted(found: Found) -> Found:
    """The contents, with the words of Secrets noted for the pass under way."""
    for target, content in found.items():
        if isinstance(content, ReferencedContent) and target.kind is ReferenceKind.Secret:
            secrecy.note(str(target), content.words)
    return found


def _size(content: ReferencedContent) -> int:
    return sum(map(len, content.data.values()))


def _version(obj: HasMetadata) -> str:
    return f"{obj.metadata.uid}/{obj.metadata.resource_version}"


def to_hide(words: Callable[[], Iterable[str]]) -> list[str]:
    """Those of the words that log lines must not show."""
    return list(islice((word for word in words() if len(word) >= SHORTEST_HIDDEN), MOST_HIDDEN))


def _words(data: Mapping[str, bytes]) -> Iterator[str]:
    """What of a Secret must never be shown: values whole, and of structured ones the words in them."""
    for value in data.values():
        yield base64.b64encode(value).decode()
        try:
            text = value.decode()
        except UnicodeDecodeError:
            continue
        try:
            yield from masking.words_of(_secret_part(yaml.read_value(text, limits=_STRUCTURED)))
        except yaml.UnreadableYaml:
            yield text
            yield from (word[0] for word in _UNSTRUCTURED.finditer(text))
    if "username" in data and "password" in data:  # as a server that is sent both may repeat them
        yield base64.b64encode(data["username"] + b":" + data["password"]).decode()


def _secret_part(value: JsonValue) -> JsonValue:
    """Of a kubeconfig the logins: messages must be able to name its clusters."""
    if isinstance(value, dict) and "clusters" in value and isinstance(users := value.get("users"), list):
        return [user.get("user") for user in users if isinstance(user, dict)]
    return value
