"""From what is seen of a domain to the next step, and to its objects. Pure.

    (none) ──► Processing ──► Ready ◄───────────────┐
                   ▲   │        │ a change           │
                   │   ▼        ▼                    │
                  Error ◄──► Processing ─────────────┘      a change of what failed
    any ──► Deleting/DeletionBlocked ──► Deleting ──► (gone)

All objects are applied that can be, also where others cannot: the first problem then is the condition's message.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from stellwerk.api.cert_manager import CertManagerCertificate
from stellwerk.api.core import Secret
from stellwerk.api.gardener import DnsEntry, GardenerCertificate
from stellwerk.api.istio import Gateway
from stellwerk.api.networking import NetworkPolicy
from stellwerk.apply.objects.desired import Address, Desired
from stellwerk.apply.set.model.confirmation import Live
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import JsonObject, Unstructured, dig
from stellwerk.operators.cap import names
from stellwerk.operators.cap.domain import ingress, naming, readiness, resources
from stellwerk.operators.cap.domain.hosts import Claims
from stellwerk.operators.cap.domain.naming import AnyDomain
from stellwerk.operators.cap.domain.readiness import Progress, Readiness
from stellwerk.operators.cap.domain.resources import DnsRecord, DomainResource
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.domain import DomainState
from stellwerk.operators.cap.kinds.status import GROUP, READY
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.operators.cap.reasons import DomainReason
from stellwerk.runtime import conditions
from stellwerk.runtime.control import finalizer


class CertManager(StrEnum):
    """Who issues certificates; the values are those of the environment variable CERT_MANAGER."""

    GARDENER = "gardener"
    CERT_MANAGER = "cert-manager.io"


CERTIFICATE_KINDS: Mapping[CertManager, Resource] = {
    CertManager.GARDENER: GardenerCertificate.resource,
    CertManager.CERT_MANAGER: CertManagerCertificate.resource,
}
"""The kind of the certificates of each issuer."""


class DnsManager(StrEnum):
    """Who keeps DNS records; the values are those of the environment variable DNS_MANAGER."""

    GARDENER = "gardener"
    KUBERNETES = "kubernetes"
    """external-dns, which reads the Gateways itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainSettings:
    """What the process knows besides the domains."""

    namespace: str
    """The operator's own, where the objects of ClusterDomains are."""
    cert_manager: CertManager = CertManager.GARDENER
    dns_manager: DnsManager = DnsManager.GARDENER
    dns_target: str = ""
    """The DNS target of domains that set none; empty: that of the load balancer."""
    ingress_namespaces: tuple[str, ...] = ingress.NAMESPACES
    """Where ingress gateways may be."""
    certificate_issuers: tuple[str, ...] = ()
    """The issuers of cert-manager that a Domain may name besides the default one, as of `resources.may_use`."""

    @property
    def certificate_kind(self) -> Resource:
        """The kind of the certificates."""
        return CERTIFICATE_KINDS[self.cert_manager]

    @property
    def target_annotation(self) -> str:
        """The annotation with the DNS name of a load balancer."""
        is_gardener = self.dns_manager is DnsManager.GARDENER
        return names.DNS_NAMES_ANNOTATION if is_gardener else names.EXTERNAL_DNS_ANNOTATION


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainSnapshot:
    """A domain and its neighbours, as the caches show them."""

    domain: AnyDomain
    claims: Claims = field(default_factory=Claims)
    """Other domains with the same host, or with overlapping ones."""
    refusal: str = ""
    """Why the namespace may not have the host."""
    references: tuple[CAPApplication, ...] = ()
    """The applications that refer to the domain, those that are being deleted included."""
    hidden: tuple[ObjectKey, ...] = ()
    """Applications that cannot be read, and may refer to the domain."""
    live: Mapping[Address, Live]
    """The objects with the domain's owner label."""


@dataclass(frozen=True, slots=True)
class Rest:
    """Deleted, and not held by us. Nothing to do."""


