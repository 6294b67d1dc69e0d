"""Where Secrets are watched no longer, an application does not take one that its cache lacks for absent."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import pytest
from tests.unit.cap import given

from stellwerk.api.core import Secret
from stellwerk.kube.client.client import Client, view_of
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import JsonObject, PartialObjectMetadata
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.kube.watch.watch_states import Bookmark, Changed, Synced, WatchSuspended
from stellwerk.operators.cap import names
from stellwerk.operators.cap.application import plan
from stellwerk.operators.cap.application.plan import ApplicationSnapshot, Prepare
from stellwerk.operators.cap.application.reconcile import ApplicationReconciler
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.operators.cap.preparation import prepared
from stellwerk.operators.cap.tenant import subscription_objects
from stellwerk.operators.cap.watches import Caches
from stellwerk.runtime.cache.informer import noting_own_writes
from stellwerk.runtime.clock import SystemClock
from stellwerk.runtime.process.manager import Manager

FORBIDDEN = WatchSuspended("not permitted to list and watch secrets", is_forbidden=True)
READY: JsonObject = {"type": "Ready", "status": "True", "reason": "Ready", "message": "ready"}


@dataclass
class Writes:
    """A client that answers to each write with what was written."""

    created: list[str] = field(default_factory=list)
    patched: list[str] = field(default_factory=list)
    stored: Mapping[str, PartialObjectMetadata] = field(default_factory=dict[str, PartialObjectMetadata])

    async def create(self, kind: Any, body: JsonObject, **_: object) -> Any:
        view = view_of(kind)
        obj = msgspec.convert(body, view.shape)
        self.created.append(view.resource.kind)
        return msgspec.structs.replace(obj, metadata=self._written(obj.metadata.name))

    async def find(self, _: object, name: str, namespace: str) -> PartialObjectMetadata | None:
        return self.stored.get(name)

    async def patch(self, kind: object, name: str, namespace: str, patch: object, **_: object) -> Any:
        self.patched.append(name)
        return PartialObjectMetadata(metadata=self._written(name))

    def _written(self, name: str) -> ObjectMeta:
        return ObjectMeta(name=name, namespace=given.NAMESPACE, uid=f"uid-{name}", resource_version="100")


def an_application() -> CAPApplication:
    """A prepared application with a provider, which is under way."""
    application = given.application()
    write = plan.decide(ApplicationSnapshot(application=application), SystemClock().now()).write
    assert isinstance(write, Prepare)
    shown: JsonObject = {"state": "Processing", "observedGeneration": 1, "servicesOnly": False}
    status = msgspec.convert(shown, type(application.status))
    return msgspec.structs.replace(prepared(application, write.lacking), status=status)


def a_failed_provider(application: CAPApplication) -> CAPTenant:
    _, wanted = subscription_objects.of_provider(application, "1.0.0")
    tenant = msgspec.convert(wanted.body, CAPTenant)
    return msgspec.structs.replace(
        tenant,
        metadata=msgspec.structs.replace(tenant.metadata, uid="provider"),
        status=msgspec.structs.replace(tenant.status, state="ProvisioningError"),
    )


def reconciler(application: CAPApplication, tenants: Sequence[CAPTenant], client: Writes) -> ApplicationReconciler:
    """One whose caches hold these objects, a version that is Ready, and the Secrets of the services."""
    found = Caches(Manager(Client.connect(ClusterConfig(server="https://127.0.0.1:1"))))
    version = given.version()
    status = msgspec.convert({"conditions": [READY]}, type(version.status))
    found.applications.take(Synced((application,), "1"))
    found.versions.take(Synced((msgspec.structs.replace(version, status=status),), "1"))
    found.tenants.take(Synced(tuple(tenants), "1"))
    names_of_secrets = [service.secret for service in application.spec.btp.services]
    metadata = [ObjectMeta(name=name, namespace=given.NAMESPACE, uid=name) for name in names_of_secrets]
    found.secrets(given.NAMESPACE).take(Synced(tuple(PartialObjectMetadata(metadata=each) for each in metadata), "1"))
    nothing = cast("Any", None)
    counts = cast("Any", _Counts())
    return ApplicationReconciler(
        client=cast("Any", client), caches=found, clock=SystemClock(), networking=nothing, counts=counts
    )


class _Counts:
    def failed(self, application: CAPApplication, *, is_bug: bool) -> None:
        """Nothing is counted here."""


@pytest.mark.parametrize("is_watched", [True, False])
async def test_a_payload_that_the_cache_lacks_is_created_again_only_while_secrets_are_watched(is_watched: bool) -> None:
    application, client = an_application(), Writes()
    acting = reconciler(application, [a_failed_provider(application)], client)
    if not is_watched:
        acting.caches.secrets(given.NAMESPACE).take(FORBIDDEN)
    answer = await asyncio.wait_for(acting.reconcile(application), 5)
    if is_watched:
        assert (client.created, answer.status) == ([Secret.resource.kind], None)
        return
    assert client.created == []
    assert answer.status is not None
    assert answer.status.conditions[0].reason == "ProviderTenantError", "the failure of the provider is shown"


@pytest.mark.parametrize("is_watched", [True, False])
async def test_an_application_waits_for_its_cache_to_show_a_secret_only_while_secrets_are_watched(
    is_watched: bool,
) -> None:
    application, client = an_application(), Writes()
    acting = reconciler(application, [], client)
    secrets = acting.caches.secrets(given.NAMESPACE)
    if not is_watched:
        secrets.take(FORBIDDEN)
    with noting_own_writes(acting.caches.applications) as writes:
        await asyncio.wait_for(acting.reconcile(application), 5)
    assert client.created == [Secret.resource.kind, CAPTenant.resource.kind]
    acting.caches.tenants.take(Bookmark("100"))
    assert any(not write.is_visible for write in writes) is is_watched


@pytest.mark.parametrize("is_watched", [True, False])
async def test_a_finalizer_that_an_outdated_cache_shows_is_removed_once(is_watched: bool) -> None:
    application, client = an_application(), Writes()
    acting = reconciler(application, [], client)
    held = PartialObjectMetadata(
        metadata=ObjectMeta(
            name="held", namespace=given.NAMESPACE, uid="held", finalizers=(names.APPLICATION_FINALIZER,)
        )
    )
    secrets = acting.caches.secrets(given.NAMESPACE)
    secrets.take(Changed(held))
    client.stored = {"held": held}
    if not is_watched:
        secrets.take(FORBIDDEN)
    await asyncio.wait_for(acting.reconcile(application), 5)
    assert (client.patched, client.created) == (["held"], []), "it comes before all else"
    if not is_watched:
        client.stored = {}
        await asyncio.wait_for(acting.reconcile(application), 5)
        assert client.created, "the application goes on"
