"""Which changes wake an operation: those of what its last pass asked for."""

from __future__ import annotations

import gc
from typing import Any, cast

import msgspec
import pytest
from tests.unit.cap import given
from tests.unit.cap.operation.test_plan import FAILED, OWNER, a_job, prepared
from tests.unit.cap.operation.test_steps import a_shop
from tests.unit.cap.operation.worlds import Outcome, Requests, WorldLoads, metadata_alone
from tests.unit.cap.tenant.test_wakes import changed, with_spec
from tests.unit.cap.tenant.worlds import odd

from stellwerk.api.batch import Job
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import Unreadable
from stellwerk.kube.watch.watch_states import Changed, Odd, Removed, Synced, WatchSuspended
from stellwerk.operators.cap import collections
from stellwerk.operators.cap.collections import APPLICATIONS, BINDINGS, CREDENTIALS, JOBS, OPERATIONS, TENANTS, VERSIONS
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOperation, OperationStatus
from stellwerk.operators.cap.operation.decide import OperationLogic
from stellwerk.operators.cap.operation.ingredients import OperationSettings
from stellwerk.operators.cap.pods.credentials import BindingSecrets
from stellwerk.operators.cap.watches import Caches
from stellwerk.runtime.control.executor import InformerSources
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.reading.view import Overlay
from stellwerk.testing.steps import Watched


class Shop(Watched[CAPTenantOperation, OperationStatus]):
    """Operations whose last passes were on these caches. Each namespace has a watch of its own for Secrets."""

    def __init__(self, *operations: CAPTenantOperation, jobs: tuple[Job, ...] = (), secrets: int = 2) -> None:
        manager = Manager(Client.connect(ClusterConfig(server="https://127.0.0.1:1")))
        self.caches = Caches(manager)
        self.world = a_shop(operations[0], *jobs)
        self.world.objects[OPERATIONS] = [*operations]
        self.world.secrets = self.world.secrets[:secrets]
        sources = InformerSources(manager, collections.ALL)
        sources.by_namespace(BINDINGS, self.caches.secrets)
        bindings = BindingSecrets(cast(Any, Requests(self.world, Outcome())), self.caches.secrets)
        super().__init__(
            OperationLogic(self.world.clock),
            sources,
            settings=(OperationSettings(bindings=bindings),),
            loads=cast(Any, WorldLoads(self.world)),
            clock=self.world.clock,
        )
        for collection in (APPLICATIONS, VERSIONS, TENANTS, OPERATIONS, JOBS, CREDENTIALS):
            self.take(cast(Any, collection), Synced(tuple(self.world.objects[cast(Any, collection)]), "1"))
        self.secrets = self.caches.secrets(given.NAMESPACE)
        self.secrets.take(Synced(tuple(map(metadata_alone, self.world.secrets)), "1"))
        self.step = self.decide(*operations)[-1]


def named(name: str, **status: Any) -> CAPTenantOperation:
    found = prepared(status=status)
    metadata = msgspec.structs.replace(found.metadata, name=name, uid=f"uid-{name}")
    return msgspec.structs.replace(found, metadata=metadata)


BEGINS = prepared()
RUNS = prepared(status={"currentStep": 1})
ENDED = named("ended", **FAILED)
COMPLETED = named("completed", **{**FAILED, "state": "Completed"})
APPLICATION = given.application()
VERSION = a_shop(BEGINS).objects[VERSIONS][0]
TENANT = given.tenant()
RENEWED = msgspec.structs.replace(VERSION.status, conditions=())
NOBODY: list[str] = []
BEGINNING, RUNNING = [BEGINS.metadata.name], [RUNS.metadata.name]
HISTORY = [ENDED.metadata.name]


@pytest.mark.parametrize(
    ("operations", "collection", "change", "woken"),
    [
        ((BEGINS, ENDED, COMPLETED), APPLICATIONS, changed(APPLICATION, "2", state="Processing"), NOBODY),
        ((BEGINS, ENDED, COMPLETED), APPLICATIONS, with_spec(APPLICATION, btp_app_name="other"), BEGINNING),
        ((BEGINS, ENDED, COMPLETED), APPLICATIONS, Removed(APPLICATION), ["acme-op", "completed", "ended"]),
        ((BEGINS, ENDED, COMPLETED), VERSIONS, changed(VERSION, "2", finished_jobs=("load",)), NOBODY),
        ((BEGINS, ENDED, COMPLETED), VERSIONS, changed(VERSION, "2", conditions=()), ["acme-op", "ended"]),
        ((BEGINS, ENDED, COMPLETED), TENANTS, changed(TENANT, "2", state="Upgrading"), NOBODY),
        ((BEGINS,), TENANTS, changed(TENANT, "2", current_version="bookshop-v2"), BEGINNING),
        ((BEGINS,), TENANTS, Removed(TENANT), BEGINNING),
        ((BEGINS,), TENANTS, Odd(odd(CAPTenant, "acme")), BEGINNING),
        ((ENDED, COMPLETED), OPERATIONS, changed(COMPLETED, "2", last_handled_retry="r"), NOBODY),
        ((ENDED, COMPLETED), OPERATIONS, Removed(COMPLETED), HISTORY),
        ((RUNS,), JOBS, Changed(a_job(1, "Complete")), RUNNING),
        ((RUNS,), JOBS, Odd(odd(Job, "x", owner_references=a_job(1).metadata.owner_references)), RUNNING),
        ((RUNS,), CREDENTIALS, Removed(metadata_alone(TENANT)), NOBODY),
    ],
)
def test_a_change_wakes_those_who_asked_for_it(
    operations: tuple[CAPTenantOperation, ...], collection: Any, change: Any, woken: list[str]
) -> None:
    runs = operations == (RUNS,) and collection is not CREDENTIALS
    shop = Shop(*operations, jobs=(a_job(1),) if runs else ())
    shop.take(collection, change)
    assert sorted({*shop.woken}) == woken


