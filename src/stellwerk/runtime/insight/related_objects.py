"""Which objects belong to a custom resource, and to which custom resource an object belongs: in an operator's words.

Kubernetes' owner references show only a part of that: an operator that works across namespaces and clusters marks its
objects in its own way, and only it can read its marks. The command line draws trees from this, and follows an object
back to where it came from.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from stellwerk.kube.types.identifiers import ObjectKey, ObjectRef
from stellwerk.kube.types.model import Unstructured
from stellwerk.runtime.insight.diagnosis import ClusterReader


@dataclass(frozen=True, slots=True)
class Member:
    """An object that an operator manages for a custom resource."""

    ref: ObjectRef
    phase: str = ""
    """The phase that the operator reports."""
    is_awaited: bool = False
    """Whether the operator still waits for it, which it may do for reasons that the object itself does not show."""
    is_elsewhere: bool = False
    """Whether it is in another cluster: see `ReachesElsewhere`."""


@dataclass(frozen=True, slots=True)
class ManagingObject:
    """The custom resource for which an object is managed."""

    ref: ObjectRef
    is_elsewhere: bool = False
    above: ManagingObject | None = None
    """The custom resource for which this one is managed, if it is in another cluster, too, and known from here."""


Fact = tuple[str, str]
"""A label and its value: `("Source", "GitRepository flux/shop")`."""


class Kinship(Protocol):
    """What an operator knows about the objects of its kind."""

    async def members(self, reader: ClusterReader, subject: Unstructured) -> list[Member]:
        """What belongs to a custom resource. What may not be read is noted by the reader. Raises ApiError."""
        ...

    async def manager(self, reader: ClusterReader, obj: Unstructured) -> ManagingObject | None:
        """The custom resource that an object belongs to; None where it has no label of this operator."""
        ...

    def origin(self, subject: Unstructured, obj: Unstructured) -> list[Fact]:
        """The origin of the object's content, from the custom resource: source, revision, last apply."""
        ...


class NotReached(Exception):
    """The other cluster is not looked at from here; the message is the cause."""


@runtime_checkable
class ReachesElsewhere(Kinship, Protocol):
    """A kinship whose members in another cluster can be read."""

    def cluster_of(self, subject: Unstructured) -> ObjectKey:
        """What names the cluster of a custom resource: equal for those that share one."""
        ...

    def elsewhere(self, reader: ClusterReader, cluster: ObjectKey) -> AbstractAsyncContextManager[ClusterReader]:
        """The cluster, with what the user may read of its login. Raises NotReached."""
        ...
