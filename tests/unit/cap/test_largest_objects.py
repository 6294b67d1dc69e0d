"""No judge, plan or index of CAP holds the event loop, however large the objects are that users store or try."""

from __future__ import annotations

import contextlib
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec
import pytest
from tests.unit.cap import given

from stellwerk.api.core import Namespace
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import UNREADABLE, JsonObject, Kind, dig, metadata_of, view
from stellwerk.kube.watch.watch_states import Synced
from stellwerk.operators.cap import api, duplicates
from stellwerk.operators.cap.application import exposures, inline_domains
from stellwerk.operators.cap.application import plan as application_plan
from stellwerk.operators.cap.application.plan import ApplicationSnapshot
from stellwerk.operators.cap.collections import APPLICATIONS, TENANTS, VERSIONS
from stellwerk.operators.cap.domain import dns, ingress, naming
from stellwerk.operators.cap.domain import resources as domain_resources
from stellwerk.operators.cap.domain.errors import DomainProblem
from stellwerk.operators.cap.domain.hosts import NOTHING_GRANTED
from stellwerk.operators.cap.kinds import bounds
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.domain import ClusterDomain, Domain, DomainStatus
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOperation, CAPTenantOutput, Operation
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.operation import decide as operation_decide
from stellwerk.operators.cap.operation import jobs as operation_jobs
from stellwerk.operators.cap.operation import plan as operation_plan
from stellwerk.operators.cap.operation.ingredients import OperationSettings
from stellwerk.operators.cap.pods import credentials
from stellwerk.operators.cap.routing.targets import Unroutable
from stellwerk.operators.cap.subscription import plan as subscription_plan
from stellwerk.operators.cap.subscription import registries
from stellwerk.operators.cap.subscription.callbacks import answer
from stellwerk.operators.cap.subscription.directory import Directory
from stellwerk.operators.cap.subscription.plan import DomainUnknown
from stellwerk.operators.cap.subscription.registries import Protocol
from stellwerk.operators.cap.tenant import plan as tenant_plan
from stellwerk.operators.cap.version import content, monitoring, resources
from stellwerk.operators.cap.version import plan as version_plan
from stellwerk.operators.cap.version.monitoring import UnusableRule
from stellwerk.operators.cap.version.resources import UnusableWorkload, VersionObjects
from stellwerk.operators.cap.watches import Caches
from stellwerk.operators.cap.webhooks import rules
from stellwerk.operators.cap.webhooks import version as version_rules
from stellwerk.operators.cap.webhooks.judges import Judges
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.reading.questions import PlainSource
from stellwerk.runtime.reading.view import PlainSources, View
from stellwerk.runtime.serving.webhook import review
from stellwerk.testing import sweeps
from stellwerk.testing.checks.loop_stalls import LONGEST_STALL_SECONDS, least_stall
from stellwerk.testing.largest_objects import REQUEST_BYTES, Largest

pytestmark = [pytest.mark.req("R-931"), pytest.mark.sweep]

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
MOST_BYTES_OF_MEMORY = 24
"""For each byte of an object: a list of small texts becomes a list of larger objects, but not one for each two."""
PAIR_BYTES = REQUEST_BYTES // 4
"""Enough for lists of ten thousand items each: what multiplies them takes seconds all the same."""


def as_json(obj: Kind) -> JsonObject:
    found: JsonObject = msgspec.json.decode(msgspec.json.encode(obj))
    return found


