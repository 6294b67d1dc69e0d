"""Hooks for the end of a chart's release run when the Component is deleted, if it asks for that."""

from __future__ import annotations

import pytest
from tests.cluster.component.given import Given
from tests.cluster.component.manifests import config, job
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then, Writes

from stellwerk.api import flux
from stellwerk.api.batch import Job
from stellwerk.api.core import ConfigMap, Secret
from stellwerk.kube.model import metadata_of

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
