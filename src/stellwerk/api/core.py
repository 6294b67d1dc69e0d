"""The kinds of the core group, as far as operators read them.

Only what is read is declared: the rest is dropped while decoding, which keeps caches small. To write one of these
kinds whole, build a JSON object. A list that Go writes as null when it is empty is declared with `| None`.
"""

from __future__ import annotations

import base64
import binascii
from datetime import datetime
from typing import ClassVar

import msgspec

from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import Kind
from stellwerk.kube.types.object_meta import Condition, Record


class Namespace(Kind, frozen=True, kw_only=True):
    """A namespace."""

    resource: ClassVar[Resource] = Resource("", "v1", "Namespace", "namespaces", namespaced=False)

    status: NamespaceStatus = msgspec.field(default_factory=lambda: NamespaceStatus())


class NamespaceStatus(Record, frozen=True, kw_only=True):
    """`phase` is Active or Terminating; conditions show what a deletion waits for."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class ConfigMap(Kind, frozen=True, kw_only=True):
    """Text and bytes by name."""

    resource: ClassVar[Resource] = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True)

    data: dict[str, str] = msgspec.field(default_factory=dict)
    binary_data: dict[str, str] = msgspec.field(default_factory=dict)
    """Base64 text."""
    immutable: bool = False


class Secret(Kind, frozen=True, kw_only=True):
    """Confidential bytes by name. Its repr shows the names and no values."""

    resource: ClassVar[Resource] = Resource("", "v1", "Secret", "secrets", namespaced=True)

    data: dict[str, str] = msgspec.field(default_factory=dict)
    """Base64 text."""
    type: str = "Opaque"
    immutable: bool = False

    def decoded(self) -> dict[str, bytes]:
        """The values as bytes. Raises ValueError, without the value, where one is not base64."""
        return {key: self._decoded(key) for key in self.data}

    def text(self, key: str) -> str | None:
        """One value as text; None where the key is absent. Raises ValueError where it is not UTF-8."""
        if key not in self.data:
            return None
        try:
            return self._decoded(key).decode()
        except UnicodeDecodeError:
            raise ValueError(f"{self.ref}: {key} is not text") from None

    def _decoded(self, key: str) -> bytes:
        try:
            return base64.b64decode(self.data[key], validate=True)
        except binascii.Error:
            raise ValueError(f"{self.ref}: {key} is not base64") from None

    def __repr__(self) -> str:
        return f"Secret({self.key}, keys={sorted(self.data)})"


class Service(Kind, frozen=True, kw_only=True):
    """A stable address for pods."""

    resource: ClassVar[Resource] = Resource("", "v1", "Service", "services", namespaced=True)

    spec: ServiceSpec = msgspec.field(default_factory=lambda: ServiceSpec())
    status: ServiceStatus = msgspec.field(default_factory=lambda: ServiceStatus())


class ServicePort(Record, frozen=True, kw_only=True):
    """One port of a Service. `target_port` is a number or the name of a container's port."""

    port: int
    name: str = ""
    protocol: str = "TCP"
    target_port: int | str = 0


class ServiceSpec(Record, frozen=True, kw_only=True):
    """Where a Service leads."""

    type: str = "ClusterIP"
    selector: dict[str, str] = msgspec.field(default_factory=dict)
    ports: tuple[ServicePort, ...] = ()
    external_name: str = ""
    cluster_ip: str = msgspec.field(name="clusterIP", default="")


class LoadBalancerIngress(Record, frozen=True, kw_only=True):
    """One address that a load balancer gave."""

    ip: str = ""
    hostname: str = ""


class LoadBalancerStatus(Record, frozen=True, kw_only=True):
    """What the load balancer gave so far."""

    ingress: tuple[LoadBalancerIngress, ...] = ()


class ServiceStatus(Record, frozen=True, kw_only=True):
    """The addresses of a Service of type LoadBalancer."""

    load_balancer: LoadBalancerStatus = LoadBalancerStatus()


class ServiceAccount(Kind, frozen=True, kw_only=True):
    """An identity for pods."""

    resource: ClassVar[Resource] = Resource("", "v1", "ServiceAccount", "serviceaccounts", namespaced=True)


class ContainerWaiting(Record, frozen=True, kw_only=True):
    """Why a container has not started: ImagePullBackOff, CrashLoopBackOff and the like."""

    reason: str = ""
    message: str = ""


class ContainerTerminated(Record, frozen=True, kw_only=True):
    """How a container ended."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""
    finished_at: datetime | None = None


class ContainerRunning(Record, frozen=True, kw_only=True):
    """Since when a container runs."""

    started_at: datetime | None = None


class ContainerState(Record, frozen=True, kw_only=True):
    """One of the three."""

    waiting: ContainerWaiting | None = None
    running: ContainerRunning | None = None
    terminated: ContainerTerminated | None = None


class ContainerStatus(Record, frozen=True, kw_only=True):
    """How one container of a pod is doing."""

    name: str = ""
    ready: bool = False
    restart_count: int = 0
    image: str = ""
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodStatus(Record, frozen=True, kw_only=True):
    """How a pod is doing. `phase` is Pending, Running, Succeeded, Failed or Unknown."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class PodSpec(Record, frozen=True, kw_only=True):
    """Where a pod runs, and as which ServiceAccount."""

    node_name: str = ""
    service_account_name: str = ""


class Pod(Kind, frozen=True, kw_only=True):
    """Containers that run together."""

    resource: ClassVar[Resource] = Resource("", "v1", "Pod", "pods", namespaced=True)

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def is_ready(self) -> bool | None:
        """Whether it serves; None while it has no Ready condition."""
        return next((condition.is_true for condition in self.status.conditions if condition.type == "Ready"), None)


class ObjectReference(Record, frozen=True, kw_only=True):
    """An object of any kind, as Events name it."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    field_path: str = ""


class Event(Kind, frozen=True, kw_only=True):
    """Something that happened to an object, in the older form (`events.Event` is the one that is written today)."""

    resource: ClassVar[Resource] = Resource("", "v1", "Event", "events", namespaced=True)

    involved_object: ObjectReference = ObjectReference()
    type: str = ""
    reason: str = ""
    message: str = ""
    count: int = 0
    first_timestamp: datetime | None = None
    last_timestamp: datetime | None = None
    event_time: datetime | None = None
    reporting_component: str = ""
