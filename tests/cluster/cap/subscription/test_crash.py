"""The server may die at any moment: no tenant is doubled or lost, and every registry gets its callback."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path

import aiohttp
import pytest
from tests.cluster import permissions
from tests.cluster.cap.subscription.bookshop import SERVER, Bookshop

from stellwerk.api.core import Secret
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.model import JsonObject, metadata_of
from stellwerk.local.cluster import LocalCluster
from stellwerk.local.host.ports import free_port
from stellwerk.operators.cap import names
from stellwerk.operators.cap.subscription import rights
from stellwerk.testing.eventually import eventually
from stellwerk.testing.faults import FaultProxy
from stellwerk.testing.processes.fork_server import ForkServer
from stellwerk.testing.processes.operator_process import OperatorProcess
from stellwerk.testing.scenarios.crash_sweep import (
    Sweep,
    SweepStep,
    at_even,
    at_odd,
    conflicts,
    killed_after,
    killed_before,
    timed_out,
)
from stellwerk.testing.scenarios.recorder import Run
from stellwerk.testing.servers.registries import Registries

PROMISES = metadata_of(Secret)


class Replica(OperatorProcess):
    """The server as a process, and where it listens."""

    def __init__(
        self, folder: Path, kubeconfig: Path, registries: Registries, nursery: ForkServer, *flags: str
    ) -> None:
        self.port, probes = free_port(), free_port()
        authority = folder / "authority.pem"
        authority.write_bytes(registries.authority)
        program = "tests.cluster.cap.subscription.program"
        super().__init__(
            ["-m", program, str(self.port), str(probes), str(registries.port), str(authority), *flags],
            log=folder / f"server-{self.port}.log",
            kubeconfig=kubeconfig,
            health_url=f"http://127.0.0.1:{probes}/readyz",
            nursery=nursery,
        )

    async def __aenter__(self) -> Replica:
        await super().__aenter__()
        return self

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"


@pytest.fixture
async def account(admin: Client, cap_cluster: LocalCluster) -> Path:
    """The login of the server."""
    await permissions.grant(admin, SERVER, (*rights.GRANTS, *rights.HOME_GRANTS))
    return cap_cluster.kubeconfig_for(SERVER)


def bookshop(
    admin: Client, home: str, registries: Registries, http: aiohttp.ClientSession, replica: Replica
) -> Bookshop:
    return Bookshop(admin, home, registries, http, lambda: replica.url)


async def subscribed(shop: Bookshop, guid: str, callback: str) -> None:
    """Ask until the answer is 202, as a registry does."""

    async def accepted() -> bool:
        with contextlib.suppress(aiohttp.ClientError, TimeoutError):
            reply = await shop.subscribe(guid=guid, callback=callback)
            assert reply.status == 202, reply
            return True
        return False

    await eventually(accepted, within=60, describe="the subscription is accepted")


@pytest.mark.req("R-307", "R-101")
async def test_killed_between_its_answer_and_the_callback_it_still_keeps_its_promise(
    admin: Client,
    home: str,
    account: Path,
    registries: Registries,
    http: aiohttp.ClientSession,
    tmp_path: Path,
    nursery: ForkServer,
) -> None:
    async with Replica(tmp_path, account, registries, nursery) as replica:
        shop = bookshop(admin, home, registries, http, replica)
        await shop.open()
        await replica.start()
        await subscribed(shop, "guid-1", "/callback/1")
        os.kill(replica.pid, signal.SIGKILL)
        await replica.wait()
        await shop.shows("Ready")
        await replica.start()
        (callback,) = await registries.received()
        assert (callback.path, callback.body["status"]) == ("/callback/1", "SUCCEEDED")
        await shop.promises_show("delivered")
        assert len(await shop.tenants()) == 1


@pytest.mark.req("R-307")
async def test_of_several_replicas_all_answer_and_one_sends(
    admin: Client,
    home: str,
    account: Path,
    registries: Registries,
    http: aiohttp.ClientSession,
    tmp_path: Path,
    nursery: ForkServer,
) -> None:
    async with (
        Replica(tmp_path, account, registries, nursery, "elect") as first,
        Replica(tmp_path, account, registries, nursery, "elect") as second,
    ):
        shop = bookshop(admin, home, registries, http, first)
        await shop.open()
        await asyncio.gather(first.start(), second.start())
        for replica in (first, second):
            shop.url = lambda replica=replica: replica.url  # type: ignore[misc]
            await subscribed(shop, "guid-1", f"/callback/{replica.port}")
        assert len(await shop.tenants()) == 1
        await shop.shows("Ready")
        callbacks = await registries.received(2)
        await shop.promises_show("delivered", "delivered")
        assert sorted(each.path for each in callbacks) == sorted(f"/callback/{each.port}" for each in (first, second))


def life(shop: Bookshop) -> tuple[SweepStep, ...]:
    """A subscription, and its end."""

    async def subscribe() -> None:
        asking.append(asyncio.create_task(subscribed(shop, "guid-1", "/callback/1")))

    async def is_subscribed() -> None:
        await asyncio.shield(asking[-1])
        await shop.shows("Ready")
        await shop.promises_show("delivered")

    async def unsubscribe() -> None:
        asking.append(asyncio.create_task(ended()))

    async def ended() -> None:
        async def accepted() -> bool:
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                reply = await shop.unsubscribe()
                assert reply.status in (202, 404), reply
                return True
            return False

        await eventually(accepted, within=60, describe="the end is accepted")

    async def is_over() -> None:
        await asyncio.shield(asking[-1])
        await shop.gone()
        await shop.promises_show("delivered", "delivered")
        # The garbage collector looks for new kinds every 30 s, and the cluster may have got them just now.
        await eventually(no_payload, within=120, describe="the payload goes with its tenant")

    async def no_payload() -> bool:
        return not await shop.contexts()

    async def clear() -> None:
        """Promises stay for a day; a next life of the same subscription would be a replay."""
        for state, each in await shop.promises():
            assert state == "delivered"
            await shop.client.delete(PROMISES, each.name, shop.namespace)

    async def is_clear() -> None:
        async def nothing() -> bool:
            return not await shop.promises() and not await shop.contexts()

        await eventually(nothing, within=30)

    asking: list[asyncio.Task[None]] = []
    return (
        SweepStep("the subscription", subscribe, is_subscribed, least_points=5),
        SweepStep("its end", unsubscribe, is_over, least_points=4),
        SweepStep("the next day", clear, is_clear, least_points=0),
    )


async def end_state(shop: Bookshop) -> Run:
    """The tenant, its payload and the promises, without what differs from life to life."""
    found: dict[str, JsonObject] = {}
    for number, tenant in enumerate(await shop.tenants()):
        labels = tenant.metadata.labels
        found[f"tenant {number}"] = {"name": tenant.metadata.name, "guid": labels.get(names.SUBSCRIPTION_GUID, "")}
    for number, context in enumerate(await shop.contexts()):
        owner = context.metadata.controller
        found[f"payload {number}"] = {"name": context.metadata.name, "owner": owner.name if owner is not None else ""}
    for state, promised in await shop.promises():
        found[promised.name if promised.operation == "provisioning" else promised.operation] = {
            "state": state,
            "body": promised.body,
        }
    return Run((), found)


@pytest.mark.sweep
@pytest.mark.req("R-101", "R-102", "R-307", "R-308")
@pytest.mark.timeout(600)
async def test_killed_or_cut_off_at_any_write_it_ends_as_if_nothing_had_happened(
    admin: Client,
    home: str,
    account: Path,
    registries: Registries,
    http: aiohttp.ClientSession,
    tmp_path: Path,
    nursery: ForkServer,
) -> None:
    async with FaultProxy(account) as proxy, Replica(tmp_path, proxy.kubeconfig, registries, nursery) as replica:
        shop = bookshop(admin, home, registries, http, replica)
        await shop.open()
        await replica.start()
        sweep = Sweep(process=replica, proxy=proxy, parts=life(shop), end_state=lambda: end_state(shop))
        await sweep.run(at_odd(killed_before), at_odd(killed_after), at_even(timed_out), *conflicts(admin), alone=True)
        bodies: dict[str, set[str]] = {}
        for callback in registries.callbacks:
            bodies.setdefault(callback.path, set()).add(callback.body["status"])
        assert bodies == {"/callback/1": {"SUCCEEDED"}, "/callback/end": {"SUCCEEDED"}}
