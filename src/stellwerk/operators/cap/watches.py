"""What the CAP Operator watches, and which objects a change wakes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from stellwerk.api.apps import Deployment
from stellwerk.api.batch import Job
from stellwerk.api.core import Secret, Service
from stellwerk.api.istio import DestinationRule, VirtualService
from stellwerk.api.networking import NetworkPolicy
from stellwerk.api.prometheus_operator import ServiceMonitor
from stellwerk.apply.set.model.confirmation import Live, live_view
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import HasMetadata, PartialObjectMetadata, Unreadable, metadata_of
from stellwerk.operators.cap import names
from stellwerk.operators.cap.collections import VERSIONS_OF, controller_uid
from stellwerk.operators.cap.domain import naming
from stellwerk.operators.cap.domain.naming import AnyDomain
from stellwerk.operators.cap.domain.watches import BY_DOMAIN
from stellwerk.operators.cap.kinds.application import CAPApplication, DomainKind, DomainRef
from stellwerk.operators.cap.kinds.bounds import MOST_SERVICES
from stellwerk.operators.cap.kinds.domain import ClusterDomain, Domain
from stellwerk.operators.cap.kinds.status import READY
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOperation, CAPTenantOutput
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion, VersionState, is_offered, may_be_of
from stellwerk.operators.cap.routing import claims
from stellwerk.runtime import conditions
from stellwerk.runtime.cache.informer import Delta, Informer
from stellwerk.runtime.control.controller import Controller, only_status_changed
from stellwerk.runtime.control.queue import Priority
from stellwerk.runtime.process.manager import Manager

AUTOSCALER = Resource("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", namespaced=True)
BUDGET = Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", namespaced=True)

VERSION_KINDS: Sequence[Resource] = (
    Service.resource,
    AUTOSCALER,
    BUDGET,
    NetworkPolicy.resource,
    DestinationRule.resource,
    ServiceMonitor.resource,
)
"""The kinds of objects of a version besides Deployments and Jobs."""

_OPTIONAL_KINDS = (DestinationRule.resource, ServiceMonitor.resource)

K = TypeVar("K", CAPApplication, CAPApplicationVersion, CAPTenant, CAPTenantOperation)

BY_OWNER = "owner"
"""Index: the uid of the controller."""

BY_APPLICATION = "application"
"""Index of tenants and versions: namespace and name of the CAPApplication."""

BY_SECRET = "secret"  # noqa: S105  # an index
"""Index of applications: namespace and name of the Secrets of their services, and of the payload of their provider."""

BY_FINALIZER = "finalizer"
"""Index of the Secrets of a namespace: their finalizers. An application is looked at often, and has many of them."""

BY_HOST = "host"
"""Index of VirtualServices: their hosts."""

BY_FIRST_LABEL = "first label"
"""Index of versions: what the hosts of their subdomains begin with."""

BY_VERSION = "version"
"""Index of operations: namespace and name of the CAPApplicationVersion."""


class Caches:
    """The caches of one process, with their indices."""

    def __init__(self, manager: Manager) -> None:
        """Open them."""
        self.manager = manager
        self.applications = manager.informer(CAPApplication, required=True)
        self.versions = manager.informer(CAPApplicationVersion, required=True)
        self.tenants = manager.informer(CAPTenant, required=True)
        self.operations = manager.informer(CAPTenantOperation, required=True)
        self.outputs = manager.informer(metadata_of(CAPTenantOutput), labels=names.TENANT_ID_LABEL, required=True)
        """What Jobs add to the answers to subscriptions, as metadata."""
        self.domains = manager.informer(Domain, required=True)
        self.cluster_domains = manager.informer(ClusterDomain, required=True)
        self.virtual_services = manager.informer(
            live_view(VirtualService.resource), labels=names.OWNER_HASH_LABEL, optional=True
        )
        """Those with the label of an owner."""
        self.jobs = manager.informer(Job, labels=names.OPERATION_TYPE_LABEL, required=True)
        """The Jobs of operations."""
        of_versions = f"{names.OWNER_HASH_LABEL},!{names.OPERATION_TYPE_LABEL}"
        self.content_jobs = manager.informer(Job, labels=of_versions, required=True)
        """The Jobs of versions."""
        self.deployments = manager.informer(Deployment, labels=names.OWNER_HASH_LABEL, required=True)
        self.version_objects: Mapping[Resource, Informer[PartialObjectMetadata]] = {
            kind: manager.informer(metadata_of(kind), labels=_label_of(kind), optional=kind in _OPTIONAL_KINDS)
            for kind in VERSION_KINDS
        }
        """The further objects of versions as metadata, by their kind."""
        self.credentials = manager.informer(metadata_of(Secret), labels=names.SECRET_OWNER_HASH_LABEL, required=True)
        """The Secrets with the credentials of workloads, as metadata."""
        self._secrets: dict[str, Informer[PartialObjectMetadata]] = {}
        """Those of each namespace, as metadata: see `secrets`."""
        self._wakes: list[Callable[[ObjectKey], None]] = []
        """What is called with each application of whose Secrets one has changed."""

        self.applications.on_change(self.on_application)
        self.applications.store.add_index(BY_DOMAIN, naming.referenced_by)
        self.applications.store.add_index(BY_SECRET, _secrets_of)
        for informer in (self.jobs, self.content_jobs, self.deployments):
            informer.store.add_index(BY_OWNER, controller_uid)
        self.virtual_services.store.add_index(BY_OWNER, controller_uid)
        self.virtual_services.store.add_index(BY_HOST, claims.hosts_of)
        self.operations.store.add_index(BY_OWNER, controller_uid)
        self.operations.store.add_index(
            BY_VERSION, lambda each: [f"{each.metadata.namespace}/{each.spec.version_name}"]
        )
        self.tenants.store.add_index(BY_APPLICATION, lambda each: [str(each.application_key)])
        self.versions.store.add_index(BY_APPLICATION, VERSIONS_OF.of)
        self.versions.store.add_index(BY_FIRST_LABEL, _first_labels)

    def domain(self, namespace: str, reference: DomainRef) -> AnyDomain | None:
        """The domain of a reference in a namespace; None for one that does not serve the namespace."""
        if reference.kind == DomainKind.CLUSTER_DOMAIN:
            found = self.cluster_domains.store.get(ObjectKey("", reference.name))
            return found if found is not None and naming.serves(found, namespace) else None
        return self.domains.store.get(ObjectKey(namespace, reference.name))

    def offered_domains(self, namespace: str) -> Sequence[DomainRef]:
        """The domains that applications of a namespace may refer to."""
        return naming.offered(namespace, self.domains.store.all(), self.cluster_domains.store.all())

    def is_hidden(self, namespace: str, reference: DomainRef) -> bool:
        """Whether the domain of a reference exists and could not be read since the process started."""
        if reference.kind == DomainKind.CLUSTER_DOMAIN:
            return ObjectKey("", reference.name) in self.cluster_domains.hidden
        return ObjectKey(namespace, reference.name) in self.domains.hidden

    def hidden_tenants(self, namespace: str) -> Sequence[ObjectKey]:
        """The tenants of a namespace that exist and could not be read since the process started."""
        return [key for key in self.tenants.hidden if key.namespace == namespace]

    @property
    def unseen_tenants(self) -> str:
        """Why there may be tenants that the cache does not hold, in a sentence; empty where it holds all.

        Where the kind is not served any more there are none besides those that the cache has held.
        """
        tenants, parked = self.tenants, self.tenants.parked
        if parked is not None and not (parked.is_not_served and tenants.is_filled):
            return f"CAPTenants cannot be watched: {parked.why}"
        return "" if tenants.is_filled else "CAPTenants are not listed yet"

    def hidden_versions(self, application: ObjectKey) -> Sequence[ObjectKey]:
        """The versions that exist, could not be read since the process started, and may be of an application."""
        found = self.versions
        return [key for key in found.hidden if may_be_of(application, found.unreadable[key].metadata)]

    def unreadable_tenants(self, namespace: str) -> Sequence[ObjectKey]:
        """The tenants of a namespace that exist and cannot be read now: any version may be the one that they use."""
        return [key for key in self.tenants.unreadable if key.namespace == namespace]

    def secrets(self, namespace: str) -> Informer[PartialObjectMetadata]:
        """All Secrets of a namespace, as metadata; watched from the first call until the last application is gone."""
        if namespace not in self._secrets:
            made = self._secrets[namespace] = self.manager.informer(metadata_of(Secret), namespace=namespace)
            made.store.add_index(BY_FINALIZER, lambda secret: secret.metadata.finalizers)
            made.on_change(self._on_secret)
            made.on_served(lambda: self._on_secrets(namespace))
        return self._secrets[namespace]

    def on_application(self, delta: Delta[CAPApplication]) -> None:
        """The Secrets of a namespace without applications are not watched: namespaces come and go without bound."""
        namespace = delta.key.namespace
        if delta.new is not None or namespace not in self._secrets:
            return
        if not any(each.metadata.namespace == namespace for each in self.applications.store.all()):
            self.manager.release(self._secrets.pop(namespace))

    async def missing_secrets(self, application: CAPApplication) -> tuple[Sequence[str], str]:
        """The Secrets of an application's services that do not exist; and why that is not known, empty where it is.

        It is known where all Secrets are, or were before their watch ended.
        """
        namespace = application.metadata.namespace
        secrets = self.secrets(namespace)
        await secrets.wait_settled()
        if secrets.parked is not None and not secrets.is_filled:
            return (), f"the Secrets of namespace {namespace} cannot be read: {secrets.parked.why}"
        wanted = dict.fromkeys(service.secret for service in application.spec.btp.services)
        return [name for name in wanted if ObjectKey(namespace, name) not in secrets.store], ""

    def ending_secrets(self, application: CAPApplication) -> Mapping[str, Sequence[str]]:
        """The Secrets of an application's services that are being deleted, each with its finalizers."""
        namespace = application.metadata.namespace
        store = self.secrets(namespace).store
        named = {service.secret for service in application.spec.btp.services}
        found = {name: secret for name in named if (secret := store.get(ObjectKey(namespace, name))) is not None}
        return {name: each.metadata.finalizers for name, each in found.items() if each.metadata.is_terminating}

    def _on_secret(self, delta: Delta[PartialObjectMetadata]) -> None:
        for application in self.applications.store.by(BY_SECRET, str(delta.key)):
            self._wake(application)

    def _on_secrets(self, namespace: str) -> None:
        """The Secrets of a namespace are known now: no delta shows that of those that do not exist."""
        for application in self.applications.store.all():
            if application.metadata.namespace == namespace:
                self._wake(application)

    def _wake(self, application: CAPApplication) -> None:
        for wake in self._wakes:
            wake(application.key)

    def secrets_wake(
        self, controller: Controller[Any, Any], of_application: Callable[[ObjectKey], Iterable[ObjectKey]]
    ) -> None:
        """Have a change of a Secret of an application wake these objects of the application."""

        def wake(application: ObjectKey) -> None:
            for key in of_application(application):
                controller.queue.add(key)

        self._wakes.append(wake)


