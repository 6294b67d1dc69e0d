"""`stellwerk why` leads from a Component down to what keeps it from being ready, and says what to do."""

from __future__ import annotations

import asyncio
import json

from tests.cluster.component.cli.conftest import Stellwerk, narrow, parsed
from tests.cluster.component.given import Given, config_map
from tests.cluster.component.manifests import config, deployment, gate, job, manifest
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then
from tests.cluster.program import Ended
from tests.kubectl import kubectl

from stellwerk.local.cluster import LocalCluster
from stellwerk.testing.eventually import eventually

ONE = {"one.yaml": config_map("one")}


def lines(text: str) -> list[str]:
    """What is said, without the branches of the tree and the blanks of its columns."""
    return [" ".join(line.strip(" │├└─").split()) for line in text.splitlines()]


def roots(text: str) -> list[str]:
    return [line.removesuffix(" <- root cause") for line in lines(text) if line.endswith("<- root cause")]


async def test_why_goes_through_a_dependency_and_its_deployment_down_to_the_image(
    given: Given, running: Running, then: Then, stellwerk: Stellwerk
) -> None:
    await given.source({"db.yaml": deployment("postgres", fate="pull-error")}, "database")
    await given.source(ONE)
    await given.component("database", "database")
    await given.component("front", dependencies=[{"name": "database"}])
    await running.start()
    await then.shows("Processing", "Processing", "database", saying="postgres")
    await then.shows("Pending", "Retrying", "front")

    async def goes_to_the_image() -> Ended:
        told = await stellwerk("why", "comp/front")
        assert "ErrImagePull" in told.stdout, told
        return told

    told = await eventually(goes_to_the_image, describe="the pod has said what it lacks")
    said = lines(told.stdout)
    assert said[0].startswith(f"◌ Component {then.namespace}/front is not ready yet, status unknown (for ")
    assert f"waits for Component {then.namespace}/database: Processing" in said
    assert f"Deployment {then.namespace}/postgres: 0 of 1 replicas available" in said
    (root,) = roots(told.stdout)
    assert root.startswith(f"Pod {then.namespace}/postgres-")
    assert root.endswith(": image example.com/main:1 cannot be pulled ErrImagePull")
    fix = "check the image's name, and the pull secret if the registry asks for one: kubectl describe pod postgres-"
    assert said[-1].startswith(f"Next: {fix}")
    assert said[-1].endswith(f" -n {then.namespace}")


async def test_why_names_a_dependency_that_nobody_has_made_and_how_to_go_on(
    given: Given, running: Running, then: Then, stellwerk: Stellwerk
) -> None:
    await given.source(ONE)
    await given.component("front", dependencies=[{"name": "warehouse"}])
    await running.start()
    await then.shows("Pending", "Retrying", "front")
    told = await stellwerk("why", "comp/front")
    assert roots(told.stdout) == [f"Component {then.namespace}/warehouse does not exist NotFound"]
    assert lines(told.stdout)[-1].startswith(f"Next: create Component {then.namespace}/warehouse, or take it out of")


async def test_why_without_an_object_explains_all_that_need_attention_once(
    given: Given, running: Running, then: Then, stellwerk: Stellwerk
) -> None:
    await given.source(ONE)
    await given.component("ready")
    await given.component("back", dependencies=[{"name": "warehouse"}])
    await given.component("front", dependencies=[{"name": "back"}])
    await running.start()
    await then.shows("Pending", "Retrying", "back")
    await then.shows("Pending", "Retrying", "front")
    await then.ready("ready")
    told = await stellwerk("why")
    headlines = [line for line in lines(told.stdout) if line.startswith("◌")]
    assert [line.partition(" is ")[0] for line in headlines] == [f"◌ Component {then.namespace}/front"]
    assert roots(told.stdout) == [f"Component {then.namespace}/warehouse does not exist NotFound"]
    for_programs = json.loads((await stellwerk("why", "-o", "json")).stdout)
    assert [each["object"]["name"] for each in for_programs] == ["back", "front"]

    await given.deleted("back")
    await given.deleted("front")
    await then.gone("back")
    await then.gone("front")
    told = await stellwerk("why")
    assert (told.stdout, told.stderr) == ("", f"Nothing needs attention in namespace {then.namespace}: 1 looked at.\n")


async def test_why_passes_on_what_a_source_says(
    given: Given, running: Running, then: Then, stellwerk: Stellwerk
) -> None:
    await given.source(ONE, ready=False)
    await given.component()
    await running.start()
    await then.shows("Pending", "Retrying", saying="cannot clone")
    told = await stellwerk("why", "comp/comp")
    assert roots(told.stdout) == [f"GitRepository {then.namespace}/source: cannot clone Failed"]


