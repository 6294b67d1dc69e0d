"""An application that subscribers want, its registry, and the server between them."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from tests.unit.cap.subscription.client_certificates import ISSUER, SUBJECT

from stellwerk.api.core import Secret
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import JsonObject, JsonValue, metadata_of
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.domain import Domain
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOutput
from stellwerk.operators.cap.subscription import process
from stellwerk.operators.cap.subscription.callbacks import promise
from stellwerk.operators.cap.subscription.callbacks.promise import Promise, PromiseSecret
from stellwerk.operators.cap.subscription.outgoing import Outgoing
from stellwerk.operators.cap.subscription.process import SubscriptionServer
from stellwerk.operators.cap.subscription.settings import ServerSettings
from stellwerk.runtime.control.controller import Controller
from stellwerk.testing.eventually import eventually
from stellwerk.testing.scenarios.harness import SETTLED_WITHIN_SECONDS, OperatorHarness
from stellwerk.testing.scenarios.skipping_clock import SkippingClock
from stellwerk.testing.servers.registries import CERTIFICATE_ISSUER, REGISTRY, UAA_DOMAIN, Registries
from stellwerk.testing.servers.registries import ISSUER as UAA

SERVER = "cap-subscription-server"
"""The user that the server is, with its rights and nothing more."""


@dataclass
class Serving(OperatorHarness):
    """Starts and stops the subscription server."""

    registries: Registries
    settings: dict[str, Any] = field(default_factory=dict)
    clock: SkippingClock = field(default_factory=SkippingClock)
    """A test may skip what the server waits for."""
    home: str = "default"
    """The namespace that it takes for its own."""
    _parts: SubscriptionServer | None = field(default=None, init=False)

    async def start(self) -> None:
        """Start, and return when it answers."""
        config = ClusterConfig.load(self.kubeconfig)
        client = Client.connect(config, user_agent=SERVER, on_request=self.saboteur.requested)
        requests = Client.connect(config, user_agent=SERVER)
        manager = self._begin(client, component=process.COMPONENT, grace_seconds=2.0, clock=self.clock)
        self._closing.append(requests.close)
        self._parts = process.install(
            manager,
            ServerSettings(**{"port": 0, "host": "127.0.0.1", **self.settings}),
            home=self.home,
            requests=requests,
            outgoing=Outgoing(
                networks=("127.0.0.0/8",),
                authority=self.registries.authority,
                resolver=self.registries.resolver,
                total_seconds=2.0,
            ),
            recorder=self.recorder,
        )
        self._start()
        await self.leads()
        await eventually(lambda: self.parts.server.is_listening)

    async def settled(self, client: Client, within: float = SETTLED_WITHIN_SECONDS) -> None:
        """Also, each binding was tried to get a token with."""
        await super().settled(client, within)
        await eventually(lambda: not self.parts.proofs.is_busy, within=within, describe="issuers were asked for tokens")

    async def tries_again(self, client: Client) -> None:
        """Skip the pauses after two failures of a callback, as soon as each is under way."""
        for seconds in (3, 6):
            await self.settled(client)
            await self.clock.skip(seconds=seconds)

    @property
    def parts(self) -> SubscriptionServer:
        """What runs."""
        assert self._parts is not None
        return self._parts

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.parts.server.port}"

    @property
    def controllers(self) -> Sequence[Controller[Any, Any]]:
        """The one of callbacks."""
        return (self.parts.callbacks,)


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of the server."""

    status: int
    message: str
    headers: dict[str, str]
    body: Any