def _label_of(kind: Resource) -> str:
    """The label of all objects of versions, for the kinds whose objects have one in the original, too."""
    return "" if kind in (NetworkPolicy.resource, DestinationRule.resource) else names.OWNER_HASH_LABEL


def _secrets_of(application: CAPApplication) -> Sequence[str]:
    """Of too many services, those of the first."""
    services = application.spec.btp.services[:MOST_SERVICES]
    namespace, named = application.metadata.namespace, {service.secret for service in services}
    if application.spec.provider is not None:
        named.add(names.provider_context_name(application))
    return [f"{namespace}/{name}" for name in named]


def _first_labels(version: CAPApplicationVersion) -> Collection[str]:
    return {claims.first_label(exposure.sub_domain) for exposure in version.spec.service_exposures}


# ---- what a change wakes


def _labels_of_other_hosts(delta: Delta[Live]) -> Collection[str]:
    """What the hosts begin with that a VirtualService has got or given up."""
    former, present = ({*claims.hosts_of(each)} if each is not None else set() for each in (delta.old, delta.new))
    return {claims.first_label(host) for host in former ^ present}


def owners(kind: Resource) -> Callable[[Delta[Any]], Sequence[ObjectKey]]:
    """For `Controller.watches`: a change of an object wakes its controller of this kind, also the former one."""

    def wakes(delta: Delta[Any]) -> Sequence[ObjectKey]:
        sides = [side for side in (delta.old, delta.new) if side is not None]
        return tuple({key for side in sides if (key := _owner_key(side, kind)) is not None})

    return wakes


