"""A pass over a domain whose surroundings, or whose host, are not as they should be."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, cast

import msgspec
import pytest
from tests.unit.cap.domain.given import SETTINGS, domain, live, reference, world

from stellwerk.api.core import Pod
from stellwerk.api.gardener import GardenerCertificate
from stellwerk.api.networking import NetworkPolicy
from stellwerk.apply.set.model.confirmation import Live
from stellwerk.apply.set.observed_state import ObservedState
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import Conflict, Status, Unreachable
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import JsonObject, Kind, PartialObjectMetadata, Unstructured
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.kube.watch.watch_states import Synced
from stellwerk.operators.cap.domain import dns, ingress, plan, resources, watches
from stellwerk.operators.cap.domain.errors import DomainProblem, IngressProblem, NotWritten
from stellwerk.operators.cap.domain.naming import AnyDomain
from stellwerk.operators.cap.domain.pace import Pace, Paces
from stellwerk.operators.cap.domain.plan import DomainSnapshot
from stellwerk.operators.cap.domain.reconcile import AGAIN_SECONDS, DomainReconciler
from stellwerk.operators.cap.domain.resources import DnsRecord
from stellwerk.operators.cap.domain.watches import DomainCaches
from stellwerk.operators.cap.domain.writer import DomainWriter
from stellwerk.operators.cap.hashed_objects import HashedObjects
from stellwerk.operators.cap.kinds.application import DomainRef
from stellwerk.operators.cap.kinds.domain import DNSMode, Domain, DomainStatus
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.reconciler import Next, Retry
from stellwerk.testing.checks.loop_stalls import LONGEST_STALL_SECONDS, least_stall
from stellwerk.testing.clock import FakeClock


def shown(state: str, generation: int = 3) -> Domain:
    """A domain of generation 3."""
    return msgspec.structs.replace(domain(), status=DomainStatus(state=state, observed_generation=generation))


class NoPods:
    """Caches of a cluster whose ingress gateway has no pods."""

    def passing(self, _: AnyDomain) -> AbstractContextManager[Pace]:
        return nullcontext(Paces(FakeClock()).of(""))

    async def snapshot(self, subject: AnyDomain, _: Pace) -> DomainSnapshot:
        return DomainSnapshot(domain=subject, live={})

    async def pods(self, _: str) -> list[Any]:
        return []


def reconciler(clock: FakeClock) -> DomainReconciler:
    absent: Any = None
    return DomainReconciler(
        client=absent, clock=clock, caches=cast(Any, NoPods()), writer=absent, settings=SETTINGS, renderer=absent
    )


def test_only_a_domain_that_is_ready_for_its_spec_has_time() -> None:
    assert ingress.grace_left(shown("Ready"), 10) == ingress.GRACE_SECONDS - 10
    assert ingress.grace_left(shown("Ready"), ingress.GRACE_SECONDS + 1) == 0
    assert ingress.grace_left(shown("Ready", generation=2), 0) == 0
    assert ingress.grace_left(shown("Processing"), 0) == 0


async def test_a_ready_domain_stays_so_while_its_ingress_gateway_restarts_and_reports_one_that_stays_away() -> None:
    clock = FakeClock()
    parts = reconciler(clock)
    assert await parts.begin(shown("Ready")).run() == Next.after(ingress.GRACE_SECONDS)
    await clock.advance(20)
    assert await parts.begin(shown("Ready")).run() == Next.after(ingress.GRACE_SECONDS - 20)
    await clock.advance(ingress.GRACE_SECONDS - 20)
    with pytest.raises(IngressProblem, match="no matching ingress gateway pods"):
        await parts.begin(shown("Ready")).run()


async def caches_of(*domains: Domain, subdomains: int) -> DomainCaches:
    """Those of a cluster with an ingress gateway, where each domain has a pending DNS entry for each subdomain."""
    found = watches.caches(Manager(Client.connect(ClusterConfig(server="http://nowhere.invalid"))), SETTINGS)
    objects: dict[Resource, list[Live]] = {each: [] for each in found.children}
    shop = reference("app", "shop", *(f"tenant-{number}" for number in range(subdomains)))
    named = tuple(DomainRef(kind=each.resource.kind, name=each.metadata.name) for each in domains)
    shop = msgspec.structs.replace(shop, spec=msgspec.structs.replace(shop.spec, domain_refs=named))
    reported: JsonObject = {"status": {"state": "Pending"}}
    for subject in domains:
        records = dns.records(subject, "lb.example.com", dns.subdomains(subject.spec.domain, (shop,)))
        for each in plan.plan(world(subject, references=(shop,), records=records)).resources:
            address, obj = live(subject, each)
            assert isinstance(obj, Unstructured)
            objects[address.resource].append(Unstructured.of({**obj.body, **reported}))
    found.domains.take(Synced(domains, "1"))
    found.applications.take(Synced((shop,), "1"))
    for resource, informer in found.children.items():
        informer.take(Synced(tuple(objects[resource]), "1"))
    gateway = PartialObjectMetadata(metadata=ObjectMeta(name="gateway", namespace="istio-system"))
    looking = asyncio.create_task(found.pods(domains[0]))
    await asyncio.sleep(0)
    pods = next(each for each in found.manager.home.informers if each.view.resource == Pod.resource)
    pods.take(Synced((gateway,), "1"))
    await looking
    return found


@pytest.mark.req("R-412")
@pytest.mark.heavy
async def test_passes_over_two_domains_of_twenty_thousand_dns_entries_do_not_hold_up_others() -> None:
    wishes: dict[str, Any] = {"dns_mode": DNSMode.SUBDOMAIN, "dns_target": "lb.example.com"}
    first, second = domain(**wishes), domain("other.example.com", meta={"name": "other"}, **wishes)
    caches = await caches_of(first, second, subdomains=dns.MOST_RECORDS)
    absent: Any = None
    clock = FakeClock()
    objects = HashedObjects(client=absent, clock=clock, informers={}, on_throttled=lambda _: None)
    parts = DomainReconciler(
        client=absent,
        clock=clock,
        caches=caches,
        writer=DomainWriter(objects),
        settings=SETTINGS,
        renderer=absent,
    )
    answers: list[Next[DomainStatus]] = []

    async def run() -> None:
        answers.extend(await asyncio.gather(*(parts.begin(each).run() for each in (first, second))))

    assert await least_stall(run) < LONGEST_STALL_SECONDS
    for answer in answers:
        assert answer.status is not None
        assert answer.status.state == "Processing"


class EmptyThenAway:
    """An API server that has none of the objects, and does not answer to writes."""

    async def find(self, *_: object) -> None:
        await asyncio.sleep(0)

    async def apply(self, *_: object, **__: object) -> None:
        await asyncio.sleep(0)
        raise Unreachable("away")

    create = apply


@pytest.mark.req("R-412")
@pytest.mark.heavy
async def test_the_first_write_of_many_dns_entries_does_not_hold_up_others() -> None:
    subject, client = domain(), cast(Any, EmptyThenAway())
    wanted = [
        resources.dns_entry(subject, ObjectKey("shop", f"dns-{number}"), DnsRecord(f"{number}.example.com", "lb"))
        for number in range(dns.MOST_RECORDS)
    ]
    objects = HashedObjects(client=client, clock=FakeClock(), informers={}, on_throttled=lambda _: None)

    async def write() -> None:
        with pytest.raises(Unreachable):
            await DomainWriter(objects).apply(subject, {}, plan.sorted_out(wanted), ObservedState())

    assert await least_stall(write) < LONGEST_STALL_SECONDS


class Occupied:
    """An API server where an object of another owner, which is being deleted, has the name of each of ours."""

    async def find(self, _: object, name: str, namespace: str) -> Unstructured:
        ending: JsonObject = {"deletionTimestamp": "2026-05-01T12:00:00Z", "finalizers": ["example.com/held"]}
        return Unstructured.of({"metadata": {"name": name, "namespace": namespace, "uid": "other", **ending}})

    async def apply(self, *_: object, **__: object) -> None:
        raise Conflict(Status(code=409, reason="Conflict"))


@pytest.mark.parametrize("kind", [GardenerCertificate, NetworkPolicy])
async def test_a_domain_looks_again_for_the_end_of_an_object_that_no_cache_shows(kind: type[Kind]) -> None:
    subject = domain(dns_mode=DNSMode.NONE, dns_target="lb.example.com")
    caches = await caches_of(subject, subdomains=0)
    informer = caches.children[kind.resource]
    assert informer.store.all()
    informer.take(Synced((), "2"))
    client, clock = cast(Any, Occupied()), FakeClock()
    objects = HashedObjects(client=client, clock=clock, informers={}, on_throttled=lambda _: None)
    parts = DomainReconciler(
        client=client,
        clock=clock,
        caches=caches,
        writer=DomainWriter(objects),
        settings=SETTINGS,
        renderer=cast(Any, None),
    )

    assert (await parts.begin(subject).run()).delay_seconds == AGAIN_SECONDS


async def test_a_domain_that_is_not_ready_reports_a_missing_ingress_gateway_at_once() -> None:
    with pytest.raises(IngressProblem, match="no matching ingress gateway pods"):
        await reconciler(FakeClock()).begin(shown("Processing")).run()


async def test_a_domain_whose_label_a_mutating_webhook_removes_says_so_and_is_tried_again() -> None:
    bare = domain(meta={"labels": {}})

    class Webhook:
        async def patch(self, *_: object, **__: object) -> Domain:
            return bare

    parts = replace(reconciler(FakeClock()), client=cast(Any, Webhook()))
    with pytest.raises(NotWritten, match=r"removes .* metadata\.labels: .*kubectl get mutatingwebhook") as raised:
        await parts.begin(bare).run()
    assert raised.value.retry is Retry.BACKOFF


async def test_a_host_that_is_no_dns_name_is_reported_before_anything_is_looked_for() -> None:
    odd = msgspec.structs.replace(domain("a..b"), status=DomainStatus(state="Ready", observed_generation=3))
    with pytest.raises(DomainProblem, match="is not a DNS name"):
        await reconciler(FakeClock()).begin(odd).run()
