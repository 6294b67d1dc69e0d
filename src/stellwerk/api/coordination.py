"""Leases (coordination.k8s.io/v1): who holds a role, and until when."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import ClassVar

from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import Kind
from stellwerk.kube.types.object_meta import Record


def micro_time(moment: datetime) -> str:
    """A metav1.MicroTime: always six digits behind the second, or the API server refuses it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class LeaseSpec(Record, frozen=True, kw_only=True):
    """Who holds the lease, since when, and for how long after each renewal.

    To write times use `micro_time`: what a datetime is encoded to lacks the fraction when it is zero.
    """

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: datetime | None = None
    renew_time: datetime | None = None
    lease_transitions: int | None = None
    preferred_holder: str | None = None
    strategy: str | None = None


class Lease(Kind, frozen=True, kw_only=True):
    """A role that one process at a time holds."""

    resource: ClassVar[Resource] = Resource("coordination.k8s.io", "v1", "Lease", "leases", namespaced=True)

    spec: LeaseSpec = LeaseSpec()
