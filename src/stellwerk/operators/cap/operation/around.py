"""What is around an operation: each part is asked for when it matters, and wakes the operation from then on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from stellwerk.api.batch import Job
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import PartialObjectMetadata
from stellwerk.operators.cap import names
from stellwerk.operators.cap.collections import (
    APPLICATIONS,
    JOBS_OF,
    OPERATIONS_OF,
    TENANTS,
    TENANTS_OF_ID,
    VERSIONS,
    as_asked,
    offer,
)
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.tenant import (
    CAPTenant,
    CAPTenantOperation,
    OperationStatus,
    TenantState,
    TenantStatus,
)
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.runtime.reading.known import Absent, Known, Present, Unknown
from stellwerk.runtime.reading.view import View, with_status

_NO_STATUS = OperationStatus()


def as_operated(tenant: CAPTenant) -> CAPTenant:
    """A tenant, and of its status its version, and whether it is Ready with its specification as it is now."""
    status = tenant.status
    is_settled = status.state == TenantState.READY and status.observed_generation == tenant.metadata.generation
    state = TenantState.READY if is_settled else TenantState.UNKNOWN
    return with_status(tenant, TenantStatus(state=state, current_version=status.current_version))


def former_identity(application: CAPApplication) -> Sequence[str]:
    """The labels and annotations that objects of the application give up."""
    return names.former_identity(application.spec)


def sibling(operation: CAPTenantOperation) -> CAPTenantOperation:
    """An operation of the same tenant, without its status."""
    return with_status(operation, _NO_STATUS)


def trial(job: Job) -> Job:
    """A Job, and of its status only whether and how it has ended."""
    return with_status(job, msgspec.structs.replace(job.status, active=0, succeeded=0, failed=0))


def content_version(secret: PartialObjectMetadata) -> str:
    """By which a Secret is read again: any change of it may be one of its content."""
    return secret.metadata.resource_version


@dataclass(frozen=True, slots=True)
class OperationContext:
    """What is around an operation. Each part is asked for when it matters."""

    operation: CAPTenantOperation
    view: View

    @property
    def known_tenant(self) -> Known[CAPTenant]:
        """The tenant that controls the operation; for one without a controller, the tenant with its id.

        Applications of one namespace may have the same subscriber, so the application must be that of the version.
        """
        namespace, controller = self.operation.metadata.namespace, self.operation.metadata.controller
        if controller is not None:
            found = self.view.get(TENANTS, ObjectKey(namespace, controller.name), as_operated)
            is_another = isinstance(found, Present) and found.value.metadata.uid != controller.uid
            return Absent() if is_another else found
        if not isinstance(version := self.known_version, Present):
            return version
        listing = self.view.by(TENANTS_OF_ID, f"{namespace}/{self.operation.spec.tenant_id}", as_operated)
        application = version.value.application_key
        tenant = next((each for each in listing.values if each.application_key == application), None)
        if tenant is not None:
            return Present(tenant)
        return Unknown(f"{listing.unknown[0].ref} cannot be read") if listing.unknown else Absent()

    @property
    def tenant(self) -> CAPTenant | None:
        """The tenant, as far as it can be read."""
        found = self.known_tenant
        return found.value if isinstance(found, Present) else None

    @property
    def siblings(self) -> Sequence[CAPTenantOperation]:
        """The operations that the tenant controls. One that cannot be read keeps the tenant from going on, too."""
        tenant = self.tenant
        return self.view.by(OPERATIONS_OF, tenant.metadata.uid, sibling).values if tenant is not None else ()

    @property
    def known_application(self) -> Known[CAPApplication]:
        """The application of the tenant."""
        tenant = self.tenant
        return self.view.get(APPLICATIONS, tenant.application_key, as_asked) if tenant is not None else Absent()

    @property
    def application(self) -> CAPApplication | None:
        """The application, as far as it can be read."""
        found = self.known_application
        return found.value if isinstance(found, Present) else None

    @property
    def version_key(self) -> ObjectKey:
        """The key of the version."""
        return ObjectKey(self.operation.metadata.namespace, self.operation.spec.version_name)

    @property
    def known_version(self) -> Known[CAPApplicationVersion]:
        """The version that has the Jobs of the operation."""
        return self.view.get(VERSIONS, self.version_key, offer)

    @property
    def version(self) -> CAPApplicationVersion | None:
        """The version, as far as it can be read."""
        found = self.known_version
        return found.value if isinstance(found, Present) else None

    @property
    def jobs(self) -> Sequence[Job]:
        """The Jobs that the operation controls. Raises NotKnown: a step must not run twice."""
        return self.view.all(JOBS_OF, self.operation.metadata.uid, trial)

    @property
    def has_running_job(self) -> bool:
        """Whether a Job of the operation has not ended."""
        return not all(job.has_ended for job in self.jobs)
