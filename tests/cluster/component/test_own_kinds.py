"""Kinds that a Component brings: their instances come last and go first, and those of others keep all of it."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.apps import Deployment
from stellwerk.api.core import ConfigMap, Pod, Service
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.errors import NotFound
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, metadata_of, unstructured
from stellwerk.operators.component.api import FINALIZER
from stellwerk.operators.component.reasons import Cause, reason_of
from stellwerk.testing.eventually import eventually
from tests.cluster.component.aggregated import WidgetServer
from tests.cluster.component.given import Given, config_map
from tests.cluster.component.manifests import FATE, definition, deployment, gate, manifest
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then
from tests.cluster.component.world import free_definition

API_SERVICE = Resource("apiregistration.k8s.io", "v1", "APIService", "apiservices", False)
API_SERVICES = metadata_of(API_SERVICE)
HELD = MergePatch({"metadata": {"finalizers": ["tests.example/held"]}})
RELEASED = MergePatch({"metadata": {"finalizers": None}})


@pytest.fixture
def group() -> str:
    """A group of the test's own: definitions belong to the whole cluster."""
    return f"g{secrets.token_hex(4)}.example.com"


@pytest.fixture
async def widgets(given: Given, running: Running, group: str) -> AsyncIterator[WidgetServer]:
    """The server of the test's group. Its APIService goes with it: while one is stale, no namespace can be deleted."""
    async with WidgetServer(group) as server:
        yield server
        await running.stop()
        with suppress(NotFound):
            await given.client.delete(API_SERVICES, f"v1.{group}")
            await given.client.patch(API_SERVICES, f"v1.{group}", "", MergePatch({"metadata": {"finalizers": None}}))


def gadgets(group: str) -> Resource:
    return Resource(group, "v1", "Gadget", "gadgets", namespaced=True)


def gadget(group: str, name: str = "mine") -> str:
    return manifest("Gadget", name, api_version=f"{group}/v1")


async def test_an_instance_comes_after_everything_else_of_its_wave_and_goes_before_it(
    given: Given, running: Running, then: Then, group: str
) -> None:
    await given.source(
        {
            "gadget.yaml": gadget(group),
            "kind.yaml": definition(group, "Gadget"),
            "controller.yaml": deployment("controller", fate="unready"),
        }
    )
    await running.start()
    await given.component()
    await then.phases({f"gadgets.{group}": "Ready", "controller": "Creating", "mine": "ScheduledForApplication"})
    view = unstructured(gadgets(group))
    assert await given.client.find(view, "mine", then.namespace) is None
    await pods_are_ready(given, "controller")
    ready = await then.ready()
    kind = await given.client.get(CustomResourceDefinition, f"gadgets.{group}")
    assert FINALIZER in kind.metadata.finalizers
    assert {(one.group, one.version, one.kind) for item in ready.status.inventory for one in item.managed_types} == {
        (group, "*", "Gadget")
    }

    await given.client.patch(view, "mine", then.namespace, HELD)
    await given.deleted()
    await then.shows("Deleting", "DeletionProcessing", saying="waits for finalizers tests.example/held")
    assert await then.exists(Deployment, "controller")
    assert await then.exists(CustomResourceDefinition, f"gadgets.{group}", "")
    await given.client.patch(view, "mine", then.namespace, RELEASED)
    await then.gone()
    assert not await then.exists(Deployment, "controller")
    await then.absent(CustomResourceDefinition, f"gadgets.{group}", "")


async def test_an_instance_whose_conditions_cannot_be_read_is_an_error_of_its_component(
    given: Given, running: Running, then: Then, group: str
) -> None:
    await given.source({"kind.yaml": definition(group, "Gadget"), "gadget.yaml": gadget(group)}, revision="r1")
    await running.start()
    await given.component()
    await then.ready()
    view = unstructured(gadgets(group))
    await given.client.patch(
        view, "mine", then.namespace, MergePatch({"status": {"conditions": {}}}), subresource="status"
    )
    await given.annotated("comp", poke="again")
    key = then.key("mine")
    shown = await then.shows(
        "Error", "Error", saying=f"cannot read the status of Gadget {key}: status.conditions is not a list"
    )
    assert reason_of(shown.status) is Cause.ApplyFailed  # the cluster answers
    await given.client.patch(view, "mine", then.namespace, MergePatch({"status": None}), subresource="status")
    await then.ready()


async def test_a_kind_that_is_missing_is_named_and_its_objects_are_applied_soon_after_it_comes(
    given: Given, running: Running, then: Then, group: str
) -> None:
    await given.source({"gadget.yaml": gadget(group)})
    await running.start()
    await given.component()
    await then.shows("Error", "Error", saying=f"the API server serves no {group}/v1 Gadget")
    for _ in range(15):  # until the next try comes after minutes, later than this test waits
        await running.waits(minutes=20)
    await running.rests()
    await given.client.apply(unstructured(CustomResourceDefinition.resource), free_definition(gadgets(group)))
    await then.ready()


