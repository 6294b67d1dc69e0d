"""Saving a status in the middle of a pass, for what must not be done before it is written down.

A pass may end instead, with `Next.now` and the status; the next one starts again and reaches the same point. A
checkpoint spares that second way, which for a Component is a third of all work on it. Nothing is lost by it: the status
is written only in the place of the very object that the pass has seen, so whatever has changed meanwhile ends the pass.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec

from stellwerk.kube.types.errors import Outdated
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import Kind
from stellwerk.kube.types.object_meta import Record
from stellwerk.runtime.cache.informer import Informer
from stellwerk.runtime.control.status_writer import StatusWriter, differs

K = TypeVar("K", bound=Kind)
S = TypeVar("S", bound=Record)


@dataclass(frozen=True, slots=True)
class Checkpoints(Generic[K, S]):
    """The checkpoints of one controller. Its reconciler saves; the controller asks what is shown now."""

    primary: Informer[K]
    write_status: StatusWriter
    _saved: dict[ObjectKey, K] = field(default_factory=dict)

    async def save(self, obj: K, status: S) -> K | None:
        """Write the status and go on with the object as it is then; `obj` is as the pass knows it.

        None: the object is gone or has changed meanwhile. Then nothing was written, and the pass has to end. Raises
        ApiError.
        """
        if not differs(obj, status):
            return obj
        await asyncio.sleep(0)  # to compare and to encode a status of a MiB takes its time
        try:
            version = await self.write_status.write_in_place(obj, status)
        except Outdated:
            return None
        if version is None:
            return None
        self.primary.expect(obj.key, version)
        metadata = msgspec.structs.replace(obj.metadata, resource_version=version)
        saved: K = msgspec.structs.replace(obj, metadata=metadata, status=status)
        self._saved[obj.key] = saved
        return saved

    def shown(self, obj: K) -> K:
        """The object with what was saved in the pass under way."""
        return self._saved.get(obj.key, obj)

    def forget(self, key: ObjectKey) -> None:
        """The pass is over."""
        self._saved.pop(key, None)
