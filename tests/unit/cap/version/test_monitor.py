"""Which applications the version monitor looks at."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta

import msgspec
import pytest
from tests.unit.cap import given

from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import ObjectRef
from stellwerk.kube.types.model import HasMetadata, JsonObject, Unreadable
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.kube.watch.watch_states import Odd, Synced, WatchSuspended
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.version.monitor import VersionMonitor
from stellwerk.operators.cap.version.monitoring import Answer
from stellwerk.operators.cap.version.prometheus import Ask, PrometheusAccess, PrometheusFailed, PrometheusUnreachable
from stellwerk.operators.cap.watches import Caches
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.reconciler import Notice
from stellwerk.testing.clock import FakeClock

READY: JsonObject = {"type": "Ready", "status": "True", "reason": "WorkloadsReady", "message": "ready"}


@dataclass
class Events:
    """Events about versions. Those of the application `fails` cannot be sent."""

    fails: str = ""
    sent: list[str] = field(default_factory=list[str])

    def send(self, obj: HasMetadata, notice: Notice, related: ObjectRef | None = None) -> None:
        if self.fails and obj.metadata.name.startswith(self.fails):
            raise RuntimeError("a bug")
        self.sent.append(obj.metadata.name)


def an_application(name: str) -> CAPApplication:
    marks: JsonObject = {names.CLEANUP_ANNOTATION: "dry-run"}
    metadata = msgspec.convert(given.metadata(name, annotations=marks), ObjectMeta)
    return msgspec.structs.replace(given.application(), metadata=metadata)


def a_version(application: str, number: str) -> CAPApplicationVersion:
    found = given.version(name=f"{application}-v{number}", version=number, capApplicationInstance=application)
    return msgspec.structs.replace(found, status=msgspec.convert({"conditions": [READY]}, type(found.status)))


def monitor(events: Events, *applications: str) -> tuple[VersionMonitor, Caches]:
    """A monitor of applications that have an unused version 1 and a version 2; nothing is connected."""
    client = Client.connect(ClusterConfig(server="https://127.0.0.1:1"))
    manager = Manager(client)
    caches = Caches(manager)
    caches.applications.take(Synced(tuple(an_application(name) for name in applications), "1"))
    versions = tuple(a_version(name, number) for name in applications for number in ("1", "2"))
    caches.versions.take(Synced(versions, "1"))
    caches.tenants.take(Synced((), "1"))
    made = VersionMonitor(client=client, caches=caches, prometheus=None, border=manager.border, recorder=events)
    return made, caches


async def test_a_tenant_that_cannot_be_read_keeps_all_versions_of_its_namespace() -> None:
    events = Events()
    made, caches = monitor(events, "bookshop")
    caches.tenants.take(Odd(Unreadable(CAPTenant.resource, given.tenant().metadata, "spec: too deep")))
    await made.look()
    assert events.sent == []

    caches.tenants.take(Synced((), "2"))
    await made.look()
    assert events.sent == ["bookshop-v1"]


async def test_an_operation_under_way_keeps_its_version() -> None:
    events = Events()
    made, caches = monitor(events, "bookshop")
    owner: JsonObject = {"apiVersion": "sme.sap.com/v1alpha1", "kind": "CAPTenant", "name": "acme", "uid": "uid-acme"}
    metadata = given.metadata("acme-op", ownerReferences=[{**owner, "controller": True}])
    caches.operations.take(Synced((given.operation("upgrade", metadata=metadata),), "1"))
    await made.look()
    assert events.sent == []

    caches.operations.take(Synced((), "2"))
    await made.look()
    assert events.sent == ["bookshop-v1"]


async def test_an_application_that_fails_keeps_no_other_from_its_look() -> None:
    events = Events(fails="bookshop")
    made, _ = monitor(events, "bookshop", "musicshop")
    await made.look()
    assert events.sent == ["musicshop-v1"]


async def test_tenants_that_cannot_be_listed_keep_all_versions() -> None:
    events = Events()
    made, caches = monitor(events, "bookshop")
    caches.tenants.take(WatchSuspended("not permitted", is_forbidden=True))
    await made.look()
    assert events.sent == []

    caches.tenants.take(Synced((), "2"))
    await made.look()
    assert events.sent == ["bookshop-v1"]


@dataclass
class Server:
    """A Prometheus that answers with an empty vector, or fails."""

    failure: PrometheusFailed | None = None
    asked: int = 0
    sessions: int = 0

    @asynccontextmanager
    async def connected(self, address: str) -> AsyncIterator[Ask]:
        self.sessions += 1
        yield self.ask

    async def ask(self, query: str) -> Answer:
        self.asked += 1
        if self.failure is not None:
            raise self.failure
        return Answer(is_scalar=False, values=())


def with_rules(number: str) -> CAPApplicationVersion:
    metric: JsonObject = {"name": "sessions", "type": "Gauge", "calculationPeriod": "30m", "thresholdValue": "0.5"}
    workload = given.deployment("srv", "CAP", monitoring={"deletionRules": {"metrics": [metric]}})
    found = given.version(workload, name=f"bookshop-v{number}", version=number, capApplicationInstance="bookshop")
    return msgspec.structs.replace(found, status=msgspec.convert({"conditions": [READY]}, type(found.status)))


def measured(server: Server, events: Events) -> tuple[VersionMonitor, FakeClock]:
    """A monitor of three unused versions with rules, one without, and one that is used."""
    made, caches = monitor(events, "bookshop")
    versions = (*(with_rules(str(number)) for number in range(1, 4)), a_version("bookshop", "4"), with_rules("5"))
    caches.versions.take(Synced(versions, "2"))
    clock = FakeClock()
    access = PrometheusAccess("http://p", timedelta(hours=1), clock, server.connected)
    return replace(made, prometheus=access), clock


async def test_a_look_asks_by_one_session() -> None:
    server, events = Server(), Events()
    made, _ = measured(server, events)
    await made.look()
    assert (server.sessions, server.asked, len(events.sent)) == (1, 3, 4)


async def test_an_unreachable_prometheus_is_asked_once_and_left_alone_for_the_retry_delay(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server, events = Server(PrometheusUnreachable("no route")), Events()
    made, clock = measured(server, events)
    await made.look()
    await made.look()
    assert server.asked == 1
    assert events.sent == ["bookshop-v4", "bookshop-v4"], "a version without rules needs no answer"
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == [
        "CAPApplicationVersion shop/bookshop-v1 stays: no route"
    ]
    server.failure = None
    await clock.advance(3600)
    await made.look()
    assert server.asked == 4


async def test_a_question_that_fails_keeps_its_version_only() -> None:
    server, events = Server(PrometheusFailed("it takes too long")), Events()
    made, _ = measured(server, events)
    await made.look()
    assert server.asked == 3


@pytest.mark.req("R-917")
@pytest.mark.parametrize("unrestricted", [False, True])
async def test_a_version_with_an_expression_stays_and_the_log_names_the_setting(
    caplog: pytest.LogCaptureFixture, unrestricted: bool
) -> None:
    server, events = Server(), Events()
    made, _ = measured(server, events)
    workload = given.deployment("srv", "CAP", monitoring={"deletionRules": {"expression": "scalar(sum(sessions))"}})
    version = given.version(workload, name="bookshop-v1", version="1", capApplicationInstance="bookshop")
    version = msgspec.structs.replace(version, status=msgspec.convert({"conditions": [READY]}, type(version.status)))
    made.caches.versions.take(Synced((version, a_version("bookshop", "2")), "3"))
    await replace(made, unrestricted=unrestricted).look()
    assert server.asked == int(unrestricted)
    assert events.sent == []
    assert ("UNRESTRICTED_METRIC_QUERIES=true" in caplog.text) != unrestricted
