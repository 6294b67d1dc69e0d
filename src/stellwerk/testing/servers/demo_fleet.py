"""The fleet of the demo: modules by channel on a second cluster, a move to another channel, and a removal that waits.

    python -m stellwerk.testing.servers.demo_fleet

The second cluster is an API server alone. A process of the local system holds it, so both end with `stellwerk down`.
What the modules consist of is in samples/kyma/modules.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import stellwerk
from stellwerk.api.core import Namespace, Secret
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import ApiError, LoginFailed
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, Unstructured, metadata_of, unstructured
from stellwerk.local.cluster import LocalCluster, named
from stellwerk.local.components import Options
from stellwerk.local.host import processes
from stellwerk.testing.eventually import eventually

MODULES = Path(stellwerk.__file__).parents[2] / "samples" / "kyma" / "modules"
CHANNELS: Mapping[str, Mapping[str, str]] = {
    "greeter": {"regular": "1.0.0", "fast": "1.1.0"},
    "clock": {"regular": "1.0.0", "fast": "1.0.0"},
}
"""The version of each module in each channel."""
PATIENCE_SECONDS = 60.0
_GROUP, _HOME, _NAME = "operator.kyma-project.io", "kcp-system", "demo"
_KYMAS = unstructured(Resource(_GROUP, "v1beta2", "Kyma", "kymas", namespaced=True))
_TEMPLATES = unstructured(Resource(_GROUP, "v1beta2", "ModuleTemplate", "moduletemplates", namespaced=True))
_METAS = unstructured(Resource(_GROUP, "v1beta2", "ModuleReleaseMeta", "modulereleasemetas", namespaced=True))
_GREETERS = Resource("demo.example.org", "v1", "Greeter", "greeters", namespaced=True)


def second_cluster(of: LocalCluster) -> LocalCluster:
    """The second cluster of a local system."""
    return named(f"{of.folder.name}-fleet", Options(durable=False, controllers=False, pods=False))


def hold(cluster: LocalCluster) -> None:
    """Run the second cluster until the process is ended."""
    processes.keep_lock_from_children()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        cluster.up()
        while True:
            signal.pause()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # `stellwerk down` sends it twice
        cluster.down()


def _started(home: LocalCluster) -> LocalCluster:
    """The second cluster, which a process of the first one holds."""
    cluster, code = second_cluster(home), sha256(Path(__file__).read_bytes()).hexdigest()
    command = [sys.executable, "-m", "stellwerk.testing.servers.demo_fleet", home.folder.name]
    home.start_companion("fleet", lambda: command, os.environ, source=code)
    return cluster


@dataclass(frozen=True, slots=True)
class Fleet:
    """A user of both clusters."""

    home: Client
    remote: Client
    login: Path
    """To the second cluster."""

    async def offer(self) -> None:
        """Offer all versions of all modules."""
        for module, channels in CHANNELS.items():
            for version in {*channels.values()}:
                spec: dict[str, Any] = {
                    "moduleName": module,
                    "version": version,
                    "descriptor": {"component": {"name": f"example.org/demo/{module}", "version": version}},
                    "resources": [{"name": "rawManifest", "link": (MODULES / f"{module}-{version}.yaml").as_uri()}],
                    **({"data": _greeter("default", "Good morning")} if module == "greeter" else {}),
                }
                await self._apply(_TEMPLATES, f"{module}-{version}", spec)
            listed = [{"channel": channel, "version": version} for channel, version in channels.items()]
            meta: dict[str, Any] = {"moduleName": module, "channels": listed}
            await self._apply(_METAS, module, {**meta, "ocmComponentName": f"example.org/demo/{module}"})

    async def begin(self) -> None:
        """A Kyma with both modules in the channel regular. One of an earlier demo loses its modules first."""
        metadata: JsonObject = {"name": f"access-{_NAME}", "namespace": _HOME}
        metadata["labels"] = {f"{_GROUP}/kyma-name": _NAME}
        await self.home.apply(Secret, {"metadata": metadata, "stringData": {"config": self.login.read_text()}})
        if await self.home.find(_KYMAS, _NAME, _HOME) is not None:
            await self._begin_again()
            return
        marks: JsonObject = {"kyma-project.io/instance-id": _NAME}
        notes: JsonObject = {"skr-domain": f"{_NAME}.kyma.example.org"}
        spec: dict[str, Any] = {"channel": "regular", "modules": _entries(*CHANNELS)}
        await self._apply(_KYMAS, _NAME, spec, labels=marks, annotations=notes)

    async def _begin_again(self) -> None:
        if not await self._has_kyma():  # the second cluster is a new one, which has to be confirmed
            confirmed: JsonObject = {"metadata": {"annotations": {f"{_GROUP}/cluster-uid": None}}}
            await self.home.patch(_KYMAS, _NAME, _HOME, MergePatch(confirmed))
            await eventually(self._has_kyma, within=PATIENCE_SECONDS, describe="the second cluster has its Kyma")
        greeters = metadata_of(_GREETERS)
        for each in (await self.remote.list(greeters)).items if await self._serves(_GREETERS) else ():
            await self.remote.delete(greeters, each.metadata.name, each.metadata.namespace)
        await self.edit(channel="regular", modules=[])
        await self.shows("Ready", {})
        await self.edit(modules=_entries(*CHANNELS))

    async def edit(self, **spec: Any) -> None:
        """Edit the Kyma in the second cluster, as its user does."""
        await self.remote.patch(_KYMAS, "default", "kyma-system", MergePatch({"spec": spec}))

    async def shows(self, state: str, versions: Mapping[str, str]) -> None:
        """Wait until the Kyma shows this state and these versions."""

        async def found() -> bool:
            kyma = await self.home.find(_KYMAS, _NAME, _HOME)
            modules: Any = kyma.at("status", "modules") if kyma is not None else None
            shown = {str(each["name"]): str(each.get("version", "")) for each in modules or ()}
            return kyma is not None and kyma.at("status", "state") == state and shown == versions

        await eventually(found, within=PATIENCE_SECONDS, describe=f"Kyma {_NAME} is {state} with {dict(versions)}")

    async def blocked(self) -> str:
        """Use a module, remove it, and wait until its removal waits for what uses it. Returns the message."""
        await self.remote.apply(unstructured(_GREETERS), _greeter("hello", "Hello", namespace="default"))
        await self.edit(modules=_entries("clock"))
        seen: list[str] = []

        async def found() -> bool:
            kyma: Unstructured = await self.home.get(_KYMAS, _NAME, _HOME)
            modules: Any = kyma.at("status", "modules")
            seen.extend(str(each.get("message", "")) for each in modules or () if each["name"] == "greeter")
            return bool(seen) and "default/hello" in seen[-1]

        await eventually(found, within=PATIENCE_SECONDS, describe="the removal of greeter waits")
        return seen[-1]

    async def _has_kyma(self) -> bool:
        served = await self._serves(_KYMAS.resource)
        return served and await self.remote.find(_KYMAS, "default", "kyma-system") is not None

    async def _serves(self, kind: Resource) -> bool:
        self.remote.mapper.invalidate()
        return kind in await self.remote.mapper.all()

    async def _apply(self, kind: Any, name: str, spec: dict[str, Any], **metadata: Any) -> None:
        resource = kind.resource
        body: JsonObject = {"apiVersion": resource.api_version, "kind": resource.kind}
        await self.home.apply(kind, {**body, "metadata": {"name": name, "namespace": _HOME, **metadata}, "spec": spec})


def _greeter(name: str, greeting: str, **metadata: str) -> JsonObject:
    """A custom resource of the module greeter."""
    kind: JsonObject = {"apiVersion": _GREETERS.api_version, "kind": _GREETERS.kind}
    return {**kind, "metadata": {"name": name, **metadata}, "spec": {"greeting": greeting}}


def _entries(*modules: str) -> list[dict[str, Any]]:
    return [{"name": each, "managed": True} for each in modules]


@asynccontextmanager
async def _connected(home: LocalCluster) -> AsyncIterator[Fleet]:
    remote, connected = _started(home), list[Client]()
    async with AsyncExitStack() as stack:

        async def answers() -> bool:
            try:
                config = ClusterConfig.load(remote.kubeconfig)
                client = await stack.enter_async_context(Client.connect(config, field_manager="demo"))
                connected.append(client)
                return await client.find(Namespace, "default") is not None
            except (LoginFailed, ApiError):
                return False

        await eventually(answers, within=PATIENCE_SECONDS, describe="the second cluster answers")
        here = Client.connect(ClusterConfig.load(home.kubeconfig), field_manager="demo")
        yield Fleet(await stack.enter_async_context(here), connected[-1], remote.kubeconfig)


async def demo(home: LocalCluster) -> None:
    """Show it, and print what happens."""
    async with _connected(home) as fleet:
        await fleet.offer()
        await fleet.begin()
        await fleet.shows("Ready", _versions("regular"))
        _show(f"Kyma {_HOME}/{_NAME} is Ready: {_spelled('regular')} in the second cluster, by the channel regular")
        await fleet.edit(channel="fast")
        await fleet.shows("Ready", _versions("fast"))
        _show(f"its user takes the channel fast: {_spelled('fast')}")
        _show(f"its user removes greeter, which is in use: {await fleet.blocked()}")
        _show(f"what blocks it: stellwerk why kyma/{_NAME} -n {_HOME}")


def _versions(channel: str) -> dict[str, str]:
    return {module: channels[channel] for module, channels in CHANNELS.items()}


def _spelled(channel: str) -> str:
    return ", ".join(f"{module} {version}" for module, version in _versions(channel).items())


def _show(line: str) -> None:
    sys.stdout.write(f"Fleet: {line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        hold(second_cluster(named(sys.argv[1])))
    asyncio.run(demo(named()))
