"""ServiceMonitor of the Prometheus operator (monitoring.coreos.com/v1), as far as operators write it."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from stellwerk.api.networking import LabelSelector
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import Kind
from stellwerk.kube.types.object_meta import Record


class MonitorEndpoint(Record, frozen=True, kw_only=True):
    """What is scraped: the name of a port of the Service, and durations as Prometheus writes them."""

    port: str = ""
    path: str = ""
    interval: str = ""
    scrape_timeout: str = ""


class ServiceMonitorSpec(Record, frozen=True, kw_only=True):
    """The Services whose endpoints are scraped."""

    endpoints: tuple[MonitorEndpoint, ...] = ()
    selector: LabelSelector = msgspec.field(default_factory=LabelSelector)


class ServiceMonitor(Kind, frozen=True, kw_only=True):
    """Makes Prometheus scrape the endpoints of Services."""

    resource: ClassVar[Resource] = Resource(
        "monitoring.coreos.com", "v1", "ServiceMonitor", "servicemonitors", namespaced=True
    )

    spec: ServiceMonitorSpec = msgspec.field(default_factory=ServiceMonitorSpec)
