"""Readiness names each watch that the operator cannot do without, and no other."""

from __future__ import annotations

import asyncio

from stellwerk.api.core import ConfigMap, Secret
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import metadata_of
from stellwerk.kube.watch.watch_states import Synced, WatchSuspended
from stellwerk.runtime.process.manager import Manager


async def test_a_parked_watch_is_a_problem_only_where_it_is_required() -> None:
    manager = Manager(Client.connect(ClusterConfig(server="http://nowhere.invalid")))
    required = manager.informer(metadata_of(ConfigMap), required=True)
    other = manager.informer(metadata_of(Secret))
    other.take(WatchSuspended("not permitted to list and watch secrets in the whole cluster", is_forbidden=True))
    required.take(Synced((), "1"))
    assert manager.unready() is None
    required.take(WatchSuspended("not permitted to list and watch configmaps in the whole cluster", is_forbidden=True))
    assert manager.unready() == (
        "configmaps cannot be watched: not permitted to list and watch configmaps in the whole cluster"
    )
    required.take(Synced((), "2"))
    assert manager.unready() is None


async def test_an_informer_that_somebody_requires_is_required_for_all() -> None:
    manager = Manager(Client.connect(ClusterConfig(server="http://nowhere.invalid")))
    first = manager.informer(metadata_of(ConfigMap))
    assert manager.informer(metadata_of(ConfigMap), required=True) is first
    first.take(WatchSuspended("the API server serves no v1 ConfigMap"))
    assert manager.unready() is not None


async def test_no_controller_starts_before_each_required_cache_was_full_once() -> None:
    manager = Manager(Client.connect(ClusterConfig(server="http://nowhere.invalid")))
    required = manager.informer(metadata_of(ConfigMap), required=True)
    other = manager.informer(metadata_of(Secret))
    for informer in (required, other):
        informer.take(WatchSuspended("not permitted", is_forbidden=True))
    settled = asyncio.create_task(manager.home.wait_settled())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not settled.done()
    required.take(Synced((), "1"))
    await asyncio.wait_for(settled, 5)


async def settling(manager: Manager) -> asyncio.Task[None]:
    task = asyncio.create_task(manager.home.wait_settled())
    for _ in range(5):
        await asyncio.sleep(0)
    return task


async def test_a_required_kind_that_is_not_served_has_no_objects_to_wait_for() -> None:
    manager = Manager(Client.connect(ClusterConfig(server="http://nowhere.invalid")))
    required = manager.informer(metadata_of(ConfigMap), required=True)
    required.take(WatchSuspended("the API server serves no v1 ConfigMap", is_not_served=True))
    assert (await settling(manager)).done()
    assert manager.unready() is not None


async def test_a_kind_that_comes_to_be_served_while_others_are_waited_for_is_waited_for_too() -> None:
    manager = Manager(Client.connect(ClusterConfig(server="http://nowhere.invalid")))
    absent, other = (manager.informer(metadata_of(kind), required=True) for kind in (ConfigMap, Secret))
    absent.take(WatchSuspended("the API server serves no v1 ConfigMap", is_not_served=True))
    settled = await settling(manager)
    absent.take(WatchSuspended("cannot list configmaps: the webhook failed"))
    other.take(Synced((), "1"))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not settled.done()
    absent.take(Synced((), "1"))
    await asyncio.wait_for(settled, 5)


async def test_no_start_waits_for_a_required_watch_that_was_released() -> None:
    manager = Manager(Client.connect(ClusterConfig(server="http://nowhere.invalid")))
    required = manager.informer(metadata_of(ConfigMap), required=True)
    required.take(WatchSuspended("not permitted", is_forbidden=True))
    settled = await settling(manager)
    assert not settled.done()
    manager.release(required)
    await asyncio.wait_for(settled, 5)


async def test_a_closed_informer_is_watched_and_shown_no_longer_and_asked_for_again_it_is_a_new_one() -> None:
    manager = Manager(Client.connect(ClusterConfig(server="https://127.0.0.1:1")))
    kept, closed = (manager.informer(metadata_of(ConfigMap), labels=f"a={value}") for value in "bc")
    running = asyncio.create_task(manager.home.run())
    try:
        await asyncio.sleep(0)
        manager.release(closed)
        for _ in range(5):
            await asyncio.sleep(0)
        watched = {task.get_name() for task in asyncio.all_tasks()}
        assert f"watch {kept.name}" in watched
        assert f"watch {closed.name}" not in watched
        assert closed.name not in str(manager.unready())
        assert manager.informer(metadata_of(ConfigMap), labels="a=c") is not closed
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
