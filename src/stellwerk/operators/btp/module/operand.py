"""The operand's own kinds, as CustomResourceDefinitions: services that users order, and access to them.

These structs describe; nothing decodes with them (reading takes the few fields in `stellwerk.api.btp`). The stored
version is v1; v1alpha1 is the same storage with fewer fields.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar

import msgspec

from stellwerk.kube.schema.crd import AGE, Definition, PrinterColumn, Version, documented
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import Kind
from stellwerk.kube.types.object_meta import Condition, Record
from stellwerk.operators.btp import api

FreeForm = dict[str, msgspec.Raw]


class ParametersSecretKey(Record, frozen=True, kw_only=True):
    """One key of a Secret in the same namespace."""

    name: Annotated[str, documented("Name of the Secret.", example="db-parameters")]
    key: Annotated[str, documented("Key whose value is a JSON object.", example="parameters")]


class OptionalParameterSource(Record, frozen=True, kw_only=True):
    """Where further parameters come from."""

    secret_key_ref: Annotated[ParametersSecretKey | None, documented("The Secret's key.")] = None


class ParameterSource(Record, frozen=True, kw_only=True):
    """Where further parameters come from."""

    secret_key_ref: Annotated[ParametersSecretKey, documented("The Secret's key.")]


class OperandUserInfo(Record, frozen=True, kw_only=True):
    """Who ordered, as the API server knows them. Set by the operand's webhook."""

    username: Annotated[str, documented("Name of the user.")] = ""
    uid: Annotated[str, documented("Identifier of the user that survives renaming.")] = ""
    groups: Annotated[tuple[str, ...], documented("Groups of the user.", list_type="atomic")] = ()
    extra: Annotated[dict[str, tuple[str, ...]], documented("What the authenticator knows beyond that.")] = (
        msgspec.field(default_factory=dict)
    )


class AlphaInstanceSpec(Record, frozen=True, kw_only=True):
    """What is ordered."""

    service_offering_name: Annotated[
        str, documented("The service, as the catalogue names it.", example="xsuaa", min_length=1)
    ]
    service_plan_name: Annotated[str, documented("The plan of the service.", example="application", min_length=1)]
    service_plan_id: Annotated[str, documented("Identifier of the plan, where its name is not unique.")] = (
        msgspec.field(name="servicePlanID", default="")
    )
    external_name: Annotated[
        str, documented("Name of the instance in SAP BTP.", otherwise="the name of this object")
    ] = ""
    shared: Annotated[bool, documented("Whether other environments may use the instance.", otherwise="false")] = False
    custom_tags: Annotated[tuple[str, ...], documented("Tags that are passed on to bindings.")] = ()
    parameters: Annotated[
        FreeForm, documented("Parameters for the service's broker; each service documents its own.")
    ] = msgspec.field(default_factory=dict)
    parameters_from: Annotated[
        tuple[OptionalParameterSource, ...], documented("Further parameters, for those that are secret.")
    ] = ()
    user_info: Annotated[OperandUserInfo | None, documented("Who ordered; set by the operand.")] = None


class InstanceSpec(AlphaInstanceSpec, frozen=True, kw_only=True):
    """What is ordered."""

    parameters_from: Annotated[
        tuple[ParameterSource, ...], documented("Further parameters, for those that are secret.")
    ] = ()  # type: ignore[assignment]  # v1 asks for the reference that v1alpha1 let one forget
    data_center: Annotated[str, documented("Data centre of the instance.", example="cf-eu10")] = ""
    watch_parameters_from_changes: Annotated[
        bool,
        documented(
            f"Update the instance when a Secret of parametersFrom changes; it must carry {api.LIMITED_CACHE_LABEL}.",
            otherwise="false",
        ),
    ] = False
    btp_access_credentials_secret: Annotated[
        str, documented("Secret with SAP Service Manager credentials to use instead of the cluster's.")
    ] = ""