@dataclass(frozen=True, slots=True)
class Prepare:
    """Set the finalizer and the label with the host, as far as they lack. Next: ReportDuplicates or Maintain."""

    lacking: JsonObject


@dataclass(frozen=True, slots=True)
class ReportDuplicates:
    """Another domain has the same host, or one that overlaps. Next: Maintain, when one of them changes or goes."""


@dataclass(frozen=True, slots=True)
class Begin:
    """Show that the work begins. Next: Maintain."""


@dataclass(frozen=True, slots=True)
class Maintain:
    """Have the objects as they should be. Next: itself, at a change."""


@dataclass(frozen=True, slots=True)
class Block:
    """Deleted, but applications refer to it, or may. Next: Release, when the last one goes."""

    references: tuple[CAPApplication, ...]
    hidden: tuple[ObjectKey, ...] = ()


@dataclass(frozen=True, slots=True)
class BeginDeletion:
    """Show that the deletion begins. Next: Release."""


@dataclass(frozen=True, slots=True)
class Release:
    """Delete what the garbage collector does not, then remove the finalizer. Next: the domain is gone."""

    objects: tuple[tuple[Address, Live], ...]


Step: TypeAlias = Rest | Prepare | ReportDuplicates | Begin | Maintain | Block | BeginDeletion | Release

CERTIFICATES = frozenset(CERTIFICATE_KINDS.values())
"""The kinds of certificates of all issuers."""
_REPORTING = CERTIFICATES | {DnsEntry.resource}
"""Kinds whose controllers report readiness."""
_WITHOUT_OWNER = CERTIFICATES | {Secret.resource}
"""Kinds whose objects have no owner reference, because they may be in another namespace."""


def next_step(snapshot: DomainSnapshot) -> Step:
    """The step that a domain needs now."""
    domain, status = snapshot.domain, snapshot.domain.status
    is_held = finalizer.present(domain, names.DOMAIN_FINALIZER)
    if domain.metadata.is_terminating:
        if not is_held:
            return Rest()
        if snapshot.references or snapshot.hidden:
            return Block(snapshot.references, snapshot.hidden)
        ready = conditions.find(status.conditions, READY)
        if status.state != DomainState.DELETING or ready is None or ready.reason != DomainReason.Deleting:
            return BeginDeletion()
        live = snapshot.live.items()
        return Release(tuple((address, obj) for address, obj in live if is_kept_by_label(address.resource)))
    lacking: JsonObject = {}
    if not is_held:
        lacking["finalizers"] = [*domain.metadata.finalizers, names.DOMAIN_FINALIZER]
    label = naming.host_hash(domain)
    if domain.metadata.labels.get(names.HOST_HASH_LABEL) != label:  # that of a former host is corrected
        lacking["labels"] = {names.HOST_HASH_LABEL: label}
    if lacking:
        return Prepare(lacking)
    if not status.state:
        return Begin()
    return ReportDuplicates() if snapshot.claims.before and not snapshot.refusal else Maintain()


def is_kept_by_label(resource: Resource) -> bool:
    """Whether objects of a kind have no owner reference, so that only their label assigns them to a domain."""
    return resource in _WITHOUT_OWNER


