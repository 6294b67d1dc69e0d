"""Namespaces that objects need and that are not objects of the set themselves. They have no owner, and stay."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stellwerk.apply.concurrency import together
from stellwerk.apply.errors import Obstacle, WriteFailure
from stellwerk.apply.set.model.desired_set import NAMESPACE, DesiredObject
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import AlreadyExists
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, metadata_of

_NAMESPACES = Resource("", "v1", "Namespace", "namespaces", namespaced=False)


class Namespaces:
    """Makes what is missing, each once in a pass."""

    def __init__(self, client: Client, field_manager: str, wanted: Sequence[DesiredObject]) -> None:
        self._client = client
        self._field_manager = field_manager
        self._made: set[str] = set()
        own = {obj.address.key.name for obj in wanted if (obj.identity.group, obj.identity.kind) == NAMESPACE}
        self._needed = {obj.address.key.namespace for obj in wanted} - own - {""}

    async def make_missing(self, exists: Callable[[str], bool | None]) -> None:
        """Create those that a cache shows as missing. Where there is no cache, the first object's refusal shows it."""
        await together([name for name in sorted(self._needed) if exists(name) is False], self._make)

    async def mend(self, failures: Sequence[WriteFailure]) -> list[WriteFailure]:
        """Make the namespaces that objects were refused for. Returns what was something else."""
        lacking = {each.ref.key.namespace for each in failures if each.obstacle is Obstacle.NAMESPACE_MISSING}
        made = (lacking & self._needed) - self._made
        await together(sorted(made), self._make)
        return [
            each
            for each in failures
            if each.obstacle is not Obstacle.NAMESPACE_MISSING or each.ref.key.namespace not in made
        ]

    async def _make(self, name: str) -> None:
        body: JsonObject = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        self._made.add(name)
        try:
            await self._client.create(metadata_of(_NAMESPACES), body, field_manager=self._field_manager)
        except AlreadyExists:
            return
