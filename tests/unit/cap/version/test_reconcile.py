"""What a version shows where a pass fails."""

from __future__ import annotations

from typing import Any

import msgspec
from tests.unit.cap import given

from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.kube.watch.watch_states import Synced
from stellwerk.operators.cap.reasons import VersionReason
from stellwerk.operators.cap.version.reconcile import VersionFailed, VersionReconciler
from stellwerk.operators.cap.watches import Caches
from stellwerk.runtime.process.manager import Manager
from stellwerk.testing.clock import FakeClock

NOTHING: Any = None


def test_a_deleted_version_whose_objects_cannot_be_created_still_names_the_tenants_that_it_waits_for() -> None:
    caches = Caches(Manager(Client.connect(ClusterConfig(server="https://127.0.0.1:1"))))
    reconciler = VersionReconciler(
        client=NOTHING, caches=caches, credentials=NOTHING, children=NOTHING, rollout=NOTHING, clock=FakeClock()
    )
    version, user = given.version(), given.tenant("acme")
    user = msgspec.structs.replace(
        user, status=msgspec.structs.replace(user.status, current_version=version.metadata.name)
    )
    caches.tenants.take(Synced((user,), "1"))
    failure = VersionFailed(VersionReason.ErrorInServerService, "a policy denies it")
    assert reconciler.report(version, failure).conditions[0].message == "a policy denies it"
    deleted = {**given.metadata(version.metadata.name), "deletionTimestamp": "2026-01-01T00:00:00Z"}
    version = msgspec.structs.replace(version, metadata=msgspec.convert(deleted, ObjectMeta))
    message = "the version is deleted when no tenant uses it any more: acme; a policy denies it"
    assert reconciler.report(version, failure).conditions[0].message == message
