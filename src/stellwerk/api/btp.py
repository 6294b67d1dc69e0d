"""The kinds of the SAP BTP service operator (services.cloud.sap.com/v1), as far as other operators read them."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import Kind
from stellwerk.kube.types.object_meta import Condition, Record

GROUP = "services.cloud.sap.com"


class ServiceInstanceSpec(Record, frozen=True, kw_only=True):
    """The service that is wanted. `btp_access_credentials_secret` names the credentials that reach it."""

    service_offering_name: str = ""
    service_plan_name: str = ""
    external_name: str = ""
    btp_access_credentials_secret: str = ""


class ServiceInstanceStatus(Record, frozen=True, kw_only=True):
    """How far the broker is. `ready` is the text True or False."""

    ready: str = ""
    instance_id: str = msgspec.field(name="instanceID", default="")
    conditions: tuple[Condition, ...] = ()


class ServiceInstance(Kind, frozen=True, kw_only=True):
    """An instance of a service of SAP BTP."""

    resource: ClassVar[Resource] = Resource(GROUP, "v1", "ServiceInstance", "serviceinstances", namespaced=True)

    spec: ServiceInstanceSpec = ServiceInstanceSpec()
    status: ServiceInstanceStatus = ServiceInstanceStatus()


class ServiceBindingSpec(Record, frozen=True, kw_only=True):
    """Which instance, and the Secret that is to hold the way in."""

    service_instance_name: str = ""
    external_name: str = ""
    secret_name: str = ""


class ServiceBindingStatus(Record, frozen=True, kw_only=True):
    """How far the broker is."""

    ready: str = ""
    binding_id: str = msgspec.field(name="bindingID", default="")
    conditions: tuple[Condition, ...] = ()


class ServiceBinding(Kind, frozen=True, kw_only=True):
    """A way into a service instance."""

    resource: ClassVar[Resource] = Resource(GROUP, "v1", "ServiceBinding", "servicebindings", namespaced=True)

    spec: ServiceBindingSpec = ServiceBindingSpec()
    status: ServiceBindingStatus = ServiceBindingStatus()