# ---- the objects


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What the objects of a domain depend on."""

    snapshot: DomainSnapshot
    settings: DomainSettings
    ingress_namespace: str
    records: tuple[DnsRecord, ...] | None = ()
    """None where they are not known, because a template fails; existing ones stay then."""
    namesakes: tuple[AnyDomain, ...] = ()
    """Other domains whose Secret has the same name and is in the same namespace."""
    unserved: Mapping[Resource, str]
    """Kinds that the cluster does not serve, or that may not be watched, each with a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedOut:
    """The objects as they should be, by the way they are written."""

    addresses: frozenset[Address]
    kept_by_label: Mapping[Address, tuple[Desired, str]]
    """With the hash of each."""
    controlled: Mapping[Address, tuple[Desired, str]]
    """Also with their hashes; without network policies."""
    policies: tuple[DomainResource, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainPlan:
    """The objects as they should be, and the ones that must go."""

    resources: tuple[DomainResource, ...]
    sorted_out: SortedOut
    """The same objects."""
    obsolete: tuple[tuple[Address, Live], ...]
    problems: tuple[str, ...]
    gateway_name: str


def plan(world: World) -> DomainPlan:
    """What the objects of a domain should be. Existing ones keep their names."""
    domain, settings = world.snapshot.domain, world.settings
    wanted: list[DomainResource] = []
    problems: list[str] = []

    def served(resource: Resource) -> bool:
        why = world.unserved.get(resource)
        if why is not None:
            problems.append(f"{resource.kind} of {resource.api_version} is missing: {why}")
        return why is None

    credential = _credential(world, settings.cert_manager)
    older = _older(world)
    if older is not None:
        problems.append(
            f"the certificates of {naming.owner_id(domain)} and {naming.owner_id(older)} would use one Secret, "
            f"{credential}: create one of the two under another name"
        )
    else:
        if refused := _refused_issuer(world):
            problems.append(refused)
        elif served(settings.certificate_kind):
            wanted.append(_certificate(world, credential))
        wanted += resources.ca_secrets(domain, credential)
    is_issued = _is_issued(world, wanted)
    gateway_name = ""
    if served(Gateway.resource):
        key, *further = _keys(world, Gateway.resource, _home(world), "gateway")
        if further:
            named = ", ".join(map(str, [key, *further][:5]))
            problems.append(f"more than one Gateway belongs to {naming.owner_id(domain)} ({named}): delete all but one")
        gateway_name = key.name
        former = None if is_issued else _former_credential(world)
        wanted.append(resources.gateway(domain, key, former or credential))
        if former is not None:
            wanted += resources.ca_secrets(domain, former)
    wanted += _network_policies(world)
    if world.records and served(DnsEntry.resource):
        wanted += _dns_entries(world)
    return DomainPlan(
        resources=tuple(wanted),
        sorted_out=sorted_out(wanted),
        obsolete=_obsolete(world, wanted, is_issued=is_issued),
        problems=tuple(problems),
        gateway_name=gateway_name,
    )


def sorted_out(wanted: Collection[DomainResource]) -> SortedOut:
    """Objects by the way they are written. Part of the plan, because of 20,000 it takes a while as well."""
    kept_by_label: dict[Address, tuple[Desired, str]] = {}
    controlled: dict[Address, tuple[Desired, str]] = {}
    policies: list[DomainResource] = []
    for each in wanted:
        if each.address.resource == NetworkPolicy.resource:
            policies.append(each)
        else:
            part = kept_by_label if is_kept_by_label(each.address.resource) else controlled
            part[each.address] = (each.desired, each.hash)
    return SortedOut(
        addresses=frozenset(each.address for each in wanted),
        kept_by_label=kept_by_label,
        controlled=controlled,
        policies=tuple(policies),
    )


def unready(live: Mapping[Address, Live], wanted: Iterable[DomainResource]) -> Sequence[Readiness]:
    """The certificates and DNS entries that are not ready, failed ones first, then certificates."""
    waiting = [each for each in _readiness(live, wanted, _REPORTING) if each.progress is not Progress.READY]
    return sorted(waiting, key=lambda each: (each.progress is not Progress.FAILED, each.ref.gvk.kind, each.ref.key))


def failed_names(live: Mapping[Address, Live], wanted: Iterable[DomainResource]) -> frozenset[str]:
    """The DNS names of the entries that have failed, as they are."""
    entries = [live.get(each.address) for each in wanted if each.address.resource == DnsEntry.resource]
    return frozenset(
        str(entry.at("spec", "dnsName"))
        for entry in entries
        if isinstance(entry, Unstructured) and readiness.of(entry).progress is Progress.FAILED
    )


def _readiness(
    live: Mapping[Address, Live], wanted: Iterable[DomainResource], kinds: Collection[Resource]
) -> Iterable[Readiness]:
    objects = (live.get(each.address) for each in wanted if each.address.resource in kinds)
    return (readiness.of(obj) for obj in objects if isinstance(obj, Unstructured))


def former_entries(domain: AnyDomain, references: Iterable[CAPApplication], listed: Iterable[Live]) -> Sequence[Live]:
    """Of `listed`, the DNS entries that a release before Domain made for applications of the domain, or their tenants.

    They have DNS names that the domain needs now, and Gardener serves one entry for each.
    """
    applications = {application.metadata.uid for application in references}
    return [
        each
        for each in listed
        if not each.metadata.is_terminating
        and each.metadata.labels.get(names.OWNER_HASH_LABEL) != naming.owner_hash(domain)
        and any(
            owner.uid in applications
            or (owner.kind == CAPTenant.resource.kind and owner.api_version.startswith(f"{GROUP}/"))
            for owner in each.metadata.owner_references
        )
    ]


def _is_issued(world: World, wanted: Iterable[DomainResource]) -> bool:
    """Whether the certificate that the domain should have is Ready."""
    found = _readiness(world.snapshot.live, wanted, (world.settings.certificate_kind,))
    return any(each.progress is Progress.READY for each in found)


def _former_credential(world: World) -> ObjectKey | None:
    """The Secret of another issuer that the Gateway uses still, while the certificate of the named one is not Ready."""
    used = _used_credentials(world)
    others = (_credential(world, each) for each in CertManager if each is not world.settings.cert_manager)
    return next((each for each in others if each.name in used), None)


def _used_credentials(world: World) -> frozenset[str]:
    """The names of the Secrets that the Gateways of the domain use."""
    servers = [
        each.at("spec", "servers")
        for address, each in world.snapshot.live.items()
        if address.resource == Gateway.resource and isinstance(each, Unstructured)
    ]
    named = [dig(server, "tls", "credentialName") for each in servers if isinstance(each, list) for server in each]
    return frozenset(each for each in named if isinstance(each, str))


def _credential_of(address: Address, live: Live) -> str:
    """The name of the Secret that a certificate is issued into, or that a CA of clients belongs to."""
    if address.is_secret:
        return address.key.name.removesuffix(resources.CA_SUFFIX)
    if not isinstance(live, Unstructured):
        return ""
    return str(live.at("spec", "secretRef", "name") or live.at("spec", "secretName") or "")


def _credential(world: World, issuer: CertManager) -> ObjectKey:
    return resources.credential(world.snapshot.domain, issuer, world.settings.namespace, world.ingress_namespace)


def _older(world: World) -> AnyDomain | None:
    """The domain to which the Secret of the certificate belongs, where that is another one: the oldest of all."""
    domain = world.snapshot.domain
    oldest = min((domain, *world.namesakes), key=lambda each: (naming.created(each), naming.owner_id(each)))
    return None if oldest is domain else oldest


def _refused_issuer(world: World) -> str:
    """Why the domain may not use the issuer that it names; empty where it may."""
    domain, settings = world.snapshot.domain, world.settings
    if settings.cert_manager is not CertManager.CERT_MANAGER:
        return ""
    if resources.may_use(domain, world.ingress_namespace, settings.certificate_issuers):
        return ""
    issuer = resources.issuer_text(domain)
    return (
        f"spec.certConfig.certManager.issuerRef of {domain.ref} is {issuer}, which Domains of namespace "
        f"{domain.metadata.namespace} may not use: leave it out, or have an administrator add {issuer} to "
        "CERTIFICATE_ISSUERS (the chart's controller.certificateIssuers)"
    )


def _certificate(world: World, credential: ObjectKey) -> DomainResource:
    domain = world.snapshot.domain
    if world.settings.cert_manager is CertManager.CERT_MANAGER:
        return resources.cert_manager_certificate(domain, credential)
    existing = _present(world, GardenerCertificate.resource, _home(world))
    newest = max(((live.metadata.creation_timestamp, key) for key, live in existing), default=None)
    key = newest[1] if newest is not None else _new_key(world, _home(world), "certificate")
    return resources.gardener_certificate(domain, key, credential)


def _network_policies(world: World) -> Iterable[DomainResource]:
    for namespace in sorted({each.metadata.namespace for each in world.snapshot.references}):
        key = _keys(world, NetworkPolicy.resource, namespace, "network policy")[0]
        yield resources.network_policy(world.snapshot.domain, key)


def _dns_entries(world: World) -> Iterable[DomainResource]:
    existing: dict[str, ObjectKey] = {}
    for key, live in _present(world, DnsEntry.resource, _home(world)):
        if isinstance(live, Unstructured):
            existing.setdefault(str(live.at("spec", "dnsName") or ""), key)
    for record in world.records or ():
        key = existing.get(record.name) or _new_key(world, _home(world), f"dns {record.name}")
        yield resources.dns_entry(world.snapshot.domain, key, record)


def _obsolete(world: World, wanted: Iterable[DomainResource], *, is_issued: bool) -> tuple[tuple[Address, Live], ...]:
    """The domain's objects that it does not need. Several gateways in the namespace of its objects all stay: users
    decide. What an application needs stays while it is unknown what applications need. What a former setting has made
    stays until the certificate by the present setting is Ready and no Gateway uses the other one: a mistaken setting
    then does no harm.

    One that another client deletes and that our finalizer holds goes as well: until then it cannot be made again.
    """
    kept = {resource.address for resource in wanted}
    home = _home(world)
    unknown: set[Resource] = set()
    # With a certificate its Secret would go, and that is in use.
    if _older(world) is not None or _refused_issuer(world):
        unknown |= _WITHOUT_OWNER
    if world.records is None or world.snapshot.hidden:
        unknown.add(DnsEntry.resource)
    if world.snapshot.hidden:
        unknown.add(NetworkPolicy.resource)
    present = _credential(world, world.settings.cert_manager).name
    has_gateway = any(_present(world, Gateway.resource, home))
    used, are_known = _used_credentials(world), is_issued and Gateway.resource not in world.unserved

    def may_be_used(address: Address, live: Live) -> bool:
        if address.resource == Gateway.resource:
            return address.key.namespace == home or not is_issued or not has_gateway
        if not is_kept_by_label(address.resource) or (name := _credential_of(address, live)) == present:
            return False
        return name in used or not are_known

    def goes(address: Address, live: Live) -> bool:
        if live.metadata.is_terminating:
            return is_kept_by_label(address.resource) and finalizer.present(live, names.DOMAIN_FINALIZER)
        is_needed = address in kept or address.resource in unknown or may_be_used(address, live)
        return not is_needed and _belongs(world, address, live)

    return tuple((address, live) for address, live in world.snapshot.live.items() if goes(address, live))


def _home(world: World) -> str:
    """The namespace of the domain's objects."""
    return naming.resource_namespace(world.snapshot.domain, world.settings.namespace)


def _present(world: World, resource: Resource, namespace: str) -> Sequence[tuple[ObjectKey, Live]]:
    """The objects of a kind in a namespace that belong to this very domain and stay, in the order of their names."""
    found = [
        (address.key, live)
        for address, live in world.snapshot.live.items()
        if address.resource == resource
        and address.key.namespace == namespace
        and _belongs(world, address, live)
        and not live.metadata.is_terminating
    ]
    return sorted(found, key=lambda each: each[0])


def _keys(world: World, resource: Resource, namespace: str, part: str) -> Sequence[ObjectKey]:
    """The keys of these objects; of a new one where there are none."""
    return [key for key, _ in _present(world, resource, namespace)] or [_new_key(world, namespace, part)]


def _new_key(world: World, namespace: str, part: str) -> ObjectKey:
    return ObjectKey(namespace, naming.child_name(world.snapshot.domain, part))


def _belongs(world: World, address: Address, live: Live) -> bool:
    """Whether an object with the domain's label is not that of a former domain with its name."""
    return is_kept_by_label(address.resource) or _is_controlled(world.snapshot.domain, live)


def _is_controlled(domain: AnyDomain, live: Live) -> bool:
    controller = live.metadata.controller
    return controller is not None and controller.uid == domain.metadata.uid
