"""What prevents objects of the chart from being installed in a cluster. Pure.

`stellwerk install` asks before its first write: an installation that stops halfway has replaced roles of an original
that still runs, and nothing takes that back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stellwerk.cli.objects import installations
from stellwerk.cli.objects.check_rules import OperatorDeployment
from stellwerk.cli.shell.errors import Failure
from stellwerk.delivery.operator_spec import OperatorSpec
from stellwerk.kube.types.identifiers import GroupVersionKind
from stellwerk.kube.types.model import JsonObject, Unstructured

_PRODUCTS: Mapping[str, tuple[str, str]] = {
    "cert.gardener.cloud": (
        "Gardener's certificate management",
        "capOperator.subscriptionServer.certificateManager: CertManager",
    ),
    "cert-manager.io": ("cert-manager", "certificateManager and webhooks.certificates: their defaults"),
    "dns.gardener.cloud": ("Gardener's DNS management", "capOperator.controller.dnsManager: kubernetes"),
    "monitoring.coreos.com": ("the Prometheus operator", "monitoring.serviceMonitor, podMonitor and rules: false"),
    "networking.istio.io": ("Istio", 'capOperator.subscriptionServer.domain: ""'),
}
"""By API group: the product that brings the kinds, and the value of the chart without which they are not needed."""


def original_in_place(
    operators: Sequence[OperatorSpec], deployments: Sequence[Unstructured], objects: Sequence[JsonObject]
) -> Failure | None:
    """The failure where the Deployment of an original has the name of one of `objects`.

    The selector of a Deployment cannot be changed, so it would be refused after everything else was applied.
    """
    wanted = {obj.key for obj in map(Unstructured.of, objects) if obj.gvk.kind == "Deployment"}
    for operator in operators:
        found = [each for some in installations.by_process(operator, deployments).values() for each in some]
        if originals := [each for each in found if each.is_original and each.body.key in wanted]:
            return _of_originals(operator, originals)
    return None


def _of_originals(operator: OperatorSpec, originals: Sequence[OperatorDeployment]) -> Failure:
    key = originals[0].body.key
    names = " ".join(each.body.key.name for each in originals)
    return Failure(
        f"cannot install {operator.name} in namespace {key.namespace}: the original's Deployment {key} has this name",
        cause="the selector of a Deployment cannot be changed",
        fix=f"follow {migration_page(operator)}; where it installs this product, the original is stopped by\n"
        f"kubectl delete deployment {names} -n {key.namespace}",
    )


def migration_page(operator: OperatorSpec) -> str:
    """The page about the way from the original of an operator."""
    return f"docs/migration/{operator.title.lower().replace(' ', '-')}.md"


def absent_kind(obj: Unstructured) -> Failure:
    """The failure for an object of a kind that the cluster does not serve."""
    kind: GroupVersionKind = obj.gvk
    product, value = _PRODUCTS.get(kind.group, ("", ""))
    fix = f"install {product}, or set in a file with values: {value}" if product else "install what brings this kind"
    return Failure(f"cannot install: the cluster does not serve {kind}", cause=f"{obj.ref} is of this kind", fix=fix)
