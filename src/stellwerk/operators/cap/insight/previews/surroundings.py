"""What is around an object, read with the rights of the user."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from stellwerk.api.apps import Deployment
from stellwerk.api.batch import Job
from stellwerk.api.coordination import Lease
from stellwerk.api.core import Secret
from stellwerk.apply.fields.managed_fields import Claims
from stellwerk.apply.objects.desired import Address, Desired
from stellwerk.apply.set.model.confirmation import Live
from stellwerk.apply.set.model.owner import Ownership
from stellwerk.delivery import deployed_process
from stellwerk.delivery.insight import Preview, PreviewRequest
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import Forbidden
from stellwerk.kube.types.identifiers import ObjectKey, ObjectRef
from stellwerk.kube.types.model import Kind, metadata_of, unstructured
from stellwerk.operators.cap import names
from stellwerk.operators.cap.domain import naming
from stellwerk.operators.cap.domain.naming import AnyDomain
from stellwerk.operators.cap.hashed_objects import is_written
from stellwerk.operators.cap.installation import INSTALLATION, NAMESPACE
from stellwerk.operators.cap.kinds.application import CAPApplication, DomainKind, DomainRef
from stellwerk.operators.cap.kinds.domain import ClusterDomain, Domain
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion, may_be_of
from stellwerk.operators.cap.pods import credentials
from stellwerk.operators.cap.settings import TABLE, Settings

K = TypeVar("K", bound=Kind)

METADATA = "finalizer, labels and annotations are added"


@dataclass(frozen=True, slots=True)
class KindPreviewer(Generic[K]):
    """Computes what the operator would write for an object of a kind: see `Previewer`."""

    kind: type[K]
    preview: Callable[[K, PreviewRequest], Coroutine[Any, Any, Preview]]
    accepts_image: bool = False


@dataclass(slots=True)
class Outcome:
    """What a preview comes to, bit by bit."""

    objects: list[Desired] = field(default_factory=list)
    created: dict[ObjectRef, str] = field(default_factory=dict)
    changed: dict[ObjectRef, str] = field(default_factory=dict)
    deleted: dict[ObjectRef, str] = field(default_factory=dict)
    kept: int = 0
    warnings: list[str] = field(default_factory=list)

    def hashed(self, owner: Ownership, desired: Desired, hash: str, live: Live | None) -> None:
        """Note an object that is written where its hash differs."""
        if is_written(owner, live, desired, hash):
            self.kept += 1
            return
        self.objects.append(Desired(desired.address, owner.stamped(desired.body, hash)))

    def preview(self, *, claims: Claims | None = None) -> Preview:
        """All of it, with `claims` as in `Preview`."""
        return Preview(
            field_manager=names.OPERATOR_NAME,
            objects=tuple(self.objects),
            created=self.created,
            changed=self.changed,
            deleted=self.deleted,
            kept=self.kept,
            claims=claims,
            warnings=tuple(self.warnings),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """An application and what belongs to it."""

    application: CAPApplication | None
    applications: Sequence[str] = ()
    """The names of those in the namespace, where it does not exist."""
    versions: Sequence[CAPApplicationVersion] = ()
    hidden_versions: Sequence[ObjectKey] = ()
    """Versions that cannot be read and may be of the application."""
    tenants: Sequence[CAPTenant] = ()
    domains: Mapping[DomainRef, AnyDomain] = field(default_factory=dict)
    offered_domains: Sequence[DomainRef] = ()
    """Those that it could refer to, where one to which it refers does not exist."""

    def find_domain(self, namespace: str, reference: DomainRef) -> AnyDomain | None:
        """The domain of a reference of the application."""
        return self.domains.get(reference)

    def find_version(self, key: ObjectKey) -> CAPApplicationVersion | None:
        """A version of the application."""
        return next((each for each in self.versions if each.key == key), None)


async def around(client: Client, namespace: str, name: str, application: CAPApplication | None = None) -> Surroundings:
    """What belongs to the application of this name; `application` is used where it is given. Raises ApiError."""
    found = application or await client.find(CAPApplication, name, namespace)
    versions = await client.list(CAPApplicationVersion, namespace, skip_unreadable=True)
    tenants = await listed(client, CAPTenant, namespace)
    references = found.spec.domain_refs if found is not None else ()
    domains = {each: domain for each in references if (domain := await _domain(client, namespace, each)) is not None}
    others = await listed(client, CAPApplication, namespace) if found is None else ()
    return Surroundings(
        application=found,
        applications=[each.metadata.name for each in others],
        versions=[each for each in versions.items if each.spec.application == name],
        hidden_versions=[
            each.key for each in versions.unreadable if may_be_of(ObjectKey(namespace, name), each.metadata)
        ],
        tenants=[each for each in tenants if each.spec.cap_application_instance == name],
        domains=domains,
        offered_domains=await _offered_domains(client, namespace) if len(domains) < len({*references}) else (),
    )


async def _domain(client: Client, namespace: str, reference: DomainRef) -> AnyDomain | None:
    if reference.kind == DomainKind.CLUSTER_DOMAIN:
        found = await client.find(ClusterDomain, reference.name, "")
        return found if found is not None and naming.serves(found, namespace) else None
    return await client.find(Domain, reference.name, namespace)


async def _offered_domains(client: Client, namespace: str) -> Sequence[DomainRef]:
    domains = await listed(client, Domain, namespace)
    try:
        cluster_wide = await listed(client, ClusterDomain)
    except Forbidden:  # as users of a namespace
        cluster_wide = []
    return naming.offered(namespace, domains, cluster_wide)


async def listed(client: Client, kind: type[K], namespace: str = "") -> list[K]:
    """The objects of a kind, without those that cannot be decoded. Raises ApiError."""
    return (await client.list(kind, namespace, skip_unreadable=True)).items


async def jobs_of(client: Client, owner: Kind) -> list[Job]:
    """The Jobs that an object controls."""
    jobs = await listed(client, Job, owner.metadata.namespace)
    return [each for each in jobs if each.metadata.is_controlled_by(owner.metadata)]


async def missing_secrets(client: Client, application: CAPApplication) -> Sequence[str]:
    """The Secrets of an application's services that do not exist."""
    namespace = application.metadata.namespace
    wanted = dict.fromkeys(service.secret for service in application.spec.btp.services)
    return [name for name in wanted if await client.find(metadata_of(Secret), name, namespace) is None]


