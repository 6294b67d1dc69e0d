"""The lifecycle manager may die, or lose the answer to a write, at any of its writes on both clusters.

A Kyma gets two modules; one moves to another channel, is given up, and is taken back while the other one is removed;
then the Kyma is deleted. The end of each part is the same as without a fault.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.kyma.conftest import login_of_operator

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.core import ConfigMap, Namespace, Secret
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, Kind, metadata_of
from stellwerk.local.cluster import LocalCluster
from stellwerk.local.host.ports import free_port
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import Kyma
from stellwerk.operators.kyma.api_manifest import Manifest
from stellwerk.operators.kyma.api_module import ModuleReleaseMeta, ModuleTemplate
from stellwerk.operators.kyma.api_status import GROUP
from stellwerk.testing.eventually import eventually
from stellwerk.testing.faults import FaultProxy
from stellwerk.testing.processes.fork_server import ForkServer
from stellwerk.testing.processes.proxied_operator import proxied_operator
from stellwerk.testing.scenarios.crash_sweep import (
    Sweep,
    SweepStep,
    at_odd,
    conflicts,
    killed_after,
    killed_before,
)
from stellwerk.testing.scenarios.recorder import Run

HOME, SPACE, NAME = labels.KCP_NAMESPACE, "swept", "swept"
THINGS = Resource("swept.example.org", "v1", "Thing", "things", namespaced=True)
USER_KYMA = (labels.SKR_KYMA.name, labels.SKR_KYMA.namespace)
DEFAULT: JsonObject = {"apiVersion": THINGS.api_version, "kind": "Thing", "metadata": {"name": "default"}, "spec": {}}
DEFINITION = f"""
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: things.{THINGS.group}}}
spec:
  group: {THINGS.group}
  scope: Namespaced
  names: {{kind: Thing, plural: things}}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}
---"""


def config_map(name: str, colour: str = "red") -> str:
    return f"""
