"""The preview of a Domain or ClusterDomain.

Which managers of certificates and DNS entries the operator works with is read from its Deployment. Without one, they
follow from the kinds that the cluster serves: those of Gardener, or else cert-manager, and no DNS entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stellwerk.api.cert_manager import CertManagerCertificate
from stellwerk.api.core import Namespace, Pod, Secret, Service
from stellwerk.api.discovery import EndpointSlice
from stellwerk.api.gardener import DnsEntry, GardenerCertificate
from stellwerk.api.istio import Gateway
from stellwerk.api.networking import NetworkPolicy
from stellwerk.apply.objects.desired import Address
from stellwerk.apply.set.model.confirmation import Live, live_view
from stellwerk.delivery.insight import Preview, PreviewFailed, PreviewRequest
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import Forbidden, NotServed
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import PartialObjectMetadata, metadata_of
from stellwerk.operators.cap import names
from stellwerk.operators.cap.domain import dns, hosts, ingress, naming, plan
from stellwerk.operators.cap.domain.errors import DomainProblem
from stellwerk.operators.cap.domain.naming import AnyDomain
from stellwerk.operators.cap.domain.plan import CertManager, DnsManager, DomainSettings, DomainSnapshot, World
from stellwerk.operators.cap.domain.resources import DnsRecord
from stellwerk.operators.cap.domain.writer import ownership_of
from stellwerk.operators.cap.hashed_objects import ORIGINAL
from stellwerk.operators.cap.insight.previews import surroundings
from stellwerk.operators.cap.insight.previews.surroundings import METADATA, KindPreviewer, Outcome
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.domain import ClusterDomain, Domain
from stellwerk.operators.cap.settings import Settings
from stellwerk.render.errors import Unrenderable


async def preview(subject: AnyDomain, request: PreviewRequest) -> Preview:
    """What the operator would write for a domain: see `Previewer`."""
    client, outcome = request.client, Outcome()
    settings = await _settings(client, outcome)
    live, unserved = await _live(client, subject, settings)
    snapshot = await _snapshot(client, subject, live)
    step = plan.next_step(snapshot)
    if isinstance(step, plan.Prepare):
        outcome.changed[subject.ref] = METADATA
        step = plan.ReportDuplicates() if snapshot.claims.before and not snapshot.refusal else plan.Maintain()
    match step:
        case plan.Block(references):
            named = ", ".join(str(each.key) for each in references)
            outcome.warnings.append(f"it stays while CAPApplications refer to it: {named}")
        case plan.BeginDeletion() | plan.Release():
            for address in live:
                outcome.deleted[address.ref] = "it goes with the domain"
        case plan.ReportDuplicates():
            why = hosts.problem_of_claims(subject, snapshot.claims.before)
            outcome.warnings.append(f"nothing is written: {why}")
        case plan.Maintain() | plan.Begin():
            await _note_objects(
                request,
                outcome,
                World(snapshot=snapshot, settings=settings, ingress_namespace="", unserved=unserved),
            )
    return outcome.preview(claims=ORIGINAL)


async def _settings(client: Client, outcome: Outcome) -> DomainSettings:
    namespace = await surroundings.operator_namespace(client)
    if (running := await surroundings.settings_of_operator(client, namespace)) is not None:
        return running.of_domains(namespace)
    has_gardener = await client.mapper.serves(GardenerCertificate.resource)
    has_other = await client.mapper.serves(CertManagerCertificate.resource)
    assumed = assumed_settings(namespace, only_cert_manager=has_other and not has_gardener)
    outcome.warnings.append(
        f"no Deployment of the CAP Operator is found in namespace {namespace}: it is assumed to run with "
        f"CERT_MANAGER={assumed.cert_manager} and DNS_MANAGER={assumed.dns_manager}"
    )
    return assumed


def assumed_settings(namespace: str, *, only_cert_manager: bool) -> DomainSettings:
    """The settings of an operator that is not found: its defaults, but for certificates that only one issuer can make.

    What serves DNS records is no guess from the kinds of the cluster, as the operator makes none either (pure).
    """
    defaults = Settings().of_domains(namespace)
    return replace(defaults, cert_manager=CertManager.CERT_MANAGER) if only_cert_manager else defaults


async def _live(
    client: Client, domain: AnyDomain, settings: DomainSettings
) -> tuple[dict[Address, Live], dict[Resource, str]]:
    """The objects with the domain's label, and the kinds that the cluster does not serve."""
    kinds = [*plan.CERTIFICATES, Secret.resource, Gateway.resource, NetworkPolicy.resource]
    if settings.dns_manager is DnsManager.GARDENER:
        kinds.append(DnsEntry.resource)
    found: dict[Address, Live] = {}
    unserved: dict[Resource, str] = {}
    label = f"{names.OWNER_HASH_LABEL}={naming.owner_hash(domain)}"
    for kind in kinds:
        try:
            listed = await client.list(live_view(kind), labels=label)
        except NotServed as error:
            unserved[kind] = str(error)
            continue
        except Forbidden:
            if kind in plan.CERTIFICATES - {settings.certificate_kind}:  # only what a former issuer has left
                continue
            raise
        found |= {Address(kind, each.key): each for each in listed.items}
    return found, unserved


