"""Results that may be returned again, and to which tenants.

A rendering is a function of what goes into it, and it reports which parts of the request it read. The key of a result
is therefore in two halves: what always counts (files, values, keys for decryption, patches), and of the rest (name,
namespace, the Component, the cluster) only what was used. Two Components with the same kustomization share one result,
and a Component whose status has changed keeps its own. The second half is known after the first rendering; a later one
that looks elsewhere did so because something it had looked at before was different.

What asked the cluster is rendered in each pass. What was decrypted is kept for its tenant and its keys alone, in
memory. What came from the clock or from chance (`genCA`, `randAlphaNum`) is kept for its Component alone: passwords and
keys made for one must not become those of another, and they must not change in each pass either. Where such a result
asked the cluster as well, the last one takes the place of the next one if the cluster has given the same answers. It is
forgotten once they are others, also where another revision or other files got them: a template that makes a password
where a Secret is absent must make a new one after the Secret was deleted. If it read the clock, it takes that place for
a day only: a template that compares the end of a certificate with the current time must find that it is over. We
refused to ask the questions before the rendering: an error would have no place in a template.

Kept is the packed JSON: as Python objects it would be ten times as large. While a caller holds the objects they are
found again as they are.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import NamedTuple
from weakref import WeakValueDictionary

import msgspec

from stellwerk.kube import threads
from stellwerk.render.bounded_cache import LIFE_SECONDS, Kept
from stellwerk.render.files.files import Files
from stellwerk.render.request.request import Rendered, RenderRequest, decryption_digest
from stellwerk.render.worker import protocol

_CLOCK_SECONDS = 24 * 3600.0
"""How long a result that asked the cluster and read the clock takes the place of later ones."""
_MOST_KEYS = 20_000
_OVERHEAD = 256
_json = msgspec.json.Encoder(order="sorted")


class Context:
    """The parts of a request that a rendering may have looked at, or not. Digests are made when asked for."""

    def __init__(self, request: RenderRequest) -> None:
        self._request = request

    def digest(self, uses: Iterable[str], *, answered: bool = False) -> bytes | None:
        """Of the parts that were used; None where they can never be the same.

        `answered`: the answers of the cluster are known, and the caller compares them.
        """
        found = hashlib.sha256()
        for part in sorted(uses):
            value = b"" if answered and part == "lookup" else self._part(part)
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
            case "chance":
                return self.identity
            case "clock":
                return b""  # `Results.put` bounds how long such a result is used
            case _:
                return None

    @cached_property
    def identity(self) -> bytes:
        """What is rendered, a Component or a release, whatever else it has in common with another request."""
        request = self._request
        metadata = (request.component or {}).get("metadata")
        uid = metadata.get("uid") if isinstance(metadata, dict) else None
        return protocol.encoded([request.tenant, uid, request.release.namespace, request.release.name], "the release")

    @cached_property
    def _component(self) -> bytes:
        return hashlib.sha256(protocol.encoded(self._request.component, "the component")).digest()


class Key(NamedTuple):
    """What always counts: a digest."""

    digest: bytes

    @classmethod
    def of(cls, request: RenderRequest, files: Files, path: str, values: bytes) -> Key:
        """The first half of the key of a request's result."""
        post = request.post_build
        parts: list[bytes] = [
            files.digest.encode(),
            path.encode(),
            request.generator.encode(),
            request.prefix.encode(),
            request.delete_hooks.encode(),
            request.release.service.encode(),
            values,
            protocol.encoded([post.substitute, post.patches, post.images], "spec.postBuild"),
            b"%d %d" % (request.limits.bytes, request.limits.objects),
        ]
        if request.decryption or request.decryption_from:  # what fails together fails with one message, which names it
            source = (request.decryption_from or "").encode()
            parts += [decryption_digest(request.decryption), request.tenant.encode(), source]
        found = hashlib.sha256()
        for part in parts:
            found.update(b"%d:" % len(part))
            found.update(part)
        return cls(found.digest())


class _Packed(NamedTuple):
    """A result, compressed, how many bytes it was before, the digest of the cluster's answers, and when it was made."""

    content: bytes
    size: int
    answers: bytes
    made_at: float