class AlphaInstanceStatus(Record, frozen=True, kw_only=True):
    """What became of the order."""

    conditions: Annotated[
        tuple[Condition, ...],
        documented("Succeeded, Ready, Failed, Shared: how the last operation went.", required=True),
    ] = ()
    instance_id: Annotated[str, documented("Identifier of the instance in SAP Service Manager.")] = msgspec.field(
        name="instanceID", default=""
    )
    operation_url: Annotated[str, documented("Where the running operation is followed.")] = msgspec.field(
        name="operationURL", default=""
    )
    operation_type: Annotated[str, documented("The running operation.", example="CREATE")] = ""
    ready: Annotated[str, documented("Whether the instance can be used.", example="True")] = ""
    observed_generation: Annotated[int, documented("The generation of this object that was acted on last.")] = 0
    tags: Annotated[tuple[str, ...], documented("Tags of the service and of this instance.")] = ()


class InstanceStatus(AlphaInstanceStatus, frozen=True, kw_only=True):
    """What became of the order."""

    hashed_spec: Annotated[str, documented("Fingerprint of the order that was acted on last.")] = ""
    subaccount_id: Annotated[str, documented("The subaccount that the instance belongs to.")] = msgspec.field(
        name="subaccountID", default=""
    )
    force_reconcile: Annotated[
        bool, documented("Whether the instance is to be looked at although nothing changed.")
    ] = False


class CredentialsRotationPolicy(Record, frozen=True, kw_only=True):
    """Whether and how often credentials are replaced."""

    enabled: Annotated[bool, documented("Whether they are.")]
    rotation_frequency: Annotated[str, documented("How often.", unit="Go duration", example="24h")] = ""
    rotated_binding_ttl: Annotated[
        str, documented("How long replaced credentials stay valid.", unit="Go duration", example="48h")
    ] = msgspec.field(name="rotatedBindingTTL", default="")


class AlphaBindingSpec(Record, frozen=True, kw_only=True):
    """Which instance, and how its credentials are delivered."""

    service_instance_name: Annotated[str, documented("The ServiceInstance.", example="db", min_length=1)]
    external_name: Annotated[
        str, documented("Name of the binding in SAP BTP.", otherwise="the name of this object", max_length=100)
    ] = ""
    secret_name: Annotated[str, documented("The Secret to write.", otherwise="the name of this object")] = ""
    secret_key: Annotated[str, documented("Key under which all credentials lie as one JSON object.")] = ""
    secret_root_key: Annotated[
        str, documented("Key under which credentials and instance data lie as one JSON object.")
    ] = ""
    parameters: Annotated[
        FreeForm, documented("Parameters for the service's broker; each service documents its own.")
    ] = msgspec.field(default_factory=dict)
    parameters_from: Annotated[
        tuple[OptionalParameterSource, ...], documented("Further parameters, for those that are secret.")
    ] = ()
    user_info: Annotated[OperandUserInfo | None, documented("Who asked; set by the operand.")] = None
    credentials_rotation_policy: Annotated[
        CredentialsRotationPolicy | None, documented("Replacing credentials from time to time.", otherwise="never")
    ] = None


class BindingSpec(AlphaBindingSpec, frozen=True, kw_only=True):
    """Which instance, and how its credentials are delivered."""

    parameters_from: Annotated[
        tuple[ParameterSource, ...], documented("Further parameters, for those that are secret.")
    ] = ()  # type: ignore[assignment]  # v1 asks for the reference that v1alpha1 let one forget
    service_instance_namespace: Annotated[
        str, documented("Namespace of the ServiceInstance.", otherwise="the namespace of this object")
    ] = ""
    secret_template: Annotated[str, documented("A Go template of the Secret to write, as YAML.", free_form=True)] = ""


