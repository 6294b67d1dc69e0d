"""The webhooks as the real API server calls them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.cluster.cap.shop import OPERATOR, Shop, job, router
from tests.cluster.cap.shop import server as server_of

from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import StatusError
from stellwerk.kube.types.identifiers import GroupVersionKind
from stellwerk.kube.types.model import JsonObject, Unstructured, View, metadata_of, unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.cap.api_application import CAPApplication
from stellwerk.operators.cap.api_domain import ClusterDomain, Domain
from stellwerk.operators.cap.api_tenant import CAPTenant
from stellwerk.operators.cap.api_version import CAPApplicationVersion
from stellwerk.operators.cap.webhooks import registration, server
from stellwerk.runtime.control.controller import Controller
from stellwerk.runtime.serving.http import ListenAddress
from stellwerk.runtime.serving.webhook import AdmissionServer
from stellwerk.testing.eventually import eventually
from stellwerk.testing.scenarios.harness import OperatorHarness


@dataclass
class Serving(OperatorHarness):
    """The server of the webhooks, without any controller."""

    namespace: str
    _server: AdmissionServer | None = field(default=None, init=False)

    async def start(self) -> None:
        client = Client.connect(ClusterConfig.load(self.kubeconfig), user_agent=OPERATOR)
        manager = self._begin(client, component="cap-webhooks", grace_seconds=2.0)
        self._server = server.install(manager, ListenAddress("127.0.0.1", 0), self.namespace, ["127.0.0.1"])
        self._start()
        await eventually(self.listens)

    async def trusted(self) -> None:
        """The registrations trust the certificate."""
        assert self._server is not None
        await self._server._certificates.ensure()

    def listens(self) -> bool:
        with contextlib.suppress(RuntimeError):
            return self.port > 0
        return False

    @property
    def port(self) -> int:
        assert self._server is not None
        return self._server.port

    @property
    def controllers(self) -> Sequence[Controller[Any, Any]]:
        return ()


@pytest.fixture
async def serving(cap_cluster: LocalCluster, admin: Client, home: str) -> AsyncIterator[Serving]:
    """The webhooks, registered for one namespace, and in force."""
    running = Serving(cap_cluster.kubeconfig, home)
    await running.start()
    validate, mutate = ({"url": f"https://127.0.0.1:{running.port}{path}"} for path in registration.paths())
    bodies = registration.configurations({**validate}, {**mutate})
    for body in bodies:
        webhooks = body["webhooks"]
        assert isinstance(webhooks, list)
        for webhook in webhooks:
            assert isinstance(webhook, dict)
            webhook["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": home}}
        await admin.create(await view_of(admin, body), body)
    await running.trusted()
    await eventually(lambda: in_force(admin, home), describe="the API server asks the webhooks")
    yield running
    for body in bodies:
        await admin.delete(await view_of(admin, body), registration.NAME)
    await running.stop()


async def view_of(client: Client, body: JsonObject) -> View[Unstructured]:
    gvk = GroupVersionKind.parse(str(body["apiVersion"]), str(body["kind"]))
    return unstructured(await client.mapper.resource(gvk))


async def in_force(client: Client, namespace: str) -> bool:
    """Both configurations: the one that validates refuses a tenant, the one that completes warns of an application."""
    spec: JsonObject = {"capApplicationInstance": "none", "subDomain": "a", "tenantId": "a"}
    try:
        await client.apply(
            CAPTenant, {"metadata": {"name": "probe", "namespace": namespace}, "spec": spec}, dry_run=True
        )
    except StatusError as error:
        return "invalidated from webhook CAPTenant" in str(error)
    return False


async def refused(action: Awaitable[object]) -> str:
    """The message with which a write is refused."""
    with pytest.raises(StatusError) as raised:
        await action
    return str(raised.value)


async def test_what_cannot_work_is_refused_with_the_cause(serving: Serving, shop: Shop) -> None:
    assert f"no valid CAPApplication found for: {shop.namespace}.shop-v1" in await refused(shop.release("1"))
    await shop.bind()
    await shop.apply(provider={"subDomain": "provider", "tenantId": "provider-id"})
    problem = "there should always be one workload deployment definition of type CAP"
    assert f"invalidated from webhook CAPApplicationVersion {problem}" in await refused(shop.release("1"))
    await shop.release("1", server_of("srv"), router(), job("mtxs"))
    changed = MergePatch({"spec": {"version": "2.0.0"}})
    target = metadata_of(CAPApplicationVersion)
    problem = f"spec cannot be modified for: {shop.namespace}.shop-v1"
    assert problem in await refused(shop.client.patch(target, "shop-v1", shop.namespace, changed))
    labelled = MergePatch({"metadata": {"labels": {"team": "a"}, "finalizers": ["example.com/mine"]}})
    await shop.client.patch(target, "shop-v1", shop.namespace, labelled)
    await shop.client.patch(target, "shop-v1", shop.namespace, MergePatch({"metadata": {"finalizers": None}}))

    other = MergePatch({"spec": {"provider": {"subDomain": "other"}}})
    application = metadata_of(CAPApplication)
    problem = "provider details cannot be changed for"
    assert problem in await refused(shop.client.patch(application, "shop", shop.namespace, other))


async def test_domains_that_are_written_into_an_application_become_objects_and_a_dry_run_makes_none(
    serving: Serving, shop: Shop
) -> None:
    host = f"{shop.namespace}.example.com"
    inline: JsonObject = {
        "primary": host,
        "secondary": [f"other.{host}"],
        "istioIngressGatewayLabels": [{"name": "istio", "value": "gateway"}],
    }
    spec: JsonObject = {
        "btpAppName": "shop",
        "providerSubaccountId": "subaccount",
        "btp": {"services": []},
        "domains": inline,
    }
    body: JsonObject = {"metadata": {"name": "shop", "namespace": shop.namespace}, "spec": spec}
    rehearsed = await shop.client.apply(CAPApplication, {**body}, dry_run=True)
    assert [reference.kind for reference in rehearsed.spec.domain_refs] == ["Domain", "ClusterDomain"]
    assert not (await shop.client.list(Domain, shop.namespace)).items

    made = await shop.client.apply(CAPApplication, {**body})
    assert made.spec.domains is None
    assert made.spec.domain_refs == rehearsed.spec.domain_refs
    assert (await shop.client.get(Domain, "shop-primary", shop.namespace)).spec.domain == host
    cluster_wide = made.spec.domain_refs[1].name
    assert (await shop.client.get(ClusterDomain, cluster_wide)).spec.domain == f"other.{host}"

    taken: JsonObject = {"domain": host, "ingressSelector": {"istio": "gateway"}}
    twice: JsonObject = {"metadata": {"name": "twice", "namespace": shop.namespace}, "spec": taken}
    problem = f"Domain shop-primary already exist in namespace {shop.namespace} with domain {host}"
    assert problem in await refused(shop.client.apply(Domain, {**twice}, dry_run=True))
    await shop.client.delete(metadata_of(ClusterDomain), cluster_wide)
