"""What belongs to the BtpOperator that is at work: everything that carries the label of its manager.

Several BtpOperators may exist and only one works, so an object's label leads to that one.
"""

from __future__ import annotations

from collections.abc import Iterable

from stellwerk.api.core import Event
from stellwerk.kube.concurrency import together
from stellwerk.kube.types.errors import StatusError
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import Unstructured, dig
from stellwerk.operators.btp import api
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.operators.btp.reasons import Reason
from stellwerk.runtime.insight.diagnosis import ClusterReader
from stellwerk.runtime.insight.related_objects import Fact, ManagingObject, Member

ASIDE = (Reason.OlderCRExists, Reason.WrongNamespaceOrName)
"""The reasons of a BtpOperator that does not work."""


class BtpKinship:
    """Reads the managed-by label."""

    async def members(self, reader: ClusterReader, subject: Unstructured) -> list[Member]:
        """All labelled objects of the cluster; none for a CR that is not the leader."""
        working = await self._working(reader)
        if working is None or working.ref != subject.ref:
            return []
        found = await together(_kinds(await reader.client.mapper.all()), lambda kind: _labelled(reader, kind))
        return [Member(obj.ref) for objects in found for obj in objects]

    async def manager(self, reader: ClusterReader, obj: Unstructured) -> ManagingObject | None:
        """The BtpOperator at work, for an object with the label."""
        if obj.metadata.labels.get(api.MANAGED_BY_LABEL) != api.OPERATOR_NAME:
            return None
        working = await self._working(reader)
        return ManagingObject(working.ref) if working is not None else None

    def origin(self, subject: Unstructured, obj: Unstructured) -> list[Fact]:
        """The version of the module that the object is of."""
        labels = obj.metadata.labels
        version = labels.get(api.VERSION_LABEL) or labels.get(api.RECOMMENDED_VERSION_LABEL, "")
        return [("Module", f"{api.MODULE_NAME} {version}".rstrip())]

    async def _working(self, reader: ClusterReader) -> Unstructured | None:
        return working(await reader.list(BtpOperator.resource))


kinship = BtpKinship()


def working(operators: Iterable[Unstructured]) -> Unstructured | None:
    """The one that does not report another leader; of several without a report, the oldest."""
    return min((operator for operator in operators if not _stands_aside(operator)), key=_age, default=None)


def _stands_aside(operator: Unstructured) -> bool:
    listed = operator.at("status", "conditions")
    return any(dig(one, "reason") in ASIDE for one in (listed if isinstance(listed, list) else ()))


def _age(operator: Unstructured) -> tuple[str, bool, ObjectKey]:
    return str(operator.metadata.creation_timestamp), operator.key != api.STANDARD_KEY, operator.key


def _kinds(served: list[Resource]) -> list[Resource]:
    """One version of each kind that an operator may have made; never pods, which others make for it."""
    first = {(one.group, one.kind): one for one in reversed(served)}
    return [one for one in first.values() if one.kind not in (Event.resource.kind, "Pod", "ReplicaSet")]


async def _labelled(reader: ClusterReader, resource: Resource) -> list[Unstructured]:
    """The labelled objects of one kind; none of a kind that cannot be listed."""
    try:
        return await reader.list(resource, labels=api.MANAGED_SELECTOR)
    except StatusError:
        return []