VERSION = given.version(
    given.deployment(
        "srv",
        "CAP",
        ports=[{"name": "p", "port": 4004, "routerDestinationName": "srv", "networkPolicy": "Cluster"}],
        monitoring={"deletionRules": {"expression": "scalar(x)"}, "scrapeConfig": {"port": "p"}},
    ),
    given.deployment("app", "Router"),
    given.job("mtxs", "TenantOperation"),
    given.job("content", "Content"),
    contentJobs=["content"],
    tenantOperations={step: [{"workloadName": "mtxs"}] for step in ("provisioning", "upgrade", "deprovisioning")},
    serviceExposures=[{"subDomain": "api", "routes": [{"workloadName": "srv", "port": 4004}]}],
    registrySecrets=["pull"],
)
APPLICATION = given.application(domainRefs=[{"kind": "Domain", "name": "primary"}])
INLINE = given.application(
    domains={
        "primary": "shop.example.com",
        "secondary": ["b.example.com"],
        "istioIngressGatewayLabels": [{"name": "istio", "value": "gateway"}],
    }
)
DOMAIN: JsonObject = {
    "metadata": given.metadata("primary"),
    "spec": {
        "domain": "shop.example.com",
        "ingressSelector": {"istio": "gateway"},
        "tlsMode": "Simple",
        "dnsMode": "Custom",
        "dnsTemplates": [{"name": "{{.subDomain}}.{{.domain}}", "target": "{{.dnsTarget}}"}],
    },
}
OUTPUT: JsonObject = {
    "metadata": given.metadata("output", labels={"sme.sap.com/btp-tenant-id": "acme-id"}),
    "spec": {"subscriptionCallbackData": "{}"},
}
SERVED = msgspec.structs.replace(msgspec.convert(DOMAIN, Domain), status=DomainStatus(state="Ready", gateway_name="gw"))
BASES: dict[type[Kind], list[JsonObject]] = {
    CAPApplication: [as_json(APPLICATION), as_json(INLINE)],
    CAPApplicationVersion: [as_json(VERSION)],
    CAPTenant: [as_json(given.tenant())],
    CAPTenantOperation: [as_json(given.operation())],
    CAPTenantOutput: [OUTPUT],
    Domain: [DOMAIN],
    ClusterDomain: [{**DOMAIN, "metadata": {"name": "primary", "uid": "uid"}}],
}
SCHEMAS = {each.versions[0].kind: dig(each.body(), "spec", "versions") for each in api.DEFINITIONS}
SAMPLED, SAMPLED_PLANS = 48, 22
"""One of so many variants is judged, or planned with, if the sweep is not whole: others each day."""


def variants(
    kind: type[Kind], *, pairs: bool = False, mixed: bool = True, every: int = 1
) -> Iterator[tuple[str, JsonObject]]:
    """Large objects of a kind; one of so many, or all of them in a whole sweep (`make sweep`)."""
    versions = SCHEMAS[kind]
    assert isinstance(versions, list)
    schema = dig(versions[0], "schema", "openAPIV3Schema")
    assert isinstance(schema, dict)
    for base in BASES[kind]:
        largest = Largest(
            schema, base, levels=4, text_levels=3, every=1 if sweeps.IS_WHOLE else every, first=sweeps.turn()
        )
        yield from largest.pairs(PAIR_BYTES, levels=3, mixed=mixed) if pairs else largest.singles()


def manager() -> Manager:
    return Manager(Client.connect(ClusterConfig(server="http://nowhere.invalid")))


# ---- judges


def judges() -> dict[tuple[str, str], Any]:
    """The webhooks as the process has them, with caches that hold what the objects refer to."""
    home = manager()
    found = Judges(
        client=home.client,
        applications=home.informer(CAPApplication),
        tenants=home.informer(CAPTenant),
        domains=home.informer(Domain),
        cluster_domains=home.informer(ClusterDomain),
        namespaces=home.informer(metadata_of(Namespace)),
    )
    found.tenants.store.add_index(duplicates.BY_SPEC_ID, duplicates.by_tenant_id)
    found.applications.take(Synced((APPLICATION,), "1"))
    found.tenants.take(Synced((given.tenant(),), "1"))
    found.domains.take(Synced((), "1"))
    found.cluster_domains.take(Synced((), "1"))
    return {(each.path, each.gvk.kind): each for each in found.webhooks()}