def _owner_key(obj: HasMetadata, kind: Resource) -> ObjectKey | None:
    controller = obj.metadata.controller
    if controller is None or controller.kind != kind.kind or controller.api_version.rpartition("/")[0] != kind.group:
        return None
    return kind.key(obj.metadata.namespace, controller.name)


def wire_applications(controller: Controller[CAPApplication, Any], seen: Caches) -> None:
    """An application goes on when its tenants, versions, domains, exposures or Secrets change."""
    seen.secrets_wake(controller, lambda application: [application])
    controller.watches(seen.virtual_services, owners(CAPApplication.resource))
    controller.watches(
        seen.virtual_services,
        lambda delta: {
            version.application_key
            for label in _labels_of_other_hosts(delta)
            for version in seen.versions.store.by(BY_FIRST_LABEL, label)
        },
    )
    _served_wakes_all(seen.virtual_services, controller)
    controller.watches(seen.tenants, _applications_of)
    for odd in (seen.tenants, seen.versions, seen.domains, seen.cluster_domains):
        _wakes_namespace(odd, controller)
    controller.watches(seen.versions, _applications_of)
    controller.watches(seen.domains, lambda delta: _users_of(seen, delta.latest))
    controller.watches(seen.cluster_domains, lambda delta: _users_of(seen, delta.latest))