async def test_a_chart_sees_the_kinds_that_another_component_has_just_brought(
    given: Given, running: Running, then: Then, group: str
) -> None:
    asks = f"has: '{{{{ .Capabilities.APIVersions.Has \"{group}/v1/Gadget\" }}}}'"
    template = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: seen}}\ndata: {{{asks}}}\n"
    chart = {"Chart.yaml": "apiVersion: v2\nname: user\nversion: 1.0.0\n", "templates/seen.yaml": template}
    await given.source({"kind.yaml": definition(group, "Gadget")}, "kinds")
    await given.source(chart, "user")
    await running.start()
    await given.component("user", "user")
    await then.ready("user")
    await given.component("kinds", "kinds")
    await then.ready("kinds")

    async def is_seen() -> bool:
        await given.annotated("user", poke=secrets.token_hex(4))
        return (await given.client.get(ConfigMap, "seen", then.namespace)).data == {"has": "true"}

    await eventually(is_seen, describe="the chart sees the kind")


@pytest.mark.req("R-112")
async def test_nothing_goes_while_others_have_instances_of_the_kind(
    given: Given, running: Running, then: Then, group: str
) -> None:
    await given.source(
        {"kind.yaml": definition(group, "Gadget"), "mine.yaml": gadget(group), "one.yaml": config_map("one")}
    )
    await running.start()
    await given.component()
    await then.ready()
    view = unstructured(gadgets(group))
    theirs: JsonObject = {"metadata": {"name": "theirs", "namespace": then.namespace}}
    await given.client.apply(view, {"apiVersion": f"{group}/v1", "kind": "Gadget", **theirs})
    await given.deleted()
    blocked = await then.shows("Deleting", "DeletionBlocked", saying=f"crd gadgets.{group} is still in use")
    assert {item.phase for item in blocked.status.inventory} == {"Ready"}
    assert await then.exists(ConfigMap, "one")
    assert not (await given.client.get(view, "mine", then.namespace)).metadata.is_terminating
    await running.waits(seconds=10)
    await running.rests()
    assert await then.exists(ConfigMap, "one")
    await given.client.delete(view, "theirs", then.namespace)
    await running.waits(seconds=10)
    await then.gone()
    assert not await then.exists(ConfigMap, "one")
    await then.absent(CustomResourceDefinition, f"gadgets.{group}", "")


@pytest.mark.req("R-112")
async def test_a_kind_that_is_dropped_stays_while_others_have_instances(
    given: Given, running: Running, then: Then, group: str
) -> None:
    await given.source({"kind.yaml": definition(group, "Gadget"), "one.yaml": config_map("one")}, revision="r1")
    await running.start()
    await given.component()
    await then.ready(revision="r1")
    view = unstructured(gadgets(group))
    theirs: JsonObject = {"metadata": {"name": "theirs", "namespace": then.namespace}}
    await given.client.apply(view, {"apiVersion": f"{group}/v1", "kind": "Gadget", **theirs})
    await given.source({"one.yaml": config_map("one")}, revision="r2")
    await then.shows("Processing", "Processing", saying="is still in use (instances exist)")
    assert await then.exists(CustomResourceDefinition, f"gadgets.{group}", "")
    await given.client.delete(view, "theirs", then.namespace)
    await running.waits(seconds=11)
    await then.ready(revision="r2")
    await then.absent(CustomResourceDefinition, f"gadgets.{group}", "")


async def test_an_api_service_comes_after_what_is_plain_and_its_instances_when_it_is_available(
    given: Given, running: Running, then: Then, group: str, widgets: WidgetServer
) -> None:
    name = f"v1.{group}"
    await given.source(
        {
            "widget.yaml": manifest("Widget", "mine", api_version=f"{group}/v1"),
            "registration.yaml": manifest(
                "APIService",
                name,
                widgets.registration(then.namespace, "widgets"),
                api_version="apiregistration.k8s.io/v1",
            ),
            "service.yaml": manifest("Service", "widgets", widgets.service("widgets")),
            "gate.yaml": gate("door"),
        }
    )
    await running.start()
    await given.component()
    await then.shows("Processing", "Processing", saying="door")
    assert await then.exists(Service, "widgets")
    assert await given.client.find(API_SERVICES, name) is None
    await given.opened("door")
    await then.shows("Processing", "Processing", saying=f"APIService {name}")
    await eventually(lambda: is_silent(given, group), within=60, describe="widgets are stale")
    await given.annotated("comp", poke="while-discovery-is-stale")
    await running.rests()
    await then.shows("Processing", "Processing", saying=f"APIService {name}")
    assert "Error" not in {page.state for page in then.history.pages["comp"]}
    assert not widgets.widgets
    widgets.is_up = True
    await given.client.patch(API_SERVICES, name, "", MergePatch({"metadata": {"annotations": {"tests/look": "again"}}}))
    await then.ready()
    assert [*widgets.widgets] == [(then.namespace, "mine")]

    widgets.widgets[then.namespace, "theirs"] = {"metadata": {"name": "theirs", "namespace": then.namespace}}
    await given.deleted()
    await then.shows("Deleting", "DeletionBlocked", saying=f"api service {name} is still in use")
    assert await then.exists(Service, "widgets")
    del widgets.widgets[then.namespace, "theirs"]
    await running.waits(seconds=10)
    await then.gone()
    assert not widgets.widgets
    assert await given.client.find(API_SERVICES, name) is None


