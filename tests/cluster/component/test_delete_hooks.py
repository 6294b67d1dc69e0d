"""Hooks for the end of a chart's release run when the Component is deleted, if it asks for that."""

from __future__ import annotations

import pytest

from stellwerk.api import flux
from stellwerk.api.batch import Job
from stellwerk.api.core import ConfigMap, Namespace, Secret
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import JsonObject, metadata_of, unstructured
from stellwerk.operators.component.api import OWNER_ID
from stellwerk.testing.scenarios.writes import Writes
from tests.cluster.component.given import Given
from tests.cluster.component.manifests import config, job, manifest
from tests.cluster.component.running import Running
from tests.cluster.component.test_identities import stalled
from tests.cluster.component.then import Then

PRE_DELETE = {"helm.sh/hook": "pre-delete"}
CHART = {"Chart.yaml": "apiVersion: v2\nname: app\nversion: 1.0.0\n", "templates/app.yaml": config("app")}


def hook(name: str, on: str, weight: str = "0", fate: str = "") -> str:
    """A Job that is a hook."""
    return job(name, fate=fate, annotations={"helm.sh/hook": on, "helm.sh/hook-weight": weight})


async def test_hooks_run_before_the_first_object_goes_and_after_the_last_though_the_source_is_gone(
    given: Given, running: Running, then: Then, writes: Writes
) -> None:
    hooks = {
        "templates/second.yaml": hook("second", "pre-delete", "1"),
        "templates/first.yaml": hook("first", "pre-delete,post-delete", "-1"),
    }
    await given.source(CHART | hooks)
    await given.component(deleteHooks="Run")
    await running.start()
    ready = await then.ready()
    assert {item.name for item in ready.status.inventory} == {"app", "comp.delete-hooks"}
    assert await then.exists(Secret, "comp.delete-hooks")
    assert not await then.exists(Job, "second")

    await running.stop()
    await given.client.delete(metadata_of(flux.GitRepository), "source", given.namespace)
    await given.deleted()
    await running.start()
    await then.gone()
    written = [one for one in writes.to("jobs", "configmaps", "secrets") if not one.startswith("apply")]
    assert written[:2] == ["create jobs/first", "create jobs/second"]
    assert sorted(written[2:4]) == ["delete jobs/first", "delete jobs/second"]
    assert written[4:] == [
        "delete configmaps/app",
        "create jobs/first",
        "delete jobs/first",
        "delete secrets/comp.delete-hooks",
    ]
    for name in ("first", "second"):
        assert not await then.exists(Job, name)


async def test_a_hook_that_fails_holds_the_deletion_back_until_it_is_mended_or_given_up(
    given: Given, running: Running, then: Then
) -> None:
    await given.source(CHART | {"templates/bye.yaml": hook("bye", "pre-delete", fate="fail")})
    await given.component(deleteHooks="Run")
    await running.start()
    await then.ready()
    await given.deleted()
    await then.shows("Deleting", "DeletionProcessing", saying=f"Job {then.key('bye')}: pre-delete hook: Failed")
    assert await then.exists(ConfigMap, "app")
    await given.component(deleteHooks="Skip")
    await then.gone()
    await then.absent(Job, "bye")
    await then.absent(ConfigMap, "app")
    await then.absent(Secret, "comp.delete-hooks")


@pytest.mark.parametrize("spec", [{"deleteHooks": "Skip"}, {"deleteHooks": "Run", "deletePolicy": "Orphan"}])
async def test_hooks_are_left_out_where_the_component_says_so_or_leaves_its_objects_behind(
    given: Given, running: Running, then: Then, writes: Writes, spec: dict[str, str]
) -> None:
    await given.source(CHART | {"templates/bye.yaml": hook("bye", "pre-delete")})
    await given.component(**spec)
    await running.start()
    await then.ready()
    await given.deleted()
    await then.gone()
    assert writes.to("jobs") == []
    assert await then.exists(ConfigMap, "app") == ("deletePolicy" in spec)
    await then.absent(Secret, "comp.delete-hooks")