def wire_versions(controller: Controller[CAPApplicationVersion, Any], seen: Caches) -> None:
    """A version goes on when its objects, its application, its domains or the Secrets of its services change.

    One that is being deleted waits for the tenants and operations that use it, and one that is not Ready counts only
    while these need it, or no newer one is Ready. One that became the newest Ready one, or
    that of a further tenant, may have to renew credentials. Of the Secrets with credentials only those that are gone
    matter: the version itself writes them.
    """

    def of_tenant(delta: Delta[CAPTenant]) -> list[ObjectKey]:
        former = {_version_in_use(delta.old)}
        others = _needs(delta.old) ^ _needs(delta.new)
        return [
            version.key
            for application in _applications_of(delta)
            for version in seen.versions.store.by(BY_APPLICATION, str(application))
            if version.metadata.is_terminating
            or (_is_unready(version) and not others.isdisjoint((version.metadata.name, version.spec.version)))
            or (renews(application) and version.metadata.name in {_version_in_use(delta.new)} - former)
        ]

    def of_sibling(delta: Delta[CAPApplicationVersion]) -> list[ObjectKey]:
        application = delta.latest.application_key
        was, remains = (each is not None and is_offered(each) for each in (delta.old, delta.new))
        if was == remains:
            return []
        versions = seen.versions.store.by(BY_APPLICATION, str(application))
        return [each.key for each in versions if renews(application) or _is_unready(each)]

    def renews(application: ObjectKey) -> bool:
        found = seen.applications.store.get(application)
        return found is not None and found.spec.rollout_on_credential_update

    def of_operation(delta: Delta[CAPTenantOperation]) -> list[ObjectKey]:
        operation = delta.latest
        version = seen.versions.store.get(ObjectKey(delta.key.namespace, operation.spec.version_name))
        is_concerned = version is not None and (version.metadata.is_terminating or _is_unready(version))
        return [version.key] if version is not None and is_concerned else []

    def of_lost(delta: Delta[PartialObjectMetadata]) -> Sequence[ObjectKey]:
        return owners(CAPApplicationVersion.resource)(delta) if delta.new is None else ()

    controller.watches(seen.credentials, of_lost)
    controller.watches(seen.content_jobs, owners(CAPApplicationVersion.resource))
    controller.watches(seen.deployments, owners(CAPApplicationVersion.resource))
    for informer in seen.version_objects.values():
        controller.watches(informer, owners(CAPApplicationVersion.resource))
        _served_wakes_all(informer, controller)
    _wire_surroundings(controller, seen)
    controller.watches(seen.tenants, of_tenant)
    controller.watches(seen.versions, of_sibling)
    controller.watches(seen.operations, of_operation)
    _wakes_namespace(seen.tenants, controller, concerns=lambda each: each.metadata.is_terminating)
    seen.secrets_wake(controller, lambda application: _of_application(seen.versions, application))


