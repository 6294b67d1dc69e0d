"""The chart takes over a release of the original component-operator's chart: its objects stay, none is created again.

Helm is two ways of patching objects: Helm 3 merges the former manifest, the new one and the live object, which is what
`kubectl apply` does on the client; Helm 4 applies on the server. Both delete afterwards what the new manifest no longer
has. The release of the original is written here as the facts about its chart say.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
import yaml
from tests.cluster.conftest import MakeCluster
from tests.kubectl import kubectl
from tests.unit.operators import helm_charts

from stellwerk.kube.types.model import JsonObject, decode_json, dig, encode_json
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.component.api import DEFINITIONS
from stellwerk.testing.eventually import eventually

NAMESPACE, RELEASE = "component-operator", "component-operator"
LABELS = {"app.kubernetes.io/name": "component-operator", "app.kubernetes.io/instance": RELEASE}
HELM = {"meta.helm.sh/release-name": RELEASE, "meta.helm.sh/release-namespace": NAMESPACE}
_NAMED = {"kind": "ServiceAccount", "name": RELEASE, "namespace": NAMESPACE}
RBAC = "rbac.authorization.k8s.io"
_WAYS: Mapping[str, list[str]] = {
    "as Helm 3 patches": [],
    "as Helm 4 patches": ["--server-side", "--force-conflicts", "--field-manager=helm"],
}


def of_release(
    api_version: str, kind: str, *, namespaced: bool = True, name: str = RELEASE, **parts: Any
) -> JsonObject:
    """An object of the original's release."""
    metadata: JsonObject = {
        "name": name,
        "labels": {**LABELS, "app.kubernetes.io/managed-by": "Helm"},
        "annotations": {**HELM},
        **({"namespace": NAMESPACE} if namespaced else {}),
    }
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **parts}


def original() -> list[JsonObject]:
    """The release of the original: it is cluster-admin, by a binding that may have the name of ours."""
    container = {"name": "manager", "image": "example.com/original:1", "args": ["--leader-elect"]}
    pod = {"serviceAccountName": RELEASE, "containers": [container]}
    leases = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]}
    return [
        of_release("v1", "ServiceAccount"),
        of_release(f"{RBAC}/v1", "Role", rules=[leases]),
        of_release(f"{RBAC}/v1", "RoleBinding", **bound("Role", RELEASE)),
        of_release(f"{RBAC}/v1", "ClusterRoleBinding", namespaced=False, **bound("ClusterRole", "cluster-admin")),
        of_release(
            "apps/v1",
            "Deployment",
            spec={
                "replicas": 1,
                "selector": {"matchLabels": LABELS},
                "template": {"metadata": {"labels": LABELS}, "spec": pod},
            },
        ),
    ]


def bound(kind: str, role: str) -> dict[str, Any]:
    return {"roleRef": {"apiGroup": RBAC, "kind": kind, "name": role}, "subjects": [_NAMED]}


@pytest.mark.parametrize("flags", _WAYS.values(), ids=_WAYS)
async def test_a_release_of_the_original_is_taken_over_and_no_object_is_created_again(
    make_cluster: MakeCluster, flags: list[str]
) -> None:
    cluster = await asyncio.to_thread(make_cluster)
    kubectl(cluster.kubeconfig, "create", "namespace", NAMESPACE)
    kinds = [decode_json(encode_json(kind.body())) for kind in DEFINITIONS]
    apply(cluster, [*kinds, *original()], flags)
    kubectl(cluster.kubeconfig, "wait", "--for=condition=Established", "crd/components.core.cs.sap.com")
    component: JsonObject = {
        "apiVersion": "core.cs.sap.com/v1alpha1",
        "kind": "Component",
        "metadata": {"name": "web", "namespace": NAMESPACE},
        "spec": {"sourceRef": {"blueprint": {"name": "web"}}},
    }
    apply(cluster, [component], ["--server-side"])
    await available(cluster, 1)
    before = uids(cluster, [*kinds, *original(), component])
    assert "(the original, Helm release component-operator): 1 of 1" in check(cluster)

    async with helm_charts.chart() as chart:
        values: JsonObject = {"componentOperator": {"enabled": True, "image": {"tag": "1"}, "replicaCount": 1}}
        rendered = await chart.render(values, NAMESPACE, release=RELEASE)
    new = [as_helm(body) for body in rendered.values()]
    apply(cluster, new, flags)
    gone = [body for body in original() if key_of(body) not in map(key_of, new)]
    assert [body["kind"] for body in gone] == ["ClusterRoleBinding"]
    kubectl(cluster.kubeconfig, "delete", "-f", "-", stdin=listed(gone))

    kept = [body for body in [*kinds, *original(), component] if body not in gone]
    after = uids(cluster, kept)
    assert after == {key: uid for key, uid in before.items() if key in after}
    assert len(after) == len(before) - 1
    await available(cluster, 1)
    shown = check(cluster)
    assert "Deployment component-operator/component-operator (Helm release component-operator): 1 of 1" in shown
    assert "✔ component: rights" in shown
    live = yaml.safe_load(kubectl(cluster.kubeconfig, "get", "deployment", RELEASE, "-n", NAMESPACE, "-o", "yaml"))
    (container,) = live["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["stellwerk", "run", "component"]
    assert container["image"] == "example.com/stellwerk:1"


def as_helm(body: JsonObject) -> JsonObject:
    """The object as Helm sends it: with the marks of the release, and without the annotations of our renderer."""
    plain: Any = decode_json(encode_json(body))
    annotations = plain["metadata"].get("annotations", {})
    kept = {name: value for name, value in annotations.items() if not name.startswith("example.com/")}
    plain["metadata"]["annotations"] = {**kept, **HELM}
    result: JsonObject = plain
    return result


def apply(cluster: LocalCluster, bodies: Iterable[JsonObject], flags: list[str]) -> None:
    kubectl(cluster.kubeconfig, "apply", *flags, "-f", "-", stdin=listed(bodies))


def listed(bodies: Iterable[JsonObject]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(bodies)})


def key_of(body: JsonObject) -> tuple[str, str]:
    return str(body["kind"]), str(dig(body, "metadata", "name"))


def uids(cluster: LocalCluster, bodies: Iterable[JsonObject]) -> dict[tuple[str, str], str]:
    """By kind and name."""
    found = yaml.safe_load(kubectl(cluster.kubeconfig, "get", "-o", "yaml", "-f", "-", stdin=listed(bodies)))
    return {key_of(body): body["metadata"]["uid"] for body in found["items"]}


async def available(cluster: LocalCluster, replicas: int) -> None:
    async def are() -> bool:
        words = ("get", "deployment", RELEASE, "-n", NAMESPACE, "-o", "json")
        body = json.loads(await asyncio.to_thread(kubectl, cluster.kubeconfig, *words))
        status = body["status"]
        is_new = status.get("observedGeneration") == body["metadata"]["generation"]
        return is_new and (status.get("updatedReplicas"), status.get("availableReplicas")) == (replicas, replicas)

    await eventually(are, within=60, describe="the pods of the Deployment are available")


def check(cluster: LocalCluster) -> str:
    """What `stellwerk check component` prints."""
    done = subprocess.run(
        [sys.executable, "-m", "stellwerk.cli.main", "check", "component"],
        env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout
