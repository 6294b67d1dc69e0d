"""Workloads (apps/v1), as far as operators read them."""

from __future__ import annotations

from typing import ClassVar

from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import Kind
from stellwerk.kube.types.object_meta import Condition, Record


class DeploymentSpec(Record, frozen=True, kw_only=True):
    """How many pods are wanted; the API server fills in 1."""

    replicas: int = 1
    paused: bool = False
    progress_deadline_seconds: int = 600


class DeploymentStatus(Record, frozen=True, kw_only=True):
    """How far the roll-out is."""

    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    conditions: tuple[Condition, ...] = ()


class Deployment(Kind, frozen=True, kw_only=True):
    """Keeps pods of one template running."""

    resource: ClassVar[Resource] = Resource("apps", "v1", "Deployment", "deployments", namespaced=True)

    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()

    def condition(self, type: str) -> Condition | None:
        """The condition of this type (Available, Progressing, ReplicaFailure), or None."""
        return next((condition for condition in self.status.conditions if condition.type == type), None)


class ReplicaSetSpec(Record, frozen=True, kw_only=True):
    """How many pods are wanted."""

    replicas: int = 1


class ReplicaSetStatus(Record, frozen=True, kw_only=True):
    """How many there are."""

    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    conditions: tuple[Condition, ...] = ()


class ReplicaSet(Kind, frozen=True, kw_only=True):
    """One revision of a Deployment."""

    resource: ClassVar[Resource] = Resource("apps", "v1", "ReplicaSet", "replicasets", namespaced=True)

    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()