def asked(kind: type[Kind], new: JsonObject | None, old: JsonObject | None = None) -> bytes:
    metadata = (new or old or {})["metadata"]
    assert isinstance(metadata, dict)
    gvk = kind.resource.gvk
    request = {
        "uid": "42",
        "kind": {"group": gvk.group, "version": gvk.version, "kind": gvk.kind},
        "name": metadata["name"],
        "namespace": metadata.get("namespace", ""),
        "operation": "CREATE" if old is None else "UPDATE",
        "userInfo": {"username": "ann"},
        "object": new,
        "oldObject": old,
        "dryRun": True,
    }
    return msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})


def changed(body: JsonObject) -> JsonObject:
    """The object after a change of its spec that leaves all else as it is."""
    spec = body.get("spec")
    assert isinstance(spec, dict)
    return {**body, "spec": {**spec, "version": "9.9.9"}}


@pytest.mark.heavy
@pytest.mark.parametrize("kind", BASES, ids=lambda kind: kind.__name__)
async def test_no_judgement_of_a_large_object_holds_the_event_loop(kind: type[Kind]) -> None:
    """A sample of the variants.

    A stall is the time between two turns of the loop, without what other processes take: what the loop computes, and
    what it waits for a thread that does not give the interpreter away, because it is in one long call.
    """
    offenders: list[str] = []
    for (path, name), judge in judges().items():
        if name != kind.__name__:
            continue
        by_kind = {(judge.gvk.group, judge.gvk.kind): judge}
        for variant, body in variants(kind, every=SAMPLED):
            for question in (asked(kind, body), asked(kind, changed(body), body)):
                longest = await least_stall(_reviewed(by_kind, question))
                if longest > LONGEST_STALL_SECONDS:
                    offenders.append(f"{path} {variant}, {len(question)} bytes: {longest:.3f} s")
    assert offenders == []


def _reviewed(by_kind: dict[tuple[str, str], Any], question: bytes) -> Callable[[], Awaitable[object]]:
    return lambda: review(by_kind, question)


# ---- what runs on the event loop of the controllers


def of_version(version: CAPApplicationVersion) -> Iterator[Callable[[], object]]:
    objects = VersionObjects(application=APPLICATION, version=version)
    seen = version_plan.VersionSnapshot(version=version, application=APPLICATION, versions=[version])
    yield lambda: resources.check_size(version)
    yield lambda: version_rules.problem_of_new(version, APPLICATION, derives_tenant_jobs=False)
    yield lambda: version_rules.problem_of_change(version, version)
    yield lambda: version_plan.next_action(seen)
    yield lambda: monitoring.questions(version, unrestricted=True)
    yield lambda: application_plan.decide(ApplicationSnapshot(application=APPLICATION, versions=[version]), NOW)
    yield lambda: exposures.routes(APPLICATION, version, (), lambda *_: SERVED, "cap-system")
    for operation in Operation:
        yield lambda named=operation: operation_jobs.steps_of(version, named)  # type: ignore[misc]
    try:
        resources.check_size(version)
    except UnusableWorkload:
        return  # nothing is made of it
    yield lambda: content.next_job(version, (), retry=False)
    yield lambda: content.unseen(version, ())
    yield lambda: [*objects.policies()]
    for made in (objects.services, objects.monitors, objects.companions):
        yield lambda make=made: [each for _, workload in objects.workloads() for each in make(workload)]  # type: ignore[misc]
    for workload in version.spec.workloads[:5]:
        yield lambda each=workload: credentials.consumed(APPLICATION, each, given.NAMESPACE)  # type: ignore[misc]
        if workload.deployment is not None:
            yield lambda each=workload: objects.deployment(each, "secret")  # type: ignore[misc]
        else:
            yield lambda each=workload: content.job(version, each, "secret")  # type: ignore[misc]


