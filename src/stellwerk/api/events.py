"""Events (events.k8s.io/v1): reports for users about an object."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from stellwerk.api.core import ObjectReference
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import Kind
from stellwerk.kube.types.object_meta import Record


class EventSeries(Record, frozen=True, kw_only=True):
    """How often it happened again, and when last."""

    count: int
    last_observed_time: datetime


class Event(Kind, frozen=True, kw_only=True):
    """Something that happened. The older fields are those that writers of core/v1 Events fill in."""

    resource: ClassVar[Resource] = Resource("events.k8s.io", "v1", "Event", "events", namespaced=True)

    event_time: datetime | None = None
    series: EventSeries | None = None
    reporting_controller: str = ""
    reporting_instance: str = ""
    action: str = ""
    reason: str = ""
    regarding: ObjectReference = ObjectReference()
    related: ObjectReference | None = None
    note: str = ""
    type: str = ""
    deprecated_first_timestamp: datetime | None = None
    deprecated_last_timestamp: datetime | None = None
    deprecated_count: int = 0
