"""A pass over a domain whose surroundings, or whose host, are not as they should be."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest
from tests.unit.cap.domain.given import SETTINGS, domain

from stellwerk.operators.cap.domain import ingress
from stellwerk.operators.cap.domain.errors import DomainProblem, IngressProblem
from stellwerk.operators.cap.domain.naming import AnyDomain
from stellwerk.operators.cap.domain.plan import DomainSnapshot
from stellwerk.operators.cap.domain.reconcile import DomainReconciler
from stellwerk.operators.cap.kinds.domain import Domain, DomainStatus
from stellwerk.runtime.reconciler import Next
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


async def test_a_domain_that_is_not_ready_reports_a_missing_ingress_gateway_at_once() -> None:
    with pytest.raises(IngressProblem, match="no matching ingress gateway pods"):
        await reconciler(FakeClock()).begin(shown("Processing")).run()


async def test_a_host_that_is_no_dns_name_is_reported_before_anything_is_looked_for() -> None:
    odd = msgspec.structs.replace(domain("a..b"), status=DomainStatus(state="Ready", observed_generation=3))
    with pytest.raises(DomainProblem, match="is not a DNS name"):
        await reconciler(FakeClock()).begin(odd).run()
