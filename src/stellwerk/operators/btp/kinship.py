"""What belongs to the BtpOperator that is at work: everything that carries the label of its manager.

Several BtpOperators may exist and only one works, so an object's label leads to that one.
"""

from __future__ import annotations

from stellwerk.api.core import Event
from stellwerk.apply.together import together
from stellwerk.kube.model import Unstructured
from stellwerk.kube.names import Resource
from stellwerk.operators.btp import api
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.runtime.diagnosis import Reader
from stellwerk.runtime.kinship import Fact, Manager, Member


class BtpKinship:
    """Reads the managed-by label."""

    async def members(self, reader: Reader, subject: Unstructured) -> list[Member]:
        """All labelled objects of the cluster; none for a CR that another one stands in front of."""
        working = await self._working(reader)
        if working is None or working.ref != subject.ref:
            return []
        found = await together(_kinds(await reader.client.mapper.all()), lambda kind: _labelled(reader, kind))
        return [Member(obj.ref) for objects in found for obj in objects]

    async def manager(self, reader: Reader, obj: Unstructured) -> Manager | None:
        """The BtpOperator at work, for an object with the label."""
        if obj.metadata.labels.get(api.MANAGED_BY_LABEL) != api.OPERATOR_NAME:
            return None
        working = await self._working(reader)
        return Manager(working.ref) if working is not None else None

    def origin(self, subject: Unstructured, obj: Unstructured) -> list[Fact]:
        """The version of the module that the object is of."""
        labels = obj.metadata.labels
        version = labels.get(api.VERSION_LABEL) or labels.get(api.RECOMMENDED_VERSION_LABEL, "")
        return [("Module", f"{api.MODULE_NAME} {version}".rstrip())]

    async def _working(self, reader: Reader) -> Unstructured | None:
        """The standard CR, else the oldest."""
        found = await reader.list(BtpOperator.resource)
        standard = next((one for one in found if one.key == api.STANDARD_KEY), None)
        return standard or min(found, key=lambda one: str(one.metadata.creation_timestamp), default=None)


kinship = BtpKinship()


def _kinds(served: list[Resource]) -> list[Resource]:
    """One version of each kind that an operator may have made; never pods, which others make for it."""
    first = {(one.group, one.kind): one for one in reversed(served)}
    return [one for one in first.values() if one.kind not in (Event.resource.kind, "Pod", "ReplicaSet")]


async def _labelled(reader: Reader, resource: Resource) -> list[Unstructured]:
    """The labelled objects of one kind; none of a kind that cannot be listed."""
    from stellwerk.kube.errors import StatusError

    try:
        return await reader.list(resource, labels=api.MANAGED_SELECTOR)
    except StatusError:
        return []