def test_a_job_wakes_its_operation_when_it_ends_and_not_with_each_of_its_pods() -> None:
    shop = Shop(RUNS, jobs=(a_job(1),))
    running = a_job(1)
    status = msgspec.structs.replace(running.status, active=1)
    metadata = msgspec.structs.replace(running.metadata, resource_version="2")
    running = msgspec.structs.replace(running, metadata=metadata, status=status)
    shop.take(JOBS, Changed(running))
    assert shop.woken == NOBODY
    shop.take(JOBS, Changed(a_job(1, "Failed")))
    assert shop.woken == RUNNING


def test_a_secret_wakes_the_operation_that_waits_for_it_and_no_other() -> None:
    shop = Shop(BEGINS, COMPLETED, secrets=1)
    (absent,) = a_shop(BEGINS).secrets[1:]
    shop.secrets.take(Changed(metadata_alone(absent)))
    assert shop.woken == BEGINNING


def test_an_operation_that_waits_for_a_tenant_that_cannot_be_read_goes_on_when_that_is_gone() -> None:
    shop = Shop(prepared(deletionTimestamp="2026-01-01T00:00:00Z"))
    shop.take(TENANTS, Removed(TENANT))
    hidden = Unreadable(CAPTenant.resource, TENANT.metadata, "spec: too deep")
    shop.take(TENANTS, Odd(hidden))
    assert not shop.deciding.step(shop.world.operation, Overlay())[0].writes
    shop.woken.clear()
    shop.take(TENANTS, Removed(hidden))
    assert shop.woken == BEGINNING


def test_the_secrets_of_a_namespace_are_asked_for_again_after_its_last_application_was_gone() -> None:
    shop = Shop(BEGINS)
    former = shop.secrets
    shop.take(APPLICATIONS, Removed(APPLICATION))
    shop.deciding.step(BEGINS, Overlay())
    shop.take(APPLICATIONS, Changed(APPLICATION))
    waits, _ = shop.deciding.step(BEGINS, Overlay())
    assert (waits.writes, waits.failure) == ((), None), "they are not listed yet"
    shop.woken.clear()
    present = shop.caches.secrets(given.NAMESPACE)
    assert present is not former
    present.take(Synced(tuple(map(metadata_alone, shop.world.secrets)), "1"))
    assert shop.woken[0] == "acme-op"
    assert shop.deciding.step(BEGINS, Overlay())[0].writes


def test_nothing_is_kept_of_the_secrets_of_a_namespace_without_applications() -> None:
    shop = Shop(BEGINS)
    source: Any = shop.sources.of(BINDINGS)
    assert [*source._sources] == [given.NAMESPACE]
    shop.take(APPLICATIONS, Removed(APPLICATION))
    shop.deciding.step(BEGINS, Overlay())
    shop.secrets = shop.step = cast(Any, None)
    gc.collect()
    assert [*source._sources] == []


def test_secrets_that_may_not_be_watched_are_read_all_the_same() -> None:
    shop = Shop(BEGINS, secrets=0)
    assert shop.step.failure is not None
    shop.secrets.take(WatchSuspended("not permitted", is_forbidden=True))
    shop.world.secrets = a_shop(BEGINS).secrets
    asked: list[Any] = []

    class Loads(WorldLoads):
        def get(self, load: Any) -> Any:
            asked.append(load)
            return super().get(load)

    shop.deciding.loads = Loads(shop.world)
    shop.deciding.step(BEGINS, Overlay())
    (load,) = asked
    assert load.occasion
    assert {version for _, version in load.versions} == {""}
    assert [key.name for key, _ in load.versions] == ["hana-secret", "uaa-secret"]


def test_the_owner_of_the_operations_is_the_tenant() -> None:
    assert ObjectKey(given.NAMESPACE, str(OWNER["name"])) == TENANT.key
