"""A manager starts in order, ends in reverse, and says whether it is ready."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest
from tests.cluster.runtime.conftest import Start
from tests.cluster.runtime.example_kind import CRD, GROUP, Electrician, Lamp, LampStatus, definition, lamp, switch

from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import NotServed, Unexplained
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, metadata_of, unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.runtime.clock import SystemClock
from stellwerk.runtime.control.controller import Controller, LeadershipLost
from stellwerk.runtime.process.leader import LeaderElector, Terms
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.reconciler import Next
from stellwerk.runtime.serving.http import CannotListen
from stellwerk.testing.checks.surprises import SURPRISES
from stellwerk.testing.eventually import eventually

PATIENCE_SECONDS = 30.0
LONG_SECONDS = 300.0
"""A grace that nobody waits out: what ends within our patience has not waited for it."""


@dataclass
class Part:
    """A server that writes down when it lives."""

    history: list[str]
    name: str = "server"
    started: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        self.history.append(f"{self.name} starts")
        self.started.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.history.append(f"{self.name} ends")


@dataclass
class Crown:
    """A leadership that is given and taken by hand."""

    history: list[str]
    lost: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, on_started: Callable[[], Awaitable[None]]) -> None:
        self.history.append("leadership begins")
        async with asyncio.TaskGroup() as tasks:
            losing = tasks.create_task(self._lose())
            await on_started()
            self.history.append("lease given back")
            losing.cancel()

    async def _lose(self) -> None:
        await self.lost.wait()
        raise LeadershipLost("somebody else leads")


@dataclass
class Shift:
    """A controller that writes down when it works."""

    history: list[str]
    name: str = "shift"
    over: asyncio.Event = field(default_factory=asyncio.Event)
    started: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        self.history.append("controller starts")
        self.started.set()
        try:
            await self.over.wait()
        finally:
            self.history.append("controller ends")

    def stop(self) -> None:
        self.over.set()


async def test_it_starts_in_order_and_ends_in_reverse(client: Client, namespace: str) -> None:
    history: list[str] = []
    shift = Shift(history)
    manager = Manager(client, leadership=Crown(history))
    informer = manager.informer(Lamp, namespace=namespace)
    manager.add_server("server", Part(history))
    manager.add_controller(shift)
    running = asyncio.create_task(manager.run())
    await asyncio.wait_for(shift.started.wait(), PATIENCE_SECONDS)
    assert informer.has_synced
    assert manager.leads
    manager.stop()
    await asyncio.wait_for(running, PATIENCE_SECONDS)
    assert history == [
        "server starts",
        "leadership begins",
        "controller starts",
        "controller ends",
        "lease given back",
        "server ends",
    ]


@pytest.mark.req("R-301")
async def test_a_lost_leadership_ends_everything_with_an_error(client: Client) -> None:
    history: list[str] = []
    shift, crown = Shift(history), Crown(history)
    manager = Manager(client, leadership=crown)
    manager.add_controller(shift)
    running = asyncio.create_task(manager.run())
    await asyncio.wait_for(shift.started.wait(), PATIENCE_SECONDS)
    crown.lost.set()
    with pytest.raises(LeadershipLost):
        await asyncio.wait_for(running, PATIENCE_SECONDS)
    assert history[-1] == "controller ends"


@pytest.mark.req("R-301")
async def test_a_write_behind_the_fence_ends_everything_with_an_error(
    client: Client, namespace: str, start: Start
) -> None:
    def closed() -> None:
        raise LeadershipLost("the lease was not renewed in time")

    async with Client.connect(client.config, before_write=closed) as fenced:
        works = await start(Electrician(), client=fenced)
        await client.create(Lamp, lamp("hall", namespace))
        with pytest.raises(LeadershipLost):
            await asyncio.wait_for(works.task, PATIENCE_SECONDS)
    assert (await client.get(Lamp, "hall", namespace)).status is None


async def test_a_part_that_cannot_start_takes_the_manager_down(client: Client) -> None:
    class Faulty:
        async def run(self) -> None:
            raise CannotListen("the port is taken")

    manager = Manager(client)
    manager.add_server("faulty", Faulty())
    with pytest.raises(ExceptionGroup) as failure:
        await asyncio.wait_for(manager.run(), PATIENCE_SECONDS)
    assert failure.group_contains(CannotListen)


@pytest.mark.req("R-512")
@pytest.mark.parametrize("raised", SURPRISES.values(), ids=SURPRISES)
async def test_a_part_that_fails_starts_again_and_the_others_go_on(
    client: Client, raised: Callable[[], BaseException]
) -> None:
    class Faulty:
        def __init__(self) -> None:
            self.runs = 0
            self.runs_on = asyncio.Event()

        name = "faulty"

        async def run(self) -> None:
            self.runs += 1
            if self.runs == 1:
                raise raised()
            self.runs_on.set()
            await asyncio.Event().wait()

        def stop(self) -> None:
            """As a controller has it."""

    manager = Manager(client, grace_seconds=0.1)
    server, controller, neighbour = Faulty(), Faulty(), Part([])
    manager.add_server("faulty", server)
    manager.add_server("neighbour", neighbour)
    manager.add_controller(controller)
    running = asyncio.create_task(manager.run())
    for faulty in (server, controller):
        await asyncio.wait_for(faulty.runs_on.wait(), PATIENCE_SECONDS)
        assert faulty.runs == 2
    assert neighbour.started.is_set()
    assert manager.metrics.registry.get_sample_value("stellwerk_task_failures_total", {"kind": "faulty"}) == 2
    manager.stop()
    await asyncio.wait_for(running, PATIENCE_SECONDS)


async def test_a_stop_before_leading_ends_at_once(client: Client) -> None:
    class Waiting:
        async def run(self, on_started: Callable[[], Awaitable[None]]) -> None:
            await asyncio.Event().wait()

    manager = Manager(client, leadership=Waiting(), grace_seconds=LONG_SECONDS)
    part = Part([])
    manager.add_server("server", part)
    running = asyncio.create_task(manager.run())
    await part.started.wait()
    manager.stop()
    await asyncio.wait_for(running, PATIENCE_SECONDS)


@pytest.mark.req("R-303")
async def test_a_pass_under_way_may_finish_before_the_end(client: Client, namespace: str, start: Start) -> None:
    inside, go_on = asyncio.Event(), asyncio.Event()

    async def slowly(obj: Lamp) -> Next[LampStatus]:
        inside.set()
        await go_on.wait()
        return await switch(obj)

    works = await start(Electrician(slowly), grace_seconds=LONG_SECONDS)
    await client.create(Lamp, lamp("hall", namespace))
    await inside.wait()
    works.manager.stop()
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.wait_for(works.task, PATIENCE_SECONDS)
    assert (await client.get(Lamp, "hall", namespace)).status is not None


@pytest.mark.req("R-303")
async def test_a_pass_that_does_not_finish_is_cancelled_after_the_grace(
    client: Client, namespace: str, start: Start
) -> None:
    inside = asyncio.Event()

    async def for_ever(obj: Lamp) -> Next[LampStatus]:
        inside.set()
        await asyncio.Event().wait()
        return Next.done()

    works = await start(Electrician(for_ever))
    await client.create(Lamp, lamp("hall", namespace))
    await inside.wait()
    began = time.monotonic()
    works.manager.stop()
    await asyncio.wait_for(works.task, PATIENCE_SECONDS)
    assert time.monotonic() - began > 1.5, "the grace is two"


async def test_the_same_question_has_one_watch(client: Client, namespace: str) -> None:
    manager = Manager(client)
    assert manager.informer(Lamp) is manager.informer(Lamp)
    assert manager.informer(Lamp) is not manager.informer(Lamp, namespace=namespace)
    manager.informer(metadata_of(Lamp))
    assert len(manager.home.informers) == 3


async def test_an_informer_asked_for_later_is_filled_too(client: Client, namespace: str, start: Start) -> None:
    works = await start(Electrician())
    await eventually(lambda: works.manager.leads)
    await client.create(Lamp, lamp("hall", namespace))
    late = works.manager.informer(metadata_of(Lamp), namespace=namespace)
    await asyncio.wait_for(late.wait_synced(), PATIENCE_SECONDS)
    assert [obj.metadata.name for obj in late.store.all()] == ["hall"]


@pytest.mark.req("R-202")
async def test_readiness_waits_for_full_caches_and_ends_with_stale_ones(client: Client, namespace: str) -> None:
    class Later(SystemClock):
        ahead = 0.0

        def monotonic(self) -> float:
            return super().monotonic() + self.ahead

    clock = Later()
    manager = Manager(client, clock=clock)
    manager.informer(Lamp, namespace=namespace)
    assert manager.unready() == f"the cache of lamps.{GROUP} (in {namespace}) is not filled yet"
    running = asyncio.create_task(manager.run())
    await eventually(lambda: manager.unready() is None)
    clock.ahead = 181.0
    assert "stale: no event for 18" in (manager.unready() or "")
    manager.stop()
    await asyncio.wait_for(running, PATIENCE_SECONDS)


@pytest.mark.req("R-207")
async def test_a_kind_that_is_not_served_yet_holds_up_nobody_and_resumes(
    client: Client, namespace: str, start: Start
) -> None:
    plural = f"torch{namespace.removeprefix('test-')}s"
    torches = Resource(GROUP, "v1", f"Torch{namespace.removeprefix('test-')}", plural, namespaced=True)

    def wire(controller: Controller[Lamp, LampStatus], manager: Manager) -> None:
        controller.watches(manager.informer(unstructured(torches)), lambda delta: [])

    works = await start(Electrician(), wire=wire)
    informer = works.manager.informer(unstructured(torches))
    await client.create(Lamp, lamp("hall", namespace))
    await eventually(lambda: works.electrician.seen, on=works.electrician.rang)
    assert informer.parked is not None
    assert torches.kind in informer.parked.why
    assert works.manager.unready() is None
    await client.create(CRD, definition(plural, torches.kind))
    try:

        async def resumed() -> bool:
            informer.wake()
            return informer.has_synced

        await eventually(resumed)
        torch = {**lamp("one", namespace), "kind": torches.kind}
        await _made(client, torches, torch)
        await eventually(lambda: len(informer.store) == 1)
    finally:
        await client.delete(CRD, f"{plural}.{GROUP}")
    await eventually(lambda: (bool(informer.parked), len(informer.store)) == (True, 0))


async def _made(client: Client, resource: Resource, body: JsonObject) -> None:
    """Create an object of a kind that the server has only just begun to serve."""

    async def made() -> bool:
        try:
            await client.create(unstructured(resource), body)
        except (NotServed, Unexplained):
            return False
        return True

    await eventually(made)


async def test_two_managers_share_the_work_one_after_the_other(client: Client, namespace: str) -> None:
    terms = Terms(lease_duration_seconds=300, renew_deadline_seconds=200, retry_seconds=0.1)
    history: list[str] = []

    def candidate(name: str) -> tuple[Manager, Shift]:
        elector = LeaderElector(client, "lamps", namespace, identity=name, terms=terms)
        manager, shift = Manager(client, leadership=elector), Shift(history, name)
        manager.add_controller(shift)
        return manager, shift

    (first, first_shift), (second, second_shift) = candidate("first"), candidate("second")
    first_run = asyncio.create_task(first.run())
    await asyncio.wait_for(first_shift.started.wait(), PATIENCE_SECONDS)
    second_run = asyncio.create_task(second.run())
    await asyncio.sleep(0)
    assert not second.leads
    first.stop()
    await asyncio.wait_for(first_run, PATIENCE_SECONDS)
    await asyncio.wait_for(second_shift.started.wait(), PATIENCE_SECONDS)
    second.stop()
    await asyncio.wait_for(second_run, PATIENCE_SECONDS)
    assert history == ["controller starts", "controller ends"] * 2


PROCESS = """
    import asyncio, sys
    from pathlib import Path
    from stellwerk.kube.client.client import Client
    from stellwerk.kube.login.config import ClusterConfig
    from stellwerk.runtime.control.controller import Controller
    from stellwerk.runtime.process.manager import Manager
    from stellwerk.runtime.control.status_writer import StatusWriter
    from tests.cluster.runtime.example_kind import Electrician, Lamp

    async def main(kubeconfig, namespace):
        async with Client.connect(ClusterConfig.load(Path(kubeconfig))) as client:
            manager = Manager(client, grace_seconds=300)
            writer = StatusWriter(client=client)
            lamps = manager.informer(Lamp, namespace=namespace)
            manager.add_controller(Controller("lamps", lamps, Electrician(), write_status=writer))
            await manager.run_until_signal()

    asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.req("R-303")
async def test_a_terminated_process_ends_quietly_and_soon(
    client: Client, cluster: LocalCluster, namespace: str
) -> None:
    await client.create(Lamp, lamp("hall", namespace))
    command = [sys.executable, "-c", textwrap.dedent(PROCESS), str(cluster.kubeconfig), namespace]
    process = await asyncio.to_thread(subprocess.Popen, command, stderr=subprocess.PIPE, text=True)
    try:

        async def lit() -> bool:
            assert process.poll() is None, process.communicate()[1]
            return (await client.get(Lamp, "hall", namespace)).status is not None

        await eventually(lit)
        process.send_signal(signal.SIGTERM)
        _, errors = await asyncio.to_thread(process.communicate, timeout=PATIENCE_SECONDS)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert "Traceback" not in errors
