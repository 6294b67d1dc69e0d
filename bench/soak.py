"""A soak: both operators, their users and bad weather for as long as one likes, and then a reckoning.

Users act at random for a while, over a line on which one call in twenty fails and watches break. Then the weather
clears: everything has to come to what the users want last, and then to rest without a write. That is one round; its
figures are taken at rest. In the end the following is asserted:

- tasks and file descriptors are no more than they were: nothing leaks;
- memory has not grown over the last half, by the line of least squares through its figures;
- a calm minute costs no write;
- after everything was deleted nothing is left, and created again by operators that were started again, everything is as
  it was before: the way there left no trace.

It is run by hand before a release, for four hours, and is no part of `make bench`.

    python -m bench.soak [--minutes 240] [--components 24] [--seed 1]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random

from bench.soak_users import NAMESPACE, OWNED, Users, Weather
from bench.soak_world import Operator, Sample, install, operators

from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import JsonObject, unstructured
from stellwerk.local.cluster import LocalCluster, named
from stellwerk.local.components import Options
from stellwerk.operators.btp import api
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.operators.component.api import OWNER_ID, Component
from stellwerk.testing.eventually import eventually
from stellwerk.testing.scenarios.normalize import Masks
from stellwerk.testing.scenarios.recorder import Run, difference
from stellwerk.testing.servers.artifacts import ArtifactServer

STORM_SECONDS, CONVERGED_SECONDS = 20.0, 120.0
QUIET_SECONDS, CALM_SECONDS = 2.0, 60.0
LONG_MINUTES = 120.0
"""From here on a slope means something; what a process takes in its first minutes would be called growth."""
SLACK = 12
"""Connections that come and go."""
MODULE = f"{api.MANAGED_BY_LABEL}={api.OPERATOR_NAME}"


# ---- the rounds


@dataclass(frozen=True, slots=True)
class Soak:
    """Users, weather and operators, round after round."""

    client: Client
    users: Users
    weather: Weather
    operators: tuple[Operator, ...]
    began: float

    @property
    def minutes(self) -> float:
        return (time.monotonic() - self.began) / 60

    async def round(self) -> None:
        """A storm with users in it, and the rest that follows."""
        self.weather.stormy = True
        ends = time.monotonic() + STORM_SECONDS
        while time.monotonic() < ends:
            await self.users.act()
            await asyncio.sleep(self.users.random.uniform(0.02, 0.4))
        self.weather.stormy = False
        await self.rest()
        for operator in self.operators:
            await operator.measure(self.minutes)
            operator.forget()

    async def rest(self) -> None:
        """Return when all is as wanted, and no client has written for a while."""
        await eventually(self._is_met, within=CONVERGED_SECONDS, describe="what users want")
        await eventually(self._is_quiet, within=CONVERGED_SECONDS, describe="no more writes")

    async def _is_met(self) -> bool:
        components = (await self.client.list(Component, NAMESPACE)).items
        btp = await self.client.find(BtpOperator, api.STANDARD_NAME, api.STANDARD_NAMESPACE)
        missing = self.users.is_met({one.metadata.name: one for one in components}, btp)
        assert not missing, missing
        return True

    async def _is_quiet(self) -> bool:
        before = [operator.writes() for operator in self.operators]
        await asyncio.sleep(QUIET_SECONDS)
        return before == [operator.writes() for operator in self.operators]

    async def is_calm(self) -> None:
        """Asserts that a calm minute costs nothing."""
        for operator in self.operators:
            operator.forget()
        await asyncio.sleep(CALM_SECONDS)
        for operator in self.operators:
            assert not operator.writes(), f"{operator.name} has written in calm: {operator.writes()}"

    async def is_as_fresh(self) -> None:
        """Asserts that the way here has left no trace."""
        found = await self.end_state()
        wishes, self.users.wishes, self.users.wants_btp = self.users.wishes, {}, False
        await self.users.ask_for_btp()
        for name in wishes:
            await self.client.delete(Component, name, NAMESPACE)
        await self.rest()
        left = [name for name in (await self.end_state()).objects if name.split("/")[0] != "Secret"]
        assert not left, f"left over: {left}"
        for operator in self.operators:
            await operator.process.restart()
        self.users.wishes, self.users.wants_btp = wishes, True
        for name in wishes:
            await self.users.ask(name)
        await self.users.ask_for_btp()
        await self.rest()
        differs = difference(await self.end_state(), found)
        assert not differs, f"not as a fresh deploy (-):\n{differs}"

    async def end_state(self) -> Run:
        """The Components and the objects of both operators, without fields that depend on what happened before."""
        found: list[JsonObject] = []
        for kind in OWNED:
            view = unstructured(kind.resource)
            found += [one.body for one in (await self.client.list(view, NAMESPACE, labels=OWNER_ID)).items]
            found += [one.body for one in (await self.client.list(view, api.STANDARD_NAMESPACE, labels=MODULE)).items]
        for one in (await self.client.list(unstructured(Component.resource), NAMESPACE)).items:
            found.append({**one.body, "status": settled(one.body)})
        return Run((), Masks(paths=[("metadata", "annotations", "poke")]).objects([_unpoked(one) for one in found]))


def settled(body: JsonObject) -> JsonObject:
    """Of a Component's status: its state, and what it consists of."""
    status = body.get("status")
    assert isinstance(status, dict)
    inventory = status.get("inventory") or []
    assert isinstance(inventory, list)
    items = sorted(str((one["kind"], one["name"], one.get("phase"))) for one in inventory if isinstance(one, dict))
    return {"state": status.get("state"), "inventory": [*items]}


