"""The webhook of a Kyma on two real API servers: what is written is accepted, kept, and removed.

The Certificates are real definitions of cert-manager and Gardener; the tests issue certificates in their place.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.cluster.kyma.conftest import login_of_operator
from tests.unit.kyma.watcher.authorities import a_leaf, an_authority, content

from stellwerk.api.admission import ValidatingWebhookConfiguration
from stellwerk.api.apps import Deployment
from stellwerk.api.core import Secret, Service
from stellwerk.api.istio import Gateway
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import NotFound
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, metadata_of, unstructured
from stellwerk.kube.types.object_meta import rfc3339
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import Kyma
from stellwerk.operators.kyma.api_watcher import Watcher
from stellwerk.operators.kyma.controllers import LifecycleManager, install
from stellwerk.operators.kyma.settings import CertificateManagement, Settings
from stellwerk.operators.kyma.sources.loads import Sources
from stellwerk.operators.kyma.watcher.certificates import CERTIFICATES
from stellwerk.operators.kyma.watcher.webhook import RUNTIME_COLLECTIONS
from stellwerk.render.sources.egress import EgressRules
from stellwerk.render.sources.http import HttpClient
from stellwerk.runtime.certificates.certs import KeyPair
from stellwerk.runtime.process.manager import Manager
from stellwerk.testing.cluster import AuditEntry, AuditLog
from stellwerk.testing.eventually import eventually

HOME, PLACE, THERE = labels.KCP_NAMESPACE, labels.ISTIO_NAMESPACE, labels.SKR_NAMESPACE
NOW = datetime.now(UTC).replace(microsecond=0)
AUTHORITY, NEWER = an_authority(NOW - timedelta(days=10), 400), an_authority(NOW - timedelta(days=1), 400)


@dataclass
class Works:
    """The lifecycle manager, running, and a user of both clusters."""

    made: LifecycleManager
    home: Client
    remote: Client
    audits: Sequence[AuditLog]
    management: CertificateManagement

    @property
    def name(self) -> str:
        """Of the Kyma: each run has its own."""
        return f"k-{self.management.name.lower().replace('_', '-')}"

    def is_calm(self) -> bool:
        engines = (self.made.kymas, self.made.manifests, self.made.watchers)
        queues = [each.controller.queue for each in engines]
        return not any(queue.running or len(queue) for queue in queues)

    async def shows(self, state: str, condition: str) -> None:
        """Wait for the state of the Kyma, and that of its condition."""

        async def found() -> bool:
            status = (await self.home.get(Kyma, self.name, HOME)).status
            webhook = [each.status for each in status.conditions if each.type == "SKRWebhook"]
            return (status.state, webhook) == (state, [condition]) and self.is_calm()

        await eventually(found, within=60, describe=f"it is {state}, and the condition {condition}")

    async def issue(self, authority: KeyPair, begins: datetime) -> None:
        """As cert-manager does."""
        leaf = a_leaf(authority, begins)
        marks: JsonObject = {labels.PURPOSE_LABEL: labels.CERTIFICATE_PURPOSE}
        metadata = named(f"{self.name}-webhook-tls", PLACE, labels=marks)
        await self.home.apply(Secret, {"metadata": metadata, "data": {**content(leaf)}})

    async def requests_of_a_pass(self) -> list[str]:
        await eventually(self.is_calm)
        for audit in self.audits:
            audit.mark()
        self.made.kymas.controller.queue.add(ObjectKey(HOME, self.name))
        await eventually(self.is_calm)
        return [
            f"{entry.verb} {entry.resource}" for audit in self.audits for entry in audit.entries(_concerns_a_webhook)
        ]


@pytest.fixture(params=CertificateManagement, ids=["cert-manager", "gardener"])
async def works(
    request: pytest.FixtureRequest,
    client: Client,
    watcher_cluster: LocalCluster,
    remote_cluster: LocalCluster,
    remote_client: Client,
) -> AsyncIterator[Works]:
    settings = Settings(
        cert_management=request.param,
        skr_watcher_image_tag="1.2.3",
        without_registry=True,
        kyma_skr_listener_bind_address="0",
        failure_base_delay=timedelta(seconds=0.1),
    )
    async with contextlib.AsyncExitStack() as stack:
        config = ClusterConfig.load(login_of_operator(watcher_cluster))
        ours = await stack.enter_async_context(Client.connect(config, user_agent="klm"))
        http = HttpClient(tls=None, user_agent="test", connect_seconds=5.0, silence_seconds=5.0)
        stack.push_async_callback(http.close)
        manager = Manager(ours, grace_seconds=2.0)
        made = install(
            manager,
            settings,
            modules=Sources.of(settings, http, EgressRules()),
            connect=lambda config, bounds: Client.connect(config, bounds),
        )
        task = asyncio.create_task(manager.run())
        audits = [AuditLog(watcher_cluster), AuditLog(remote_cluster)]
        works = Works(made, client, remote_client, audits, request.param)
        await prepare(client, works.name, remote_cluster.kubeconfig.read_bytes())
        try:
            yield works
        finally:
            manager.stop()
            async with asyncio.timeout(30):
                await task


def _concerns_a_webhook(entry: AuditEntry) -> bool:
    kinds = ("priorityclasses", "validatingwebhookconfigurations")
    return entry.verb != "watch" and (entry.namespace in (HOME, PLACE, THERE) or entry.resource in kinds)


def named(name: str, namespace: str = HOME, **fields: Any) -> JsonObject:
    return {"name": name, "namespace": namespace, **fields}


def a_watcher(name: str) -> JsonObject:
    spec: JsonObject = {
        "serviceInfo": {"name": "events", "namespace": HOME, "port": 8082},
        "manager": "lifecycle-manager",
        "labelsToWatch": {labels.WATCHED_BY_LABEL: "kyma"},
        "resourceToWatch": {"group": "operator.kyma-project.io", "version": "*", "resource": "kymas"},
        "field": "spec",
        "gateway": {"selector": {"matchLabels": {"none": "of-these-tests"}}},
    }
    return {"metadata": named(name), "spec": spec}


async def prepare(home: Client, name: str, kubeconfig: bytes) -> None:
    """Have a Gateway with an authority, a Watcher, and a Kyma with its access Secret."""
    with contextlib.suppress(NotFound):
        await home.delete(metadata_of(Secret), labels.ROOT_SECRET_NAME, PLACE)
    server: JsonObject = {"port": {"number": 443, "protocol": "HTTPS", "name": "https"}, "hosts": ["l.example.com"]}
    await home.apply(Gateway, {"metadata": named("klm-watcher"), "spec": {"servers": [server]}})
    added = {labels.CA_ADDED_AT_ANNOTATION: rfc3339(NOW - timedelta(days=10))}
    gateway = named(labels.GATEWAY_SECRET_NAME, PLACE, annotations=added)
    await home.apply(Secret, {"metadata": gateway, "data": {**content(AUTHORITY)}})
    await home.apply(Watcher, a_watcher("kymas"))
    access = named(f"access-{name}", labels={labels.KYMA_NAME_LABEL: name})
    await home.apply(Secret, {"metadata": access, "data": {"config": base64.b64encode(kubeconfig).decode()}})
    marks: JsonObject = {labels.RUNTIME_ID_LABEL: f"runtime-of-{name}"}
    annotations: JsonObject = {labels.SKR_DOMAIN_ANNOTATION: f"{name}.kyma.example.com"}
    metadata = named(name, labels=marks, annotations=annotations)
    await home.apply(Kyma, {"metadata": metadata, "spec": {"channel": "regular"}})


@pytest.mark.req("KYMA-55", "KYMA-57")
async def test_the_webhook_is_installed_kept_and_removed(works: Works) -> None:
    """A pass over what is installed asks nothing of either cluster."""
    home, remote, name, management = works.home, works.remote, works.name, works.management
    kind = unstructured(CERTIFICATES[management].resource)

    async def requested() -> bool:
        return await home.find(kind, f"{name}-webhook-tls", PLACE) is not None

    await eventually(requested, within=30, describe="a certificate is requested")
    await works.shows("Processing", "False")
    await works.issue(AUTHORITY, NOW - timedelta(days=10))

    async def installed() -> bool:
        return await remote.find(ValidatingWebhookConfiguration, "skr-webhook") is not None

    await eventually(installed, within=30, describe="the webhook is installed")
    await works.shows("Processing", "False")
    ready: JsonObject = {"status": {"replicas": 1, "readyReplicas": 1}}
    await remote.patch(metadata_of(Deployment), "skr-webhook", THERE, MergePatch(ready), subresource="status")
    await works.shows("Ready", "True")
    assert await works.requests_of_a_pass() == []

    # what a user of the remote cluster does
    copied = await remote.get(Secret, "skr-webhook-tls", THERE)
    await remote.delete(metadata_of(Secret), "skr-webhook-tls", THERE)
    edit: JsonObject = {"spec": {"selector": {"app": "other"}}}
    await remote.patch(metadata_of(Service), "skr-webhook", THERE, MergePatch(edit))

    async def restored() -> bool:
        secret = await remote.find(Secret, "skr-webhook-tls", THERE)
        service = await remote.get(Service, "skr-webhook", THERE)
        return secret is not None and secret.data == copied.data and service.spec.selector == {"app": "skr-webhook"}

    await eventually(restored, within=30, describe="it is restored")

    # what the control plane does
    await home.apply(Watcher, a_watcher("second"))

    async def registered(name: str) -> bool:
        found = await remote.get(ValidatingWebhookConfiguration, "skr-webhook")
        return f"{HOME}.{name}.operator.kyma-project.io" in [each.name for each in found.webhooks]

    async def removed() -> bool:
        return await home.find(Watcher, "second", HOME) is None and not await registered("second")

    await eventually(lambda: registered("second"), within=30)
    assert await registered("kymas")
    edited: Any = (await remote.get(unstructured(ValidatingWebhookConfiguration.resource), "skr-webhook")).body
    held: JsonObject = {"webhooks": [{**each, "timeoutSeconds": 20} for each in edited["webhooks"]]}
    await remote.patch(metadata_of(ValidatingWebhookConfiguration), "skr-webhook", "", MergePatch(held))
    await home.delete(metadata_of(Watcher), "second", HOME)
    await eventually(removed, within=30, describe="it is removed, although a user owns fields of it")
    assert await registered("kymas")
    await works.shows("Ready", "True")
    assert await works.requests_of_a_pass() == []

    # another authority
    if management is CertificateManagement.GARDENER:
        state: JsonObject = {"status": {"state": "Ready"}}
        await home.patch(kind, f"{name}-webhook-tls", PLACE, MergePatch(state), subresource="status")
    await home.apply(Secret, {"metadata": named(labels.ROOT_SECRET_NAME, PLACE), "data": {**content(NEWER)}})

    async def asked() -> bool:
        body = (await home.get(kind, f"{name}-webhook-tls", PLACE)).body
        found: Any = body
        if management is CertificateManagement.GARDENER:
            return bool(found["spec"].get("renew"))
        conditions = found.get("status", {}).get("conditions", [])
        return [each["reason"] for each in conditions if each["type"] == "Issuing"] == ["ManuallyTriggered"]

    await eventually(asked, within=30, describe="another certificate is requested")
    await works.issue(NEWER, datetime.now(UTC) + timedelta(seconds=1))

    async def copied_again() -> bool:
        secret = await home.get(Secret, f"{name}-webhook-tls", PLACE)
        deployment: Any = (await remote.get(unstructured(Deployment.resource), "skr-webhook", THERE)).body
        there = await remote.get(Secret, "skr-webhook-tls", THERE)
        trigger = deployment["spec"]["template"]["metadata"]["labels"][labels.POD_RESTART_LABEL]
        return there.data["tls.crt"] == secret.data["tls.crt"] and trigger == secret.metadata.resource_version

    await eventually(copied_again, within=30, describe="the other certificate is copied")

    # a Kyma that went without its finalizer
    left, mine = f"gone-{name}-webhook-tls", f"mine-{name}-webhook-tls"
    model: Any = (await home.get(kind, f"{name}-webhook-tls", PLACE)).body
    managed: JsonObject = {labels.MANAGED_BY_LABEL: labels.OPERATOR_NAME}
    for metadata in (named(left, PLACE, labels=managed), named(mine, PLACE)):
        await home.create(kind, {**model, "metadata": metadata, "status": {}})
    purpose: JsonObject = {labels.PURPOSE_LABEL: labels.CERTIFICATE_PURPOSE}
    await home.apply(Secret, {"metadata": named(left, PLACE, labels=purpose)})

    async def cleared() -> bool:
        found = [await home.find(each, left, PLACE) for each in (kind, unstructured(Secret.resource))]
        return found == [None, None]

    await eventually(cleared, within=30, describe="the certificate of a Kyma that is gone is deleted")
    assert await home.find(kind, mine, PLACE) is not None
    await home.delete(kind, mine, PLACE)

    # the end
    await home.delete(metadata_of(Kyma), name, HOME)

    # the end
    await home.delete(metadata_of(Kyma), name, HOME)

    async def gone() -> bool:
        if await home.find(Kyma, name, HOME) is not None:
            return False
        left = [each async for each in _left(remote)]
        certificate = await home.find(kind, f"{name}-webhook-tls", PLACE)
        return not left and certificate is None and await home.find(Secret, f"{name}-webhook-tls", PLACE) is None

    await eventually(gone, within=60, describe="all is removed")
    await home.delete(metadata_of(Secret), f"access-{name}", HOME)


async def _left(remote: Client) -> AsyncIterator[str]:
    for collection in RUNTIME_COLLECTIONS:
        for each in (await remote.list(metadata_of(collection.resource))).items:
            if each.metadata.name.startswith(("skr-webhook", "kyma-project.io--")):
                yield each.metadata.name
