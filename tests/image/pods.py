"""A pod of a Deployment as a container of the image: what its spec says, and what a kubelet adds."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from deploy.image import config
from tests.image.container import Container
from tests.kubectl import kubectl

from stellwerk.kube.types.model import JsonObject, JsonValue, dig
from stellwerk.local.cluster import LocalCluster
from stellwerk.local.host.ports import HOST

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


@dataclass(frozen=True, slots=True)
class PodProcess:
    """The container of a pod, and where its probes ask."""

    name: str
    container: Container
    ready_url: str
    live_url: str


def of_deployment(deployment: JsonObject, cluster: LocalCluster, folder: Path) -> PodProcess:
    """The only container of the pod. Below `folder`, which does not exist, `account` is what is mounted, and
    `container` is for the runtime. Raises AssertionError for what a test cannot give to a pod: nothing is left out.
    """
    (folder / "container").mkdir(parents=True)
    spec = dig(deployment, "spec", "template", "spec")
    (body,) = items(spec, "containers")
    name, namespace = str(dig(deployment, "metadata", "name")), str(dig(deployment, "metadata", "namespace"))
    variables = {str(dig(each, "name")): str(dig(each, "value")) for each in items(body, "env")}
    assert all(set(each) == {"name", "value"} for each in items(body, "env") if isinstance(each, dict))
    volumes = {str(dig(each, "name")): each for each in items(spec, "volumes")}
    mounts = {str(dig(each, "mountPath")): volumes[str(dig(each, "name"))] for each in items(body, "volumeMounts")}
    config_maps = {path: str(dig(each, "configMap", "name")) for path, each in mounts.items() if dig(each, "configMap")}
    scratch = [path for path, each in mounts.items() if isinstance(each, dict) and "emptyDir" in each]
    assert {*config_maps, *scratch} == {*mounts}
    assert dig(body, "securityContext", "readOnlyRootFilesystem") is True
    user = dig(spec, "securityContext", "runAsUser")
    assert isinstance(user, int)
    return PodProcess(
        name=name,
        container=Container(
            arguments=[str(word) for word in (*items(body, "command"), *items(body, "args"))],
            environment={
                **config.ENVIRONMENT,
                "KUBERNETES_SERVICE_HOST": HOST,
                "KUBERNETES_SERVICE_PORT": str(cluster.port),
                **variables,
            },
            files={
                ACCOUNT: _account(cluster, namespace, str(dig(spec, "serviceAccountName")), folder / "account"),
                **{path: _config_map(cluster, namespace, named, folder / named) for path, named in config_maps.items()},
            },
            scratch=scratch,
            user=user,
        ),
        ready_url=_url(body, "readinessProbe"),
        live_url=_url(body, "livenessProbe"),
    )


def _url(body: JsonValue, probe: str) -> str:
    """Where a kubelet asks."""
    ports = {dig(port, "name"): dig(port, "containerPort") for port in items(body, "ports")}
    asked = dig(body, probe, "httpGet")
    return f"http://{HOST}:{ports[dig(asked, 'port')]}{dig(asked, 'path')}"


def _account(cluster: LocalCluster, namespace: str, name: str, folder: Path) -> Path:
    """The folder that a kubelet mounts: a token of the account, the authority of the API server, the namespace."""
    folder.mkdir(parents=True)
    (folder / "token").write_text(kubectl(cluster.kubeconfig, "create", "token", "-n", namespace, name))
    (folder / "ca.crt").write_bytes(cluster.authority.read_bytes())
    (folder / "namespace").write_text(namespace)
    return folder


def _config_map(cluster: LocalCluster, namespace: str, name: str, folder: Path) -> Path:
    """The folder with the keys of a ConfigMap as files."""
    body = json.loads(kubectl(cluster.kubeconfig, "get", "configmap", name, "-n", namespace, "-o", "json"))
    folder.mkdir()
    for key, text in body.get("data", {}).items():
        (folder / key).write_text(text)
    return folder


def items(body: JsonValue, field: str) -> list[JsonValue]:
    """A list in a manifest; empty where it is absent."""
    found = dig(body, field)
    return found if isinstance(found, list) else []


def listed(bodies: list[JsonObject]) -> str:
    """Objects as one text for kubectl."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": bodies})
