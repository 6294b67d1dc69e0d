"""Versions of a Blueprint stay while the caches cannot show that none is used."""

from __future__ import annotations

import msgspec
import pytest

from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import Unreachable
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.watch.watch_states import Synced, WatchSuspended
from stellwerk.operators.component.api import FINALIZER, Component
from stellwerk.operators.component.errors import SourceNotReady
from stellwerk.operators.component.sources import blueprints
from stellwerk.operators.component.sources.blueprint_versions import BlueprintSummary, VersionSummary
from stellwerk.operators.component.sources.blueprints import BlueprintReconciler, BlueprintStore
from stellwerk.operators.component.sources.sources import Source, SourceKind
from stellwerk.runtime.cache.informer import Informer
from stellwerk.testing.clock import FakeClock

KEY = ObjectKey("shop", "web")
SUSPENDED = WatchSuspended("cannot list: conversion webhook failed")
ENDING = msgspec.convert(
    {
        "metadata": {
            "namespace": KEY.namespace, "name": KEY.name, "uid": "u", "finalizers": [FINALIZER],
            "deletionTimestamp": "2026-01-02T03:04:05Z",
        }
    },
    BlueprintSummary,
)  # fmt: skip
VERSION = msgspec.convert(
    {"metadata": {"namespace": KEY.namespace, "name": "web-1", "uid": "v"}, "spec": {"blueprint": KEY.name}},
    VersionSummary,
)


def reconciler() -> BlueprintReconciler:
    """Caches are fed by hand; a request would raise Unreachable."""
    client = Client.connect(ClusterConfig(server="https://127.0.0.1:1"))
    components, known = Informer(client, Component), Informer(client, VersionSummary)
    blueprints.index(components, known)
    store = BlueprintStore(client, Informer(client, BlueprintSummary), known)
    return BlueprintReconciler(store=store, components=components, clock=FakeClock())


@pytest.mark.req("R-207")
async def test_no_version_is_deleted_while_the_components_that_use_it_cannot_be_listed() -> None:
    made = reconciler()
    made.store.known.take(Synced((VERSION,), "1"))
    made.components.take(SUSPENDED)
    await made.forget(KEY)
    made.components.take(Synced((), "1"))
    with pytest.raises(Unreachable):
        await made.forget(KEY)  # now it is known that nothing uses the version


@pytest.mark.req("R-207")
async def test_a_blueprint_waits_for_its_end_while_its_versions_cannot_be_listed() -> None:
    made = reconciler()
    made.components.take(Synced((), "1"))
    made.store.known.take(SUSPENDED)
    assert (await made.reconcile(ENDING)).delay_seconds == blueprints.BLOCKED_SECONDS
    made.store.known.take(Synced((), "1"))
    with pytest.raises(Unreachable):
        await made.reconcile(ENDING)  # now it is known that none is left


async def test_a_blueprint_that_cannot_be_listed_is_not_called_absent() -> None:
    made = reconciler()
    made.store.blueprints.take(SUSPENDED)
    with pytest.raises(SourceNotReady, match="conversion webhook failed"):
        await made.store.offer(Source(SourceKind.Blueprint, KEY))
