"""What the passes of the CAP Operator may read and write, and by what it is found."""

from __future__ import annotations

from collections.abc import Iterable

from stellwerk.api.istio import VirtualService
from stellwerk.apply.set.model.confirmation import Live, live_view
from stellwerk.delivery.children import controller_uid
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import PartialObjectMetadata, metadata_of
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.cap import duplicates, names
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.domain import ClusterDomain, Domain
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOperation, CAPTenantOutput
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.routing import claims
from stellwerk.runtime.reading.questions import Collection, Index

APPLICATIONS = Collection(CAPApplication)
VERSIONS = Collection(CAPApplicationVersion)
TENANTS = Collection(CAPTenant)
OPERATIONS = Collection(CAPTenantOperation)
OUTPUTS: Collection[PartialObjectMetadata] = Collection(metadata_of(CAPTenantOutput), labels=names.TENANT_ID_LABEL)
DOMAINS = Collection(Domain)
CLUSTER_DOMAINS = Collection(ClusterDomain)
ROUTES: Collection[Live] = Collection(live_view(VirtualService.resource), labels=names.OWNER_HASH_LABEL, optional=True)

ALL = (APPLICATIONS, VERSIONS, TENANTS, OPERATIONS, OUTPUTS, DOMAINS, CLUSTER_DOMAINS, ROUTES)


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


APPLICATIONS_IN = Index(APPLICATIONS, "namespace", lambda each: (each.metadata.namespace,))
VERSIONS_OF = Index(VERSIONS, "application", lambda each: (str(each.application_key),), _application_of)
OPERATIONS_OF = Index(OPERATIONS, "owner", controller_uid, _owner_of)
OUTPUTS_OF = Index(OUTPUTS, "tenant id", lambda each: _id_of(each.metadata) or (), lambda each: _id_of(each) or ())
TENANTS_OF_ID = Index(TENANTS, "tenant id of the spec", duplicates.by_tenant_id, _id_of)
ROUTES_OF_HOST = Index(ROUTES, "host", claims.hosts_of)
