"""The chart of Stellwerk, rendered by Helm's library, and the values with which it is tested."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from stellwerk.delivery import helm_chart
from stellwerk.delivery.operator_spec import OperatorSpec
from stellwerk.kube.types.model import JsonObject, dig
from stellwerk.render.binary import renderer_path
from stellwerk.render.errors import RendererMissing
from stellwerk.render.files import local_files
from stellwerk.render.request.request import ClusterApis, ReleaseInfo, RenderRequest
from stellwerk.render.worker.pool import Shares
from stellwerk.render.worker.renderer import Renderer

ROOT = Path(__file__).parents[3]
NAMESPACE = "operators"

Objects = dict[tuple[str, str], JsonObject]


class Chart:
    """The chart in a folder."""

    def __init__(self, folder: Path, renderer: Renderer) -> None:
        self._files = local_files.read(folder)
        self._renderer = renderer

    async def render(self, values: JsonObject, namespace: str = NAMESPACE) -> Objects:
        """The objects of a release with an image and these values, by kind and name."""
        image: JsonObject = {"repository": "example.com/stellwerk"}
        request = RenderRequest(
            files=self._files,
            prefix="example.com",
            release=ReleaseInfo("stellwerk", namespace),
            values={"image": image, **values},
            cluster=ClusterApis({"gitVersion": "v1.36.3"}),
        )
        objects = (await self._renderer.render(request)).objects
        return {(str(body["kind"]), str(dig(body, "metadata", "name"))): body for body in objects}


@asynccontextmanager
async def chart(folder: Path = ROOT / helm_chart.CHART) -> AsyncIterator[Chart]:
    """The chart in a folder; skips the test where the renderer is not built."""
    try:
        program = renderer_path()
    except RendererMissing as error:
        pytest.skip(str(error))
    async with Renderer(lambda: program, shares=Shares(workers=1)) as renderer:
        yield Chart(folder, renderer)


def write_chart(folder: Path, operators: Iterable[OperatorSpec]) -> Path:
    """The chart that `make generate` would write for these operators."""
    source = ROOT / helm_chart.CHART
    for path in [source / "Chart.yaml", *(source / "templates").iterdir()]:
        target = folder / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(path.read_text())
    for relative, text in helm_chart.files(operators).items():
        target = folder / relative.relative_to(helm_chart.CHART)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return folder


BTP: JsonObject = {"enabled": True, "environment": {"SAP_BTP_SERVICE_OPERATOR": "example.com/operand:1"}}
COMPONENT: JsonObject = {"enabled": True}
BOTH: JsonObject = {"btpManager": BTP, "componentOperator": COMPONENT}


def _both(**values: object) -> JsonObject:
    return {**BOTH, **values}  # type: ignore[dict-item]  # values as JSON


def _component(**values: object) -> JsonObject:
    return {"componentOperator": {**COMPONENT, **values}}  # type: ignore[dict-item]  # values as JSON


_OWN_SPREAD = {"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}
_EGRESS = {"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "ports": [{"port": 8443}]}
_PERSONAL = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "extra"}, "data": {"a": "b"}}

MATRIX: Mapping[str, JsonObject] = {
    "no operator": {},
    "all operators": BOTH,
    "BTP Manager": {"btpManager": BTP},
    "Component operator": {"componentOperator": COMPONENT},
    "one replica": _both(replicaCount=1),
    "no replica": _both(replicaCount=0),
    "three replicas": _both(replicaCount=3),
    "one replica of one operator": _component(replicaCount=1),
    "registry": _both(image={"registry": "registry.example.com", "repository": "s", "tag": "v1"}),
    "digest": _both(image={"repository": "example.com/s", "digest": "sha256:" + "0" * 64}),
    "image of one operator": _component(image={"tag": "v2", "pullPolicy": "Always"}),
    "pull secrets": _both(imagePullSecrets=[{"name": "login"}]),
    "pod labels": _both(podLabels={"team": "a"}),
    "pod annotations": _both(podAnnotations={"note": "b"}),
    "node selector": _both(nodeSelector={"disk": "fast"}),
    "affinity": _both(affinity={"nodeAffinity": {}}),
    "tolerations": _both(tolerations=[{"operator": "Exists"}]),
    "own spread": _both(topologySpreadConstraints=[_OWN_SPREAD]),
    "spread policies": _both(defaultHostNameSpreadPolicy="DoNotSchedule", defaultZoneSpreadPolicy="DoNotSchedule"),
    "priority class": _both(priorityClassName="system-cluster-critical"),
    "user": _both(podSecurityContext={"runAsUser": 65534}),
    "resources": _both(resources={"limits": {"cpu": 1, "memory": "1Gi"}}),
    "no budget": _both(pdb={"enabled": False}),
    "budget by share": _both(pdb={"maxUnavailable": "50%", "labels": {"a": "b"}, "annotations": {"c": "d"}}),
    "account annotations": _both(serviceAccount={"annotations": {"role": "r"}}),
    "common labels": _both(commonLabels={"team": "a"}),
    "no roles": _both(rbac={"create": False}),
    "no definitions": _both(crds={"install": False}),
    "definitions go": _both(crds={"keep": False}),
    "no network policy": _both(networkPolicy={"enabled": False}),
    "egress": _both(networkPolicy={"egressPorts": [8443], "extraEgress": [_EGRESS]}),
    "no metrics service": _both(monitoring={"service": False}),
    "console logs": _both(log={"level": "debug", "format": "console"}),
    "no leader election": _both(leaderElection=False, replicaCount=1),
    "unconfined renderer": _component(options={"allowUnconfinedRenderer": True}),
    "environment": _both(extraEnv=[{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}]),
    "extra objects": _both(extraObjects=[_PERSONAL]),
    "cluster-admin": _component(rbac={"clusterAdmin": True}),
    "strict": _component(options={"tenancy": "strict", "noCrossNamespaceRefs": True}),
    "strict with cluster-admin": _component(
        options={"tenancy": "strict"}, rbac={"clusterAdmin": True, "acknowledgeClusterAdminOfTenants": True}
    ),
    "options": _component(options={"maxConcurrentReconciles": 20, "defaultServiceAccount": "deployer"}),
    "large numbers": _component(options={"artifactCacheMib": 1_000_000}),
    "flags": _component(options={"extraArgs": ["--drift-policy=Repair"]}),
    "durations": {"btpManager": {**BTP, "options": {"readyTimeout": "1m"}}},
    "full name": _component(fullnameOverride="it"),
    "name": _component(nameOverride="co"),
}
"""Values that must be accepted, by what they show."""
