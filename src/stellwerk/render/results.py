"""Results that may be given again, and for whom.

A rendering is a function of what goes into it, and it says which parts of the request it looked at. The key of a result
is therefore in two halves: what always counts (files, values, keys for decryption, patches), and of the rest (name,
namespace, the Component, the cluster) only what was used. Two Components with the same kustomization share one result,
and a Component whose status has changed keeps its own. The second half is known after the first rendering; a later one
that looks elsewhere did so because something it had looked at before was different.

What asked the cluster is never kept. What was decrypted is kept for its tenant and its keys alone, in memory.

Kept is the packed JSON: as Python objects it would be ten times as large. While somebody holds the objects they are
found again as they are.
"""

from __future__ import annotations

import hashlib
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import NamedTuple
from weakref import WeakValueDictionary

import msgspec

from stellwerk.render import protocol
from stellwerk.render.files import Files
from stellwerk.render.kept import LIFE_SECONDS, Kept
from stellwerk.render.request import Rendered, Request, decryption_digest
from stellwerk.render.threads import beside

_MOST_KEYS = 20_000
_OVERHEAD = 256
_LARGE = 2**20
_json = msgspec.json.Encoder(order="sorted")


class Context:
    """The parts of a request that a rendering may have looked at, or not. Digests are made when asked for."""

    def __init__(self, request: Request) -> None:
        self._request = request

    def digest(self, uses: Iterable[str]) -> bytes | None:
        """Of the parts that were used; None where they can never be the same."""
        found = hashlib.sha256()
        for part in sorted(uses):
            value = self._part(part)
            if value is None:
                return None
            found.update(b"%b:%d:%b" % (part.encode(), len(value), value))
        return found.digest()

    def _part(self, part: str) -> bytes | None:
        request = self._request
        match part:
            case "name":
                return request.release.name.encode()
            case "namespace":
                return request.release.namespace.encode()
            case "revision":
                return b"%d" % request.release.revision
            case "component":
                return self._component
            case "componentDigest":
                return request.component_digest.encode()
            case "cluster":
                return request.cluster.digest
            case _:
                return None

    @cached_property
    def _component(self) -> bytes:
        return hashlib.sha256(protocol.encoded(self._request.component, "the component")).digest()


class Key(NamedTuple):
    """What always counts: a digest."""

    digest: bytes

    @classmethod
    def of(cls, request: Request, files: Files, path: str, values: bytes) -> Key:
        """The first half of the key of a request's result."""
        post = request.post_build
        parts: list[bytes] = [
            files.digest.encode(),
            path.encode(),
            request.generator.encode(),
            request.prefix.encode(),
            request.farewells.encode(),
            request.release.service.encode(),
            values,
            protocol.encoded([post.substitute, post.patches, post.images], "spec.postBuild"),
            b"%d %d" % (request.limits.bytes, request.limits.objects),
        ]
        if request.decryption:
            parts += [decryption_digest(request.decryption), request.tenant.encode()]
        found = hashlib.sha256()
        for part in parts:
            found.update(b"%d:" % len(part))
            found.update(part)
        return cls(found.digest())


class Results:
    """What was rendered, as long as memory allows."""

    def __init__(self, capacity: int, *, now: Callable[[], float], life_seconds: float = LIFE_SECONDS) -> None:
        self._packed: Kept[tuple[Key, bytes], bytes] = Kept(capacity, now=now, life_seconds=life_seconds)
        self._uses: OrderedDict[Key, list[frozenset[str]]] = OrderedDict()
        self._alive: WeakValueDictionary[tuple[Key, bytes], Rendered] = WeakValueDictionary()

    @property
    def weight(self) -> int:
        """Bytes kept."""
        return self._packed.weight

    def find(self, key: Key, context: Context) -> Rendered | None:
        """A result that a rendering would come to as well."""
        for uses in self._uses.get(key, ()):
            part = context.digest(uses)
            if part is None:
                continue
            packed = self._packed.get((key, part))
            if packed is not None:
                self._uses.move_to_end(key)
                return self._alive.get((key, part)) or self._revive((key, part), packed)
        return None

    def gate(self, key: Key, context: Context) -> bytes | None:
        """What tells renderings apart that cannot share a result, as far as known; None where none can."""
        variants = self._uses.get(key)
        return context.digest(variants[0]) if variants else b""

    async def put(self, key: Key, context: Context, result: protocol.Result) -> Rendered:
        """Keep a result, if it may be given again. Raises `RendererBroken` where it is none."""
        rendered = protocol.read_result(result.content)
        self._note(key, result.uses)
        part = context.digest(result.uses)
        if part is not None:
            packed = await _pack(result.content)
            self._packed.put((key, part), packed, len(packed) + _OVERHEAD)
            self._alive[key, part] = rendered
        return rendered

    def clear(self) -> None:
        """Forget everything."""
        self._packed.clear()
        self._uses.clear()
        self._alive.clear()

    def _note(self, key: Key, uses: frozenset[str]) -> None:
        variants = self._uses.setdefault(key, [])
        if uses in variants:
            variants.remove(uses)
        variants.insert(0, uses)  # the latest is the likeliest
        del variants[8:]
        self._uses.move_to_end(key)
        while len(self._uses) > _MOST_KEYS:
            self._uses.popitem(last=False)

    def _revive(self, name: tuple[Key, bytes], packed: bytes) -> Rendered:
        rendered = self._alive[name] = protocol.read_result(zlib.decompress(packed))
        return rendered


async def _pack(content: bytes) -> bytes:
    if len(content) < _LARGE:
        return zlib.compress(content, 1)
    return await beside(lambda: zlib.compress(content, 1), name="pack")  # half a second for the largest