async def note_credentials(client: Client, outcome: Outcome, owner: Kind, prefix: str) -> str:
    """Note the Secret with the credentials of a workload, and return its name. Its values are not worked out.

    The end of the name depends on the uid of the owner: of one that is still to be created, it is an example.
    """
    namespace, mark = owner.metadata.namespace, credentials.mark_of(owner, prefix)
    existing = await client.list(metadata_of(Secret), namespace, labels=f"{names.SECRET_OWNER_HASH_LABEL}={mark}")
    if existing.items:
        outcome.kept += 1
        return existing.items[0].metadata.name
    name = credentials.secret_name(owner, prefix)
    outcome.created[Address(Secret.resource, ObjectKey(namespace, name)).ref] = "credentials of its services"
    return name


async def operator_namespace(client: Client) -> str:
    """The namespace of the operator, by its Lease; the usual one where that cannot be read."""
    try:
        leases = await client.list(metadata_of(Lease), fields=f"metadata.name={names.LEASE_NAME}")
    except Forbidden:
        return NAMESPACE
    return leases.items[0].metadata.namespace if leases.items else NAMESPACE


async def settings_of_operator(client: Client, namespace: str) -> Settings | None:
    """The settings of the operator that runs in a namespace, or of the original; None where they cannot be read."""
    try:
        deployments = (await client.list(unstructured(Deployment.resource), namespace)).items
    except Forbidden:
        return None
    for deployment in deployments:
        is_original = deployed_process.is_original(deployment, INSTALLATION.original)
        for process in deployed_process.of_deployment(deployment):
            if is_original or process.runs("cap"):
                return TABLE.of_process(process.words, process.variables)
    return None


async def allowed_headers(client: Client, namespace: str) -> Sequence[str]:
    """The headers that the operator in a namespace lets annotations set besides harmless ones."""
    running = await settings_of_operator(client, namespace)
    return running.allowed_route_headers if running is not None else ()
