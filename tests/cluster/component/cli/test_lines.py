"""`stellwerk tree` goes down from a Component, `stellwerk trace` goes up from any object."""

from __future__ import annotations

import json

from tests.cluster.component.cli.conftest import Stellwerk, narrow, parsed
from tests.cluster.component.given import Given, config_map
from tests.cluster.component.manifests import gate, manifest
from tests.cluster.component.rights import Rights
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then

from stellwerk.api.core import ConfigMap, Pod
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import JsonObject, metadata_of
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.component.api import OWNER_ID, Component

_LABELS: JsonObject = {"app": "web"}
DEPLOYMENT: JsonObject = {
    "spec": {
        "selector": {"matchLabels": _LABELS},
        "template": {
            "metadata": {"labels": _LABELS},
            "spec": {"containers": [{"name": "main", "image": "example.com/main:1"}]},
        },
    }
}


async def test_a_tree_goes_down_to_pods_and_into_inner_components_and_a_trace_back_up(
    given: Given, running: Running, then: Then, stellwerk: Stellwerk
) -> None:
    inner = {
        "apiVersion": "core.cs.sap.com/v1alpha1",
        "kind": "Component",
        "metadata": {"name": "inner"},
        "spec": {"sourceRef": {"fluxGitRepository": {"name": "deep"}}},
    }
    await given.source({"deep.yaml": config_map("deep"), "gate.yaml": gate("g")}, "deep")
    files = {
        "one.yaml": config_map("one"),
        "d.yaml": manifest("Deployment", "web", DEPLOYMENT, api_version="apps/v1"),
        "inner.json.yaml": json.dumps(inner),
    }
    await given.source(files, revision="main@sha1:abc")
    await running.start()
    await given.component()
    await then.phases({"deep": "Ready", "g": "Creating"}, "inner")
    await then.phases({"one": "Ready", "web": "Ready", "inner": "Creating"})
    space = given.namespace
    pods = (await given.client.list(Pod, space)).items
    assert len(pods) == 1
    pod = pods[0].metadata.name

    drawn = (await stellwerk("tree", "comp/comp")).stdout
    lines = [line.split("   ")[0] if line.startswith("◌") else line for line in drawn.splitlines()]
    assert lines[0] == f"◌ Component {space}/comp"
    bare = [line.lstrip(" │├└─").split("   ")[0] for line in lines]
    assert f"✔ ConfigMap {space}/one" in bare
    assert f"✔ Pod {space}/{pod}" in bare
    assert f"✔ ConfigMap {space}/deep" in bare
    assert f"◌ Gate {space}/g" in bare
    deployed = bare.index(f"✔ Deployment {space}/web")
    assert bare[deployed + 1].startswith(f"✔ ReplicaSet {space}/web-")
    assert bare[deployed + 2] == f"✔ Pod {space}/{pod}"

    compact = (await stellwerk("tree", "comp/comp", "--compact")).stdout
    assert "✔ ready: 1 ConfigMap, 1 Deployment, 1 Pod, 1 ReplicaSet" in compact
    assert f"Gate {space}/g" in compact
    flat = (await stellwerk("tree", "comp/comp", "--depth", "1")).stdout
    assert "Pod" not in flat
    assert "... 2 below" in flat

    told = parsed((await stellwerk("tree", "comp/comp", "-o", "json")).stdout)
    edges = told["edges"]
    assert isinstance(edges, list)
    assert {
        "from": f"Component.core.cs.sap.com/{space}/comp",
        "to": f"Component.core.cs.sap.com/{space}/inner",
        "type": "manages",
    } in edges
    assert any(
        isinstance(edge, dict) and edge["to"] == f"Pod/{space}/{pod}" and edge["type"] == "owns" for edge in edges
    )

    up = await stellwerk("trace", f"pod/{pod}")
    assert up.returncode == 0, up
    way = [line for line in up.stdout.splitlines() if not line.startswith(" ")]
    assert narrow(way[0]) == f"Object: ✔ Pod {space}/{pod}"
    assert narrow(way[1]).startswith(f"Owned by: ✔ ReplicaSet {space}/web-")
    assert [*map(narrow, way[2:])] == [f"Owned by: ✔ Deployment {space}/web", f"Managed by: ◌ Component {space}/comp"]
    facts = narrow(up.stdout)
    assert f"Source: GitRepository {space}/source" in facts
    assert "Revision: main@sha1:abc" in facts
    assert "Applied: 20" in facts

    deep = parsed((await stellwerk("trace", "configmap/deep", "-o", "json")).stdout)["steps"]
    assert isinstance(deep, list)
    assert [one["object"]["name"] for one in deep if isinstance(one, dict)] == ["deep", "inner", "comp"]  # type: ignore[index,call-overload]


