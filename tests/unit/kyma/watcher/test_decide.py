"""What a Watcher needs next."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from tests.unit.kyma.kyma.worlds import DELETED, PREFIX
from tests.unit.kyma.watcher.worlds import OURS, a_gateway, a_route, a_watcher

from stellwerk.api.istio import Gateway, VirtualService
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.kyma.api_module import LabelSelector
from stellwerk.operators.kyma.api_watcher import Watcher, WatcherStatus
from stellwerk.operators.kyma.collections import GATEWAYS, ROUTES
from stellwerk.operators.kyma.watcher import decide as deciding
from stellwerk.operators.kyma.watcher.decide import WatcherLogic, WatcherSettings
from stellwerk.runtime.clock import SystemClock
from stellwerk.runtime.control.executor import Course, rehearse
from stellwerk.runtime.control.step import Create, Delete, Failure, Patch, RemoveFinalizer, Step
from stellwerk.runtime.reading.known import NotKnown
from stellwerk.runtime.reading.questions import PlainSource
from stellwerk.runtime.reading.view import PlainSources, View

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = datetime(2026, 2, 1, tzinfo=UTC)


GATE = a_gateway("gate", "listen.example.com")


def sources(gateways: Sequence[Gateway] = (GATE,), routes: Sequence[VirtualService] = (), **lacks: Any) -> PlainSources:
    made = PlainSources()
    made.add(GATEWAYS, PlainSource(gateways, **lacks))
    made.add(ROUTES, PlainSource(routes))
    return made


def course(watcher: Watcher, world: PlainSources | None = None, now: datetime = NOW) -> Course[WatcherStatus]:
    """What a whole pass would do."""
    world = world or sources()
    settings = (WatcherSettings(),)
    logic = WatcherLogic(SystemClock())
    return rehearse(logic, watcher, lambda seen: View(sources=world, now=now, settings=settings, overlay=seen))


def step(watcher: Watcher, world: PlainSources) -> Step[WatcherStatus]:
    return deciding.decide(watcher, View(sources=world, now=NOW, settings=(WatcherSettings(),)))


@pytest.mark.req("KYMA-54")
def test_a_new_watcher_gets_a_finalizer_and_a_route_and_is_ready_in_one_pass() -> None:
    done = course(a_watcher(finalizers=[]))
    assert [type(each) for each in done.writes] == [Patch, Create]
    assert done.status.state == "Ready"
    (condition,) = done.status.conditions
    assert (condition.type, condition.status, condition.reason) == ("VirtualService", "True", "Ready")
    assert condition.message == "VirtualService is configured"
    created = done.writes[1]
    assert isinstance(created, Create)
    route = msgspec.convert(created.body, VirtualService)
    assert route.spec == a_route().spec
    assert route.metadata.controller is not None
    assert route.metadata.controller.uid == "uid-of-kyma"


def test_a_watcher_at_rest_writes_nothing_and_keeps_its_times() -> None:
    ready = a_watcher(status=msgspec.to_builtins(course(a_watcher()).status))
    again = course(ready, sources(routes=[a_route()]), LATER)
    assert again.writes == []
    assert again.status == ready.status


@pytest.mark.parametrize(
    ("watcher", "world", "cause"),
    [
        (a_watcher(spec={"manager": ""}), sources(), "no manager is named"),
        (a_watcher(spec={"manager": "../other"}), sources(), "'../other' is not the name of a manager"),
        (a_watcher(spec={"serviceInfo": {"name": "e", "namespace": "n", "port": 0}}), sources(), "port is 0"),
        (a_watcher(spec={"serviceInfo": {"name": "e", "namespace": "n", "port": 65536}}), sources(), "port is 65536"),
        (a_watcher(spec={"manager": "Upper"}), sources(), "'Upper' is not the name of a manager"),
        (
            a_watcher(spec={"resourceToWatch": {"group": "", "version": "*", "resource": ""}}),
            sources(),
            "names no kind",
        ),
        (
            a_watcher(spec={"resourceToWatch": {"group": "", "version": "", "resource": "kymas"}}),
            sources(),
            "names no kind: 'kymas/'",
        ),
        (
            a_watcher(spec={"resourceToWatch": {"group": "A/B", "version": "v1", "resource": "kymas"}}),
            sources(),
            "spec.resourceToWatch.group is 'A/B'",
        ),
        (a_watcher(spec={"labelsToWatch": {"a": "b c"}}), sources(), "spec.labelsToWatch['a']"),
        (a_watcher("a" * 240), sources(), "the name is too long for a webhook"),
        (a_watcher(), sources([]), "no Gateway in namespace kcp-system has the labels"),
        (a_watcher(), sources([a_gateway("gate", "h", labels={})]), "no Gateway in namespace kcp-system has"),
        (a_watcher(), sources([a_gateway("gate", "h", namespace="other")]), "no Gateway in namespace kcp-system has"),
        (a_watcher(), sources([a_gateway("gate")]), "no server of Gateway kcp-system/gate has a host"),
        (a_watcher(), sources([], is_served=False), "does not serve Gateways"),
        (a_watcher(), sources(routes=[a_route("uid-of-another")]), "this Watcher does not own it"),
    ],
)
def test_a_watcher_that_cannot_have_a_route_says_why_once(watcher: Watcher, world: PlainSources, cause: str) -> None:
    done = course(watcher, world)
    assert done.writes == []
    assert done.status.state == "Error"
    (condition,) = done.status.conditions
    assert condition.status == "False"
    assert condition.message.startswith("VirtualService is not configured: ")
    assert cause in condition.message
    assert [each.severity.value for one in done.steps for each in one.events] == ["Warning"]
    shown = msgspec.structs.replace(watcher, status=done.status)
    again = course(shown, world, LATER)
    assert again.status == done.status
    assert not [each for one in again.steps for each in one.events], "an unchanged cause is no news"


def test_a_manager_may_be_named_by_the_label_of_older_watchers() -> None:
    older = a_watcher(spec={"manager": ""}, labels={f"{PREFIX}/managed-by": "lifecycle-manager"})
    assert course(older).status.state == "Ready"


def test_a_route_leads_through_all_gateways_that_are_selected() -> None:
    world = sources([a_gateway("b", "two", "*/one"), a_gateway("a", "one")])
    (created,) = course(a_watcher(), world).writes
    assert isinstance(created, Create)
    spec = msgspec.convert(created.body, VirtualService).spec
    assert spec.gateways == ("kcp-system/a", "kcp-system/b")
    assert spec.hosts == ("one", "two"), "each host once, without the namespaces that may use it"


@pytest.mark.parametrize("changed", [{"hosts": ["other"]}, {"http": []}, {"gateways": ["a/b"]}])
def test_an_edited_route_is_restored(changed: Any) -> None:
    done = course(a_watcher(), sources(routes=[a_route(spec=changed)]))
    assert [type(each) for each in done.writes] == [Patch]
    assert done.status.state == "Ready"


def test_a_route_that_is_being_deleted_is_awaited() -> None:
    leaving = a_route(deletionTimestamp=DELETED, finalizers=["others/one"])
    done = course(a_watcher(), sources(routes=[leaving]))
    assert done.writes == []
    assert done.status.state == "Processing"
    assert done.steps[-1].waits[0].on == (ROUTES, ObjectKey("kcp-system", "kyma"))


@pytest.mark.req("KYMA-54")
def test_a_deleted_watcher_takes_its_route_with_it() -> None:
    leaving = a_watcher(deletionTimestamp=DELETED)
    first = step(leaving, sources(routes=[a_route()]))
    assert [type(each) for each in first.writes] == [Delete]
    assert first.status is not None
    assert first.status.state == "Deleting"
    held = step(leaving, sources(routes=[a_route(deletionTimestamp=DELETED, finalizers=["others/one"])]))
    assert held.writes == ()
    assert held.waits[0].on == (ROUTES, ObjectKey("kcp-system", "kyma"))
    assert step(leaving, sources()).writes == (RemoveFinalizer(OURS),)


@pytest.mark.parametrize("held", [[OURS], ["others/one"]])
def test_a_deleted_watcher_leaves_the_route_of_another_alone(held: list[str]) -> None:
    leaving = a_watcher(deletionTimestamp=DELETED, finalizers=held)
    done = step(leaving, sources(routes=[a_route("uid-of-another")]))
    assert done.writes == ((RemoveFinalizer(OURS),) if held == [OURS] else ())


def test_gateways_that_cannot_be_listed_change_nothing() -> None:
    with pytest.raises(NotKnown):
        step(a_watcher(), sources(why="the watch is forbidden"))
    done = course(a_watcher(), sources(why="the watch is forbidden"))
    assert done.writes == []
    assert done.status == WatcherStatus()


def test_a_refused_write_is_shown_with_its_cause() -> None:
    shown = WatcherLogic(SystemClock()).failed(a_watcher(), Failure(message="a webhook denied it"))
    assert shown.state == "Error"
    assert shown.conditions[0].message == "VirtualService is not configured: a webhook denied it"


@pytest.mark.parametrize(
    ("selector", "labels", "expected"),
    [
        ({}, {}, True),
        ({"matchLabels": {"a": "b"}}, {"a": "b", "c": "d"}, True),
        ({"matchLabels": {"a": "b"}}, {"a": "c"}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}, {"a": "b"}, True),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}, {}, False),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]}, {}, True),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]}, {"a": "b"}, False),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {"a": ""}, True),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {}, False),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, {"a": ""}, False),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, {}, True),
        ({"matchExpressions": [{"key": "a", "operator": "Near"}]}, {"a": ""}, False),
    ],
)
def test_labels_are_selected_as_by_kubernetes(selector: Any, labels: dict[str, str], expected: bool) -> None:
    assert msgspec.convert(selector, LabelSelector).matches(labels) is expected
