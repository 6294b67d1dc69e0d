"""What the CAP Operator watches, and which objects a change wakes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from stellwerk.api.apps import Deployment
from stellwerk.api.batch import Job
from stellwerk.api.core import Secret
from stellwerk.api.istio import DestinationRule, VirtualService
from stellwerk.api.networking import NetworkPolicy
from stellwerk.apply.set.model.confirmation import Live, live_view
from stellwerk.delivery.children import controller_uid
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import PartialObjectMetadata, metadata_of
from stellwerk.operators.cap import names
from stellwerk.operators.cap.api_application import CAPApplication, DomainKind, DomainRef
from stellwerk.operators.cap.api_domain import ClusterDomain, Domain
from stellwerk.operators.cap.api_tenant import CAPTenant, CAPTenantOperation, CAPTenantOutput
from stellwerk.operators.cap.api_version import CAPApplicationVersion
from stellwerk.operators.cap.domain import naming
from stellwerk.operators.cap.domain.naming import AnyDomain
from stellwerk.operators.cap.domain.watches import BY_DOMAIN
from stellwerk.operators.cap.version.resources import KINDS as VERSION_KINDS
from stellwerk.runtime.cache.informer import Delta, Informer
from stellwerk.runtime.process.manager import Manager

BY_OWNER = "owner"
"""Index: the uid of the controller."""

BY_APPLICATION = "application"
"""Index of tenants and versions: namespace and name of the CAPApplication."""

BY_SECRET = "secret"  # noqa: S105  # an index
"""Index of applications: namespace and name of the Secrets of their services."""

BY_TENANT_ID = "tenant id"
"""Index of outputs of tenants: namespace and tenant id."""

BY_VERSION = "version"
"""Index of operations: namespace and name of the CAPApplicationVersion."""


@dataclass(frozen=True, slots=True)
class Caches:
    """The caches of one process."""

    manager: Manager
    applications: Informer[CAPApplication]
    versions: Informer[CAPApplicationVersion]
    tenants: Informer[CAPTenant]
    operations: Informer[CAPTenantOperation]
    outputs: Informer[PartialObjectMetadata]
    """What Jobs add to the answers to subscriptions, as metadata."""
    domains: Informer[Domain]
    cluster_domains: Informer[ClusterDomain]
    virtual_services: Informer[Live]
    jobs: Informer[Job]
    """The Jobs of operations."""
    content_jobs: Informer[Job]
    """The Jobs of versions."""
    deployments: Informer[Deployment]
    version_objects: Mapping[Resource, Informer[PartialObjectMetadata]]
    """The further objects of versions, by their kind, as metadata."""
    credentials: Informer[PartialObjectMetadata]
    """The Secrets with the credentials of workloads."""
    _secrets: dict[str, Informer[PartialObjectMetadata]] = field(default_factory=dict)
    _wakes: list[Callable[[ObjectKey], None]] = field(default_factory=list)

    def domain(self, namespace: str, reference: DomainRef) -> AnyDomain | None:
        """The domain of a reference in a namespace."""
        if reference.kind == DomainKind.CLUSTER_DOMAIN:
            return self.cluster_domains.store.get(ObjectKey("", reference.name))
        return self.domains.store.get(ObjectKey(namespace, reference.name))

    def secrets(self, namespace: str) -> Informer[PartialObjectMetadata]:
        """All Secrets of a namespace, as metadata; watched from the first call on."""
        if namespace not in self._secrets:
            made = self._secrets[namespace] = self.manager.informer(metadata_of(Secret), namespace=namespace)
            made.on_change(self._on_secret)
        return self._secrets[namespace]

    def _on_secret(self, delta: Delta[PartialObjectMetadata]) -> None:
        for wake in self._wakes:
            wake(delta.key)

    def on_secret(self, wake: Callable[[ObjectKey], None]) -> None:
        """Call this for each change of a Secret of the watched namespaces."""
        self._wakes.append(wake)


def caches(manager: Manager) -> Caches:
    """Open the caches and their indices."""
    found = Caches(
        manager,
        manager.informer(CAPApplication, required=True),
        manager.informer(CAPApplicationVersion, required=True),
        manager.informer(CAPTenant, required=True),
        manager.informer(CAPTenantOperation, required=True),
        manager.informer(metadata_of(CAPTenantOutput), labels=names.TENANT_ID_LABEL, required=True),
        manager.informer(Domain, required=True),
        manager.informer(ClusterDomain, required=True),
        manager.informer(live_view(VirtualService.resource), labels=names.OWNER_HASH_LABEL),
        manager.informer(Job, labels=names.OPERATION_TYPE_LABEL, required=True),
        manager.informer(Job, labels=f"{names.OWNER_HASH_LABEL},!{names.OPERATION_TYPE_LABEL}", required=True),
        manager.informer(Deployment, labels=names.OWNER_HASH_LABEL, required=True),
        {kind: manager.informer(metadata_of(kind), labels=_label_of(kind)) for kind in VERSION_KINDS},
        manager.informer(metadata_of(Secret), labels=names.SECRET_OWNER_HASH_LABEL, required=True),
    )
    found.applications.store.add_index(BY_DOMAIN, naming.referenced_by)
    found.applications.store.add_index(BY_SECRET, _secrets_of)
    for informer in (found.jobs, found.content_jobs, found.deployments):
        informer.store.add_index(BY_OWNER, controller_uid)
    found.virtual_services.store.add_index(BY_OWNER, controller_uid)
    found.outputs.store.add_index(BY_TENANT_ID, _tenant_id)
    found.operations.store.add_index(BY_OWNER, controller_uid)
    found.operations.store.add_index(BY_VERSION, lambda each: [f"{each.metadata.namespace}/{each.spec.version_name}"])
    found.tenants.store.add_index(
        BY_APPLICATION, lambda each: [f"{each.metadata.namespace}/{each.spec.cap_application_instance}"]
    )
    found.versions.store.add_index(BY_APPLICATION, lambda each: [f"{each.metadata.namespace}/{each.spec.application}"])
    return found


def _label_of(kind: Resource) -> str:
    """The label of all objects of versions, for the kinds whose objects have one in the original, too."""
    return "" if kind in (NetworkPolicy.resource, DestinationRule.resource) else names.OWNER_HASH_LABEL


def _secrets_of(application: CAPApplication) -> Sequence[str]:
    namespace = application.metadata.namespace
    return [f"{namespace}/{name}" for name in {service.secret for service in application.spec.btp.services}]


def _tenant_id(output: PartialObjectMetadata) -> Sequence[str]:
    metadata = output.metadata
    return (f"{metadata.namespace}/{metadata.labels.get(names.TENANT_ID_LABEL, '')}",)