async def _snapshot(client: Client, domain: AnyDomain, live: dict[Address, Live]) -> DomainSnapshot:
    everything: list[AnyDomain] = [
        *await surroundings.listed(client, Domain),
        *await surroundings.listed(client, ClusterDomain),
    ]
    granted = hosts.grants(await _namespaces(client))
    applications = await surroundings.listed(client, CAPApplication, domain.metadata.namespace)
    users = [each for each in applications if naming.owner_id(domain) in naming.referenced_by(each)]
    return DomainSnapshot(
        domain=domain,
        claims=hosts.claims(domain, everything, granted),
        refusal=hosts.problem_of_host(domain, granted),
        references=tuple(users),
        live=live,
    )


async def _namespaces(client: Client) -> Sequence[PartialObjectMetadata]:
    """Those that the user may see."""
    try:
        return (await client.list(metadata_of(Namespace))).items
    except Forbidden:
        return ()


async def _note_objects(request: PreviewRequest, outcome: Outcome, world: World) -> None:
    domain = world.snapshot.domain
    try:
        dns.check_host(domain)
        if world.snapshot.refusal:
            raise DomainProblem(world.snapshot.refusal)
        namespace, target = await _ingress(request.client, domain, world.settings)
        records = await _records(request, world, target)
    except (DomainProblem, Unrenderable) as error:
        raise PreviewFailed(str(error)) from error
    wanted = plan.plan(replace(world, ingress_namespace=namespace, records=records))
    outcome.warnings += wanted.problems
    for each in wanted.resources:
        owner = ownership_of(domain, kept_by_label=plan.is_kept_by_label(each.address.resource))
        outcome.hashed(owner, each.desired, each.hash, world.snapshot.live.get(each.address))
    for address, _ in wanted.obsolete:
        outcome.deleted[address.ref] = "the domain needs it no longer"


async def _ingress(client: Client, domain: AnyDomain, settings: DomainSettings) -> tuple[str, str]:
    """The namespace of the ingress gateway, and the DNS target. Raises DomainProblem."""
    pods = (await client.list(metadata_of(Pod), labels=ingress.selector(domain))).items
    namespace = ingress.namespace(domain, pods, settings.ingress_namespaces)
    if target := ingress.own_target(domain, settings.dns_target):
        return namespace, target
    services = await surroundings.listed(client, Service, namespace)
    slices = await surroundings.listed(client, EndpointSlice, namespace)
    return namespace, ingress.target(domain, pods, services, slices, settings.target_annotation)


async def _records(request: PreviewRequest, world: World, target: str) -> tuple[DnsRecord, ...]:
    """The DNS records. Raises DomainProblem, Unrenderable."""
    domain = world.snapshot.domain
    if world.settings.dns_manager is not DnsManager.GARDENER:
        return ()
    assigned = dns.subdomains(domain.spec.domain, world.snapshot.references)
    texts = dns.texts(domain, target, assigned.owners)
    if texts is None:
        return dns.records(domain, target, assigned)
    return dns.custom_records(domain, assigned, await request.renderer.texts(texts))


DOMAIN, CLUSTER_DOMAIN = KindPreviewer(Domain, preview), KindPreviewer(ClusterDomain, preview)