async def test_a_tree_tells_what_may_not_be_read_from_what_does_not_exist(
    given: Given, running: Running, then: Then, stellwerk: Stellwerk, component_cluster: LocalCluster
) -> None:
    await given.source({"one.yaml": config_map("one"), "robot.yaml": manifest("ServiceAccount", "robot")})
    await running.start()
    await given.component()
    await then.ready()
    viewer = f"viewer-{given.namespace}"
    rights = Rights(given.client, viewer)
    await rights.are()
    try:
        shown = await stellwerk("tree", "comp/comp", kubeconfig=component_cluster.kubeconfig_for(viewer))
    finally:
        await rights.end()
    assert "robot NotPermitted: you may not read it" in narrow(shown.stdout)
    assert "NotFound" not in shown.stdout


async def test_an_object_of_nobody_leads_nowhere_and_one_of_another_cluster_says_so(
    given: Given, stellwerk: Stellwerk
) -> None:
    await given.config("plain", a="b")
    done = await stellwerk("trace", "configmap/plain")
    assert done.returncode == 1
    assert "No owner reference, no mark and no inventory leads to a custom resource of ours" in done.stderr

    await given.component("owner")
    policies: JsonObject = {
        "adoptionPolicy": "IfUnowned",
        "reconcilePolicy": "OnObjectChange",
        "updatePolicy": "SsaOverride",
        "deletePolicy": "Delete",
        "applyOrder": 0,
        "deleteOrder": 0,
        "digest": "",
    }
    named: JsonObject = {"group": "", "version": "v1", "kind": "ConfigMap", "namespace": given.namespace}
    item: JsonObject = {**named, "name": "plain", **policies}
    status: JsonObject = {"status": {"observedGeneration": 1, "inventory": [item]}}
    view = metadata_of(Component.resource)
    await given.client.patch(view, "owner", given.namespace, MergePatch(status), subresource="status")
    done = await stellwerk("trace", "configmap/plain")
    assert done.returncode == 0, done
    assert f"Component {given.namespace}/owner (by its inventory; the object has lost the marks" in narrow(done.stdout)

    body = {
        "metadata": {
            "name": "remote",
            "namespace": given.namespace,
            "annotations": {OWNER_ID: "another-cluster/shop/web"},
        }
    }
    await given.client.apply(ConfigMap, body)  # type: ignore[arg-type]
    done = await stellwerk("trace", "configmap/remote")
    assert done.returncode == 0
    assert "Managed by: Component shop/web (it is in another cluster)" in narrow(done.stdout)


async def test_a_component_whose_objects_lie_elsewhere_is_drawn_from_its_inventory(
    given: Given, running: Running, then: Then, stellwerk: Stellwerk
) -> None:
    await given.source({"one.yaml": config_map("one")})
    await running.start()
    await given.component()
    await then.ready()
    await running.stop()
    await given.component(kubeConfig={"secretRef": {"name": "x"}})
    done = await stellwerk("tree", "comp/comp")
    assert done.returncode == 0, done.stderr
    drawn = done.stdout
    assert f"└─ ◌ ConfigMap {given.namespace}/one" in drawn
    assert "in the target cluster" in drawn
