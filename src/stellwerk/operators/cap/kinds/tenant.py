"""CAPTenant, CAPTenantOperation and CAPTenantOutput: a tenant of an application, and what is done to it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, ClassVar

import msgspec

from stellwerk.kube.schema.crd import documented
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import Kind
from stellwerk.kube.types.object_meta import Record, always_written
from stellwerk.operators.cap.kinds.status import (
    API_VERSION,
    GROUP,
    READY,
    HandledRetry,
    ReconciledStatus,
    RetryProgress,
    TimedStatus,
    see_why,
)
from stellwerk.runtime import conditions

# ---- CAPTenant


class TenantState(StrEnum):
    """The state of a CAPTenant."""

    UNKNOWN = ""
    READY = "Ready"
    PROVISIONING = "Provisioning"
    UPGRADING = "Upgrading"
    DELETING = "Deleting"
    PROVISIONING_ERROR = "ProvisioningError"
    UPGRADE_ERROR = "UpgradeError"


FAILED_STATES = (TenantState.PROVISIONING_ERROR, TenantState.UPGRADE_ERROR)
"""Those of a tenant whose last operation has failed. A deprovisioning that failed leaves the state Deleting."""


class UpgradeStrategy(StrEnum):
    """Whether a tenant follows new versions."""

    ALWAYS = "always"
    NEVER = "never"


class TenantSpec(Record, frozen=True, kw_only=True):
    """What is wanted of a tenant."""

    cap_application_instance: Annotated[
        str, documented("CAPApplication of the same namespace that the tenant belongs to.", example="bookshop")
    ]
    sub_domain: Annotated[str, documented("Subdomain under which the tenant reaches the application.", example="acme")]
    tenant_id: Annotated[
        str, documented("Tenant id of the subscriber.", example="1d6f5a0e-6f2d-4a57-8a1c-9b2b5c1d7e3f")
    ]
    version: Annotated[str, documented("Version of the application that the tenant should have.", example="2.1.0")] = ""
    version_upgrade_strategy: Annotated[
        str,
        documented(
            "Whether the operator moves the tenant to each new version.",
            otherwise="always",
            values=tuple(UpgradeStrategy),
            example="never",
        ),
    ] = ""


class TenantStatus(TimedStatus, frozen=True, kw_only=True):
    """How a tenant is. Written by the operator only."""

    state: Annotated[
        str,
        documented(
            "Ready: the tenant can be used. Provisioning, Upgrading and Deleting: an operation is under way. "
            "ProvisioningError and UpgradeError: the last operation failed.",
            values=tuple(TenantState),
            example="Ready",
        ),
    ] = always_written()
    current_version: Annotated[
        str, documented("CAPApplicationVersion that the tenant uses.", example="bookshop-v2")
    ] = msgspec.field(name="currentCAPApplicationVersionInstance", default="")
    previous_versions: Annotated[
        tuple[str, ...], documented("CAPApplicationVersions that it used before, the oldest first.")
    ] = msgspec.field(name="previousCAPApplicationVersions", default=())
    last_handled_retry: HandledRetry = ""


class CAPTenant(Kind, frozen=True, kw_only=True):
    """A tenant of a CAP application: its provider, or a subscriber."""

    resource: ClassVar[Resource] = Resource(GROUP, API_VERSION, "CAPTenant", "captenants", namespaced=True)

    spec: Annotated[TenantSpec, documented("What is wanted.")]
    status: Annotated[TenantStatus, documented("How it is.")] = TenantStatus()

    @property
    def application_key(self) -> ObjectKey:
        """The application that it belongs to."""
        return ObjectKey(self.metadata.namespace, self.spec.cap_application_instance)


def hidden_message(tenants: Sequence[ObjectKey]) -> str:
    """Why a deletion waits: tenants that cannot be read may need what is deleted."""
    return (
        "waiting for tenants that cannot be read, because they may belong to it: "
        f"{conditions.first_of(tenants)}; {see_why('cat', tenants[0])}"
    )


# ---- CAPTenantOperation


class Operation(StrEnum):
    """What is done to a tenant."""

    PROVISIONING = "provisioning"
    DEPROVISIONING = "deprovisioning"
    UPGRADE = "upgrade"


class OperationState(StrEnum):
    """The state of a CAPTenantOperation."""

    UNKNOWN = ""
    PROCESSING = "Processing"
    COMPLETED = "Completed"
    FAILED = "Failed"
    DELETING = "Deleting"


class StepType(StrEnum):
    """The types of Jobs that are steps of an operation."""

    TENANT_OPERATION = "TenantOperation"
    CUSTOM_TENANT_OPERATION = "CustomTenantOperation"


class OperationStep(Record, frozen=True, kw_only=True):
    """One Job of an operation."""

    name: Annotated[str, documented("Workload of the version that the Job is made from.", example="mtxs")]
    type: Annotated[str, documented("Type of the workload.", values=tuple(StepType), example="TenantOperation")]
    continue_on_failure: Annotated[
        bool, documented("Whether the operation goes on when the Job fails.", otherwise="false")
    ] = False


class OperationSpec(Record, frozen=True, kw_only=True):
    """What is to be done to a tenant."""

    operation: Annotated[str, documented("What is done.", values=tuple(Operation), example="upgrade")]
    sub_domain: Annotated[str, documented("Subdomain of the tenant.", example="acme")]
    tenant_id: Annotated[
        str, documented("Tenant id of the subscriber.", example="1d6f5a0e-6f2d-4a57-8a1c-9b2b5c1d7e3f")
    ]
    version_name: Annotated[
        str, documented("CAPApplicationVersion whose workloads are used.", example="bookshop-v2")
    ] = msgspec.field(name="capApplicationVersionInstance")
    steps: Annotated[tuple[OperationStep, ...], documented("The Jobs, one after the other.")]


class OperationStatus(ReconciledStatus, frozen=True, kw_only=True):
    """How far an operation is. Written by the operator only. Ready=True means that it has ended, well or not."""

    state: Annotated[
        str,
        documented(
            "Processing and Deleting: the operation is under way. Completed: it has ended well. Failed: a step failed.",
            values=tuple(OperationState),
            example="Completed",
        ),
    ] = always_written()
    current_step: Annotated[
        int | None, documented("Number of the step that is under way, from 1.", format="int32", example="1")
    ] = None
    active_job: Annotated[str, documented("Job of that step.", example="acme-mtxs-1")] = ""
    failed_step: Annotated[
        int | None, documented("Number of the step that failed; a retry begins with it.", format="int32", example="1")
    ] = None
    retry: Annotated[RetryProgress | None, documented("The retry of the step, where it was tried more than once.")] = (
        None
    )
    last_handled_retry: HandledRetry = ""


class CAPTenantOperation(Kind, frozen=True, kw_only=True):
    """An operation on a tenant, as Jobs that run one after the other. Created by the operator."""

    resource: ClassVar[Resource] = Resource(
        GROUP, API_VERSION, "CAPTenantOperation", "captenantoperations", namespaced=True
    )

    spec: Annotated[OperationSpec, documented("What is to be done.")]
    status: Annotated[OperationStatus, documented("How far it is.")] = OperationStatus()

    @property
    def has_ended(self) -> bool:
        """Whether it has ended, well or not."""
        return conditions.is_true(self.status.conditions, READY)


# ---- CAPTenantOutput


class OutputSpec(Record, frozen=True, kw_only=True):
    """What the Jobs of a tenant hand to its subscription."""

    subscription_callback_data: Annotated[
        str, documented("A JSON object that is added to the answer to the subscription.", example='{"key": "value"}')
    ] = ""


class CAPTenantOutput(Kind, frozen=True, kw_only=True):
    """Data that a Job of a tenant adds to the answer to the subscription. A label with the tenant id links them."""

    resource: ClassVar[Resource] = Resource(GROUP, API_VERSION, "CAPTenantOutput", "captenantoutputs", namespaced=True)

    spec: Annotated[OutputSpec, documented("The data.", required=False)] = OutputSpec()