class Results:
    """What was rendered, as long as memory allows."""

    def __init__(self, capacity: int, *, now: Callable[[], float], life_seconds: float = LIFE_SECONDS) -> None:
        self._now = now
        self._packed: Kept[tuple[Key, bytes], _Packed] = Kept(
            capacity, now=now, life_seconds=life_seconds, tenant_capacity=capacity // 2
        )
        self._uses: Kept[Key, list[frozenset[str]]] = Kept(
            _MOST_KEYS, now=now, life_seconds=life_seconds, tenant_capacity=_MOST_KEYS // 2
        )
        self._answered: Kept[bytes, tuple[Key, bytes]] = Kept(
            _MOST_KEYS, now=now, life_seconds=life_seconds, tenant_capacity=_MOST_KEYS // 2
        )
        self._alive: WeakValueDictionary[tuple[Key, bytes], Rendered] = WeakValueDictionary()

    @property
    def weight(self) -> int:
        """Bytes kept."""
        return self._packed.weight

    async def find(self, key: Key, context: Context) -> Rendered | None:
        """A result that a rendering would come to as well. Where there is none, the caller is not suspended."""
        for uses in self._uses.get(key) or ():
            part = context.digest(uses)
            if part is None:
                continue
            packed = self._packed.get((key, part))
            if packed is not None:
                return await self._revive((key, part), packed)
        return None

    def gate(self, key: Key, context: Context) -> bytes | None:
        """What distinguishes renderings that cannot share a result, as far as known; None where none can."""
        variants = self._uses.get(key)
        return context.digest(variants[0]) if variants else b""

    async def put(self, key: Key, context: Context, result: protocol.Result, tenant: str = "") -> Rendered:
        """Keep a result, if it may be given again. Raises `RendererBroken` where it is none.

        One that came from chance yields to the last one of its Component, where the cluster has given the same answers;
        if it read the clock, only to one that was made within `_CLOCK_SECONDS`.
        A tenant may take half of the room: a flood of its results leaves the results of others.
        """
        content = result.content
        part = context.digest(result.uses, answered="chance" in result.uses)
        if "lookup" in result.uses:
            name = (key, part or b"")  # nothing is kept under an empty one
            packed = self._packed.get(name)
            if packed is not None and packed.answers == result.answers and self._is_timely(packed, result):
                self._answered.get(context.identity)  # is in use, as the result is
                return await self._revive(name, packed)
            self._forget_answered(context.identity)
        rendered = await threads.run_if_large(len(content), lambda: protocol.read_result(content))
        self._note(key, result.uses, tenant)
        if part is not None:
            short = await threads.run_if_large(len(content), lambda: zlib.compress(content, 1))
            packed = _Packed(short, len(content), result.answers, self._now())
            self._packed.put((key, part), packed, len(short) + _OVERHEAD, tenant)
            if "lookup" in result.uses:
                self._answered.put(context.identity, (key, part), 1, tenant)
            self._alive[key, part] = rendered
        return rendered

    def clear(self) -> None:
        """Forget everything."""
        self._packed.clear()
        self._uses.clear()
        self._answered.clear()
        self._alive.clear()

    def _forget_answered(self, identity: bytes) -> None:
        """Forget what a Component's earlier answers of the cluster led to, whatever the revision and the files."""
        name = self._answered.get(identity)
        if name is not None:
            self._packed.drop(name)

    def _is_timely(self, packed: _Packed, result: protocol.Result) -> bool:
        return "clock" not in result.uses or self._now() - packed.made_at < _CLOCK_SECONDS

    def _note(self, key: Key, uses: frozenset[str], tenant: str) -> None:
        variants = self._uses.get(key) or []
        if uses in variants:
            variants.remove(uses)
        variants.insert(0, uses)  # the latest is the likeliest
        self._uses.put(key, variants[:8], 1, tenant)

    async def _revive(self, name: tuple[Key, bytes], packed: _Packed) -> Rendered:
        """The objects of a result: as they are, while a caller holds them."""
        alive = self._alive.get(name)
        if alive is not None:
            return alive
        rendered = await threads.run_if_large(
            packed.size, lambda: protocol.read_result(zlib.decompress(packed.content))
        )
        return self._alive.setdefault(name, rendered)
