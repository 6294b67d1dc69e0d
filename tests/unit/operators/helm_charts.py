"""The chart of Stellwerk, rendered by Helm's library, and the values with which it is tested."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from stellwerk.delivery import helm_chart
from stellwerk.delivery.operator_spec import OperatorSpec
from stellwerk.kube.types.model import JsonObject, dig
from stellwerk.render.binary import renderer_path
from stellwerk.render.errors import RendererMissing
from stellwerk.render.files import local_files
from stellwerk.render.request.request import ClusterApis, Lookup, ReleaseInfo, RenderRequest
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

    async def render(
        self,
        values: JsonObject,
        namespace: str = NAMESPACE,
        *,
        apis: Sequence[str] = (),
        release: str = "stellwerk",
        lookup: Lookup | None = None,
    ) -> Objects:
        """The objects of a release with an image and these values, by kind and name. `apis`: served ones; `lookup`
        answers for the cluster."""
        objects = await self.bodies(values, namespace, apis=apis, release=release, lookup=lookup)
        return {(str(body["kind"]), str(dig(body, "metadata", "name"))): body for body in objects}

    async def bodies(
        self,
        values: JsonObject,
        namespace: str = NAMESPACE,
        *,
        apis: Sequence[str] = (),
        release: str = "stellwerk",
        lookup: Lookup | None = None,
    ) -> Sequence[JsonObject]:
        """As `render`, for objects that have one name in several namespaces."""
        image: JsonObject = {"repository": "example.com/stellwerk"}
        request = RenderRequest(
            files=self._files,
            prefix="example.com",
            release=ReleaseInfo(release, namespace),
            values={"image": image, **values},
            cluster=ClusterApis({"gitVersion": "v1.36.3"}, tuple(apis)),
        )
        return (await self._renderer.render(request, lookup)).objects


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


def with_notes(folder: Path) -> Path:
    """Adds NOTES to a chart as a ConfigMap `notes`, because the renderer leaves them out."""
    text = (folder / "templates" / "NOTES.txt").read_text()
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: notes}\n"
    body = f'{{{{ define "notes" }}}}{text}{{{{ end }}}}\n{head}data: {{text: {{{{ include "notes" . | toJson }}}}}}\n'
    (folder / "templates" / "notes.yaml").write_text(body)
    return folder


BTP: JsonObject = {"enabled": True, "environment": {"SAP_BTP_SERVICE_OPERATOR": "example.com/operand:1"}}
COMPONENT: JsonObject = {"enabled": True}
CAP: JsonObject = {"enabled": True}
MANAGER: JsonObject = {"enabled": True}
KYMA: JsonObject = {
    "enabled": True,
    "maintenancePolicy": '{"rules": []}',
    "options": {"withoutRegistry": True, "disableWatcher": True},
}
ALL: JsonObject = {
    "btpManager": BTP,
    "componentOperator": COMPONENT,
    "capOperator": CAP,
    "capOperatorManager": MANAGER,
    "kymaLifecycleManager": KYMA,
}


def _all(**values: object) -> JsonObject:
    return {**ALL, **values}  # type: ignore[dict-item]  # values as JSON


def _component(**values: object) -> JsonObject:
    return {"componentOperator": {**COMPONENT, **values}}  # type: ignore[dict-item]  # values as JSON


def _cap(**values: object) -> JsonObject:
    return {"capOperator": {**CAP, **values}}  # type: ignore[dict-item]  # values as JSON


_OWN_SPREAD = {"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}
_EGRESS = {"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "ports": [{"port": 8443}]}
_PERSONAL = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "extra"}, "data": {"a": "b"}}

MATRIX: Mapping[str, JsonObject] = {
    "no operator": {},
    "all operators": ALL,
    "BTP Manager": {"btpManager": BTP},
    "Component operator": {"componentOperator": COMPONENT},
    "one replica": _all(replicaCount=1),
    "no replica": _all(replicaCount=0),
    "three replicas": _all(replicaCount=3),
    "one replica of one operator": _component(replicaCount=1),
    "registry": _all(image={"registry": "registry.example.com", "repository": "s", "tag": "v1"}),
    "digest": _all(image={"repository": "example.com/s", "digest": "sha256:" + "0" * 64}),
    "image of the original": _component(image={"repository": "ghcr.io/sap/component-operator", "tag": "v1"}),
    "image of one operator": _component(image={"tag": "v2", "pullPolicy": "Always"}),
    "pull secrets": _all(imagePullSecrets=[{"name": "login"}]),
    "pod labels": _all(podLabels={"team": "a"}),
    "pod annotations": _all(podAnnotations={"note": "b"}),
    "node selector": _all(nodeSelector={"disk": "fast"}),
    "affinity": _all(affinity={"nodeAffinity": {}}),
    "tolerations": _all(tolerations=[{"operator": "Exists"}]),
    "own spread": _all(topologySpreadConstraints=[_OWN_SPREAD]),
    "spread policies": _all(defaultHostNameSpreadPolicy="DoNotSchedule", defaultZoneSpreadPolicy="DoNotSchedule"),
    "priority class": _all(priorityClassName="system-cluster-critical"),
    "user": _all(podSecurityContext={"runAsUser": 65534}),
    "resources": _all(resources={"limits": {"cpu": 1, "memory": "1Gi"}}),
    "no budget": _all(pdb={"enabled": False}),
    "budget by share": _all(pdb={"maxUnavailable": "50%", "labels": {"a": "b"}, "annotations": {"c": "d"}}),
    "budget of zero by its other name": _all(podDisruptionBudget={"maxUnavailable": 0}),
    "account annotations": _all(serviceAccount={"annotations": {"role": "r"}}),
    "existing account": _all(serviceAccount={"create": False, "name": "ours"}),
    "named account": _component(serviceAccount={"name": "ours", "annotations": {"role": "r"}}),
    "no webhooks": _all(webhooks={"enabled": False}),
    "webhooks are optional": _all(webhooks={"failurePolicy": "Ignore", "certificates": "CertManager"}),
    "webhooks of one operator": _cap(webhooks={"enabled": False}),
    "concurrency": _all(concurrency={"maxConcurrentReconciles": 20}),
    "tenancy": _all(tenancy={"defaultServiceAccount": "deployer", "crossNamespaceRefs": False}),
    "egress of users": _all(egress={"allowHosts": "charts.example.com,git.example.com", "allowPrivate": False}),
    "common labels": _all(commonLabels={"team": "a"}),
    "no roles": _all(rbac={"create": False}),
    "no definitions": _all(crds={"install": False}),
    "definitions go": _all(crds={"keep": False}),
    "no network policy": _all(networkPolicy={"enabled": False}),
    "egress": _all(networkPolicy={"egressPorts": [8443], "extraEgress": [_EGRESS]}),
    "no metrics service": _all(monitoring={"service": False}),
    "monitors": _all(monitoring={"serviceMonitor": True, "podMonitor": True}),
    "secure metrics": _all(monitoring={"serviceMonitor": True, "secure": True}),
    "rules": _all(monitoring={"rules": True, "runbookUrl": "https://docs.example.com/alerts"}),
    "dashboards": _all(monitoring={"dashboards": True, "busola": True, "dashboardLabels": {"find": "me"}}),
    "console logs": _all(log={"level": "debug", "format": "console"}),
    "numeric log level": _all(log={"level": 3}),
    "no leader election": _all(leaderElection=False),
    "unconfined renderer": _component(options={"allowUnconfinedRenderer": True}),
    "environment": _all(extraEnv=[{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}]),
    "extra objects": _all(extraObjects=[_PERSONAL]),
    "cluster-admin": _component(rbac={"clusterAdmin": True}),
    "strict": _component(options={"tenancy": "strict", "noCrossNamespaceRefs": True}),
    "strict with cluster-admin": _component(
        options={"tenancy": "strict"}, rbac={"clusterAdmin": True, "acknowledgeClusterAdminOfTenants": True}
    ),
    "options": _component(options={"maxConcurrentReconciles": 20, "defaultServiceAccount": "deployer"}),
    "large numbers": _component(options={"artifactCacheMib": 1_000_000}),
    "flags": _component(options={"extraArgs": ["--drift-policy=Repair"]}),
    "durations": {"btpManager": {**BTP, "options": {"readyTimeout": "1m"}}},
    "CAP Operator": {"capOperator": CAP},
    "CAP name": _cap(fullnameOverride="cap"),
    "CAP image": _cap(image={"tag": "v2", "pullPolicy": "Always"}, webhook={"image": {"tag": "v3"}}),
    "CAP images of the original": _cap(webhook={"image": {"repository": "ghcr.io/sap/cap-operator/web-hooks"}}),
    "CAP empty values": _cap(image={"tag": "", "pullPolicy": ""}, tolerations=[], controller={"affinity": {}}),
    "CAP replicas": _cap(controller={"replicas": 2}, webhook={"replicas": 0}),
    "CAP controller": _cap(
        controller={
            "certManager": "gardener",
            "dnsManager": "kubernetes",
            "dnsTarget": "lb.example.com",
            "detailedOperationalMetrics": True,
            "maxConcurrentReconciles": {"capApplication": "2", "capTenant": 20},
            "versionMonitoring": {"prometheusAddress": "http://prometheus:9090", "metricsEvaluationInterval": "10m"},
            "clientRateLimiting": {"qps": "20", "burst": 30},
            "rolloutDelay": "2h",
            "options": {"maxTenantVersionHistory": 5},
        }
    ),
    "CAP webhook": _cap(webhook={"service": {"type": "NodePort", "port": 8443, "targetPort": 9443}}),
    "CAP webhook, cert-manager": _cap(webhook={"certificateManager": "CertManager"}),
    "CAP webhook, issuer": _cap(
        webhook={
            "certificateManager": "CertManager",
            "certificateConfig": {"certManager": {"issuerKind": "ClusterIssuer", "issuerName": "ours"}},
        }
    ),
    "CAP monitoring": _cap(monitoring={"enabled": True, "serviceMonitorSelectorLabels": {"release": "prometheus"}}),
    "CAP volumes": _cap(
        webhook={
            "volumes": [{"name": "more", "emptyDir": {}}],
            "volumeMounts": [{"name": "more", "mountPath": "/more"}],
        }
    ),
    "CAP domain": _cap(subscriptionServer={"domain": "cop.example.com", "dnsTarget": "lb.example.com", "port": 4001}),
    "CAP domain, issuer of Gardener": _cap(
        subscriptionServer={
            "domain": "cop.example.com",
            "certificateConfig": {"gardener": {"issuerName": "ours", "issuerNamespace": "issuers"}},
        }
    ),
    "CAP domain, cert-manager": _cap(
        subscriptionServer={
            "domain": "cop.example.com",
            "certificateManager": "CertManager",
            "certificateConfig": {"certManager": {"issuerName": "ours", "commonName": "cop"}},
        }
    ),
    "CAP gateway": _cap(subscriptionServer={"istioSystemNamespace": "mesh", "ingressGatewayLabels": {"istio": "mine"}}),
    "CAP with clients' certificates": _cap(
        subscriptionServer={"domain": "cop.example.com", "certificateConfig": {"additionalCACertificate": "PEM"}}
    ),
    "no roles of users": _all(rbac={"aggregate": False}),
    "full name of the release": _all(fullnameOverride="a", monitoring={"rules": True, "dashboards": True}),
    "full name": _component(fullnameOverride="it"),
    "name": _component(nameOverride="co"),
}
"""Values that must be accepted, by what they show."""