def _unpoked(body: JsonObject) -> JsonObject:
    metadata = body["metadata"]
    assert isinstance(metadata, dict)
    annotations = metadata.get("annotations")
    kept = {key: value for key, value in annotations.items() if key != "poke"} if isinstance(annotations, dict) else {}
    rest: JsonObject = {key: value for key, value in metadata.items() if key != "annotations"}
    return {**body, "metadata": {**rest, "annotations": kept} if kept else rest}


# ---- the reckoning


def slope(samples: Sequence[Sample]) -> float:
    """MiB per hour, by least squares."""
    fit = statistics.linear_regression([one.minutes for one in samples], [one.resident_mib for one in samples])
    return fit.slope * 60


def reckon(operator: Operator, minutes: float) -> list[str]:
    """Print an operator's figures; what is wrong with them."""
    samples = operator.samples
    half = samples[len(samples) // 2 :]
    first, last = samples[: len(samples) // 2], samples[-1]
    growth = slope(half) * (half[-1].minutes - half[0].minutes) / 60
    print(
        f"{operator.name:10} {operator.requests:6} requests; memory {samples[0].resident_mib:.1f} -> "
        f"{half[0].resident_mib:.1f} -> {last.resident_mib:.1f} MiB, in the last half {growth:+.2f} MiB "
        f"({slope(half):+.1f} MiB/h); descriptors {samples[0].descriptors} -> {last.descriptors} "
        f"(at most {max(one.descriptors for one in samples)}); tasks {samples[0].tasks} -> {last.tasks} "
        f"(at most {max(one.tasks for one in samples)})"
    )
    wrong = []
    for what in ("descriptors", "tasks"):
        before, after = (statistics.median(getattr(one, what) for one in part) for part in (first, half))
        if after > before + SLACK:
            wrong.append(f"{operator.name}: {what} have grown from {before:g} to {after:g}")
    allowed = minutes / 120 if minutes >= LONG_MINUTES else 0.1 * half[0].resident_mib
    if growth > allowed:
        wrong.append(f"{operator.name}: memory has grown by {growth:.1f} MiB in the last half; {allowed:.1f} may be")
    return wrong


# ---- all of it


async def run(cluster: LocalCluster, *, minutes: float, components: int, seed: int, folder: Path) -> list[str]:
    """The soak, and what is wrong."""
    weather = Weather(seed)
    config = ClusterConfig.load(cluster.kubeconfig)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client.connect(config, field_manager="users"))
        server = await stack.enter_async_context(ArtifactServer())
        await install(client)
        running = await stack.enter_async_context(operators(cluster, weather, folder))
        names = tuple(f"comp-{number}" for number in range(components))
        users = Users(client, server, Random(seed), names)
        soak = Soak(client, users, weather, running, time.monotonic())
        rounds = 0
        while soak.minutes < minutes or rounds < 4:
            await soak.round()
            rounds += 1
            print(f"{soak.minutes:6.1f} min, round {rounds}: {sum(users.acts.values())} acts", file=sys.stderr)
        await users.calm_down()
        await soak.rest()
        await soak.is_calm()
        print(f"{rounds} rounds in {soak.minutes:.1f} min; acts: {dict(users.acts)}; faults: {dict(weather.faults)}")
        wrong = [finding for operator in running for finding in reckon(operator, minutes)]
        await soak.is_as_fresh()
        for operator in running:
            operator.process.assert_clean_log()
    return wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """Start a cluster for the soak, run it, and take it down."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak")
    parser.add_argument("--minutes", type=float, default=240.0)
    parser.add_argument("--components", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)
    cluster = named(f"soak-{os.getpid()}", Options(durable=False))
    cluster.up(lambda line: print(line, file=sys.stderr))
    try:
        with tempfile.TemporaryDirectory(prefix="stellwerk-soak-") as folder:
            wrong = asyncio.run(run(cluster, **vars(chosen), folder=Path(folder)))
    finally:
        cluster.down()
    for finding in wrong:
        print(finding)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
