"""EndpointSlices (discovery.k8s.io/v1), as far as operators read them."""

from __future__ import annotations

from typing import ClassVar

from stellwerk.api.core import ObjectReference
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import Kind
from stellwerk.kube.types.object_meta import Record

SERVICE_NAME_LABEL = "kubernetes.io/service-name"
"""Names the Service that an EndpointSlice belongs to."""


class Endpoint(Record, frozen=True, kw_only=True):
    """One address; `target_ref` is the pod behind it."""

    target_ref: ObjectReference | None = None


class EndpointSlice(Kind, frozen=True, kw_only=True):
    """A part of the endpoints of a Service."""

    resource: ClassVar[Resource] = Resource("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", True)

    endpoints: tuple[Endpoint, ...] | None = ()
