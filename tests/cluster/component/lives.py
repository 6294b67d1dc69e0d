"""A life that three Components lead together, to be led once more while something goes wrong."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from stellwerk.api.core import Secret, Service
from stellwerk.kube.types.model import JsonObject
from stellwerk.local.cluster import LocalCluster
from stellwerk.testing.eventually import eventually
from stellwerk.testing.scenarios.recorder import Run, difference
from tests.cluster.component.given import Given, config_map
from tests.cluster.component.manifests import manifest
from tests.cluster.component.process import end_state
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then

NAMES = ("first", "second", "third")
"""The third depends on the first."""
PORTS: JsonObject = {"spec": {"ports": [{"port": 80}]}}


def files(name: str, revision: str) -> dict[str, str]:
    """What a Component consists of. The second revision changes an object, adds one and drops one."""
    token: JsonObject = {"stringData": {"token": f"of {name}"}}
    kept = {
        "kept.yaml": config_map(f"{name}-kept", revision=revision),
        "service.yaml": manifest("Service", name, PORTS, labels={"revision": revision}),
        "secret.yaml": manifest("Secret", name, token),
    }
    other = "dropped" if revision == "r1" else "new"
    return kept | {f"{other}.yaml": config_map(f"{name}-{other}")}


@dataclass(frozen=True, slots=True)
class Lives:
    """Asks for the three, for their next revision and for their end, and waits for each."""

    cluster: LocalCluster
    running: Running
    given: Given
    then: Then
    patience_seconds: float = 30.0

    @property
    def steps(self) -> Sequence[Callable[[], Awaitable[None]]]:
        """What is asked for, one after the other."""
        return (self.create, self.update, self.delete)

    async def create(self) -> None:
        """Create the Components when the operator shows their sources: an older revision would count as one more."""
        for name in NAMES:
            await self.given.source(files(name, "r1"), name, revision="r1")
        await self.running.settled(self.given.client)
        needs: JsonObject = {"dependencies": [{"name": "first"}]}
        for name in NAMES:
            await self.given.component(name, name, **(needs if name == "third" else {}))

    async def update(self) -> None:
        for name in NAMES:
            await self.given.source(files(name, "r2"), name, revision="r2")

    async def delete(self) -> None:
        for name in NAMES:
            await self.given.deleted(name)

    async def over(self, step: int) -> None:
        """Return when the step has come to its end."""
        for name in NAMES:
            if step == len(self.steps) - 1:
                await self.then.gone(name, within=self.patience_seconds)
            else:
                await self.then.ready(name, revision=f"r{step + 1}", within=self.patience_seconds)

    async def led(self) -> Sequence[Run]:
        """A whole life; what is there at the end of each step.

        The third is Ready with its revision before the first is, and then waits for it once more: only when nothing
        is left to do is the step at its end.
        """
        ends = []
        for step, ask in enumerate(self.steps):
            await ask()
            await self.over(step)
            await self.running.settled(self.given.client)
            ends.append(await self._end())
        return ends

    async def led_as(self, clean: Sequence[Run]) -> None:
        """A whole life with the same ends as another one."""
        for step, ask in enumerate(self.steps):
            await ask()
            await self.over(step)
            await self.is_as(clean[step])

    async def is_as(self, clean: Run) -> None:
        """The namespace comes to be as it was without faults."""

        async def same() -> bool:
            found = difference(clean, await self._end())
            assert not found, found
            return True

        await eventually(same, describe="the same end as without faults")

    async def _end(self) -> Run:
        further = (Service.resource, Secret.resource)
        return await end_state(self.cluster, self.given.namespace, *further)
