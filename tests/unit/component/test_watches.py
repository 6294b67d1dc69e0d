"""Which changes have a Component looked at."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import msgspec
import pytest
from tests.unit.component.given import component

from stellwerk.api import flux
from stellwerk.apply.errors import InvalidSet, Problem
from stellwerk.delivery.watched_objects import Unwatchable
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, Resource
from stellwerk.kube.types.model import JsonValue, PartialObjectMetadata, View
from stellwerk.kube.types.object_meta import Condition, ObjectMeta
from stellwerk.kube.watch.watch_states import Changed, Synced
from stellwerk.operators.component.api import FINALIZER, Component
from stellwerk.operators.component.api_status import ComponentStatus
from stellwerk.operators.component.component.missing_kinds import MissingKinds
from stellwerk.operators.component.sources.blueprint_versions import BlueprintSummary
from stellwerk.operators.component.sources.blueprints import asks_for_nothing
from stellwerk.operators.component.sources.sources import SourceKind
from stellwerk.operators.component.watches import (
    SERVED_SECONDS,
    ComponentController,
    Watches,
    nothing_was_asked,
    watches,
    wire,
)
from stellwerk.runtime.control.controller import Controller
from stellwerk.runtime.control.status_writer import StatusWriter
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.reconciler import Next, SimpleReconciler

WEB = ObjectKey("shop", "web")


class Idle(SimpleReconciler[Component, ComponentStatus]):
    async def reconcile(self, component: Component) -> Next[ComponentStatus]:
        return Next.done()


@asynccontextmanager
async def watching(*components: Component) -> AsyncIterator[tuple[Watches, ComponentController]]:
    """What an operator watches that knows these Components, and whose passes are the test's."""
    async with Client.connect(ClusterConfig(server="http://127.0.0.1:1")) as client:
        seen = watches(Manager(client))
        controller = Controller("component", seen.components, Idle(), write_status=StatusWriter(client=client))
        wire(controller, seen)
        seen.components.take(Synced(components, "1"))
        yield seen, controller


def repository(revision: str, version: int) -> flux.GitRepository:
    """The source of the Components, Ready with this revision."""
    ready = Condition(type="Ready", status="True", last_transition_time=datetime(2026, 1, 1, tzinfo=UTC))
    artifact = flux.FluxArtifact(url="u", digest=f"digest-{revision}", revision=revision)
    metadata = ObjectMeta(namespace="shop", name="repo", uid="u-repo", resource_version=str(version))
    return flux.GitRepository(metadata=metadata, status=flux.FluxSourceStatus(conditions=(ready,), artifact=artifact))


@pytest.mark.req("R-107")
async def test_a_source_that_goes_back_during_a_pass_is_news_to_the_component_that_is_ready_with_it() -> None:
    """The pass may have taken what the source offered meanwhile, which the status does not show yet."""
    status = {"state": "Ready", "lastAttemptedDigest": "digest-r1", "lastAttemptedRevision": "r1"}
    async with watching(component("web", status=status)) as (seen, controller):
        source = seen._followed(SourceKind.FluxGitRepository, View(flux.GitRepository.resource, flux.GitRepository))
        source.take(Synced((repository("r1", 1),), "1"))
        assert len(controller.queue) == 0, "it has that already"
        source.take(Changed(repository("r2", 2)))
        assert await controller.queue.get() == WEB
        source.take(Changed(repository("r1", 3)))
        controller.queue.done(WEB)
        assert len(controller.queue) == 1
        assert await controller.queue.get() == WEB
        controller.queue.done(WEB)
        source.take(Changed(repository("r1", 4)))
        assert len(controller.queue) == 0, "no pass is under way that may have taken anything else"


def definition(name: str, version: int) -> PartialObjectMetadata:
    return PartialObjectMetadata(metadata=ObjectMeta(name=name, uid=f"u-{name}", resource_version=str(version)))


async def test_a_definition_has_the_components_looked_at_that_miss_a_kind_of_its_group() -> None:
    """Their back-off grows to a quarter of an hour, and a definition is not Established as soon as it exists."""
    kind = GroupVersionKind("shop.example.com", "v1", "Rack")
    unserved = InvalidSet([Problem("Rack one", "the API server serves no Rack", unserved=kind)])
    async with watching(component("web"), component("other")) as (seen, controller):
        seen.definitions.take(Synced((definition("racks.shop.example.com", 1),), "1"))
        seen.missing_kinds.note(WEB, unserved)
        assert controller.queue.delayed == 0, "it was there before"
        seen.definitions.take(Changed(definition("racks.hall.example.com", 2)))
        assert controller.queue.delayed == 0, "it is of another group"
        seen.definitions.take(Changed(definition("racks.shop.example.com", 3)))
        assert controller.queue.delayed == 1
        assert controller.queue.gathering(SERVED_SECONDS) == 1


async def test_a_definition_has_the_next_failures_for_want_of_its_kind_tried_again_soon() -> None:
    """Discovery shows a kind a moment after its definition, and a pass may come before."""
    kind = GroupVersionKind("shop.example.com", "v1", "Rack")
    unserved = InvalidSet([Problem("Rack one", "the API server serves no Rack", unserved=kind)])
    async with watching(component("web")) as (seen, controller):
        seen.definitions.take(Synced((), "1"))
        for _ in range(20):
            controller.queue.add_backed_off(WEB)
        seen.missing_kinds.note(WEB, unserved)
        seen.definitions.take(Changed(definition("racks.shop.example.com", 2)))
        assert controller.queue.add_backed_off(WEB) < 1


def test_what_a_component_misses_counts_until_a_pass_does_not_fail_for_it() -> None:
    missing = MissingKinds()
    racks = Resource("shop.example.com", "v1", "Rack", "racks", namespaced=True)
    missing.note(WEB, Unwatchable(racks, "the API server serves no Rack"))
    assert [*missing.in_group("shop.example.com")] == [WEB]
    missing.note(WEB, InvalidSet([Problem("Rack one", "duplicate object")]))
    assert not missing.in_group("shop.example.com")
    missing.note(WEB, Unwatchable(racks, "the API server serves no Rack"))
    missing.forget(WEB)
    assert not missing.in_group("shop.example.com")


OURS: list[JsonValue] = [FINALIZER]
THEIRS: list[JsonValue] = ["test.example.com/hold"]


def blueprint(finalizers: list[JsonValue]) -> BlueprintSummary:
    body = {"metadata": {"namespace": "shop", "name": "web", "uid": "u", "finalizers": finalizers}}
    return msgspec.convert(body, BlueprintSummary)


def test_our_finalizer_that_a_client_removes_is_news_and_the_one_that_we_add_is_not() -> None:
    """Without it, a deletion before the next requeue would orphan objects."""
    held, free = component("web", finalizers=OURS + THEIRS), component("web", finalizers=THEIRS)
    assert not nothing_was_asked(held, free)
    assert nothing_was_asked(free, held)
    assert not asks_for_nothing(blueprint(OURS + THEIRS), blueprint(THEIRS))
    assert asks_for_nothing(blueprint(THEIRS), blueprint(OURS + THEIRS))


def test_the_finalizers_of_others_are_news_only_while_a_component_is_deleted() -> None:
    assert nothing_was_asked(component("web", finalizers=OURS + THEIRS), component("web", finalizers=OURS))
    blocked = component("web", deleting=True, finalizers=OURS + THEIRS)
    assert not nothing_was_asked(blocked, component("web", deleting=True, finalizers=OURS))
