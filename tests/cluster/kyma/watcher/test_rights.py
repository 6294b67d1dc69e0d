"""The process has what it needs and nothing else: every right is used in a life, or its rare occasion is named."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.cluster import rights as audited
from tests.cluster.kyma.conftest import login_of_operator
from tests.unit.kyma.watcher.authorities import a_leaf, an_authority, content

from stellwerk.api.admission import ValidatingWebhookConfiguration
from stellwerk.api.core import ConfigMap, Secret
from stellwerk.api.gardener import GardenerCertificate
from stellwerk.api.istio import Gateway, VirtualService
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import JsonObject, Kind, metadata_of
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.kyma import labels, rights
from stellwerk.operators.kyma.api import Kyma
from stellwerk.operators.kyma.api_manifest import Manifest
from stellwerk.operators.kyma.api_module import ModuleReleaseMeta, ModuleTemplate
from stellwerk.operators.kyma.api_watcher import Watcher
from stellwerk.operators.kyma.installation import INSTALLATION
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.eventually import eventually

HOME, PLACE = labels.KCP_NAMESPACE, labels.ISTIO_NAMESPACE
NAME, CERTIFICATE = "rights", "rights-webhook-tls"
NOW = datetime.now(UTC).replace(microsecond=0)
FORMER, NEWER = an_authority(NOW - timedelta(days=10), 400), an_authority(NOW - timedelta(days=1), 400)
FLAGS = (
    *("--without-registry", "--raw-manifest-links=file", "--skr-watcher-image-tag=1.2.3"),
    *("--module-rollout-at-once=1", "--module-upgrade-rollout-max-delay=0", "--failure-base-delay=100ms"),
    *("--metrics-bind-address=0", "--health-probe-bind-address=0", "--kyma-skr-listener-bind-address=0"),
)


@dataclass(frozen=True)
class Life:
    """What users do with both clusters."""

    home: Client
    remote: Client
    folder: Path

    async def apply(self, kind: type[Kind], name: str, namespace: str = HOME, **fields: Any) -> None:
        metadata: JsonObject = {"name": name, "namespace": namespace, **fields.pop("metadata", {})}
        await self.home.apply(kind, {"metadata": metadata, **fields})

    async def template(self, module: str, version: str, **metadata: Any) -> None:
        file = self.folder / f"{module}-{version}.yaml"
        name = f"of-{module}-{version.replace('.', '-')}"
        file.write_text(f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: kyma-system}}\n")
        spec: JsonObject = {
            "moduleName": module,
            "version": version,
            "descriptor": {"component": {"name": f"kyma-project.io/module/{module}", "version": version}},
            "resources": [{"name": "rawManifest", "link": file.as_uri()}],
        }
        await self.apply(ModuleTemplate, f"{module}-{version}", metadata=metadata, spec=spec)

    async def meta(self, module: str, **spec: Any) -> None:
        component = f"kyma-project.io/module/{module}"
        await self.apply(ModuleReleaseMeta, module, spec={"moduleName": module, "ocmComponentName": component, **spec})

    async def edit(self, **spec: Any) -> None:
        await self.remote.patch(Kyma, labels.SKR_KYMA.name, labels.SKR_KYMA.namespace, MergePatch({"spec": spec}))

    async def authority(self, pair: Any) -> None:
        await self.apply(Secret, labels.ROOT_SECRET_NAME, PLACE, data=content(pair))

    # ---- what is awaited

    async def until(self, kind: type[Kind], name: str, namespace: str = HOME, *, is_there: bool = True) -> None:
        async def found() -> bool:
            return (await self.home.find(metadata_of(kind), name, namespace) is not None) is is_there

        await eventually(found, within=60, describe=f"{kind.resource.kind} {name} is {'there' if is_there else 'gone'}")

    async def ready(self, **versions: str) -> None:
        async def found() -> bool:
            every = (await self.home.list(Manifest, HOME)).items
            shown = {
                each.metadata.labels[labels.MODULE_NAME_LABEL]: each.spec.version
                for each in every
                if each.status.state == "Ready"
            }
            return shown == versions and not (await self.home.list(ConfigMap, HOME, labels=labels.ROLLOUT_LABEL)).items

        await eventually(found, within=60, describe=f"these are ready: {versions}")


@contextlib.asynccontextmanager
async def running(kubeconfig: Path, log: Path) -> AsyncIterator[None]:
    """The program, as a process of its own."""
    words = (sys.executable, "-m", "stellwerk.cli.main", "run", "kyma", f"--kubeconfig={kubeconfig}", *FLAGS)
    with log.open("wb") as opened:
        process = await asyncio.create_subprocess_exec(*words, stdout=opened, stderr=opened)
        try:
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            code = await asyncio.wait_for(process.wait(), 30)
    assert code == 0, f"see {log}"


@pytest.mark.req("R-504")
@pytest.mark.timeout(180)
async def test_every_right_of_the_process_is_used_in_a_life_or_its_rare_occasion_is_named(
    watcher_cluster: LocalCluster, remote_cluster: LocalCluster, client: Client, remote_client: Client, tmp_path: Path
) -> None:
    life, audit = Life(client, remote_client, tmp_path), AuditLog(watcher_cluster)
    for name in (labels.ROOT_SECRET_NAME, labels.GATEWAY_SECRET_NAME):  # those of other tests
        await client.delete(metadata_of(Secret), name, PLACE)
    await life.authority(FORMER)
    server: JsonObject = {"port": {"number": 443, "protocol": "HTTPS", "name": "https"}, "hosts": ["l.example.com"]}
    marks: JsonObject = {"labels": {"of": NAME}}
    await life.apply(Gateway, "klm-watcher", metadata=marks, spec={"servers": [server]})
    watcher: dict[str, Any] = {
        "serviceInfo": {"name": "events", "namespace": HOME, "port": 8082},
        "manager": "lifecycle-manager",
        "resourceToWatch": {"group": "operator.kyma-project.io", "version": "*", "resource": "kymas"},
        "field": "spec",
        "gateway": {"selector": {"matchLabels": {"of": NAME}}},
    }
    await life.apply(Watcher, NAME, spec=watcher)
    for version in ("1.0.0", "2.0.0"):
        await life.template("amod", version)
    channels = [{"channel": "regular", "version": "1.0.0"}, {"channel": "fast", "version": "2.0.0"}]
    await life.meta("amod", channels=channels)
    await life.template("base", "1.0.0")
    await life.meta("base", mandatory={"version": "1.0.0"})
    await life.template("old", "1.0.0", labels={labels.MANDATORY_MODULE_LABEL: "true"})
    login = {labels.KUBECONFIG_KEY: remote_cluster.kubeconfig.read_text()}
    await life.apply(Secret, "access-rights", metadata={"labels": {labels.KYMA_NAME_LABEL: NAME}}, stringData=login)

    async with running(login_of_operator(watcher_cluster), tmp_path / "log"):
        metadata: JsonObject = {
            "labels": {labels.RUNTIME_ID_LABEL: "runtime-of-rights"},
            "annotations": {labels.SKR_DOMAIN_ANNOTATION: "rights.kyma.example.com"},
        }
        modules: list[Any] = [{"name": "amod", "managed": True}]
        await life.apply(Kyma, NAME, metadata=metadata, spec={"channel": "regular", "modules": modules})
        await life.ready(amod="1.0.0", base="1.0.0", old="1.0.0")
        await life.until(Secret, labels.GATEWAY_SECRET_NAME, PLACE)
        purpose: JsonObject = {"labels": {labels.PURPOSE_LABEL: labels.CERTIFICATE_PURPOSE}}
        leaf = content(a_leaf(FORMER, NOW - timedelta(days=10)))
        await life.apply(Secret, CERTIFICATE, PLACE, metadata=purpose, data=leaf)

        async def registered() -> bool:
            return await remote_client.find(ValidatingWebhookConfiguration, "skr-webhook") is not None

        await eventually(registered, within=60, describe="the webhook is installed")
        await life.edit(channel="fast")
        await life.ready(amod="2.0.0", base="1.0.0", old="1.0.0")
        await life.edit(modules=[])
        await life.ready(base="1.0.0", old="1.0.0")

        await life.apply(Watcher, NAME, spec={**watcher, "serviceInfo": {**watcher["serviceInfo"], "port": 8083}})

        async def routed() -> bool:
            return "8083" in str((await client.get(VirtualService, NAME, HOME)).spec)

        await eventually(routed, within=30)
        await client.delete(metadata_of(Watcher), NAME, HOME)
        await life.until(Watcher, NAME, is_there=False)
        await life.authority(NEWER)

        async def trusted() -> bool:
            found = await client.get(Secret, labels.GATEWAY_SECRET_NAME, PLACE)
            return len(found.data["ca.crt"]) > len(content(NEWER)["ca.crt"])

        await eventually(trusted, within=30, describe="the Gateway has both authorities")
        for kind, name in ((ModuleReleaseMeta, "base"), (ModuleTemplate, "old-1.0.0")):
            await client.delete(metadata_of(kind), name, HOME)
            await life.until(kind, name, is_there=False)
        await client.delete(metadata_of(Kyma), NAME, HOME)
        await life.until(Kyma, NAME, is_there=False)
        await life.until(Secret, CERTIFICATE, PLACE, is_there=False)

    user = f"system:serviceaccount:{INSTALLATION.namespace}:{INSTALLATION.account}"
    requests = audit.entries(lambda entry: entry.user == user)
    granted = (*rights.GRANTS, *rights.HOME_GRANTS, *rights.GATEWAY_GRANTS, *rights.ISTIO_GRANTS)
    unused = audited.unused(granted, requests)
    other = GardenerCertificate.resource.group  # the other management of certificates: test_webhook
    assert not [each for each in unused if each[0] != other], "granted and not used"
    assert not [entry for entry in requests if entry.status == 403]
    for each in ("amod-1.0.0", "amod-2.0.0", "base-1.0.0"):
        await client.delete(metadata_of(ModuleTemplate), each, HOME)
    await client.delete(metadata_of(ModuleReleaseMeta), "amod", HOME)
