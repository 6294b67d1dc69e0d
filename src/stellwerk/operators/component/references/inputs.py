"""What the Secrets and ConfigMaps of a Component come to, computed without blocking the event loop.

A tenant may store a MiB in each of them, and name each as often as it likes. So what a Component refers to is bounded
in sum; a text that is named several times is read once; and what is large is computed in a thread, for one Component of
a namespace at a time. The values that a text comes to are kept while they are used: reading takes a second per MiB.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar
from weakref import WeakValueDictionary

import msgspec

from stellwerk.kube import threads
from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.component.api import Component
from stellwerk.operators.component.references import digests, references
from stellwerk.operators.component.references.references import Found, NamedText, Reference, Resolved
from stellwerk.render.bounded_cache import Kept
from stellwerk.render.request import values
from stellwerk.render.request.values import Layer
from stellwerk.runtime.clock import Clock

V = TypeVar("V")

_COMPUTED_AT_ONCE, _READ_AT_ONCE = threads.LARGE_BYTES, 16 * 2**10
"""Up to these sizes it takes some ten milliseconds to fingerprint a content or merge values, and to read texts."""
_OBJECTS_PER_BYTE = 12
"""What values weigh in memory, for each byte of their text."""
_KEPT_BYTES, _KEPT_BYTES_OF_TENANT = 96 * 2**20, 24 * 2**20


@dataclass(slots=True)
class Inputs:
    """Computes for all Components."""

    clock: Clock
    _values: Kept[tuple[str, str], JsonObject] = field(init=False)
    """By namespace and the digest of the text."""
    _turns: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)

    def __post_init__(self) -> None:
        self._values = Kept(_KEPT_BYTES, now=self.clock.monotonic, tenant_capacity=_KEPT_BYTES_OF_TENANT)

    async def settled(self, component: Component, wanted: Sequence[Reference], found: Found) -> Resolved:
        """As `references.settle`."""
        size = references.size_of(wanted, found)
        references.check_size(size)
        return await self._computed(
            component, size <= _COMPUTED_AT_ONCE, lambda: references.settle(component, wanted, found)
        )

    async def request(self, component: Component, resolved: Resolved, make: Callable[[list[Layer]], V]) -> V:
        """What a request made of the values of a Component, the nearest last, comes to. Raises InvalidValues."""
        texts = references.last_of_each(resolved.values)
        at_once = sum(len(text.text) for text in texts) <= _READ_AT_ONCE
        layers = [Layer(text.origin, await self._read(component, text, at_once=at_once), secret=True) for text in texts]
        size = resolved.size + _size_of_spec(component)
        return await self._computed(
            component, size <= _COMPUTED_AT_ONCE, lambda: make([*layers, *own_layer(component)])
        )

    async def digest(self, component: Component, references: Mapping[str, str]) -> str:
        """As `digests.of_component`."""
        at_once = _size_of_spec(component) <= _COMPUTED_AT_ONCE
        return await self._computed(component, at_once, lambda: digests.of_component(component, references))

    async def _read(self, component: Component, text: NamedText, *, at_once: bool) -> JsonObject:
        name = (component.metadata.namespace, text.digest)
        known = self._values.get(name)
        if known is None:
            known = await self._computed(component, at_once, lambda: values.read(text.text, text.origin))
            self._values.put(name, known, _OBJECTS_PER_BYTE * len(text.text), component.metadata.namespace)
        return known

    async def _computed(self, component: Component, at_once: bool, work: Callable[[], V]) -> V:
        if at_once:
            return work()
        async with self._turns.setdefault(component.metadata.namespace, asyncio.Lock()):
            return await threads.run(work)


def _size_of_spec(component: Component) -> int:
    """Bytes of the spec as JSON. To encode a MiB takes some milliseconds, and less than whatever reads its values."""
    return len(msgspec.json.encode(component.spec))


def layers_of(component: Component, resolved: Resolved) -> list[Layer]:
    """The values of a Component, the nearest last, computed at once. Raises InvalidValues."""
    texts = references.last_of_each(resolved.values)
    return [
        *(Layer(text.origin, values.read(text.text, text.origin), secret=True) for text in texts),
        *own_layer(component),
    ]


def own_layer(component: Component) -> list[Layer]:
    """The values that stand in the spec. Raises InvalidValues."""
    own = component.spec.values
    return [] if own is None else [Layer("spec.values", values.checked(own, "spec.values"))]