def of_application(application: CAPApplication) -> Iterator[Callable[[], object]]:
    def seen(**more: Any) -> ApplicationSnapshot:
        return ApplicationSnapshot(application=application, versions=[VERSION], tenants=[given.tenant()], **more)

    references = application.spec.domain_refs
    yield lambda: rules.problem_of_application(None, application)
    yield lambda: rules.problem_of_application(APPLICATION, application)
    yield from of_registries(application)
    yield lambda: application_plan.decide(seen(), NOW)
    yield lambda: application_plan.decide(seen(hidden_domains=references), NOW)
    yield lambda: application_plan.decide(seen(domains=dict.fromkeys(references, SERVED)), NOW)
    yield lambda: inline_domains.conversion(application, (), ())
    yield lambda: exposures.routes(application, VERSION, (), lambda *_: SERVED, "cap-system")
    yield lambda: naming.referenced_by(application)
    yield lambda: dns.subdomains("shop.example.com", [application])
    for workload in VERSION.spec.workloads:
        yield lambda each=workload: credentials.consumed(application, each, given.NAMESPACE)  # type: ignore[misc]


def of_registries(application: CAPApplication) -> Iterator[Callable[[], object]]:
    """What the subscription server does with an application that a request may mean."""
    yield lambda: subscription_plan.named(
        [application], application.spec.provider_subaccount_id, application.spec.btp_app_name
    )
    yield lambda: subscription_plan.rivals(APPLICATION, [application, APPLICATION])
    yield lambda: subscription_plan.domain_for(application, "shop.example.com", [SERVED])
    yield lambda: subscription_plan.first_domain(application, [SERVED])
    yield lambda: subscription_plan.tenant_names(application, "acme-id")
    yield lambda: registries.xsuaa_of(application)
    yield lambda: answer.additional_output(application, ())
    for protocol in Protocol:
        yield lambda each=protocol: registries.service_of(application, each)  # type: ignore[misc]
        yield lambda each=protocol: registries.services_for_callback(application, each, "x", "y")  # type: ignore[misc]


def of_output(output: CAPTenantOutput) -> Iterator[Callable[[], object]]:
    yield lambda: rules.problem_of_output(output, [given.tenant()])
    yield lambda: answer.additional_output(APPLICATION, [output, output])


def of_tenant(tenant: CAPTenant) -> Iterator[Callable[[], object]]:
    yield lambda: tenant_plan.absent(tenant, APPLICATION)
    yield lambda: rules.problem_of_new_tenant(tenant, APPLICATION)
    yield lambda: rules.problem_of_changed_tenant(tenant, tenant)
    yield lambda: duplicates.of_tenant(tenant, [tenant, given.tenant()], {APPLICATION.key: APPLICATION}.get)
    yield lambda: subscription_plan.is_tenant_of(tenant, APPLICATION, "acme-id")
    yield lambda: subscription_plan.oldest([tenant, given.tenant()])
    yield lambda: application_plan.decide(
        ApplicationSnapshot(application=APPLICATION, versions=[VERSION], tenants=[tenant]), NOW
    )
    yield lambda: version_plan.awaited(VERSION, [tenant], [VERSION], ())


def of_operation(operation: CAPTenantOperation) -> Iterator[Callable[[], object]]:
    sources = PlainSources().add(TENANTS, PlainSource([given.tenant()])).add(VERSIONS, PlainSource([VERSION]))
    sources.add(APPLICATIONS, PlainSource([APPLICATION]))
    yield lambda: operation_decide.decide(operation, View(sources=sources, now=NOW, settings=(OperationSettings(),)))
    yield lambda: operation_plan.is_released(operation)
    yield lambda: version_plan.awaited(VERSION, (), [VERSION], [operation])


