"""Objects come in the order that their authors ask for, and what was only needed on the way goes when it has served."""

from __future__ import annotations

from stellwerk.api.apps import Deployment
from stellwerk.api.batch import Job
from stellwerk.api.core import ConfigMap
from stellwerk.operators.component.api import Component
from stellwerk.testing.scenarios.writes import Writes
from tests.cluster.component.given import Given, config_map
from tests.cluster.component.manifests import config, deployment, gate, job
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then


def phases(component: Component) -> dict[str, str]:
    return {item.name: item.phase for item in component.status.inventory}


async def test_a_wave_comes_when_everything_in_the_one_before_is_ready(
    given: Given, running: Running, then: Then
) -> None:
    await given.source(
        {
            "first.yaml": gate("first", apply_order="-1") + "---\n" + config("beside-first", apply_order="-1"),
            "second.yaml": gate("second") + "---\n" + config_map("beside-second"),
            "third.yaml": config("third", apply_order="1"),
        }
    )
    await running.start()
    await given.component()
    waiting = await then.shows("Processing", "Processing", saying="Gate")
    assert phases(waiting) == {
        "first": "Creating",
        "beside-first": "Ready",
        "second": "ScheduledForApplication",
        "beside-second": "ScheduledForApplication",
        "third": "ScheduledForApplication",
    }
    assert not await then.exists(ConfigMap, "beside-second")
    await given.opened("first")
    waiting = await then.shows("Processing", "Processing", saying="second")
    assert phases(waiting)["beside-second"] == "Ready"
    assert phases(waiting)["third"] == "ScheduledForApplication"
    assert not await then.exists(ConfigMap, "third")
    await given.opened("second")
    ready = await then.ready()
    assert set(phases(ready).values()) == {"Ready"}


UNQUOTED = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: NAME
  annotations:
    component-operator.cs.sap.com/apply-order: ORDER
    example.com/is-important: true
    example.com/version: 1.10
"""


async def test_orders_and_other_annotations_need_no_quotes(
    given: Given, running: Running, then: Then, writes: Writes
) -> None:
    files = {"a.yaml": UNQUOTED.replace("NAME", "last").replace("ORDER", "5")}
    files["b.yaml"] = UNQUOTED.replace("NAME", "first").replace("ORDER", "-5") + "---\n" + config_map("between")
    kustomized = {"kustomization.yaml": "resources: [a.yaml, b.yaml]\nnamePrefix: k-\n", **files}
    await given.source({f"plain/{name}": text for name, text in files.items()})
    await given.source({f"k/{name}": text for name, text in kustomized.items()}, "kustomized")
    await running.start()
    for name, source, path, prefix in (("one", "source", "plain", ""), ("two", "kustomized", "k", "k-")):
        await given.component(name, source, path=path)
        await then.ready(name)
        applied = [line for line in writes.to("configmaps") if f"/{prefix}first" in line or f"/{prefix}last" in line]
        assert applied == [f"apply configmaps/{prefix}first", f"apply configmaps/{prefix}last"]
        annotations = (await then.config(f"{prefix}first")).metadata.annotations
        assert annotations["example.com/version"] == "1.10"
        assert annotations["example.com/is-important"] == "true"


async def test_a_wave_waits_for_an_object_that_is_ready_no_more(given: Given, running: Running, then: Then) -> None:
    await given.source({"first.yaml": gate("first", apply_order="-1")}, revision="r1")
    await running.start()
    await given.component()
    await given.opened("first")
    await then.ready(revision="r1")
    await given.opened("first", is_open=False)
    await then.shows("Processing", "Processing", saying="first")
    await given.source({"first.yaml": gate("first", apply_order="-1"), "then.yaml": config_map("then")}, revision="r2")
    await then.turned("Processing", times=3)
    await running.rests()
    assert not await then.exists(ConfigMap, "then")
    await given.opened("first")
    await then.ready(revision="r2")


async def test_what_is_to_be_purged_goes_at_the_end_of_its_wave_and_comes_again_when_it_changes(
    given: Given, running: Running, then: Then, writes: Writes
) -> None:
    def files(value: str) -> dict[str, str]:
        return {
            "job.yaml": job("migrate", apply_order="-1", purge_order="-1"),
            "late.yaml": config("late", value, apply_order="-1", purge_order="5"),
            "gate.yaml": gate("door"),
            "app.yaml": deployment("app", apply_order="1"),
        }

    await given.source(files("one"), revision="r1")
    await running.start()
    await given.component()
    waiting = await then.shows("Processing", "Processing", saying="door")
    assert phases(waiting) == {
        "migrate": "Completed",
        "late": "Ready",
        "door": "Creating",
        "app": "ScheduledForApplication",
    }
    assert not await then.exists(Job, "migrate")
    await given.opened("door")
    ready = await then.ready(revision="r1")
    assert phases(ready) == {"migrate": "Completed", "late": "Completed", "door": "Ready", "app": "Ready"}
    assert {item.name: item.status for item in ready.status.inventory if item.phase == "Completed"} == {
        "migrate": "",
        "late": "",
    }
    assert await then.exists(Deployment, "app")
    assert not await then.exists(ConfigMap, "late")

    await given.annotated(poke="1")
    await then.counts(2)
    assert then.reasons()[-1] == "Ready"
    await given.source(files("two"), revision="r2")
    ready = await then.ready(revision="r2")
    assert phases(ready)["late"] == "Completed"
    assert not await then.exists(ConfigMap, "late")
    assert writes.to("configmaps") == ["apply configmaps/late", "delete configmaps/late"] * 2


async def test_a_purged_object_is_no_obstacle_to_a_deletion(given: Given, running: Running, then: Then) -> None:
    await given.source({"job.yaml": job("migrate", purge_order="0"), "one.yaml": config_map("one")})
    await running.start()
    await given.component()
    await then.ready()
    await given.deleted()
    await then.gone()
    assert not await then.exists(ConfigMap, "one")


async def test_a_job_may_be_asked_to_run_again_whenever_anything_changes(
    given: Given, running: Running, then: Then
) -> None:
    again = job("again", update_policy="recreate", reconcile_policy="on-object-or-component-change")
    await given.source({"again.yaml": again, "other.yaml": job("other", update_policy="recreate")})
    await running.start()
    await given.component()
    await then.ready()
    before = {name: (await given.client.get(Job, name, then.namespace)).metadata.uid for name in ("again", "other")}
    await given.annotated(poke="1")
    await then.turned("Ready", times=2)
    after = {name: (await given.client.get(Job, name, then.namespace)).metadata.uid for name in ("again", "other")}
    assert after["again"] != before["again"]
    assert after["other"] == before["other"]