def _wakes_namespace(
    odd: Informer[Any],
    controller: Controller[K, Any],
    *,
    concerns: Callable[[K], bool] = lambda _: True,
    when: Callable[[ObjectKey, Unreadable | None], bool] = lambda _, __: True,
) -> None:
    """Objects of the controller go on when one of their namespace cannot be read, or is gone after that.

    One without a namespace is one of all namespaces.
    """

    def wake(key: ObjectKey, unreadable: Unreadable | None) -> None:
        if not when(key, unreadable):
            return
        for user in controller.primary.store.all():
            if key.namespace in ("", user.metadata.namespace) and concerns(user):
                controller.queue.add(user.key)

    odd.on_unreadable(wake)


def _served_wakes_all(informer: Informer[Any], controller: Controller[K, Any]) -> None:
    """All objects of the controller go on when a kind is served that was not: no delta shows what they lack."""

    def wake() -> None:
        for user in controller.primary.store.all():
            controller.queue.add(user.key, Priority.RESYNC)

    informer.on_served(wake)


def _applications_of(delta: Delta[CAPTenant] | Delta[CAPApplicationVersion]) -> Collection[ObjectKey]:
    """The application of an object. Without webhooks it may change, and the former one may wait for its last object."""
    return {each.application_key for each in (delta.old, delta.new) if each is not None}


def _version_in_use(tenant: CAPTenant | None) -> str:
    """The version whose credentials a tenant needs; empty where none."""
    if tenant is None or not conditions.is_true(tenant.status.conditions, READY):
        return ""
    return tenant.status.current_version


def _is_unready(version: CAPApplicationVersion) -> bool:
    """Whether a version shows that it is not Ready, which counts only while something needs the version."""
    return version.status.state in (VersionState.PROCESSING, VersionState.ERROR)


def _needs(tenant: CAPTenant | None) -> set[str]:
    """The version that a tenant has, and the number of that which it is to have."""
    return {tenant.status.current_version, tenant.spec.version} if tenant is not None else set()


def _wire_surroundings(controller: Controller[Any, Any], seen: Caches) -> None:
    """What belongs to an application goes on when the application or one of its domains changes."""
    primary = controller.primary

    def wake(application: ObjectKey, _: Unreadable | None) -> None:
        for key in _of_application(primary, application):
            controller.queue.add(key)

    def of_domain(delta: Delta[Domain] | Delta[ClusterDomain]) -> list[ObjectKey]:
        return [key for application in _users_of(seen, delta.latest) for key in _of_application(primary, application)]

    controller.watches(
        seen.applications, lambda delta: _of_application(primary, delta.key) if _is_changed(delta) else []
    )
    seen.applications.on_unreadable(wake)
    controller.watches(seen.domains, of_domain)
    controller.watches(seen.cluster_domains, of_domain)


def _of_application(informer: Informer[Any], application: ObjectKey) -> list[ObjectKey]:
    """The versions, or the tenants, of an application."""
    return [each.key for each in informer.store.by(BY_APPLICATION, str(application))]


def _users_of(seen: Caches, domain: AnyDomain) -> list[ObjectKey]:
    """The applications that refer to a domain."""
    return [each.key for each in seen.applications.store.by(BY_DOMAIN, naming.owner_id(domain))]


def _is_changed(delta: Delta[CAPApplication]) -> bool:
    """Whether more than the status of an application is another one."""
    return delta.old is None or delta.new is None or not only_status_changed(delta.old, delta.new)
