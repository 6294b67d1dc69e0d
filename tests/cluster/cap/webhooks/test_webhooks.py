"""The webhooks as the real API server calls them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.cluster import permissions
from tests.cluster import rights as audited
from tests.cluster.cap.shop import OPERATOR, Shop, job, router
from tests.cluster.cap.shop import server as server_of
from tests.cluster.component.world import free_definition

from stellwerk.api.admission import ValidatingWebhookConfiguration
from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.http import warnings
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import Invalid, StatusError
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey
from stellwerk.kube.types.model import JsonObject, JsonValue, Unstructured, View, metadata_of, unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.cap.api import DEFINITIONS
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.domain import Domain
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.webhooks import process, registration, rights, settings
from stellwerk.runtime.certificates.store import ServingCertificates
from stellwerk.runtime.control.controller import Controller
from stellwerk.runtime.serving.http import ListenAddress
from stellwerk.runtime.serving.webhook import AdmissionServer
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.eventually import eventually
from stellwerk.testing.scenarios.harness import OperatorHarness

WEBHOOKS = "cap-webhooks"
"""The user that the webhooks are, with their rights and nothing more."""
ALL = (*rights.GRANTS, *rights.HOME_GRANTS)


@dataclass
class Serving(OperatorHarness):
    """The server of the webhooks, without any controller."""

    namespace: str
    _server: AdmissionServer | None = field(default=None, init=False)
    _certificates: ServingCertificates | None = field(default=None, init=False)

    async def start(self) -> None:
        client = Client.connect(ClusterConfig.load(self.kubeconfig), user_agent=WEBHOOKS)
        manager = self._begin(client, component="cap-webhooks", grace_seconds=2.0)
        secret = ObjectKey(self.namespace, registration.secret_of(settings.SERVICE))
        self._certificates = process.shared_certificate(manager, secret, ["127.0.0.1"])
        self._server = process.install(manager, ListenAddress("127.0.0.1", 0), self._certificates)
        self._start()
        await eventually(self.listens)

    async def trusted(self) -> None:
        """The registrations trust the certificate."""
        assert self._certificates is not None
        await self._certificates.ensure()

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
    """The webhooks, registered for one namespace, and in force. They are an account of their own, with its rights."""
    await permissions.grant(admin, WEBHOOKS, ALL)
    running = Serving(cap_cluster.kubeconfig_for(WEBHOOKS), home)
    await running.start()
    bodies = registration.configurations(lambda path: {"url": f"https://127.0.0.1:{running.port}{path}"}, OPERATOR)
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


@pytest.mark.req("CAP-51")
async def test_what_cannot_work_is_refused_with_the_cause(serving: Serving, shop: Shop) -> None:
    assert f"no valid CAPApplication found for: {shop.namespace}.shop-v1" in await refused(shop.release("1"))
    await shop.bind()
    await shop.apply(provider={"subDomain": "provider", "tenantId": "provider-id"})
    problem = "there should always be one workload deployment definition of type CAP"
    assert f"invalidated from webhook CAPApplicationVersion {problem}" in await refused(shop.release("1"))
    with warnings.Listening() as received:
        await shop.release("1", {**server_of("srv"), "consumedBTPServices": ["ghost"]}, router(), job("mtxs"))
    (warning,) = received
    assert warning.startswith(
        "spec.workloads[0].consumedBTPServices[0] is 'ghost': no such service in spec.btp.services"
    )
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


@pytest.mark.req("CAP-52", "R-911")
async def test_domains_that_are_written_into_an_application_are_stored_and_the_webhooks_write_nothing(
    serving: Serving, shop: Shop, audit: AuditLog
) -> None:
    host = f"{shop.namespace}.example.com"
    inline = shop.inline_domains(host)
    spec: JsonObject = {
        "btpAppName": "shop",
        "providerSubaccountId": "subaccount",
        "btp": {"services": []},
        "domains": inline,
    }
    body: JsonObject = {"metadata": {"name": "shop", "namespace": shop.namespace}, "spec": spec}
    audit.mark()
    with warnings.Listening() as received:
        made = await shop.client.apply(CAPApplication, {**body})
    assert [*received] == ["CAPApplication Spec.Domains is deprecated, use Spec.DomainRefs instead"]
    assert made.spec.domains is not None
    assert made.spec.domain_refs == ()
    assert not (await shop.client.list(Domain, shop.namespace)).items
    writes = ("create", "update", "patch", "delete")
    assert not [entry for entry in audit.entries(lambda entry: entry.user == WEBHOOKS) if entry.verb in writes]

    taken: JsonObject = {"domain": host, "ingressSelector": {"istio": "gateway"}}
    foreign: JsonObject = {"metadata": {"name": "foreign", "namespace": "default"}}
    await shop.client.apply(Domain, {**foreign, "spec": {**taken, "domain": f"far.{host}"}})
    second: JsonObject = {
        "metadata": {"name": "second", "namespace": shop.namespace},
        "spec": {**spec, "domains": {**inline, "primary": f"far.{host}", "secondary": []}},
    }
    problem = "invalidated from webhook CAPApplication Domain default/foreign has the host"

    async def is_refused() -> bool:
        try:
            await shop.client.apply(CAPApplication, second, dry_run=True)
        except StatusError as error:
            return problem in str(error)
        return False

    await eventually(is_refused, describe="the cache shows the other domain")
    await shop.client.delete(metadata_of(Domain), "foreign", "default")


@pytest.mark.req("CAP-51")
async def test_a_domain_whose_deletion_is_blocked_gets_no_host_of_another_one(serving: Serving, shop: Shop) -> None:
    host, target, name = f"{shop.namespace}.example.com", metadata_of(Domain), "leaving"
    for each, finalizers in (("victim", []), (name, ["example.com/blocked"])):
        metadata: JsonObject = {"name": each, "namespace": shop.namespace, "finalizers": [*finalizers]}
        spec: JsonObject = {"domain": f"{each}.{host}", "ingressSelector": {"istio": "gateway"}}
        await shop.client.apply(Domain, {"metadata": metadata, "spec": spec})
    await shop.client.delete(target, name, shop.namespace)

    async def refusal() -> str:
        """Why the other host is refused. A dry run, because the webhook may not know the other domain yet."""
        another = MergePatch({"spec": {"domain": f"victim.{host}"}})
        try:
            await shop.client.patch(target, name, shop.namespace, another, dry_run=True)
        except StatusError as error:
            return str(error)
        return ""

    problem = f"Domain victim already exist in namespace {shop.namespace} with domain victim.{host}"
    assert problem in await eventually(refusal)
    released = MergePatch({"metadata": {"finalizers": None}})
    await serving.stop()
    await shop.client.patch(target, name, shop.namespace, released)
    assert await shop.client.find(target, name, shop.namespace) is None


@pytest.fixture
async def odd(shop: Shop, admin: Client) -> AsyncIterator[JsonObject]:
    """The spec of a version that cannot be read any more, because the definition once took any."""
    view, resource = unstructured(CustomResourceDefinition.resource), CAPApplicationVersion.resource
    await shop.bind()
    await shop.apply()
    await shop.release("1", server_of("srv"), router(), job("mtxs"))
    spec = (await admin.get(unstructured(resource), "shop-v1", shop.namespace)).at("spec")
    assert isinstance(spec, dict)
    await admin.apply(view, free_definition(resource), force=True)

    async def is_taken() -> bool:
        change = MergePatch({"metadata": {"finalizers": ["example.com/blocked"]}, "spec": {"workloads": 7}})
        with contextlib.suppress(Invalid):
            return bool(await admin.patch(metadata_of(CAPApplicationVersion), "shop-v1", shop.namespace, change))
        return False

    await eventually(is_taken, within=30, describe="the API server takes the version")
    yield spec
    for definition in DEFINITIONS:
        await admin.apply(view, definition.body(), force=True)


@pytest.mark.req("R-510")
async def test_a_version_that_cannot_be_read_can_be_corrected_and_its_finalizer_removed(
    odd: JsonObject, serving: Serving, shop: Shop
) -> None:
    target = metadata_of(CAPApplicationVersion)

    async def change(**fields: JsonValue) -> None:
        await shop.client.patch(target, "shop-v1", shop.namespace, MergePatch(fields))

    with pytest.raises(StatusError, match="this is not a valid CAPApplicationVersion"):
        await change(spec={"workloads": 8})
    await change(metadata={"finalizers": None})
    assert (await shop.client.get(target, "shop-v1", shop.namespace)).metadata.finalizers == ()
    await change(spec={"workloads": odd["workloads"]})
    assert (await shop.client.get(CAPApplicationVersion, "shop-v1", shop.namespace)).spec.workloads
    with pytest.raises(StatusError, match="spec cannot be modified"):
        await change(spec={"version": "2.0.0"})


@pytest.mark.req("R-706")
async def test_a_registration_that_is_replaced_is_trusted_again_at_once(serving: Serving, admin: Client) -> None:
    target = unstructured(ValidatingWebhookConfiguration.resource)
    body = (await admin.get(target, registration.NAME)).body
    webhooks = body["webhooks"]
    assert isinstance(webhooks, list)
    bare = [_without_bundle(webhook) for webhook in webhooks]
    assert bare != webhooks
    await admin.update(target, {**body, "webhooks": [*bare]})

    async def trusts() -> bool:
        return (await admin.get(target, registration.NAME)).body["webhooks"] == webhooks

    await eventually(trusts, within=5, describe="the caBundle is back, long before the next regular look")


def _without_bundle(webhook: JsonValue) -> JsonObject:
    assert isinstance(webhook, dict)
    config = webhook["clientConfig"]
    assert isinstance(config, dict)
    return {**webhook, "clientConfig": {key: value for key, value in config.items() if key != "caBundle"}}


@pytest.mark.req("R-504")
async def test_every_right_of_the_webhooks_is_used_or_its_rare_occasion_is_named(
    audit: AuditLog, serving: Serving, shop: Shop
) -> None:
    await shop.bind()
    await shop.apply()
    await shop.release("1", server_of("srv"), router(), job("mtxs"))
    requests = audit.entries(lambda entry: entry.user == WEBHOOKS)
    unused = audited.unused(ALL, requests)
    assert not unused, f"granted and not used: {unused}"
    assert not [entry for entry in requests if entry.status == 403]
