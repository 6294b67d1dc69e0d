"""Lifecycle manager: Kymas whose modules are installed by channel, each in an API server of its own.

Three stories, each timed from the first request of the user until the last Kyma shows its end: Kymas are created and
become Ready; each moves to another channel, whose modules have one object with another content; all are deleted. A
module has six objects and no workload, so that nothing waits for pods. The limit is a bare client that applies as many
objects of modules in the remote clusters, by server-side apply, before and after the stories.

The operator runs in the process of the benchmark, whose user shares the processor with it.

    python -m bench.kyma [--kymas 2] [--modules 20]
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import uvloop
from bench.measuring import own_cluster, resident_bytes, seconds, together, until

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.core import ConfigMap, Namespace, Secret
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import JsonObject, Kind, metadata_of, unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.local.components import Options
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import DEFINITIONS, Kyma
from stellwerk.operators.kyma.api_module import ModuleReleaseMeta, ModuleTemplate
from stellwerk.operators.kyma.controllers import install
from stellwerk.operators.kyma.settings import ManifestLinks, Settings
from stellwerk.operators.kyma.sources.loads import Sources
from stellwerk.render.sources.egress import EgressRules
from stellwerk.render.sources.http import HttpClient
from stellwerk.runtime.process.manager import Manager
from stellwerk.testing.cluster import AuditLog

HOME, SPACE, AGENT = labels.KCP_NAMESPACE, "default", "klm"
OBJECTS = 6
VERSIONS = {"regular": "1.0.0", "fast": "2.0.0"}
TARGETS = {"to Ready": "6 s, 12", "other channel": "3 s, 10", "to gone": "5 s, 12"}
"""Seconds for ten Kymas with 20 modules, and requests for each module."""
ORIGINAL = {"to Ready": "38.0 s, 36.6", "other channel": "11.2 s, 21.6", "to gone": "20.1 s, 37.1"}
"""The same of the original, on a machine of the same size; compare ratios."""
WITHOUT_CONTROLLERS = Options(durable=False, controllers=False, pods=False)


def layer(module: str, version: str) -> str:
    """The objects of a version of a module; one differs from version to version."""
    kinds = ("v1 ServiceAccount", "v1 ConfigMap", "v1 Service", "rbac.authorization.k8s.io/v1 Role")
    documents = []
    for number in range(OBJECTS):
        api, _, kind = kinds[number % len(kinds)].partition(" ")
        body = f"apiVersion: {api}\nkind: {kind}\nmetadata: {{name: {module}-{number}, namespace: {SPACE}}}\n"
        match kind:
            case "ConfigMap":
                body += f"data: {{version: {version if number == 1 else 'same'!r}}}\n".replace("'", "")
            case "Service":
                body += "spec: {ports: [{port: 80, protocol: TCP}], selector: {a: b}}\n"
            case "Role":
                body += "rules: []\n"
            case _:
                pass
        documents.append(body)
    return "---\n".join(documents)


@dataclass(frozen=True, slots=True)
class Works:
    """The control plane, the remote clusters, and their users."""

    home: LocalCluster
    remotes: Sequence[LocalCluster]
    client: Client
    users: Sequence[Client]
    modules: Sequence[str]
    folder: Path

    @property
    def kymas(self) -> list[str]:
        return [f"kyma-{number}" for number in range(len(self.remotes))]

    async def offer(self) -> None:
        """All modules in both channels."""
        for module in self.modules:
            component = f"example.org/module/{module}"
            for version in VERSIONS.values():
                file = self.folder / f"{module}-{version}.yaml"
                file.write_text(layer(module, version))
                spec: JsonObject = {
                    "moduleName": module,
                    "version": version,
                    "descriptor": {"component": {"name": component, "version": version}},
                    "resources": [{"name": "rawManifest", "link": file.as_uri()}],
                }
                await self.client.apply(ModuleTemplate, body(ModuleTemplate, f"{module}-{version}", spec))
            channels: list[Any] = [{"channel": name, "version": version} for name, version in VERSIONS.items()]
            spec = {"moduleName": module, "channels": channels, "ocmComponentName": component}
            await self.client.apply(ModuleReleaseMeta, body(ModuleReleaseMeta, module, spec))

    async def create(self) -> None:
        """Create all Kymas, and wait until they are Ready."""
        listed: list[Any] = [{"name": module, "managed": True} for module in self.modules]
        for name, remote in zip(self.kymas, self.remotes, strict=True):
            metadata: JsonObject = {"name": f"access-{name}", "namespace": HOME}
            metadata["labels"] = {labels.KYMA_NAME_LABEL: name}
            login: JsonObject = {labels.KUBECONFIG_KEY: remote.kubeconfig.read_text()}
            await self.client.apply(Secret, {"metadata": metadata, "stringData": login})
            await self.client.create(Kyma, body(Kyma, name, {"channel": "regular", "modules": listed}))
        await self.show("1.0.0")

    async def move(self) -> None:
        """Have all users choose the other channel, and wait until all Kymas are Ready with it."""
        patch = MergePatch({"spec": {"channel": "fast"}})
        await together(
            self.users, lambda user: user.patch(Kyma, labels.SKR_KYMA.name, labels.SKR_KYMA.namespace, patch)
        )
        await self.show("2.0.0")

    async def delete(self) -> None:
        """Delete all Kymas, and wait until they are gone."""
        await together(self.kymas, lambda name: self.client.delete(metadata_of(Kyma), name, HOME))
        await until(self.client, Kyma, lambda seen: not seen)

    async def show(self, version: str) -> None:
        def holds(seen: Sequence[Kyma]) -> bool:
            modules = [module for kyma in seen for module in kyma.status.modules]
            is_there = len(modules) == len(self.remotes) * len(self.modules)
            is_ready = all(kyma.status.state == "Ready" for kyma in seen)
            return is_there and is_ready and all(each.version == version for each in modules)

        await until(self.client, Kyma, holds)

    async def bare(self) -> float:
        """As many objects as the modules have, applied by a client that does nothing else."""
        things = [(user, module, number) for user in self.users for module in self.modules for number in range(OBJECTS)]

        async def apply(thing: tuple[Client, str, int]) -> None:
            user, module, number = thing
            name: JsonObject = {"name": f"bare-{module}-{number}", "namespace": SPACE}
            await user.apply(ConfigMap, {"metadata": name, "data": {"a": "b"}}, field_manager="bare")

        taken = await seconds(lambda: together(things, apply))
        await together(things, lambda each: each[0].delete(metadata_of(ConfigMap), f"bare-{each[1]}-{each[2]}", SPACE))
        return taken


def _letters(number: int) -> str:
    """A number as three letters: names of modules have no digits."""
    return "".join(chr(ord("a") + number // 26**place % 26) for place in (2, 1, 0))


def body(kind: type[Kind], name: str, spec: JsonObject) -> JsonObject:
    resource = kind.resource
    metadata: JsonObject = {"name": name, "namespace": HOME}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}


async def measured(works: Works, story: Callable[[], Awaitable[None]]) -> tuple[float, int]:
    """Seconds, and requests of the operator on both sides, without watches."""
    logs = [AuditLog(each) for each in (works.home, *works.remotes)]
    taken = await seconds(story)
    found = [log.entries(lambda entry: entry.agent.startswith(AGENT) and entry.verb != "watch") for log in logs]
    return taken, sum(map(len, found))


async def run(home: LocalCluster, remotes: Sequence[LocalCluster], modules: int, folder: Path) -> None:
    """Measure, and print the figures."""
    async with AsyncExitStack() as stack:
        config = ClusterConfig.load(home.kubeconfig)
        client = await stack.enter_async_context(Client.connect(config, field_manager="user"))
        for definition in DEFINITIONS:
            await client.apply(unstructured(CustomResourceDefinition.resource), definition.body())
        await until(client, CustomResourceDefinition, lambda seen: all(each.is_established for each in seen))
        await client.apply(Namespace, {"metadata": {"name": HOME}})
        users = [
            await stack.enter_async_context(Client.connect(ClusterConfig.load(each.kubeconfig))) for each in remotes
        ]
        works = Works(home, remotes, client, users, [f"module-{_letters(number)}" for number in range(modules)], folder)
        await works.offer()
        for user in users:
            await user.apply(Namespace, {"metadata": {"name": SPACE}})
        before = await works.bare()
        manager = await _started(stack, config)
        first = resident_bytes_of_us()
        figures = {"to Ready": await measured(works, works.create), "other channel": await measured(works, works.move)}
        at_work = resident_bytes_of_us()
        figures["to gone"] = await measured(works, works.delete)
        limit = (before + await works.bare()) / 2
        manager.stop()
        installed = len(remotes) * modules
        print(
            f"{len(remotes)} Kymas x {modules} modules x {OBJECTS} objects; "
            f"limit: {limit:.2f} s for {installed * OBJECTS} applies"
        )
        for name, (taken, requests) in figures.items():
            print(
                f"  {name:13} {taken:6.2f} s  {taken / limit:4.1f} x limit  {requests / installed:5.1f} requests a "
                f"module   target {TARGETS[name]}; original {ORIGINAL[name]}"
            )
        print(f"  memory        {at_work / 1e6:6.0f} MB resident with all Kymas Ready, {first / 1e6:.0f} MB before")


def resident_bytes_of_us() -> int:
    """Resident memory of this process."""
    return resident_bytes(int(Path("/proc/self").resolve().name))


async def _started(stack: AsyncExitStack, config: ClusterConfig) -> Manager:
    ours = await stack.enter_async_context(Client.connect(config, user_agent=AGENT))
    http = HttpClient(tls=None, user_agent=AGENT, connect_seconds=5.0, silence_seconds=5.0)
    stack.push_async_callback(http.close)
    settings = Settings(
        without_registry=True,
        raw_manifest_links=ManifestLinks.FILE,
        disable_watcher=True,
        module_upgrade_rollout_max_delay=timedelta(0),
        max_concurrent_kyma_reconciles=4,
        max_concurrent_manifest_reconciles=8,
    )
    manager = Manager(ours, grace_seconds=2.0)
    install(
        manager,
        settings,
        modules=Sources.of(settings, http, EgressRules()),
        connect=lambda login, bounds: Client.connect(login, bounds, user_agent=AGENT),
    )
    task = asyncio.create_task(manager.run())

    async def ended() -> None:
        manager.stop()
        await task

    stack.push_async_callback(ended)
    return manager


def main(arguments: Sequence[str] | None = None) -> None:
    """Start the clusters for the benchmark, measure, and take them down."""
    parser = argparse.ArgumentParser(prog="python -m bench.kyma")
    parser.add_argument("--kymas", type=int, default=2)
    parser.add_argument("--modules", type=int, default=20)
    chosen = parser.parse_args(arguments)
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        home = stack.enter_context(own_cluster("bench-kyma", WITHOUT_CONTROLLERS))
        remotes = [
            stack.enter_context(own_cluster(f"bench-kyma-{number}", WITHOUT_CONTROLLERS))
            for number in range(chosen.kymas)
        ]
        uvloop.run(run(home, remotes, chosen.modules, Path(folder)))


if __name__ == "__main__":
    main()