async def test_what_repairs_the_server_of_an_api_service_is_applied_after_a_restart_while_it_does_not_answer(
    given: Given, running: Running, then: Then, group: str, widgets: WidgetServer
) -> None:
    registration = widgets.registration(then.namespace, "widgets")
    files = {
        "widget.yaml": manifest("Widget", "mine", api_version=f"{group}/v1"),
        "registration.yaml": manifest(
            "APIService", f"v1.{group}", registration, api_version="apiregistration.k8s.io/v1"
        ),
        "service.yaml": manifest("Service", "widgets", widgets.service("widgets")),
    }
    widgets.is_up = True
    former = manifest("Widget", "former", api_version=f"{group}/v1")
    await given.source({**files, "former.yaml": former}, revision="r1")
    await running.start()
    await given.component()
    await then.ready(revision="r1")
    assert {name for _, name in widgets.widgets} == {"mine", "former"}
    await running.stop()
    widgets.is_up = False
    await eventually(lambda: is_silent(given, group), within=90, describe="widgets are stale")
    await given.source({**files, "repair.yaml": config_map("repair")}, revision="r2")
    await running.start()
    await eventually(lambda: then.exists(ConfigMap, "repair"), within=20, describe="the repair is applied")
    await then.shows("Processing", "Processing", saying=f"APIService v1.{group}")
    assert "Error" not in {page.state for page in then.history.pages["comp"]}
    widgets.is_up = True
    await eventually(lambda: is_served(given, group), within=90, describe="widgets are served again")
    await then.ready(revision="r2")
    assert [*widgets.widgets] == [(then.namespace, "mine")]
    await given.deleted()
    await then.gone()


async def pods_are_ready(given: Given, app: str) -> None:
    """Lift the fate of the pods of an app."""

    async def found() -> list[Pod]:
        return list((await given.client.list(Pod, given.namespace, labels=f"app={app}")).items)

    for pod in await eventually(found, describe=f"pods of {app}"):
        lifted = MergePatch({"metadata": {"annotations": {FATE: None}}})
        await given.client.patch(metadata_of(Pod), pod.metadata.name, given.namespace, lifted)


@pytest.mark.req("R-510")
async def test_a_chart_that_asks_about_a_silent_api_service_waits_and_its_objects_stay(
    given: Given, running: Running, then: Then, group: str, widgets: WidgetServer
) -> None:
    asks = f'{{{{ if .Capabilities.APIVersions.Has "{group}/v1" }}}}\n{config_map("extra")}\n{{{{ end }}}}'
    chart = {"Chart.yaml": "apiVersion: v2\nname: app\nversion: 1.0.0\n", "templates/extra.yaml": asks}
    await given.client.apply(
        Service, {"metadata": {"name": "widgets", "namespace": given.namespace}, **widgets.service("widgets")}
    )
    service = unstructured(API_SERVICE)
    named: JsonObject = {
        "apiVersion": API_SERVICE.api_version,
        "kind": "APIService",
        "metadata": {"name": f"v1.{group}"},
    }
    registered: JsonObject = {**named, **widgets.registration(given.namespace, "widgets")}
    widgets.is_up = True
    await given.client.apply(service, registered)
    await eventually(lambda: is_served(given, group), within=60, describe="widgets are served")
    await given.source(chart, revision="r1")
    await running.start()
    await given.component()
    await then.ready(revision="r1")
    assert await then.exists(ConfigMap, "extra")
    await running.stop()
    widgets.is_up = False
    await given.client.delete(API_SERVICES, f"v1.{group}")
    await given.client.apply(service, registered)
    await eventually(lambda: is_silent(given, group), within=90, describe="widgets are stale")
    another = {"plain/Chart.yaml": chart["Chart.yaml"], "plain/templates/one.yaml": config_map("plain")}
    await given.source(chart | another, revision="r2")
    await running.start()
    await then.shows("Pending", "Retrying", saying=f"the cluster serves {group}/v1, and that is not known")
    assert await then.exists(ConfigMap, "extra")
    await given.component("plain", path="plain")
    await then.ready("plain", revision="r2")
    widgets.is_up = True
    await eventually(lambda: is_served(given, group), within=90, describe="widgets are served again")
    await running.waits(minutes=5)
    await then.ready(revision="r2")
    assert await then.exists(ConfigMap, "extra")


async def is_served(given: Given, group: str) -> bool:
    given.client.mapper.invalidate()
    return any(one.group == group for one in await given.client.mapper.all()) and not given.client.mapper.undiscovered()


async def is_silent(given: Given, group: str) -> bool:
    """Whether a client that has never seen the group is told that it is stale."""
    async with Client.connect(given.client.config) as fresh:
        await fresh.mapper.all()
        return (group, "v1") in fresh.mapper.undiscovered()
