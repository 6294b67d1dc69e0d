"""The webhook of a Kyma on two real API servers: what is written is accepted, kept, and removed.

The Certificates are real definitions of cert-manager and Gardener; the tests issue certificates in their place.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.cluster.component.kinds import serve
from tests.unit.kyma.watcher.authorities import a_leaf, an_authority, content

from stellwerk.api.admission import ValidatingWebhookConfiguration
from stellwerk.api.apps import Deployment
from stellwerk.api.core import Namespace, Secret, Service
from stellwerk.api.istio import Gateway
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import StatusError
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, metadata_of, unstructured
from stellwerk.kube.types.object_meta import rfc3339
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import KYMAS as DEFINITION
from stellwerk.operators.kyma.api import Kyma, KymaStatus
from stellwerk.operators.kyma.api_watcher import Watcher
from stellwerk.operators.kyma.collections import GATEWAYS, WATCHERS
from stellwerk.operators.kyma.settings import CertificateManagement, Settings
from stellwerk.operators.kyma.watcher import certificates, webhook
from stellwerk.operators.kyma.watcher.certificates import CERTIFICATE_SECRETS, CERTIFICATES, GATEWAY_SECRETS
from stellwerk.operators.kyma.watcher.webhook import RUNTIME_COLLECTIONS
from stellwerk.runtime.cache.clusters import Cluster
from stellwerk.runtime.cache.remote_clusters import Kubeconfig, RemoteClusters
from stellwerk.runtime.certificates.certs import KeyPair
from stellwerk.runtime.control.controller import Controller
from stellwerk.runtime.control.executor import Deciding, InformerSources, RemoteSources
from stellwerk.runtime.control.loads import Loads
from stellwerk.runtime.control.status_writer import StatusWriter
from stellwerk.runtime.control.step import Failure, Step
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.reading.known import NotKnown
from stellwerk.runtime.reading.questions import Collection
from stellwerk.runtime.reading.view import View
from stellwerk.runtime.supervision.backoff import Backoff
from stellwerk.runtime.supervision.tasks import Border
from stellwerk.testing.cluster import AuditEntry, AuditLog
from stellwerk.testing.eventually import eventually

HOME, PLACE, THERE = labels.KCP_NAMESPACE, labels.ISTIO_NAMESPACE, labels.SKR_NAMESPACE
KYMAS = Collection(Kyma)
GONE = "tests/gone"
"""The annotation on a Kyma whose webhook is to be removed."""
NOW = datetime.now(UTC).replace(microsecond=0)
AUTHORITY, NEWER = an_authority(NOW - timedelta(days=10), 400), an_authority(NOW - timedelta(days=1), 400)


def refused(message: str, _: StatusError | None) -> Failure:
    return Failure(message=message)


@dataclass
class WebhookLogic:
    """A Kyma of which nothing but its webhook is looked after."""

    login: Kubeconfig
    settings: Settings
    collection: Collection[Kyma] = KYMAS
    problems: list[str] = field(default_factory=list)
    holds: dict[str, bool | None] = field(default_factory=dict)

    def decide(self, kyma: Kyma, view: View) -> Step[KymaStatus]:
        remote, name = view.on(self.login), kyma.metadata.name
        if GONE in kyma.metadata.annotations:
            there = webhook.removal(remote, self.settings, refused)
            here = certificates.removal(name, view, self.settings, refused)
            return Step(writes=(*there.writes, *here.writes), waits=(*there.waits, *here.waits))
        part = webhook.next_part(kyma, view, remote, self.settings, refused)
        if not part.writes:
            self.holds[name] = part.holds
        self.problems += [part.error] if part.error else []
        return Step(writes=part.writes, waits=part.waits)

    def unknown(self, kyma: Kyma, view: View, missing: NotKnown) -> Step[KymaStatus]:
        return Step()

    def failed(self, kyma: Kyma, failure: Failure) -> KymaStatus:
        self.problems.append(failure.message)
        return kyma.status

    def unexpected(self, kyma: Kyma, message: str) -> KymaStatus:
        self.problems.append(message)
        return kyma.status


@dataclass
class Works:
    """The engine, running, and a user of both clusters."""

    logic: WebhookLogic
    engine: Deciding[Kyma, KymaStatus]
    home: Client
    remote: Client
    audits: Sequence[AuditLog]
    management: CertificateManagement

    @property
    def name(self) -> str:
        """Of the Kyma: each run has its own."""
        return f"k-{self.management.name.lower().replace('_', '-')}"

    def is_calm(self) -> bool:
        queue = self.engine.controller.queue
        return not queue.running and not len(queue)

    async def holds(self) -> None:
        await eventually(lambda: self.logic.holds.get(self.name) is True and self.is_calm(), within=60)

    async def issue(self, authority: KeyPair, begins: datetime) -> None:
        """As cert-manager does."""
        leaf = a_leaf(authority, begins)
        metadata: JsonObject = {
            "name": f"{self.name}-webhook-tls",
            "namespace": PLACE,
            "labels": {labels.PURPOSE_LABEL: labels.CERTIFICATE_PURPOSE},
        }
        await self.home.apply(Secret, {"metadata": metadata, "data": {**content(leaf)}})

    async def requests_of_a_pass(self) -> list[str]:
        await eventually(self.is_calm)
        for audit in self.audits:
            audit.mark()
        self.engine.controller.queue.add(ObjectKey(HOME, self.name))
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
    management: CertificateManagement = request.param
    login = Kubeconfig(ObjectKey(HOME, "login"), remote_cluster.kubeconfig.read_bytes())
    settings = Settings(cert_management=management, skr_watcher_image_tag="1.2.3")
    config = ClusterConfig.load(watcher_cluster.kubeconfig)
    async with Client.connect(config, field_manager=labels.FIELD_MANAGER, user_agent="klm") as ours:
        await serve(ours, DEFINITION)
        await remote_client.apply(Namespace, {"metadata": {"name": THERE}})
        manager, logic = Manager(ours, grace_seconds=2.0), WebhookLogic(login, settings)
        declared = (KYMAS, GATEWAYS, WATCHERS, CERTIFICATES[management], CERTIFICATE_SECRETS, GATEWAY_SECRETS)
        sources = InformerSources(manager, declared)
        loads = Loads(ours, manager.clock, sources.wakes)
        clusters = RemoteClusters[RemoteSources](
            Cluster(ours, clock=manager.clock),
            connect=lambda config, bounds: Client.connect(config, bounds),
            build=lambda cluster, _: RemoteSources(cluster, RUNTIME_COLLECTIONS),
            clock=manager.clock,
            border=Border(manager.metrics, manager.clock),
            field_manager=labels.FIELD_MANAGER,
        )
        engine = Deciding(
            logic=logic,
            sources=sources,
            client=ours,
            clock=manager.clock,
            loads=loads,
            clusters=clusters,
        )
        controller = Controller(
            "webhooks",
            sources.informer(KYMAS),
            engine,
            write_status=StatusWriter(client=ours),
            backoff=Backoff(first_seconds=0.05, limit_seconds=1.0),
            metrics=manager.metrics,
        )
        engine.serve(controller)
        manager.add_controller(controller)
        manager.add_controller(loads)
        apart = asyncio.create_task(clusters.run())
        task = asyncio.create_task(manager.run())
        try:
            audits = [AuditLog(watcher_cluster), AuditLog(remote_cluster)]
            yield Works(logic, engine, client, remote_client, audits, management)
        finally:
            manager.stop()
            async with asyncio.timeout(30):
                await task
            apart.cancel()
            await asyncio.wait([apart])


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


async def prepare(home: Client, name: str) -> None:
    """Have a Gateway with an authority, a Watcher and a Kyma."""
    server: JsonObject = {"port": {"number": 443, "protocol": "HTTPS", "name": "https"}, "hosts": ["l.example.com"]}
    gateway: JsonObject = {"metadata": named("klm-watcher"), "spec": {"servers": [server]}}
    await home.apply(Gateway, gateway)
    added = {labels.CA_ADDED_AT_ANNOTATION: rfc3339(NOW - timedelta(days=10))}
    secret: JsonObject = {
        "metadata": named(labels.GATEWAY_SECRET_NAME, PLACE, annotations=added),
        "data": {**content(AUTHORITY)},
    }
    await home.apply(Secret, secret)
    await home.apply(Watcher, a_watcher("kymas"))
    marks: JsonObject = {labels.RUNTIME_ID_LABEL: f"runtime-of-{name}"}
    annotations: JsonObject = {labels.SKR_DOMAIN_ANNOTATION: f"{name}.kyma.example.com"}
    kyma: JsonObject = {"metadata": named(name, labels=marks, annotations=annotations), "spec": {"channel": "regular"}}
    await home.apply(Kyma, kyma)


async def test_the_webhook_is_installed_kept_and_removed(works: Works) -> None:
    """Scenarios 55 and 57. A pass over what is installed asks nothing of either cluster."""
    home, remote, name, management = works.home, works.remote, works.name, works.management
    kind = unstructured(CERTIFICATES[management].resource)
    await prepare(home, name)

    async def requested() -> bool:
        return await home.find(kind, f"{name}-webhook-tls", PLACE) is not None

    await eventually(requested, within=30)
    await works.issue(AUTHORITY, NOW - timedelta(days=10))

    async def installed() -> bool:
        return await remote.find(ValidatingWebhookConfiguration, "skr-webhook") is not None

    await eventually(installed, within=30, describe="the webhook is installed")
    ready: JsonObject = {"status": {"replicas": 1, "readyReplicas": 1}}
    await remote.patch(metadata_of(Deployment), "skr-webhook", THERE, MergePatch(ready), subresource="status")
    await works.holds()
    assert works.logic.problems == []
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
        return not await registered("second")

    await eventually(lambda: registered("second"), within=30)
    assert await registered("kymas")
    edited: Any = (await remote.get(unstructured(ValidatingWebhookConfiguration.resource), "skr-webhook")).body
    held: JsonObject = {"webhooks": [{**each, "timeoutSeconds": 20} for each in edited["webhooks"]]}
    await remote.patch(metadata_of(ValidatingWebhookConfiguration), "skr-webhook", "", MergePatch(held))
    await home.delete(metadata_of(Watcher), "second", HOME)
    await eventually(removed, within=30, describe="it is removed, although a user owns fields of it")
    assert await registered("kymas")
    await works.holds()
    assert await works.requests_of_a_pass() == []

    # another authority
    annotation = {labels.CA_ADDED_AT_ANNOTATION: rfc3339(NOW - timedelta(days=1))}
    if management is CertificateManagement.GARDENER:
        state: JsonObject = {"status": {"state": "Ready"}}
        await home.patch(kind, f"{name}-webhook-tls", PLACE, MergePatch(state), subresource="status")
    added: JsonObject = {"metadata": {"annotations": {**annotation}}}
    await home.patch(metadata_of(Secret), labels.GATEWAY_SECRET_NAME, PLACE, MergePatch(added))

    async def asked() -> bool:
        body = (await home.get(kind, f"{name}-webhook-tls", PLACE)).body
        found: Any = body
        if management is CertificateManagement.GARDENER:
            return bool(found["spec"].get("renew"))
        conditions = found.get("status", {}).get("conditions", [])
        return [each["reason"] for each in conditions if each["type"] == "Issuing"] == ["ManuallyTriggered"]

    await eventually(asked, within=30, describe="another certificate is requested")
    await works.issue(NEWER, NOW)

    async def copied_again() -> bool:
        secret = await home.get(Secret, f"{name}-webhook-tls", PLACE)
        deployment: Any = (await remote.get(unstructured(Deployment.resource), "skr-webhook", THERE)).body
        there = await remote.get(Secret, "skr-webhook-tls", THERE)
        trigger = deployment["spec"]["template"]["metadata"]["labels"][labels.POD_RESTART_LABEL]
        return there.data["tls.crt"] == secret.data["tls.crt"] and trigger == secret.metadata.resource_version

    await eventually(copied_again, within=30, describe="the other certificate is copied")
    assert works.logic.problems == []

    # the end
    await home.patch(metadata_of(Kyma), name, HOME, MergePatch({"metadata": {"annotations": {GONE: "true"}}}))

    async def gone() -> bool:
        left = [each async for each in _left(remote)]
        certificate = await home.find(kind, f"{name}-webhook-tls", PLACE)
        return not left and certificate is None and await home.find(Secret, f"{name}-webhook-tls", PLACE) is None

    await eventually(gone, within=30, describe="all is removed")
    await home.delete(metadata_of(Kyma), name, HOME)


async def _left(remote: Client) -> AsyncIterator[str]:
    for collection in RUNTIME_COLLECTIONS:
        for each in (await remote.list(metadata_of(collection.resource))).items:
            if each.metadata.name.startswith(("skr-webhook", "kyma-project.io--")):
                yield each.metadata.name
