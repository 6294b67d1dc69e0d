"""Jobs, as far as operators read them (batch/v1)."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import Kind
from stellwerk.kube.types.object_meta import Condition, Record


class JobSpec(Record, frozen=True, kw_only=True):
    """How long the Job stays."""

    ttl_seconds_after_finished: int | None = None


class JobStatus(Record, frozen=True, kw_only=True):
    """How far the Job is."""

    active: int = 0
    succeeded: int = 0
    failed: int = 0
    conditions: tuple[Condition, ...] = ()


class Job(Kind, frozen=True, kw_only=True):
    """Runs pods until some have succeeded."""

    resource: ClassVar[Resource] = Resource("batch", "v1", "Job", "jobs", namespaced=True)

    spec: JobSpec = msgspec.field(default_factory=JobSpec)
    status: JobStatus = msgspec.field(default_factory=JobStatus)

    @property
    def is_complete(self) -> bool:
        """Whether it succeeded."""
        return self._condition("Complete") is not None

    @property
    def failure(self) -> Condition | None:
        """Why it failed for good; None unless it did."""
        return self._condition("Failed")

    @property
    def has_ended(self) -> bool:
        """Whether it succeeded or failed for good."""
        return self.is_complete or self.failure is not None

    def _condition(self, kind: str) -> Condition | None:
        return next((found for found in self.status.conditions if found.type == kind and found.is_true), None)
