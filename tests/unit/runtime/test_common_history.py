"""A cluster that was restored from a backup is looked at again as a whole before anything is decided."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.runtime.test_informer import THINGS, A, Thing, thing

from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.watch.watch_states import Changed, Synced, WatchSuspended
from stellwerk.runtime.cache.common_history import AGAIN_SECONDS, HELD_SECONDS, CommonHistory
from stellwerk.runtime.cache.informer import Informer
from stellwerk.testing.clock import FakeClock
from stellwerk.testing.eventually import eventually


class Caches:
    """Two caches of one cluster, fed by hand, at versions 50 and 40."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.history = CommonHistory(self.clock)
        self.first, self.second = self._cache("50"), self._cache("40")

    def _cache(self, version: str) -> Informer[Thing]:
        client = Client.connect(ClusterConfig(server="http://nowhere.invalid"))
        made = Informer(client, THINGS, clock=self.clock, history=self.history)
        made.take(Synced((thing("a", 1),), version))
        return made

    async def begins(self) -> asyncio.Task[None]:
        """A pass that is about to begin."""
        made = asyncio.create_task(self.history.common())
        await asyncio.sleep(0)
        return made


@pytest.mark.req("R-204")
async def test_no_pass_begins_before_all_caches_show_the_same_past() -> None:
    caches = Caches()
    await caches.history.common()
    caches.first.take(Synced((), "30"))
    beginning = await caches.begins()
    assert not beginning.done()
    caches.second.take(Synced((), "31"))
    await beginning


@pytest.mark.req("R-204")
async def test_a_cache_that_has_resumed_without_noticing_lists_again() -> None:
    caches = Caches()
    listed: list[Synced[Thing]] = []
    caches.second.list_again = lambda: listed.append(Synced((), "41"))  # type: ignore[method-assign]
    caches.first.take(Synced((), "30"))
    assert listed, "although its version is no older than what it has shown"


@pytest.mark.req("R-204")
async def test_a_restored_database_that_counts_on_from_far_ahead_is_noticed_by_its_older_objects() -> None:
    caches = Caches()
    caches.first.take(Changed(thing("a", 90)))
    caches.first.expect_end(thing("a", 90))
    caches.first.take(Synced((thing("a", 1),), "1000000050"))
    beginning = await caches.begins()
    assert not beginning.done()
    assert caches.first.expected(A) is None, "what was written after the backup never shows"
    caches.second.take(Synced((), "1000000051"))
    await beginning


@pytest.mark.req("R-105", "R-204")
async def test_an_older_object_of_another_uid_is_no_sign_of_a_restored_database() -> None:
    caches = Caches()
    caches.first.take(Changed(thing("a", 90)))
    caches.first.take(Synced((thing("a", 80, uid="another"), thing("b", 1)), "95"))
    await asyncio.wait_for(caches.history.common(), 20)


@pytest.mark.req("R-204", "R-505")
async def test_a_server_whose_versions_run_backwards_holds_passes_up_for_a_short_time_and_seldom() -> None:
    caches = Caches()
    caches.first.take(Synced((), "30"))
    beginning = await caches.begins()
    await caches.clock.advance(HELD_SECONDS + 0.1)
    await eventually(beginning.done)
    caches.second.take(Synced((), "31"))
    caches.first.take(Synced((), "20"))
    await caches.history.common()
    await caches.clock.advance(AGAIN_SECONDS)
    caches.first.take(Synced((), "10"))
    again = await caches.begins()
    assert not again.done()
    again.cancel()


@pytest.mark.req("R-204")
async def test_a_cache_whose_kind_has_gone_with_the_future_is_not_waited_for() -> None:
    caches = Caches()
    caches.first.take(Synced((), "30"))
    beginning = await caches.begins()
    caches.second.take(WatchSuspended("the API server serves no such kind", is_not_served=True))
    await beginning


@pytest.mark.req("R-204")
async def test_a_cache_that_may_not_list_yet_is_waited_for() -> None:
    caches = Caches()
    caches.second.take(WatchSuspended("a new API server has not read its roles", is_forbidden=True))
    caches.first.take(Synced((), "30"))
    beginning = await caches.begins()
    assert not beginning.done(), "it still shows the future"
    caches.second.take(Synced((), "31"))
    await beginning


async def test_a_cache_that_is_emptied_shows_no_past() -> None:
    caches = Caches()
    caches.first.take(Synced((), ""))
    await caches.history.common()