async def test_why_names_each_object_that_is_waited_for(
    given: Given, running: Running, then: Then, stellwerk: Stellwerk
) -> None:
    await given.source({"job.yaml": job("migrate", fate="fail"), "gate.yaml": gate("closed"), **ONE})
    await given.component()
    await running.start()
    await then.shows("Processing", "Processing", saying="migrate: Failed")
    told = await stellwerk("why", "comp/comp")
    said = "\n".join(roots(told.stdout))
    assert f"Pod {then.namespace}/migrate-" in said
    assert f"Gate {then.namespace}/closed: " in said
    assert "one" not in said


async def test_why_tells_of_a_file_that_cannot_be_rendered(
    given: Given, running: Running, then: Then, stellwerk: Stellwerk
) -> None:
    await given.source({"app.yaml": "a: {{ .missing | required }}\n"})
    await given.component()
    await running.start()
    await then.shows("Error", "Error")
    told = await stellwerk("why", "comp/comp")
    assert "app.yaml" in told.stdout
    assert "RenderingFailed" in told.stdout
    assert lines(told.stdout)[-1].startswith("Next: ")


async def test_why_has_nothing_to_say_of_a_component_that_is_ready(
    given: Given, running: Running, then: Then, stellwerk: Stellwerk
) -> None:
    await given.source(ONE)
    await given.component()
    await running.start()
    await then.ready()
    told = await stellwerk("why", "comp/comp")
    assert told.returncode == 0, told
    assert f"Component {then.namespace}/comp is ready" in told.stdout


BREAKAGES = {
    "namespace": ("Error", "ApplyFailed", "Namespace nowhere-at-all does not exist", "create the namespace ("),
    "field": ("Error", "ApplyFailed", "unknown field spec.replicass", "correct the manifest ("),
    "selector": (
        "Error",
        "ApplyFailed",
        "field is immutable",
        "restore the former value, or have the object recreated",
    ),
    "right": ("Error", "ApplyFailed", "may not ", "grant verb "),
    "policy": ("Error", "InvalidObjects", "adoption-policy", "correct the object that the message names, and "),
    "secret": ("Pending", "ReferenceNotFound", "absent-values", "create Secret "),
    "template": ("Error", "RenderingFailed", "app.yaml", "correct the file or the values that the message names, "),
}
"""By Component: its state, its reason, what its sentence names, and the next step."""


async def test_what_fails_is_its_own_cause_in_the_condition_the_event_and_every_verb(
    given: Given, running: Running, then: Then, stellwerk: Stellwerk, component_cluster: LocalCluster
) -> None:
    app = deployment("app", fate="pull-error")
    sources: dict[str, dict[str, str | bytes]] = {
        "namespace": {"a.yaml": app, "b.yaml": config("x", namespace="nowhere-at-all")},
        "field": {"a.yaml": manifest("Deployment", "y", {"spec": {"replicass": 1}}, api_version="apps/v1")},
        "selector": {"a.yaml": deployment("immutable")},
        "right": {"a.yaml": deployment("z", fate="pull-error")},
        "policy": {"a.yaml": config("t", adoption_policy="nonsense")},
        "secret": {"one.yaml": config_map("one")},
        "template": {"app.yaml": "a: {{ .missing | required }}\n"},
    }
    await running.start()
    for name, files in sources.items():
        await given.source(files, name)
    await given.component("selector", "selector")
    await then.ready("selector")
    other = json.loads(deployment("immutable").replace('"app"', '"other"'))
    await given.source({"a.yaml": json.dumps(other)}, "selector")
    await given.component("namespace", "namespace", missingNamespacesPolicy="DoNotCreate")
    for name in ("field", "policy", "template"):
        await given.component(name, name)
    await given.component("right", "right", serviceAccountName="powerless")
    await given.component("secret", "secret", valuesFrom=[{"name": "absent-values"}])

    for name, (state, reason, names, step) in BREAKAGES.items():
        component = await then.shows(state, name=name, saying=names)
        (ready,) = (one for one in component.status.conditions if one.type == "Ready")
        await then.event(ready.reason, about=name, saying=names)
        told = await stellwerk("why", f"comp/{name}")
        assert roots(told.stdout) == [" ".join(f"{ready.message} {reason}".split())], told.stdout
        assert lines(told.stdout)[-1].startswith(f"Next: {step}"), told.stdout
        shown = parsed((await stellwerk("status", f"comp/{name}", "-o", "json")).stdout)
        assert (shown["reason"], shown["message"]) == (reason, ready.message)
        assert str(shown["nextStep"]).startswith(step)
        assert shown["notReady"] == []
    listed = narrow((await stellwerk("get", "comp")).stdout)
    columns = await asyncio.to_thread(kubectl, component_cluster.kubeconfig, "get", "comp", "-n", given.namespace)
    for text in (listed, columns):
        assert all(reason in text for _, reason, *_ in BREAKAGES.values()), text


