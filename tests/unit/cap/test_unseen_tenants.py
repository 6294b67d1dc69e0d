"""Which tenants there are is taken from what is known: tenants that cannot be listed are not taken for absent."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import msgspec
import pytest
from tests.unit.cap import given

from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import Kind
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.kube.watch.watch_states import Removed, Synced, WatchSuspended
from stellwerk.operators.cap import names
from stellwerk.operators.cap.application.reconcile import ApplicationFailed, ApplicationReconciler
from stellwerk.operators.cap.kinds.application import ApplicationState
from stellwerk.operators.cap.kinds.status import condition
from stellwerk.operators.cap.kinds.version import VersionState
from stellwerk.operators.cap.version.reconcile import VersionFailed, VersionReconciler
from stellwerk.operators.cap.watches import Caches
from stellwerk.runtime import conditions
from stellwerk.runtime.clock import SystemClock
from stellwerk.runtime.process.manager import Manager

FORBIDDEN = WatchSuspended("not permitted to list and watch captenants.sme.sap.com", is_forbidden=True)
ABSENT = WatchSuspended("the API server serves no CAPTenant", is_not_served=True)


def caches() -> Caches:
    """The caches of a process; nothing is connected."""
    return Caches(Manager(Client.connect(ClusterConfig(server="https://127.0.0.1:1"))))


def leaving(obj: Kind, finalizer: str) -> Any:
    body = {"name": obj.metadata.name, "namespace": "shop", "uid": "u", "finalizers": [finalizer]}
    metadata = msgspec.convert({**body, "deletionTimestamp": "2026-01-01T00:00:00Z"}, ObjectMeta)
    return msgspec.structs.replace(obj, metadata=metadata)


@pytest.mark.parametrize("parked", [FORBIDDEN, ABSENT])
def test_tenants_that_were_never_listed_are_unseen(parked: WatchSuspended) -> None:
    found = caches()
    assert found.unseen_tenants
    found.tenants.take(parked)
    assert found.unseen_tenants == f"CAPTenants cannot be watched: {parked.why}"
    found.tenants.take(Synced((), "1"))
    assert not found.unseen_tenants


def test_after_a_list_tenants_are_unseen_without_the_right_and_gone_with_their_definition() -> None:
    found = caches()
    found.tenants.take(Synced((), "1"))
    found.tenants.take(ABSENT)
    assert not found.unseen_tenants
    found.tenants.take(FORBIDDEN)
    assert found.unseen_tenants


async def test_an_application_keeps_its_finalizer_while_its_tenants_cannot_be_listed() -> None:
    found = caches()
    found.tenants.take(FORBIDDEN)
    nothing = cast("Any", None)
    reconciler = ApplicationReconciler(
        client=nothing, caches=found, clock=SystemClock(), networking=nothing, counts=nothing
    )
    application = leaving(given.application(), names.APPLICATION_FINALIZER)
    application = msgspec.structs.replace(
        application, status=msgspec.structs.replace(application.status, state=ApplicationState.DELETING)
    )
    with pytest.raises(ApplicationFailed, match="CAPTenants cannot be watched: not permitted") as failed:
        await asyncio.wait_for(reconciler.reconcile(application), 5)
    assert reconciler.report(application, failed.value).state == ApplicationState.DELETING
    assert reconciler.report(given.application(), failed.value).state == ApplicationState.ERROR


async def test_tenants_that_went_while_secrets_were_listed_are_not_acted_on() -> None:
    found = caches()
    leaves, stays = given.tenant("leaves"), given.tenant("stays")
    found.tenants.take(Synced((leaves, stays), "1"))
    nothing = cast("Any", None)
    reconciler = ApplicationReconciler(
        client=nothing, caches=found, clock=SystemClock(), networking=nothing, counts=nothing
    )
    application = leaving(given.application(), names.APPLICATION_FINALIZER)
    status = msgspec.structs.replace(application.status, state=ApplicationState.DELETING)
    passing = asyncio.create_task(reconciler.reconcile(msgspec.structs.replace(application, status=status)))
    await asyncio.sleep(0)
    found.tenants.take(Removed(leaves))
    found.secrets("shop").take(Synced((), "1"))

    answer = await asyncio.wait_for(passing, 5)
    assert answer.status is not None
    assert answer.status.conditions[0].message.startswith("waiting for 1 tenant to be deleted")


async def test_a_version_keeps_its_finalizer_while_tenants_cannot_be_listed() -> None:
    found = caches()
    found.tenants.take(FORBIDDEN)
    nothing = cast("Any", None)
    reconciler = VersionReconciler(
        client=nothing, caches=found, credentials=nothing, children=nothing, rollout=nothing, clock=SystemClock()
    )
    version = leaving(given.version(), names.VERSION_FINALIZER)
    with pytest.raises(VersionFailed, match="CAPTenants cannot be watched: not permitted") as failed:
        await reconciler.reconcile(version)
    assert reconciler.report(version, failed.value).state == VersionState.DELETING
    ready = condition(version, True, "DeleteTriggered", "")
    status = msgspec.structs.replace(version.status, state=VersionState.DELETING, conditions=(ready,))
    shown = reconciler.report(msgspec.structs.replace(version, status=status), failed.value)
    assert conditions.is_true(shown.conditions, "Ready"), "its tenants keep it"
