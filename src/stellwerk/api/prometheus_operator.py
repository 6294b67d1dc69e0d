"""ServiceMonitor of the Prometheus operator (monitoring.coreos.com/v1), which operators write as JSON."""

from __future__ import annotations

from typing import ClassVar

from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import Kind


class ServiceMonitor(Kind, frozen=True, kw_only=True):
    """Makes Prometheus scrape the endpoints of Services."""

    resource: ClassVar[Resource] = Resource(
        "monitoring.coreos.com", "v1", "ServiceMonitor", "servicemonitors", namespaced=True
    )
