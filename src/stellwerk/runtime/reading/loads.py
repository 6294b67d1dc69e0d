"""Values that need a request: the content of a Secret, of an artifact, the last words of a pod.

A pass asks for one by a value that names the content, not the place: the key with the version, or a digest. So an
answer never changes once it is known, and is shared by all who ask for the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

from stellwerk.api.core import Secret
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.discovery import ResourceMapper
from stellwerk.kube.types.errors import NotServed
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, Resource
from stellwerk.runtime.reading.known import ABSENT, Known, NotKnown, Present, Refused
from stellwerk.runtime.reading.questions import Question

SILENCE_SECONDS = 5.0
"""How long another cluster may take to answer which kinds it serves."""
LOADING = "it is being loaded"
"""Why a value is not known that was only just asked for."""

V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)


class Load(Protocol[V_co]):
    """What to load. Hashable; two that are equal have the same content."""

    @property
    def tenant(self) -> str:
        """Whose turn it takes, mostly a namespace."""
        ...

    @property
    def about(self) -> str:
        """What is loaded, for messages."""
        ...

    async def fetch(self, client: Client) -> V_co | None:
        """Load it; None if it does not exist. Raises ApiError, NotKnown."""
        ...

    def size(self, value: Any) -> int:
        """How many bytes a loaded value needs."""
        ...


@runtime_checkable
class Confidential(Protocol):
    """A load of secret words, which are masked in all that a pass shows which has read them."""

    def words(self, value: Any) -> Iterable[str]:
        """The secret words of a loaded value. Called in a thread, if at all."""
        ...


class LoadSource(Protocol):
    """Answers what passes load."""

    def get(self, load: Load[V]) -> Known[V]:
        """What is here of it: Unknown until it is loaded."""
        ...

    def question(self, load: Load[Any]) -> Question:
        """Have it loaded. The question that all share who ask for it."""
        ...


class PlainLoads:
    """Loaded values that are given: for tests. What was not given is absent."""

    def __init__(self, values: dict[Load[Any], Any] | None = None) -> None:
        self._values = values or {}

    def get(self, load: Load[V]) -> Known[V]:
        """As `LoadSource.get`."""
        return Present(self._values[load]) if load in self._values else ABSENT

    def question(self, load: Load[Any]) -> Question:
        """As `LoadSource.question`."""
        return Question(self)

    def drop(self, question: Question) -> None:
        """As `Source.drop`: there is nothing to do."""


@dataclass(frozen=True, slots=True)
class SecretData:
    """The content of a Secret at a version, which its metadata in a cache show."""

    key: ObjectKey
    version: str

    @property
    def tenant(self) -> str:
        """As `Load.tenant`."""
        return self.key.namespace

    @property
    def about(self) -> str:
        """As `Load.about`."""
        return f"the content of Secret {self.key}"

    async def fetch(self, client: Client) -> Secret | None:
        """As `Load.fetch`."""
        found = await client.find(Secret, self.key.name, self.key.namespace)
        if found is not None and found.metadata.resource_version != self.version:
            raise NotKnown(self.about, "it has changed, and the cache does not show that yet")
        return found

    def size(self, value: Secret) -> int:
        """As `Load.size`."""
        return sum(len(name) + len(content) for name, content in value.data.items())

    def words(self, value: Secret) -> Iterable[str]:
        """As `Confidential.words`."""
        return [content.decode("utf-8", "replace") for content in value.decoded().values()]


@dataclass(frozen=True, slots=True)
class ServedKind:
    """Where a cluster serves objects of a kind. Asked again as long as it serves none."""

    cluster: str
    """For messages and turns."""
    gvk: GroupVersionKind
    mapper: ResourceMapper | None = None
    """Of the cluster; None: what is loaded is given."""
    any_version: bool = False
    """Whether another version of the kind will do: its objects are the same."""

    @property
    def tenant(self) -> str:
        """As `Load.tenant`."""
        return self.cluster

    @property
    def about(self) -> str:
        """As `Load.about`."""
        return f"where {self.cluster} serves {self.gvk}"

    async def fetch(self, client: Client) -> Resource | None:
        """As `Load.fetch`, of the cluster itself, whatever `client` leads to. Raises Refused if it serves none."""
        if self.mapper is None:
            return None
        try:
            async with asyncio.timeout(SILENCE_SECONDS):
                return await self._served(self.mapper)
        except NotServed as error:
            raise Refused(str(error)) from None
        except TimeoutError:
            raise NotKnown(self.about, f"{self.cluster} has not answered within {SILENCE_SECONDS:g} s") from None

    async def _served(self, mapper: ResourceMapper) -> Resource:
        try:
            return await mapper.resource(self.gvk)
        except NotServed:
            if not self.any_version:
                raise
        return await mapper.preferred(self.gvk.group, self.gvk.kind)

    def size(self, value: Resource) -> int:
        """As `Load.size`. Names are shared by all clusters."""
        return 128