class AlphaBindingStatus(Record, frozen=True, kw_only=True):
    """What became of the request."""

    conditions: Annotated[
        tuple[Condition, ...],
        documented("Succeeded, Ready, Failed, CredRotationInProgress: how the last operation went.", required=True),
    ] = ()
    instance_id: Annotated[str, documented("Identifier of the instance in SAP Service Manager.")] = msgspec.field(
        name="instanceID", default=""
    )
    binding_id: Annotated[str, documented("Identifier of the binding in SAP Service Manager.")] = msgspec.field(
        name="bindingID", default=""
    )
    operation_url: Annotated[str, documented("Where the running operation is followed.")] = msgspec.field(
        name="operationURL", default=""
    )
    operation_type: Annotated[str, documented("The running operation.", example="CREATE")] = ""
    ready: Annotated[str, documented("Whether the credentials can be used.", example="True")] = ""
    observed_generation: Annotated[int, documented("The generation of this object that was acted on last.")] = 0
    last_credentials_rotation_time: Annotated[datetime | None, documented("When credentials were last replaced.")] = (
        None
    )


class BindingStatus(AlphaBindingStatus, frozen=True, kw_only=True):
    """What became of the request."""

    async_bind_failed: Annotated[bool, documented("Whether a binding that took its time failed in the end.")] = False
    subaccount_id: Annotated[str, documented("The subaccount that the binding belongs to.")] = msgspec.field(
        name="subaccountID", default=""
    )


class AlphaServiceInstance(Kind, frozen=True, kw_only=True):
    """An instance of a service in SAP BTP."""

    resource: ClassVar[Resource] = Resource(api.SERVICES_GROUP, "v1alpha1", "ServiceInstance", "serviceinstances", True)
    spec: AlphaInstanceSpec | None = None
    status: AlphaInstanceStatus | None = None


class ServiceInstance(Kind, frozen=True, kw_only=True):
    """An instance of a service in SAP BTP."""

    resource: ClassVar[Resource] = Resource(api.SERVICES_GROUP, "v1", "ServiceInstance", "serviceinstances", True)
    spec: InstanceSpec | None = None
    status: InstanceStatus | None = None


class AlphaServiceBinding(Kind, frozen=True, kw_only=True):
    """Access to a ServiceInstance: its credentials, in a Secret."""

    resource: ClassVar[Resource] = Resource(api.SERVICES_GROUP, "v1alpha1", "ServiceBinding", "servicebindings", True)
    spec: AlphaBindingSpec | None = None
    status: AlphaBindingStatus | None = None


class ServiceBinding(Kind, frozen=True, kw_only=True):
    """Access to a ServiceInstance: its credentials, in a Secret."""

    resource: ClassVar[Resource] = Resource(api.SERVICES_GROUP, "v1", "ServiceBinding", "servicebindings", True)
    spec: BindingSpec | None = None
    status: BindingStatus | None = None


_STATUS = PrinterColumn(name="Status", path=".status.conditions[0].reason")
_READY = PrinterColumn(name="Ready", path=".status.ready")
_MESSAGE = PrinterColumn(name="Message", path=".status.conditions[0].message", priority=1)
_OFFERING = PrinterColumn(name="Offering", path=".spec.serviceOfferingName")
_PLAN = PrinterColumn(name="Plan", path=".spec.servicePlanName")
_SHARED = PrinterColumn(name="shared", path=".spec.shared", type="boolean")
_DATA_CENTER = PrinterColumn(name="dataCenter", path=".spec.dataCenter")
_INSTANCE_ID = PrinterColumn(name="ID", path=".status.instanceID", priority=1)

_INSTANCE_STATE = (_STATUS, _READY, AGE, _INSTANCE_ID, _MESSAGE)

_BINDING_COLUMNS = (
    PrinterColumn(name="Instance", path=".spec.serviceInstanceName"),
    _STATUS,
    _READY,
    AGE,
    PrinterColumn(name="ID", path=".status.bindingID", priority=1),
    _MESSAGE,
)

SERVICE_INSTANCES = Definition(
    versions=(
        Version(kind=ServiceInstance, columns=(_OFFERING, _PLAN, _SHARED, _DATA_CENTER, *_INSTANCE_STATE)),
        Version(kind=AlphaServiceInstance, columns=(_OFFERING, _PLAN, *_INSTANCE_STATE)),
    )
)

SERVICE_BINDINGS = Definition(
    versions=(
        Version(kind=ServiceBinding, columns=_BINDING_COLUMNS),
        Version(kind=AlphaServiceBinding, columns=_BINDING_COLUMNS),
    )
)
