"""Components come to the same end over a bad line: watches break, events are late or lost, calls fail, rights go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from stellwerk.api import flux
from stellwerk.kube.client.client import PAGE
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.component.api import Component
from stellwerk.testing.eventually import eventually
from stellwerk.testing.faults import (
    ANY_FRAME,
    ANYTHING,
    WATCHES,
    CutConnection,
    CutFrame,
    EndWatchAfter,
    ErrorFrame,
    EventFault,
    Exchange,
    FaultProxy,
    Hide,
    Hold,
    Repeat,
    chance,
    events,
    nth,
    of_watch,
    requests,
)
from stellwerk.testing.scenarios.recorder import Run
from tests.cluster import outages
from tests.cluster.component.given import Given, config_map
from tests.cluster.component.lives import Lives
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then

COMPONENTS = Component.resource.group_resource
TIRELESS = 400
"""Writes that nobody needs for three Components, whatever fails: about 60 are enough where nothing does."""
SOURCES = flux.GitRepository.resource.group_resource
KINDS = ("configmaps", "secrets", "services", "namespaces", SOURCES)
"""What is watched when the first Component needs it."""


@pytest.fixture
def lives(component_cluster: LocalCluster, behind: Running, given: Given, then: Then) -> Lives:
    return Lives(component_cluster, behind, given, then)


@pytest.fixture
async def clean(proxy: FaultProxy, behind: Running, lives: Lives) -> Sequence[Run]:
    """What is there at the end of each step without faults. The operator runs on."""
    await behind.start()
    ends = await lives.led()
    proxy.history.clear()
    return ends


def relists(proxy: FaultProxy) -> int:
    """How often all objects of a kind were asked for anew. One object only tells of the newest version."""
    return proxy.history.count(lambda one: one.verb == "list" and one.query.get("limit") == str(PAGE))


# ---- watches


@pytest.mark.req("R-201")
@pytest.mark.parametrize(
    ("fault", "forgets"),
    [
        pytest.param(CutFrame(), False, id="cut in a frame"),
        pytest.param(ErrorFrame(500), False, id="error frames"),
        pytest.param(ErrorFrame(410), True, id="410"),
    ],
)
async def test_watches_that_break_at_every_fifth_event_lead_to_the_same_end(
    proxy: FaultProxy, lives: Lives, clean: Sequence[Run], fault: EventFault, forgets: bool
) -> None:
    with proxy.on_events(events(), fault, chance(0.2, seed=1)) as rule:
        await lives.led_as(clean)
    assert rule.fired >= 4, "a new list tells of many objects at once, so there are no more than some fifty events"
    assert relists(proxy) <= (rule.fired if forgets else 0), proxy.history


@pytest.mark.req("R-201")
async def test_watches_that_end_every_two_seconds_lead_to_the_same_end_without_a_new_list(
    proxy: FaultProxy, behind: Running, lives: Lives, clean: Sequence[Run]
) -> None:
    await behind.stop()
    ending = proxy.on_requests(WATCHES, EndWatchAfter(2.0))
    await behind.start()
    proxy.history.clear()
    await lives.led_as(clean)
    await eventually(lambda: ending.fired > 2 * len(behind.manager.home.informers), on=proxy.history.changed)
    assert relists(proxy) <= len(KINDS), f"kinds of objects are watched when the first is there; {proxy.history}"
    ending.end()
    hurried = replace(lives, patience_seconds=20.0)
    await hurried.create()
    await hurried.over(0)


@pytest.mark.req("R-202")
async def test_a_line_that_has_gone_silent_is_given_up_and_readiness_tells_of_a_dead_one(
    proxy: FaultProxy, behind: Running, given: Given, then: Then
) -> None:
    behind.silence_seconds = 1.0
    await given.source({"one.yaml": config_map("one", a="1")}, revision="r1")
    await behind.start()
    await given.component()
    await then.ready(revision="r1")
    silent = Hold()
    half_open = proxy.on_events(ANY_FRAME & of_watch(requests("watch", SOURCES)), silent, nth(1))
    await given.source({"one.yaml": config_map("one", a="2")}, revision="r2")
    await silent.caught()
    half_open.end()
    await then.ready(revision="r2", within=30)  # idle watches are given up, too, and then rest for up to 5 s
    silent.release()

    dead = proxy.on_requests(ANYTHING, CutConnection())
    await eventually(lambda: dead.fired > 3, on=proxy.history.changed)
    await behind.clock.skip(seconds=181)
    assert "stale: no event for" in (behind.manager.unready() or "")
    dead.end()
    await eventually(lambda: behind.manager.unready() is None, within=30, describe="the operator is ready again")


# ---- calls


@pytest.mark.req("R-203")
async def test_with_a_third_of_the_calls_failing_it_converges_and_waits_as_long_as_it_is_told_to(
    proxy: FaultProxy, lives: Lives, clean: Sequence[Run]
) -> None:
    rules = outages.failing_calls(proxy)
    await replace(lives, patience_seconds=60.0).led_as(clean)
    assert min(rule.fired for rule in rules) > 0
    assert too_early(proxy) == []
    assert len(proxy.history.writes()) < TIRELESS, proxy.history


def too_early(proxy: FaultProxy) -> list[str]:
    """Writes that came again before their Retry-After was over."""
    found = []
    for one in proxy.history.writes():
        again = next((other for other in proxy.history.writes() if is_same_later(one, other)), None)
        if one.status == 429 and again is not None and again.request.seconds - one.request.seconds < 1.0:
            found.append(f"{one}, {again}")
    return found


def is_same_later(one: Exchange, other: Exchange) -> bool:
    ours, theirs = one.request, other.request
    return theirs.number > ours.number and (ours.method, ours.path_and_query, ours.body) == (
        theirs.method,
        theirs.path_and_query,
        theirs.body,
    )


# ---- events


@pytest.mark.req("R-103")
async def test_events_that_come_twice_lead_to_the_same_end_with_the_same_writes(
    proxy: FaultProxy, behind: Running, lives: Lives
) -> None:
    await behind.start()
    clean = await lives.led()
    usual = object_writes(proxy)
    proxy.history.clear()
    with proxy.on_events(events(), Repeat(2)):
        await lives.led_as(clean)
    assert object_writes(proxy) == usual, proxy.history


def object_writes(proxy: FaultProxy) -> list[str]:
    written = [str(one.request) for one in proxy.history.writes(requests(("create", "apply", "delete")))]
    return sorted(write for write in written if write.split()[1] in ("configmaps", "secrets", "services"))


@pytest.mark.req("R-103")
@pytest.mark.parametrize(
    ("resource", "merge"), [(COMPONENTS, False), (COMPONENTS, True), ("configmaps", False), ("services", True)]
)
async def test_events_of_a_kind_that_come_late_lead_to_the_same_end(
    proxy: FaultProxy, lives: Lives, clean: Sequence[Run], resource: str, merge: bool
) -> None:
    for step, ask in enumerate(lives.steps):
        hold = Hold(merge=merge)
        with proxy.on_events(events(resource=resource), hold, required=False):
            await ask()
            await hold.caught()
            await proxy.history.settled()
            hold.release()
        await lives.over(step)
        await lives.is_as(clean[step])


@pytest.mark.req("R-103")
async def test_hidden_events_are_found_out_in_time(
    proxy: FaultProxy, behind: Running, given: Given, then: Then
) -> None:
    await given.source({"one.yaml": config_map("one", a="1")}, revision="r1")
    await behind.start()
    await given.component()
    await then.ready(revision="r1")
    before = (await then.config("one")).metadata.uid
    news = proxy.on_events(events("MODIFIED", SOURCES), Hide())
    loss = proxy.on_events(events("DELETED", "configmaps"), Hide())
    await given.source({"one.yaml": config_map("one", a="2")}, revision="r2")
    await given.config_deleted("one")
    await eventually(lambda: news.fired and loss.fired, on=proxy.history.changed)
    proxy.heal()
    for _ in range(2):
        await every_cache_is_compared(proxy, behind)
    await then.ready(revision="r2")
    await then.config_is_another("one", before)
    await then.config_holds("one", {"a": "2"})


async def every_cache_is_compared(proxy: FaultProxy, running: Running) -> None:
    """The time for it has come, and it has been done."""
    before = relists(proxy)
    await running.waits(minutes=13)
    expected = before + len(running.manager.home.informers)
    await eventually(lambda: relists(proxy) >= expected, on=proxy.history.changed)
    await proxy.history.settled()
