"""Watcher: which changes in remote clusters are reported to the control plane."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

import msgspec

from stellwerk.kube.schema.crd import AGE, Definition, PrinterColumn, Version, documented
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import Kind
from stellwerk.kube.types.object_meta import Condition, Record, always_written
from stellwerk.operators.kyma.api_module import LabelSelector
from stellwerk.operators.kyma.api_status import (
    FORMER_VERSION,
    GROUP,
    VERSION,
    State,
    documented_conditions,
    unset,
)


class WatchedField(StrEnum):
    """Which part of an object counts."""

    Spec = "spec"
    Status = "status"


class ServiceInfo(Record, frozen=True, kw_only=True):
    """The Service that reports go to."""

    name: Annotated[str, documented("Its name.", required=True, example="klm-event-service")] = always_written()
    namespace: Annotated[str, documented("Its namespace.", required=True, example="kcp-system")] = always_written()
    port: Annotated[int, documented("Its port.", required=True, example="8082")] = msgspec.field(default_factory=int)


class WatchedResource(Record, frozen=True, kw_only=True):
    """The kind whose objects are watched."""

    group: Annotated[str, documented("API group.", required=True, example=GROUP)] = always_written()
    version: Annotated[str, documented("API version; `*` for any.", required=True, example="*")] = always_written()
    resource: Annotated[str, documented("Plural name of the kind.", required=True, example="kymas")] = always_written()


class GatewaySelector(Record, frozen=True, kw_only=True):
    """The Istio Gateways that take the reports."""

    selector: Annotated[LabelSelector, documented("Their labels.", map_type="atomic", required=True)] = LabelSelector()


class WatcherSpec(Record, frozen=True, kw_only=True):
    """What is watched, and which controller gets the reports."""

    service_info: Annotated[ServiceInfo, documented("The Service that reports go to.", required=True)] = ServiceInfo()
    manager: Annotated[
        str,
        documented(
            "Name of the controller that gets the reports.",
            otherwise=f"the label {GROUP}/managed-by",
            example="lifecycle-manager",
        ),
    ] = ""
    labels_to_watch: Annotated[
        dict[str, str],
        documented("Labels of the objects that are watched.", example="operator.kyma-project.io/watched-by: kyma"),
    ] = msgspec.field(default_factory=dict)
    resource_to_watch: Annotated[WatchedResource, documented("The kind whose objects are watched.", required=True)] = (
        WatchedResource()
    )
    field: Annotated[
        str,
        documented("Which changes count.", values=tuple(WatchedField), required=True, example="spec"),
    ] = always_written()
    gateway: Annotated[GatewaySelector, documented("The Istio Gateways that take the reports.", required=True)] = (
        GatewaySelector()
    )


class WatcherStatus(Record, frozen=True, kw_only=True):
    """Whether reports arrive. Written by the operator only."""

    state: Annotated[
        State,
        documented(
            "Ready: reports arrive. Processing and Deleting: under way. Error: no Gateway fits, or the route could not "
            "be written.",
            required=True,
            example="Ready",
        ),
    ] = unset()
    conditions: Annotated[tuple[Condition, ...], documented_conditions("VirtualService")] = ()
    observed_generation: Annotated[int, documented("The metadata.generation that was last looked at.")] = 0


class Watcher(Kind, frozen=True, kw_only=True):
    """Which changes in remote clusters are reported to the control plane."""

    resource: ClassVar[Resource] = Resource(GROUP, VERSION, "Watcher", "watchers", namespaced=True)

    spec: Annotated[
        WatcherSpec, documented("What is watched, and which controller gets the reports.", required=False)
    ] = WatcherSpec()
    status: Annotated[WatcherStatus, documented("Whether reports arrive.", required=False)] = WatcherStatus()


class _FormerWatcher(Watcher, frozen=True, kw_only=True):
    """Which changes in remote clusters are reported to the control plane."""

    resource: ClassVar[Resource] = Resource(GROUP, FORMER_VERSION, "Watcher", "watchers", namespaced=True)


WATCHERS = Definition(
    versions=(
        Version(
            kind=Watcher,
            columns=(
                PrinterColumn(name="State", path=".status.state"),
                PrinterColumn(name="Reason", path=".status.conditions[?(@.type=='VirtualService')].message"),
                AGE,
            ),
        ),
        Version(
            kind=_FormerWatcher,
            columns=(AGE,),
            served=False,
            deprecated="kyma-project.io/v1beta1 Watcher is deprecated. Use v1beta2 instead.",
        ),
    ),
)