apiVersion: v1
kind: ConfigMap
metadata: {{name: {name}, namespace: {SPACE}}}
data: {{colour: {colour}}}
---"""


LAYERS = {
    ("first", "1.0.0"): DEFINITION + config_map("settings") + config_map("former"),
    ("first", "2.0.0"): DEFINITION + config_map("settings", "blue") + config_map("added"),
    ("second", "1.0.0"): config_map("second"),
}


@dataclass(frozen=True, slots=True)
class Scene:
    """Both clusters, and the Kyma."""

    home: Client
    remote: Client
    folder: Path
    login: Path

    async def offer(self) -> None:
        """Have the modules in their versions, and the login to the remote cluster."""
        for (module, version), text in LAYERS.items():
            file = self.folder / f"{module}-{version}.yaml"
            file.write_text(text)
            component = f"kyma-project.io/module/{module}"
            spec: JsonObject = {
                "moduleName": module,
                "version": version,
                "descriptor": {"component": {"name": component, "version": version}},
                "resources": [{"name": "rawManifest", "link": file.as_uri()}],
                **({"data": DEFAULT} if module == "first" else {}),
            }
            await self.home.apply(ModuleTemplate, body(ModuleTemplate, f"{module}-{version}", spec))
            channels: list[Any] = [{"channel": "regular", "version": "1.0.0"}]
            channels += [{"channel": "fast", "version": "2.0.0" if module == "first" else "1.0.0"}]
            meta: JsonObject = {"moduleName": module, "channels": channels, "ocmComponentName": component}
            await self.home.apply(ModuleReleaseMeta, body(ModuleReleaseMeta, module, meta))
        named: JsonObject = {"name": NAME, "namespace": HOME, "labels": {labels.KYMA_NAME_LABEL: NAME}}
        content: JsonObject = {labels.KUBECONFIG_KEY: self.login.read_text()}
        await self.home.apply(Secret, {"metadata": named, "stringData": content})
        await self.remote.apply(Namespace, {"metadata": {"name": SPACE}})

    async def withdraw(self) -> None:
        """Take away what was offered."""
        for module, version in LAYERS:
            await self.home.delete(metadata_of(ModuleTemplate), f"{module}-{version}", HOME)
            await self.home.delete(metadata_of(ModuleReleaseMeta), module, HOME)
        await self.home.delete(metadata_of(Secret), NAME, HOME)

    async def create(self) -> None:
        wanted = modules(first=True, second=True)
        await self.home.create(Kyma, body(Kyma, NAME, {"channel": "regular", "modules": wanted}))

    async def edit(self, **spec: Any) -> None:
        """The user edits the Kyma of the remote cluster."""
        await self.remote.patch(Kyma, *USER_KYMA, MergePatch({"spec": spec}))

    async def shows(self, *maps: str, **versions: str) -> None:
        """Return when both Kymas are Ready with these versions of modules, which have these ConfigMaps."""

        async def shown() -> bool:
            kyma = await self.home.get(Kyma, NAME, HOME)
            assert kyma.status.state == "Ready"
            users = await self.remote.get(Kyma, *USER_KYMA)
            found = {each.name: each.version for each in kyma.status.modules if each.state != "Unmanaged"}
            manifests = (await self.home.list(Manifest, HOME)).items
            ready = [each for each in manifests if each.status.state == "Ready" and not each.metadata.is_terminating]
            assert len(ready) == len(manifests) == len(versions)
            for each in ready:  # the state may still be that of the former layer
                assert each.metadata.annotations[labels.SYNCED_LAYER_ANNOTATION] == each.spec.install.source["ref"]
            ours = (await self.remote.list(ConfigMap, SPACE, labels=f"{labels.MANAGED_BY_LABEL}={labels.KYMA}")).items
            assert {each.metadata.name for each in ours} == {*maps}
            assert (found, users.status.state) == (versions, "Ready")
            return True

        await eventually(shown, within=60, describe=f"the Kyma is Ready with {versions}")

    async def delete(self) -> None:
        await self.home.delete(metadata_of(Kyma), NAME, HOME)

    async def gone(self) -> None:
        async def is_gone() -> bool:
            return await self.home.find(Kyma, NAME, HOME) is None

        await eventually(is_gone, within=60, describe="the Kyma is gone")

    def life(self) -> tuple[SweepStep, ...]:
        """What is asked for, one after the other."""

        async def installed() -> None:
            await self.shows("settings", "former", "second", first="1.0.0", second="1.0.0")

        async def moved() -> None:
            await self.shows("settings", "added", "second", first="2.0.0", second="1.0.0")

        async def given_up() -> None:
            await self.shows("second", second="1.0.0")

        async def taken_back() -> None:
            await self.shows("settings", "added", first="2.0.0")

        async def give_up() -> None:
            await self.edit(modules=modules(first=False, second=True))

        async def take_back() -> None:
            await self.edit(modules=modules(first=True))

        return (
            SweepStep("the installation", self.create, installed, least_points=25),
            SweepStep("another channel", lambda: self.edit(channel="fast"), moved, least_points=5),
            SweepStep("a module that is not managed any more", give_up, given_up, least_points=5),
            SweepStep(
                "a module that is managed again, and the end of another one", take_back, taken_back, least_points=8
            ),
            SweepStep("the deletion", self.delete, self.gone, least_points=12),
        )

    async def end_state(self) -> Run:
        """The Kyma, its modules, and what is in the remote cluster, without what differs from life to life."""
        found: dict[str, JsonObject] = {}
        kyma = await self.home.find(Kyma, NAME, HOME)
        if kyma is not None:
            found["Kyma"] = _shown(kyma)
            found["the user's Kyma"] = _shown(await self.remote.get(Kyma, *USER_KYMA))
            for each in (await self.remote.list(ModuleTemplate, labels.SKR_NAMESPACE)).items:
                found[f"ModuleTemplate {each.metadata.name}"] = {"version": each.spec.version}
        for manifest in (await self.home.list(Manifest, HOME)).items:
            found[f"Manifest {manifest.metadata.name}"] = {
                "version": manifest.spec.version,
                "state": str(manifest.status.state),
                "finalizers": [*sorted(manifest.metadata.finalizers)],
                "synced": [f"{each.kind} {each.name}" for each in manifest.status.synced],
                "conditions": [f"{each.type} {each.status}" for each in manifest.status.conditions],
                "layer": manifest.metadata.annotations.get(labels.SYNCED_LAYER_ANNOTATION, ""),
            }
        for map_ in (await self.remote.list(ConfigMap, SPACE)).items:
            if not map_.metadata.name.startswith("kube-"):
                found[f"ConfigMap {map_.metadata.name}"] = {
                    **map_.data,
                    "managed by": map_.metadata.labels.get(labels.MANAGED_BY_LABEL, ""),
                    "owner": map_.metadata.annotations.get(labels.OWNED_BY_ANNOTATION, ""),
                }
        for definition in (await self.remote.list(metadata_of(CustomResourceDefinition))).items:
            if definition.metadata.name.endswith((THINGS.group, GROUP)):
                managed = definition.metadata.labels.get(labels.MANAGED_BY_LABEL, "")
                found[f"definition {definition.metadata.name}"] = {"managed by": managed}
                if definition.metadata.name.endswith(THINGS.group):
                    for thing in (await self.remote.list(metadata_of(THINGS))).items:
                        found[f"Thing {thing.key}"] = {}
        return Run((), found)


def body(kind: type[Kind], name: str, spec: JsonObject) -> JsonObject:
    resource = kind.resource
    named: JsonObject = {"name": name, "namespace": HOME}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": named, "spec": spec}


def modules(**managed: bool) -> list[Any]:
    """As a Kyma lists them."""
    return [{"name": name, "managed": each} for name, each in managed.items()]


def _shown(kyma: Kyma) -> JsonObject:
    status = kyma.status
    return {
        "state": str(status.state),
        "channel": status.active_channel,
        "modules": [f"{each.name} {each.version} {each.state}" for each in status.modules],
        "conditions": [f"{each.type} {each.status}" for each in status.conditions],
        "finalizers": [*kyma.metadata.finalizers],
    }


@pytest.fixture
async def sweep(
    home_cluster: LocalCluster, remote_cluster: LocalCluster, home_client: Client, remote_client: Client, tmp_path: Path
) -> AsyncIterator[Sweep]:
    flags = (
        *("--leader-elect=false", "--without-registry", "--disable-watcher", "--metrics-bind-address=0"),
        *("--raw-manifest-links=file", "--module-upgrade-rollout-max-delay=0s", "--failure-base-delay=50ms"),
        f"--kyma-skr-listener-bind-address=127.0.0.1:{free_port()}",
    )
    login = login_of_operator(home_cluster)
    with ForkServer(["stellwerk.assembly", "stellwerk.operators.kyma.process", "uvloop"]) as nursery:
        async with (
            FaultProxy(remote_cluster.kubeconfig) as remote_line,
            proxied_operator("kyma", *flags, login=login, folder=tmp_path, nursery=nursery) as operator,
        ):
            scene = Scene(home_client, remote_client, tmp_path, remote_line.kubeconfig)
            await scene.offer()
            await operator.process.start()
            yield Sweep(
                process=operator.process,
                proxy=operator.proxy,
                other_proxies=(remote_line,),
                parts=scene.life(),
                end_state=scene.end_state,
            )
            await scene.withdraw()


@pytest.mark.sweep
@pytest.mark.req("R-101", "R-102")
@pytest.mark.timeout(600)
async def test_killed_or_without_a_reply_at_any_write_on_both_clusters_it_ends_as_if_nothing_had_happened(
    sweep: Sweep, home_client: Client, remote_client: Client
) -> None:
    await sweep.run(at_odd(killed_before), at_odd(killed_after), *conflicts(home_client, remote_client))
