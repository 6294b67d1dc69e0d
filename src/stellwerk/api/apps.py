"""Workloads (apps/v1), as far as operators read them."""

from __future__ import annotations

from typing import ClassVar

from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import Kind
from stellwerk.kube.types.object_meta import Condition, Record


class SecretSource(Record, frozen=True, kw_only=True):
    """A Secret whose keys are environment variables of a container."""

    name: str = ""


class EnvironmentSource(Record, frozen=True, kw_only=True):
    """Where environment variables of a container come from."""

    secret_ref: SecretSource | None = None


class TemplateContainer(Record, frozen=True, kw_only=True):
    """A container of the pods of a Deployment."""

    env_from: tuple[EnvironmentSource, ...] = ()


class TemplateSpec(Record, frozen=True, kw_only=True):
    """The containers of the pods of a Deployment."""

    containers: tuple[TemplateContainer, ...] = ()
    init_containers: tuple[TemplateContainer, ...] = ()


class PodTemplate(Record, frozen=True, kw_only=True):
    """What the pods of a Deployment are made from."""

    spec: TemplateSpec = TemplateSpec()


class DeploymentSpec(Record, frozen=True, kw_only=True):
    """How many pods are wanted, the API server fills in 1, and what they are made from."""

    template: PodTemplate = PodTemplate()
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