@dataclass
class Bookshop:
    """An application and its registry. Its identity is that of its namespace."""

    client: Client
    namespace: str
    registries: Registries
    http: aiohttp.ClientSession
    url: Callable[[], str]

    @property
    def app_name(self) -> str:
        """The xsappname."""
        return f"{self.namespace}!t1"

    async def open(self) -> None:
        """Make the application, its domain and its bindings."""
        await self.bind()
        await self.serve("primary", f"{self.namespace}.example.com")
        await self.apply()

    async def apply(self, annotations: JsonObject | None = None, **spec: JsonValue) -> None:
        """Make or change the application."""
        services: list[JsonValue] = [
            {"name": "other", "class": "xsuaa", "secret": "other-binding"},
            {"name": "uaa", "class": "xsuaa", "secret": "uaa-binding"},
            {"name": "registry", "class": "saas-registry", "secret": "registry-binding"},
            {"name": "sms", "class": "subscription-manager", "secret": "sms-binding"},
        ]
        fields: JsonObject = {
            "btpAppName": self.namespace,
            "providerSubaccountId": "provider",
            "btp": {"services": services},
            "domainRefs": [{"kind": "Domain", "name": "primary"}],
            **spec,
        }
        marks: JsonObject = {names.PRIMARY_XSUAA_ANNOTATION: "uaa", **(annotations or {})}
        metadata: JsonObject = {"name": "shop", "namespace": self.namespace, "annotations": marks}
        await self.client.apply(CAPApplication, {"metadata": metadata, "spec": fields})

    async def bind(self, **changed: Any) -> None:
        """Make the Secrets of the bindings."""
        common = {"clientid": f"sb-{self.namespace}", "clientsecret": "CANARY-client-secret", "url": f"https://{UAA}"}
        common |= {"certurl": f"https://{CERTIFICATE_ISSUER}"}
        timeout = changed.pop("timeout", 900_000)
        registry = {
            **common,
            "uaadomain": UAA_DOMAIN,
            "saas_registry_url": f"https://{REGISTRY}",
            "appUrls": json.dumps({"callbackTimeoutMillis": timeout}),
            **changed,
        }
        sms = {
            **common,
            "subscription_manager_url": f"https://{REGISTRY}/sms",
            "app_urls": json.dumps({"subscriptionCallbacks": {"async": {"timeoutInMillis": timeout}}}),
            "callback_certificate_issuer": ISSUER,
            "callback_certificate_subject": SUBJECT.replace("registry", self.namespace),
        }
        await self.secret("registry-binding", registry)
        await self.secret("sms-binding", sms)
        await self.secret("uaa-binding", {"xsappname": self.app_name})
        await self.secret("other-binding", {"xsappname": "other!t9"})

    async def secret(self, name: str, credentials: dict[str, Any], **data: str) -> None:
        """Make a binding Secret."""
        content = {"credentials": json.dumps(credentials), **data}
        encoded: JsonObject = {key: base64.b64encode(value.encode()).decode() for key, value in content.items()}
        await self.client.apply(Secret, {**self._metadata(name), "data": encoded})

    async def serve(self, name: str, host: str) -> None:
        """Make a domain."""
        spec: JsonObject = {"domain": host, "ingressSelector": {"istio": "gateway"}}
        await self.client.apply(Domain, {**self._metadata(name), "spec": spec})

    def _metadata(self, name: str) -> JsonObject:
        return {"metadata": {"name": name, "namespace": self.namespace}}

    # ---- what a registry does

    def token(self, **claims: Any) -> str:
        """A good token, or one with other claims."""
        return self.registries.token(
            **{"aud": [f"sb-{self.namespace}"], "scope": [f"{self.app_name}.Callback"], **claims}
        )

    def payload(self, tenant: str = "acme", guid: str = "guid-1", **changed: Any) -> dict[str, Any]:
        """The body of a subscription."""
        return {
            "subscriptionGUID": guid,
            "subscribedTenantId": tenant,
            "subscribedSubdomain": tenant,
            "globalAccountGUID": "global",
            "providerSubaccountId": "provider",
            "subscriptionAppName": self.namespace,
            **changed,
        }

    def sms_payload(self, tenant: str = "acme", guid: str = "guid-1") -> dict[str, Any]:
        """The same in the other protocol."""
        return {
            "subscriber": {"subscriptionGUID": guid, "app_tid": tenant, "subaccountSubdomain": tenant},
            "rootApplication": {"providerSubaccountId": "provider", "appName": self.namespace},
        }

    async def send(
        self,
        method: str = "PUT",
        path: str = "/provision/tenants/acme",
        *,
        json_body: Any = None,
        data: bytes | None = None,
        token: str | None = None,
        callback: str = "/callback/1",
        headers: dict[str, str] | None = None,
    ) -> Reply:
        """One request."""
        shown = {"Authorization": f"Bearer {self.token() if token is None else token}"} if token != "" else {}
        shown |= {"STATUS_CALLBACK": callback} if callback else {}
        shown |= headers or {}
        body = json.dumps(json_body).encode() if json_body is not None else data
        async with self.http.request(method, self.url() + path, data=body, headers=shown) as response:
            text = await response.read()
        content = json.loads(text) if text else None
        message = content.get("Message", "") if isinstance(content, dict) else ""
        return Reply(response.status, message, dict(response.headers), content)

    async def subscribe(self, tenant: str = "acme", guid: str = "guid-1", **options: Any) -> Reply:
        """PUT of the SaaS registry."""
        return await self.send(json_body=self.payload(tenant, guid), **options)

    async def unsubscribe(self, tenant: str = "acme", guid: str = "guid-1", **options: Any) -> Reply:
        """DELETE of the SaaS registry."""
        options.setdefault("callback", "/callback/end")
        return await self.send("DELETE", json_body=self.payload(tenant, guid), **options)

    # ---- what the CAP Operator does

    async def tenants(self) -> list[CAPTenant]:
        """All tenants."""
        return [*(await self.client.list(CAPTenant, self.namespace)).items]

    async def tenant(self) -> CAPTenant:
        """The only one."""
        (found,) = await self.tenants()
        return found

    async def make_tenant(self, name: str, tenant_id: str = "acme", **labels: JsonValue) -> None:
        """A tenant that the server has not made."""
        metadata: JsonObject = {"name": name, "namespace": self.namespace, "labels": labels}
        spec: JsonObject = {"capApplicationInstance": "shop", "tenantId": tenant_id, "subDomain": tenant_id}
        await self.client.apply(CAPTenant, {"metadata": metadata, "spec": spec})

    async def shows(self, state: str) -> None:
        """The tenant gets this state."""
        tenant = await self.tenant()
        patch = MergePatch({"status": {"state": state, "conditions": []}})
        await self.client.patch(CAPTenant, tenant.metadata.name, self.namespace, patch, subresource="status")

    async def hold(self, *finalizers: str) -> None:
        """The tenant stays when it is deleted, or no longer."""
        tenant = await self.tenant()
        patch = MergePatch({"metadata": {"finalizers": [*finalizers]}})
        await self.client.patch(metadata_of(CAPTenant), tenant.metadata.name, self.namespace, patch)

    async def output(self, name: str, text: str, tenant: str = "acme") -> None:
        """A Job of the tenant leaves something for the registry."""
        metadata: JsonObject = {"name": name, "namespace": self.namespace, "labels": {names.TENANT_ID_LABEL: tenant}}
        await self.client.apply(CAPTenantOutput, {"metadata": metadata, "spec": {"subscriptionCallbackData": text}})

    async def contexts(self) -> list[Secret]:
        """The Secrets with payloads."""
        labels = f"{names.TENANT_ID_LABEL},!{names.CALLBACK_LABEL}"
        return [*(await self.client.list(Secret, self.namespace, labels=labels)).items]

    async def promises(self) -> list[tuple[str, Promise]]:
        """All promises with their states."""
        listed = await self.client.list(PromiseSecret, self.namespace, labels=names.CALLBACK_LABEL)
        return [(each.state, promise.read(each)) for each in listed.items]

    async def promises_show(self, *states: str) -> list[Promise]:
        """Wait for the promises to have these states."""
        found: list[tuple[str, Promise]] = []

        async def do() -> bool:
            found[:] = await self.promises()
            assert sorted(state for state, _ in found) == sorted(states), found
            return True

        await eventually(do, within=30, describe=f"the promises show {states}")
        return [each for _, each in found]

    async def gone(self) -> None:
        """Wait for the end of all tenants."""

        async def are() -> bool:
            return not await self.tenants()

        await eventually(are, within=30, describe="the tenants are gone")