async def test_why_remarks_on_the_chart_of_a_ready_component_until_a_new_revision_has_corrected_it(
    given: Given, running: Running, then: Then, stellwerk: Stellwerk
) -> None:
    chart = {"Chart.yaml": "apiVersion: v2\nname: app\nversion: 1.0.0\n", "templates/one.yaml": config_map("one")}
    twice, once = "a: first\na: last\n", "a: last\n"
    await given.source({**chart, "values.yaml": twice}, revision="r1")
    await running.start()
    await given.component()
    await then.ready(revision="r1")
    await then.event("ChartWarning", about="comp")
    told = await stellwerk("why", "comp/comp")
    assert told.returncode == 0, told
    headline, remark = told.stdout.splitlines()
    assert headline.startswith(f"✔ Component {given.namespace}/comp is ready")
    assert remark.startswith("Remark: the chart: values.yaml: line 2: the key ")
    shown = json.loads((await stellwerk("why", "comp/comp", "-o", "json")).stdout)
    assert shown["findings"] == []
    assert shown["remarks"] == [remark.removeprefix("Remark: ")]

    await given.source({**chart, "values.yaml": f"# still\n{twice}"}, revision="r2")
    await then.ready(revision="r2")
    await then.event("ChartWarning", about="comp", saying="values.yaml: line 3")
    assert "values.yaml: line 3: the key" in (await stellwerk("why", "comp/comp")).stdout

    await given.source({**chart, "values.yaml": once}, revision="r3")
    await then.ready(revision="r3")
    assert "Remark" not in (await stellwerk("why", "comp/comp")).stdout


async def test_why_says_what_an_object_waits_for_that_has_no_end_of_its_own(
    given: Given, running: Running, then: Then, stellwerk: Stellwerk
) -> None:
    namespace = given.namespace
    late = f"late-{namespace}"
    order = {"component-operator.cs.sap.com/apply-order": "-1"}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    containers = [{"name": "a", "image": "example.com/a:1"}]
    binding = {"provisioner": "example.com/none", "volumeBindingMode": "WaitForFirstConsumer"}
    bodies: dict[str, list[dict[str, object]]] = {
        "claim": [
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": late, "annotations": {"component-operator.cs.sap.com/apply-order": "-2"}},
                **binding,
            },
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": "data", "annotations": order},
                "spec": {**claim, "storageClassName": late},
            },
        ],
        "classless": [
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": "lost"},
                "spec": {**claim, "storageClassName": f"no-{namespace}"},
            }
        ],
        "job": [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {"name": "paused"},
                "spec": {"suspend": True, "template": {"spec": {"restartPolicy": "Never", "containers": containers}}},
            }
        ],
        "pod": [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "gated"},
                "spec": {"schedulingGates": [{"name": "example.com/hold"}], "containers": containers},
            }
        ],
    }
    expected = {
        "claim": f"PersistentVolumeClaim {namespace}/data: waits for its first consumer (StorageClass {late} binds "
        f"late); of a later wave: Deployment {namespace}/db",
        "classless": f"PersistentVolumeClaim {namespace}/lost: StorageClass no-{namespace} does not exist, and no "
        "PersistentVolume of this class fits it",
        "job": f"Job {namespace}/paused: the Job is suspended: set spec.suspend to false",
        "pod": f"Pod {namespace}/gated: scheduling gates: example.com/hold",
    }
    await running.start()
    for name, objects in bodies.items():
        files: dict[str, str | bytes] = {f"{index}.yaml": json.dumps(body) for index, body in enumerate(objects)}
        if name == "claim":
            files["db.yaml"] = deployment("db")
        await given.source(files, name)
        await given.component(name, name)
    for name, cause in expected.items():
        await then.shows("Processing", "Processing", name, saying=cause.partition(": ")[0].rpartition("/")[2])
        told = await stellwerk("why", f"comp/{name}")
        assert roots(told.stdout) == [cause], told.stdout
        assert "see its log" not in told.stdout