@pytest.mark.req("R-112", "R-509")
async def test_hooks_whose_secret_was_deleted_hold_the_deletion_back_until_it_is_back(
    given: Given, running: Running, then: Then
) -> None:
    await given.source(CHART | {"templates/bye.yaml": manifest("ConfigMap", "bye", annotations=PRE_DELETE)})
    await given.component(deleteHooks="Run")
    await running.start()
    await then.ready()
    await running.stop()
    keeper = await given.client.get(unstructured(Secret.resource), "comp.delete-hooks", given.namespace)
    await given.client.delete(metadata_of(Secret), "comp.delete-hooks", given.namespace)
    await given.deleted()
    await running.start()
    held = await then.shows("Error", "Error", saying="with the delete hooks is gone")
    assert stalled(held) == "DeleteHooksMissing"
    assert '{"spec":{"deleteHooks":"Skip"}}' in held.status.conditions[0].message
    await running.rests()
    assert await then.exists(ConfigMap, "app")
    metadata: JsonObject = {key: keeper.at("metadata", key) for key in ("name", "namespace", "labels", "annotations")}
    await given.client.create(unstructured(Secret.resource), {**keeper.body, "metadata": metadata}, given.namespace)
    await then.gone()
    assert not await then.exists(ConfigMap, "app")


@pytest.mark.req("R-112")
async def test_hooks_that_were_never_kept_hold_nothing_back(given: Given, running: Running, then: Then) -> None:
    """A wave before that of their Secret never becomes ready, and the Component is given up."""
    first = hook("first", "pre-install", fate="fail")
    await given.source(CHART | {"templates/bye.yaml": hook("bye", "pre-delete"), "templates/first.yaml": first})
    await given.component(deleteHooks="Run")
    await running.start()
    scheduled = "ScheduledForApplication"
    await then.phases({"first": "Creating", "app": scheduled, "comp.delete-hooks": scheduled})
    assert not await then.exists(Secret, "comp.delete-hooks")
    await given.deleted()
    await then.gone()


@pytest.mark.req("R-509")
async def test_hooks_whose_secret_is_gone_can_be_given_up(given: Given, running: Running, then: Then) -> None:
    await given.source(CHART | {"templates/bye.yaml": manifest("ConfigMap", "bye", annotations=PRE_DELETE)})
    await given.component(deleteHooks="Run")
    await running.start()
    await then.ready()
    await running.stop()
    await given.client.delete(metadata_of(Secret), "comp.delete-hooks", given.namespace)
    await given.deleted()
    await running.start()
    await then.shows("Error", "Error", saying="with the delete hooks is gone")
    await given.component(deleteHooks="Skip")
    await then.gone()
    assert not await then.exists(ConfigMap, "app")


@pytest.mark.req("R-509")
async def test_hooks_whose_secret_lost_its_label_run_as_they_were_sealed(
    given: Given, running: Running, then: Then, writes: Writes
) -> None:
    await given.source(CHART | {"templates/bye.yaml": manifest("ConfigMap", "bye", annotations=PRE_DELETE)})
    await given.component(deleteHooks="Run")
    await running.start()
    await then.ready()
    await running.stop()
    bare = MergePatch({"metadata": {"labels": {OWNER_ID: None}}})
    await given.client.patch(metadata_of(Secret), "comp.delete-hooks", given.namespace, bare, field_manager="attacker")
    await given.deleted()
    await running.start()
    await then.gone()
    assert "create configmaps/bye" in writes.to("configmaps")
    assert not await then.exists(ConfigMap, "app")


@pytest.mark.req("R-509")
async def test_hooks_whose_namespace_is_being_deleted_are_skipped_and_reported(
    given: Given, running: Running, then: Then
) -> None:
    """The namespace of the objects, which keeps the hooks; the Component is in another one."""
    there = await given.a_namespace()
    await given.source(CHART | {"templates/bye.yaml": manifest("ConfigMap", "bye", annotations=PRE_DELETE)})
    await given.component(deleteHooks="Run", namespace=there)
    await running.start()
    await then.ready()
    await running.stop()
    await given.client.delete(metadata_of(Namespace), there)
    await then.absent(Secret, "comp.delete-hooks", there)
    await given.deleted()
    await running.start()
    await then.gone()
    await then.event("DeleteHooksSkipped", about="comp", saying=f"namespace {there}")


async def test_hooks_that_a_chart_no_longer_has_are_forgotten(
    given: Given, running: Running, then: Then, writes: Writes
) -> None:
    await given.source(CHART | {"templates/bye.yaml": hook("bye", "post-delete")}, revision="r1")
    await given.component(deleteHooks="Run")
    await running.start()
    await then.ready(revision="r1")
    await given.source(CHART, revision="r2")
    await then.ready(revision="r2")
    await then.absent(Secret, "comp.delete-hooks")
    await given.deleted()
    await then.gone()
    assert writes.to("jobs") == []
