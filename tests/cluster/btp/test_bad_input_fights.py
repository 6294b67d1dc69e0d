"""Somebody else keeps changing an object of the module: it is restored at leisure, and the other one is named."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from stellwerk.api.apps import Deployment
from stellwerk.api.core import Service
from stellwerk.apply.set.model.confirmation import FIGHT_SECONDS
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import NotFound
from stellwerk.kube.types.model import JsonObject, Unstructured, unstructured
from stellwerk.kube.watch.watch import Watcher
from stellwerk.kube.watch.watch_states import Changed, Synced
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.runtime.clock import SystemClock
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.eventually import eventually
from tests.cluster.btp import priority_class
from tests.cluster.btp.beginnings import provisioned, ready
from tests.cluster.btp.given import Given
from tests.cluster.btp.running import Running
from tests.cluster.btp.then import Then
from tests.cluster.btp.world import ACCOUNT

OPERAND = "sap-btp-operator-controller-manager"
DEPLOYMENTS = unstructured(Deployment.resource)
SERVICES, SERVICE = unstructured(Service.resource), "sap-btp-operator-webhook-service"
STRANGER = "replica-tuner"


@asynccontextmanager
async def stranger(client: Client) -> AsyncIterator[list[str]]:
    """Applies two replicas whenever the Deployment has another number; yields the versions at which it did."""
    done: list[str] = []

    async def insist() -> None:
        field = f"metadata.name={OPERAND}"
        watcher = Watcher(client, DEPLOYMENTS, "kyma-system", fields=field, clock=SystemClock())
        async for change in watcher.changes():
            seen = change.objects if isinstance(change, Synced) else [change.obj] if isinstance(change, Changed) else []
            for obj in seen:
                if obj.at("spec", "replicas") != 2:
                    with contextlib.suppress(NotFound):
                        await client.apply(DEPLOYMENTS, _two_replicas(), field_manager=STRANGER)
                        done.append(obj.metadata.resource_version)

    task = asyncio.create_task(insist(), name=STRANGER)
    try:
        yield done
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _two_replicas() -> JsonObject:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": OPERAND, "namespace": "kyma-system"},
        "spec": {"replicas": 2},
    }


@pytest.mark.req("R-110")
async def test_a_fight_over_an_object_is_throttled_and_the_other_one_is_named(
    running: Running, given: Given, then: Then, btp_cluster: LocalCluster
) -> None:
    await provisioned(running, given, then)
    await running.is_idle()
    audit, began = AuditLog(btp_cluster), time.monotonic()

    async with stranger(given.client) as changes:
        await eventually(lambda: len(changes) >= 2, describe="the stranger insists")

        async def told() -> list[str]:
            events = await then.events("ChangedByOthers")
            return [event.note for event in events if OPERAND in event.note and STRANGER in event.note]

        # Told of when it leaves the second change where it is; before, it may not have seen that.
        assert await eventually(told, describe="an Event names the stranger")
        await then.event("Restored", saying=[f"Deployment kyma-system/{OPERAND} (changed by {STRANGER})"])
        # To take fields back from another manager takes a further write, which leaves the content as it is.
        # A write in whose way another one came has restored nothing, and is repeated at once.
        restored = audit.entries(
            lambda one: one.user == ACCOUNT and one.name == OPERAND and "force=true" in one.path and one.status == 200
        )
        fought = time.monotonic() - began
        assert len(restored) <= 1 + fought // FIGHT_SECONDS, [f"{one.verb} {one.path}" for one in restored]
    await running.clock.skip(seconds=FIGHT_SECONDS)
    await then.becomes(
        DEPLOYMENTS,
        OPERAND,
        lambda seen: seen is not None and seen.at("spec", "replicas") == 1,
        "be restored",
    )


@pytest.mark.req("R-110")
@pytest.mark.parametrize("blocked", [False, True], ids=["in use", "while its deletion is blocked"])
async def test_what_is_deleted_again_at_once_comes_back_after_the_pause(
    running: Running, given: Given, then: Then, blocked: bool
) -> None:
    await ready(running, given, then)
    if blocked:
        await given.service_instance("db")
        await given.client.delete(BtpOperator, "btpoperator", "kyma-system")
        await then.shows("Warning", "ServiceInstancesAndBindingsNotCleaned")
        await running.is_idle()

    await then.becomes(SERVICES, SERVICE, partial(is_another, await deleted(given)), "be made again")
    old = await deleted(given)
    await then.event("ChangedByOthers", saying=[SERVICE, "restored every", "audit log"])
    await running.is_idle()
    await then.absent(Service, SERVICE)

    await running.clock.skip(seconds=FIGHT_SECONDS)

    await then.becomes(SERVICES, SERVICE, partial(is_another, old), "be made again")


@pytest.mark.req("R-110")
async def test_a_fight_over_an_object_hides_not_that_the_operand_does_not_become_ready(
    running: Running, given: Given, then: Then
) -> None:
    await given.required_secret()
    await priority_class.is_missing(given.client)
    await running.start(ReadyTimeout=f"{FIGHT_SECONDS + 2:.0f}s")  # longer than the pause between two restorations

    async with stranger(given.client):
        await given.btp_operator()
        await then.event("ChangedByOthers", saying=[OPERAND])
        await running.clock.skip(seconds=FIGHT_SECONDS)
        await running.is_idle()
        await running.clock.skip(seconds=FIGHT_SECONDS)
        await then.shows("Error", "ProvisioningFailed", saying=["timed out", OPERAND])


async def deleted(given: Given) -> Unstructured:
    """The Service of the module, which is deleted now."""
    old = await given.client.get(SERVICES, SERVICE, "kyma-system")
    await given.client.delete(SERVICES, SERVICE, "kyma-system", uid=old.metadata.uid)
    return old


def is_another(old: Unstructured, seen: Unstructured | None) -> bool:
    return seen is not None and seen.metadata.uid != old.metadata.uid
