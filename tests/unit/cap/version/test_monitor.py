"""Which applications the version monitor looks at."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
from tests.unit.cap import given

from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import ObjectRef
from stellwerk.kube.types.model import HasMetadata, JsonObject, Unreadable
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.kube.watch.watch_states import Odd, Synced, WatchSuspended
from stellwerk.operators.cap import names, watches
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.version.monitor import VersionMonitor
from stellwerk.operators.cap.watches import Caches
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.reconciler import Notice

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
    caches = watches.caches(manager)
    caches.applications.take(Synced(tuple(an_application(name) for name in applications), "1"))
    versions = tuple(a_version(name, number) for name in applications for number in ("1", "2"))
    caches.versions.take(Synced(versions, "1"))
    caches.tenants.take(Synced((), "1"))
    made = VersionMonitor(client=client, caches=caches, address="", border=manager.border, recorder=events)
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
