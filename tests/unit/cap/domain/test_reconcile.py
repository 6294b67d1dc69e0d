"""A pass over a domain whose surroundings, or whose host, are not as they should be."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import pytest
from tests.unit.cap.domain.given import SETTINGS, domain, live, reference, world

from stellwerk.apply.objects.desired import Address
from stellwerk.apply.set.model.confirmation import Live
from stellwerk.apply.set.observed_state import ObservedState
from stellwerk.kube.types.errors import Unreachable
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import JsonObject, PartialObjectMetadata, Unstructured
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.cap.domain import dns, ingress, plan, resources
from stellwerk.operators.cap.domain.errors import DomainProblem, IngressProblem
from stellwerk.operators.cap.domain.naming import AnyDomain
from stellwerk.operators.cap.domain.plan import DomainSnapshot
from stellwerk.operators.cap.domain.reconcile import DomainReconciler
from stellwerk.operators.cap.domain.resources import DnsRecord
from stellwerk.operators.cap.domain.writer import DomainWriter
from stellwerk.operators.cap.hashed_objects import HashedObjects
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.domain import DNSMode, Domain, DomainStatus
from stellwerk.runtime.reconciler import Next
from stellwerk.testing.checks.loop_stalls import LONGEST_STALL_SECONDS, least_stall
from stellwerk.testing.clock import FakeClock


def shown(state: str, generation: int = 3) -> Domain:
    """A domain of generation 3."""
    return msgspec.structs.replace(domain(), status=DomainStatus(state=state, observed_generation=generation))


class NoPods:
    """Caches of a cluster whose ingress gateway has no pods."""

    def snapshot(self, subject: AnyDomain) -> DomainSnapshot:
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


@dataclass
class Caches:
    """Caches of a cluster with an ingress gateway and these objects."""

    references: tuple[CAPApplication, ...]
    live: dict[Address, Live] = field(default_factory=dict)

    def snapshot(self, subject: AnyDomain) -> DomainSnapshot:
        return DomainSnapshot(domain=subject, references=self.references, live=self.live)

    async def pods(self, _: str) -> list[Any]:
        return [PartialObjectMetadata(metadata=ObjectMeta(name="gateway", namespace="istio-system"))]

    def namesakes(self, *_: object) -> tuple[AnyDomain, ...]:
        return ()

    def unserved(self) -> dict[Resource, str]:
        return {}


@pytest.mark.req("R-412")
@pytest.mark.heavy
async def test_a_pass_over_twenty_thousand_dns_entries_does_not_hold_up_others() -> None:
    subject = domain(dns_mode=DNSMode.SUBDOMAIN, dns_target="lb.example.com")
    shop = reference("app", "shop", *(f"tenant-{number}" for number in range(dns.MOST_RECORDS)))
    records = dns.records(subject, "lb.example.com", dns.subdomains("app.example.com", (shop,)))
    wanted = plan.plan(world(subject, references=(shop,), records=records)).resources
    reported: JsonObject = {"status": {"state": "Pending"}}
    caches = Caches((shop,))
    for each in wanted:
        address, obj = live(subject, each)
        assert isinstance(obj, Unstructured)
        caches.live[address] = Unstructured.of({**obj.body, **reported})

    absent: Any = None
    clock = FakeClock()
    objects = HashedObjects(client=absent, clock=clock, informers={}, on_throttled=lambda _: None)
    parts = DomainReconciler(
        client=absent,
        clock=clock,
        caches=cast(Any, caches),
        writer=DomainWriter(objects),
        settings=SETTINGS,
        renderer=absent,
    )
    answers: list[Next[DomainStatus]] = []

    async def run() -> None:
        answers.append(await parts.begin(subject).run())

    assert await least_stall(run) < LONGEST_STALL_SECONDS
    shown = answers[-1].status
    assert shown is not None
    assert shown.state == "Processing"


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
            await DomainWriter(objects).apply(subject, {}, wanted, ObservedState())

    assert await least_stall(write) < LONGEST_STALL_SECONDS


async def test_a_domain_that_is_not_ready_reports_a_missing_ingress_gateway_at_once() -> None:
    with pytest.raises(IngressProblem, match="no matching ingress gateway pods"):
        await reconciler(FakeClock()).begin(shown("Processing")).run()


async def test_a_host_that_is_no_dns_name_is_reported_before_anything_is_looked_for() -> None:
    odd = msgspec.structs.replace(domain("a..b"), status=DomainStatus(state="Ready", observed_generation=3))
    with pytest.raises(DomainProblem, match="is not a DNS name"):
        await reconciler(FakeClock()).begin(odd).run()
