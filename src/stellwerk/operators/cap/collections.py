"""What the passes of the CAP Operator may read and write, and by what it is found."""

from __future__ import annotations

from collections.abc import Iterable

from stellwerk.api.batch import Job
from stellwerk.api.core import Secret
from stellwerk.api.istio import VirtualService
from stellwerk.apply.set.model.confirmation import Live, live_view
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import HasMetadata, PartialObjectMetadata, metadata_of
from stellwerk.kube.types.object_meta import Condition, ObjectMeta
from stellwerk.operators.cap import duplicates, names
from stellwerk.operators.cap.kinds.application import ApplicationStatus, CAPApplication
from stellwerk.operators.cap.kinds.domain import ClusterDomain, Domain
from stellwerk.operators.cap.kinds.status import READY
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOperation, CAPTenantOutput
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion, VersionStatus
from stellwerk.operators.cap.routing import claims
from stellwerk.runtime import conditions
from stellwerk.runtime.reading.questions import Collection, Index
from stellwerk.runtime.reading.view import with_status

APPLICATIONS = Collection(CAPApplication)
VERSIONS = Collection(CAPApplicationVersion)
TENANTS = Collection(CAPTenant)
OPERATIONS = Collection(CAPTenantOperation)
OUTPUTS: Collection[PartialObjectMetadata] = Collection(metadata_of(CAPTenantOutput), labels=names.TENANT_ID_LABEL)
DOMAINS = Collection(Domain)
CLUSTER_DOMAINS = Collection(ClusterDomain)
ROUTES: Collection[Live] = Collection(live_view(VirtualService.resource), labels=names.OWNER_HASH_LABEL, optional=True)
JOBS = Collection(Job, labels=names.OPERATION_TYPE_LABEL)
"""The Jobs of operations."""
CREDENTIALS: Collection[PartialObjectMetadata] = Collection(metadata_of(Secret), labels=names.SECRET_OWNER_HASH_LABEL)
"""The Secrets with the credentials of workloads."""
BINDINGS: Collection[PartialObjectMetadata] = Collection(metadata_of(Secret))
"""All Secrets of a namespace with applications: each such namespace has a watch of its own."""

ALL = (APPLICATIONS, VERSIONS, TENANTS, OPERATIONS, OUTPUTS, DOMAINS, CLUSTER_DOMAINS, ROUTES, JOBS, CREDENTIALS)


_NO_STATUS = ApplicationStatus()
_READY, _NOT_READY = VersionStatus(conditions=(Condition(type=READY, status="True"),)), VersionStatus()


def as_asked(application: CAPApplication) -> CAPApplication:
    """An application without its status, which changes with each of its tenants."""
    return with_status(application, _NO_STATUS)


def offer(version: CAPApplicationVersion) -> CAPApplicationVersion:
    """A version, and of its status only whether it is Ready."""
    is_ready = conditions.is_true(version.status.conditions, READY)
    return with_status(version, _READY if is_ready else _NOT_READY)


def name_of(obj: HasMetadata) -> str:
    """The name of an object, for messages."""
    return obj.metadata.name


def controller_uid(obj: HasMetadata) -> Iterable[str]:
    """For an index: the uid of the object's controller; nothing if it has none."""
    controller = obj.metadata.controller
    return () if controller is None else (controller.uid,)


def _application_of(version: ObjectMeta) -> Iterable[str] | None:
    """The application of a version of which only the metadata can be read: its owner; any if it has none so far."""
    owner = version.controller
    return None if owner is None else (str(ObjectKey(version.namespace, owner.name)),)


def _owner_of(metadata: ObjectMeta) -> Iterable[str]:
    return () if metadata.controller is None else (metadata.controller.uid,)


def _id_of(metadata: ObjectMeta) -> Iterable[str] | None:
    """The id of a tenant of which only the metadata can be read; any if it has no label so far."""
    id = metadata.labels.get(names.TENANT_ID_LABEL)
    return None if id is None else (f"{metadata.namespace}/{id}",)


def _mark_of(metadata: ObjectMeta) -> Iterable[str]:
    return (metadata.labels.get(names.SECRET_OWNER_HASH_LABEL, ""),)


APPLICATIONS_IN = Index(APPLICATIONS, "namespace", lambda each: (each.metadata.namespace,))
VERSIONS_IN = Index(VERSIONS, "namespace", lambda each: (each.metadata.namespace,))
VERSIONS_OF = Index(VERSIONS, "application", lambda each: (str(each.application_key),), _application_of)
OPERATIONS_OF = Index(OPERATIONS, "owner", controller_uid, _owner_of)
JOBS_OF = Index(JOBS, "owner", controller_uid, _owner_of)
CREDENTIALS_OF = Index(CREDENTIALS, "owner and workload", lambda each: _mark_of(each.metadata), _mark_of)
OUTPUTS_OF = Index(OUTPUTS, "tenant id", lambda each: _id_of(each.metadata) or (), lambda each: _id_of(each) or ())
TENANTS_OF_ID = Index(TENANTS, "tenant id of the spec", duplicates.by_tenant_id, _id_of)
ROUTES_OF_HOST = Index(ROUTES, "host", claims.hosts_of)
