"""The users of the two operators in a soak, and the failures around them.

Everything is drawn from one seed. What users want at a moment is kept outside the cluster, so that it can be asked for
once more at the end, in an empty cluster.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from stellwerk.api import flux
from stellwerk.api.core import ConfigMap, Secret, Service
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.errors import NotFound
from stellwerk.kube.types.model import JsonObject, Kind, metadata_of
from stellwerk.operators.btp import api
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.operators.component.api import Component
from stellwerk.testing.faults import (
    ANYTHING,
    WATCHES,
    WRITES,
    AnswerInstead,
    CutConnection,
    CutFrame,
    EndWatchAfter,
    ErrorFrame,
    EventFault,
    FaultProxy,
    FaultRule,
    RecordedRequest,
    RequestFault,
    WatchFrame,
    When,
    chance,
    events,
)
from stellwerk.testing.servers.artifacts import ArtifactServer

NAMESPACE = "soak"
KINDS: Mapping[str, JsonObject] = {
    "ConfigMap": {"data": {"value": "VALUE"}},
    "Secret": {"stringData": {"value": "VALUE"}},
    "Service": {"spec": {"ports": [{"port": 80}], "externalName": "VALUE.example.com", "type": "ExternalName"}},
}
OBJECTS = 8
"""At most so many of each Component."""
CREDENTIALS = {
    "clientid": "soak",
    "clientsecret": "soak",
    "sm_url": "https://service-manager.example.com",
    "tokenurl": "https://token.example.com",
    "cluster_id": "soak",
}


# ---- the weather


@dataclass(slots=True)
class Weather:
    """One call in twenty fails, and watches break, while it is stormy."""

    seed: int
    stormy: bool = False
    _rules: list[FaultRule[RecordedRequest] | FaultRule[WatchFrame]] = field(default_factory=list)

    def over(self, proxy: FaultProxy) -> None:
        """From now on it is the weather of this line, too."""
        storm: When[RecordedRequest] = When(lambda _: self.stormy, "in a storm")
        troubles: tuple[tuple[When[RecordedRequest], RequestFault], ...] = (
            (ANYTHING, AnswerInstead(429, retry_after_seconds=1)),
            (ANYTHING, AnswerInstead(500)),
            (ANYTHING, AnswerInstead(503)),
            (ANYTHING, AnswerInstead(504, after_forwarding=True)),
            (ANYTHING, CutConnection(after_forwarding=True)),
            (WRITES, AnswerInstead(409)),
        )
        for number, (when, fault) in enumerate(troubles):
            occasions = chance(0.01, seed=self.seed + number)
            self._rules.append(proxy.on_requests(when & storm, fault, occasions, required=False))
        ends = EndWatchAfter(5.0, cut=True)
        self._rules.append(proxy.on_requests(WATCHES & storm, ends, chance(0.5, seed=self.seed), required=False))
        told: When[WatchFrame] = When(lambda _: self.stormy, "in a storm")
        breaks: tuple[EventFault, ...] = (CutFrame(), ErrorFrame(410), ErrorFrame(500))
        for number, broken in enumerate(breaks):
            occasions = chance(0.02, seed=self.seed + number)
            self._rules.append(proxy.on_events(events() & told, broken, occasions, required=False))

    @property
    def faults(self) -> Mapping[str, int]:
        """How often what has happened."""
        found: Counter[str] = Counter()
        for rule in self._rules:
            found[rule.what] += rule.fired
        return found


# ---- the users


@dataclass(slots=True)
class Wish:
    """What a user wants of a Component."""

    revision: int
    files: dict[str, str]
    suspended: bool = False


@dataclass(slots=True)
class Users:
    """Act at random, and know what they want."""

    client: Client
    server: ArtifactServer
    random: Random
    names: tuple[str, ...]
    wishes: dict[str, Wish] = field(default_factory=dict)
    wants_btp: bool = False
    acts: Counter[str] = field(default_factory=Counter)
    _revisions: int = 0

    async def act(self) -> None:
        """Do one thing."""
        deeds: list[tuple[Callable[[], Awaitable[None]], int]] = [
            (self.create, 6),
            (self.revise, 8),
            (self.delete, 3),
            (self.delete_object, 3),
            (self.spoil_object, 3),
            (self.suspend_or_resume, 2),
            (self.poke, 2),
            (self.change_credentials, 1),
            (self.spoil_operand, 1),
            (self.create_or_delete_btp, 1),
        ]
        choices, weights = zip(*deeds, strict=True)
        deed = self.random.choices(choices, weights)[0]
        self.acts[deed.__name__.replace("_", " ")] += 1
        try:
            await deed()
        except NotFound:
            return  # what they wanted to touch was not there yet, or not any more

    async def create(self) -> None:
        if absent := [name for name in self.names if name not in self.wishes]:
            await self._wish(self.random.choice(absent))

    async def revise(self) -> None:
        if self.wishes:
            await self._wish(self._some_name())

    async def delete(self) -> None:
        if self.wishes:
            name = self._some_name()
            del self.wishes[name]
            await self.client.delete(metadata_of(Component), name, NAMESPACE)

    async def delete_object(self) -> None:
        if self.wishes:
            await self.client.delete(metadata_of(ConfigMap), f"{self._some_name()}-0", NAMESPACE)

    async def spoil_object(self) -> None:
        if self.wishes:
            patch = MergePatch({"data": {"value": "spoiled"}})
            name = f"{self._some_name()}-0"
            await self.client.patch(metadata_of(ConfigMap), name, NAMESPACE, patch, field_manager="vandal")

    async def suspend_or_resume(self) -> None:
        if self.wishes:
            name = self._some_name()
            self.wishes[name].suspended = not self.wishes[name].suspended
            await self.ask(name)

    async def poke(self) -> None:
        if self.wishes:
            patch = MergePatch({"metadata": {"annotations": {"poke": str(self.random.random())}}})
            await self.client.patch(metadata_of(Component), self._some_name(), NAMESPACE, patch)

    async def change_credentials(self) -> None:
        await give_credentials(self.client, clientid=f"soak-{self.random.randrange(1000)}")

    async def spoil_operand(self) -> None:
        patch = MergePatch({"data": {"CLUSTER_ID": "spoiled"}})
        await self.client.patch(metadata_of(ConfigMap), api.OPERAND_CONFIG_NAME, api.STANDARD_NAMESPACE, patch)

    async def create_or_delete_btp(self) -> None:
        self.wants_btp = not self.wants_btp
        await self.ask_for_btp()

    async def calm_down(self) -> None:
        """Nothing is suspended any more, everything is wanted, and the credentials are as at first."""
        for name in self.names:
            if name not in self.wishes:
                await self._wish(name)
            if self.wishes[name].suspended:
                self.wishes[name].suspended = False
                await self.ask(name)
        self.wants_btp = True
        await self.ask_for_btp()
        await give_credentials(self.client)

    async def ask(self, name: str) -> None:
        """Have the cluster know what is wanted of a Component."""
        wish = self.wishes[name]
        artifact = self.server.publish(f"{name}.tar.gz", wish.files, revision=f"r{wish.revision}")
        metadata: JsonObject = {"name": name, "namespace": NAMESPACE}
        written = await self.client.apply(flux.GitRepository, {"metadata": metadata, "spec": {"url": artifact.url}})
        ready: JsonObject = {"type": "Ready", "status": "True", "observedGeneration": written.metadata.generation}
        found: JsonObject = {"url": artifact.url, "digest": artifact.digest, "revision": artifact.revision}
        patch = MergePatch({"status": {"conditions": [ready], "artifact": found}})
        await self.client.patch(metadata_of(flux.GitRepository), name, NAMESPACE, patch, subresource="status")
        await self._let_go(Component, name, NAMESPACE)
        spec: JsonObject = {"sourceRef": {"fluxGitRepository": {"name": name}}, "suspend": wish.suspended}
        await self.client.apply(Component, {"metadata": metadata, "spec": spec}, force=True)

    async def ask_for_btp(self) -> None:
        """Have the cluster know whether a BtpOperator is wanted."""
        name, namespace = api.STANDARD_NAME, api.STANDARD_NAMESPACE
        if not self.wants_btp:
            await self.client.delete(metadata_of(BtpOperator), name, namespace)
            return
        await self._let_go(BtpOperator, name, namespace)
        await self.client.apply(BtpOperator, {"metadata": {"name": name, "namespace": namespace}})

    async def _let_go(self, kind: type[Kind], name: str, namespace: str) -> None:
        """What is on its way out has to be gone before it can be created again."""
        while (found := await self.client.find(metadata_of(kind), name, namespace)) is not None:
            if not found.metadata.is_terminating:
                return
            await asyncio.sleep(0.1)

    def is_met(self, found: Mapping[str, Component], btp: BtpOperator | None) -> str:
        """What is not as wanted yet; empty when all is."""
        for name in self.names:
            wish, seen = self.wishes.get(name), found.get(name)
            if wish is None and seen is not None:
                return f"{name} is still there: {seen.status.state}"
            if wish is not None and (seen is None or not is_as_wished(seen, wish)):
                shown = seen and (seen.status.state, seen.status.conditions)
                return f"{name} should be at r{wish.revision}, and shows {shown}"
        state = btp.status.state if btp is not None and btp.status is not None else None
        if self.wants_btp != (state is api.State.Ready) or (btp is not None) != self.wants_btp:
            return f"the BtpOperator should {'be Ready' if self.wants_btp else 'be gone'}, and is {btp}"
        return ""

    async def _wish(self, name: str) -> None:
        self._revisions += 1
        before = self.wishes.get(name)
        self.wishes[name] = Wish(self._revisions, self._files(name), before is not None and before.suspended)
        await self.ask(name)

    def _files(self, name: str) -> dict[str, str]:
        found = {}
        for number in range(self.random.randint(1, OBJECTS)):
            kind = "ConfigMap" if number == 0 else self.random.choice([*KINDS])
            content = json.dumps(KINDS[kind]).replace("VALUE", f"v{self.random.randrange(3)}")
            body = {"apiVersion": "v1", "kind": kind, "metadata": {"name": f"{name}-{number}"}, **json.loads(content)}
            found[f"{number}.yaml"] = json.dumps(body)
        return found

    def _some_name(self) -> str:
        return self.random.choice(sorted(self.wishes))


def is_as_wished(seen: Component, wish: Wish) -> bool:
    """Whether a Component has come to what is wanted of it."""
    observed = seen.status.observed_generation == seen.metadata.generation
    if wish.suspended:
        return observed and bool(seen.spec.suspend) and not seen.is_ready
    return observed and seen.is_ready and seen.status.last_applied_revision == f"r{wish.revision}"


async def give_credentials(client: Client, **changes: str) -> None:
    """The Secret of the environment broker."""
    labels: JsonObject = {api.MANAGED_BY_LABEL: api.BROKER_NAME}
    metadata: JsonObject = {"name": api.REQUIRED_SECRET_NAME, "namespace": api.STANDARD_NAMESPACE, "labels": labels}
    await client.apply(Secret, {"metadata": metadata, "stringData": {**CREDENTIALS, **changes}}, force=True)


OWNED: tuple[type[Kind], ...] = (ConfigMap, Secret, Service)
"""What Components of a soak consist of."""