def of_domain(domain: Domain | ClusterDomain) -> Iterator[Callable[[], object]]:
    key = domain.key
    assigned = dns.subdomains(domain.spec.domain, [])
    yield lambda: rules.problem_of_domain(None, domain, [SERVED], NOTHING_GRANTED)
    yield lambda: subscription_plan.domain_for(APPLICATION, "shop.example.com", [domain])
    yield lambda: ingress.selector(domain)
    yield lambda: dns.check_host(domain)
    yield lambda: dns.texts(domain, "target.example.com", ())
    yield lambda: dns.problem_of_templates(domain)
    yield lambda: dns.records(domain, "target.example.com", assigned)
    yield lambda: ingress.selector_text(domain)
    yield lambda: bounds.problem_of_size(domain)
    if len(domain.spec.ingress_selector) <= bounds.MOST_LABELS:
        yield lambda: domain_resources.gateway(domain, key, key)
        yield lambda: domain_resources.network_policy(domain, key)
    yield lambda: [*domain_resources.ca_secrets(domain, key)]
    yield lambda: domain_resources.cert_manager_certificate(domain, key)


WORK: dict[type[Kind], Callable[[Any], Iterator[Callable[[], object]]]] = {
    CAPApplication: of_application,
    CAPApplicationVersion: of_version,
    CAPTenant: of_tenant,
    CAPTenantOperation: of_operation,
    CAPTenantOutput: of_output,
    Domain: of_domain,
    ClusterDomain: of_domain,
}
REFUSED = (
    DomainProblem,
    DomainUnknown,
    Unroutable,
    UnusableRule,
    UnusableWorkload,
    operation_jobs.NoTenantOperation,
)


def seconds(work: Callable[[], object]) -> float:
    """What the work takes the processor; the least of three tries where it is too much."""
    least = float("inf")
    for _ in range(3):
        began = time.thread_time()
        with contextlib.suppress(*REFUSED):
            work()
        least = min(least, time.thread_time() - began)
        if least < LONGEST_STALL_SECONDS:
            break
    return least


@pytest.mark.heavy
@pytest.mark.parametrize("pairs", [False, True], ids=["one field", "two lists"])
@pytest.mark.parametrize("kind", BASES, ids=lambda kind: kind.__name__)
def test_no_plan_or_index_of_a_large_object_holds_the_event_loop(kind: type[Kind], pairs: bool) -> None:
    caches, directory = Caches(manager()), Directory.opened(manager())
    informers = (caches.applications, caches.versions, caches.tenants, caches.operations, caches.domains)
    of_server = (directory.applications, directory.tenants, directory.domains, directory.cluster_domains)
    stores: list[Any] = [
        each.store for each in (*informers, caches.cluster_domains, *of_server) if each.view.shape is kind
    ]
    offenders: list[str] = []
    for variant, body in variants(kind, pairs=pairs, every=SAMPLED if pairs else SAMPLED_PLANS):
        try:
            obj = view(kind).decode(msgspec.json.encode(body))
        except UNREADABLE:
            continue  # the cache shows its metadata, and that it cannot be read
        indexed: list[Callable[[], object]] = [partial(store.put, obj) for store in stores for _ in range(2)]
        for number, work in enumerate((*WORK[kind](obj), *indexed)):
            if (took := seconds(work)) > LONGEST_STALL_SECONDS:
                offenders.append(f"{variant}: work {number} took {took:.3f} s")
    assert offenders == []


@pytest.mark.heavy
@pytest.mark.req("R-932")
@pytest.mark.parametrize("kind", [CAPApplication, CAPApplicationVersion], ids=lambda kind: kind.__name__)
def test_no_plan_multiplies_two_lists_of_an_object(kind: type[Kind]) -> None:
    offenders: list[str] = []
    for variant, body in variants(kind, pairs=True, mixed=False, every=SAMPLED_PLANS):
        data = msgspec.json.encode(body)
        if len(data) < PAIR_BYTES // 2:
            continue
        obj = view(kind).decode(data)
        tracemalloc.start()
        try:
            for work in WORK[kind](obj):
                with contextlib.suppress(*REFUSED):
                    work()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        if peak > MOST_BYTES_OF_MEMORY * len(data):
            offenders.append(f"{variant}: {peak >> 20} MiB of {len(data)} bytes")
    assert offenders == []
