"""API services (apiregistration.k8s.io/v1), as far as operators read them."""

from __future__ import annotations

from typing import ClassVar

from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import Kind
from stellwerk.kube.types.object_meta import Condition, Record


class APIServiceStatus(Record, frozen=True, kw_only=True):
    """Whether the server behind it answers."""

    conditions: tuple[Condition, ...] = ()


class APIService(Kind, frozen=True, kw_only=True):
    """A group and version that another server serves."""

    resource: ClassVar[Resource] = Resource(
        "apiregistration.k8s.io", "v1", "APIService", "apiservices", namespaced=False
    )

    status: APIServiceStatus = APIServiceStatus()

    @property
    def available(self) -> Condition | None:
        """The condition `Available`; None where kube-aggregator has not looked yet."""
        return next((condition for condition in self.status.conditions if condition.type == "Available"), None)
