"""What is installed of our operators in a cluster: their Deployments, and all that `stellwerk install` has applied.

Objects are found by the labels of the chart: `app.kubernetes.io/managed-by` is on those of `stellwerk install` and not
on those of a Helm release, and `app.kubernetes.io/name` names the process. Kinds and namespaces are never among them:
they hold the objects of users.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from stellwerk.cli.objects import check_rules
from stellwerk.cli.objects.check_rules import INSTALLER, Found, OperatorDeployment
from stellwerk.cli.objects.cluster import ClusterSession
from stellwerk.cli.shell import settings
from stellwerk.cli.shell.text import escaped
from stellwerk.delivery.operator_spec import OperatorSpec
from stellwerk.kube.types.errors import Forbidden
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, Unstructured, dig, metadata_of, unstructured
from stellwerk.runtime.insight.diagnosis import ClusterReader

DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments", namespaced=True)
_LEASES = Resource("coordination.k8s.io", "v1", "Lease", "leases", namespaced=True)
_MANAGED_BY, _NAME = "app.kubernetes.io/managed-by", "app.kubernetes.io/name"
_SELECTOR = f"{_MANAGED_BY}={INSTALLER},app.kubernetes.io/part-of={INSTALLER}"
_KINDS = (
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
    ("apps", "Deployment"),
    ("policy", "PodDisruptionBudget"),
    ("", "Service"),
    ("networking.k8s.io", "NetworkPolicy"),
    ("monitoring.coreos.com", "ServiceMonitor"),
    ("monitoring.coreos.com", "PodMonitor"),
    ("networking.istio.io", "VirtualService"),
    ("networking.istio.io", "Gateway"),
    ("dns.gardener.cloud", "DNSEntry"),
    ("cert.gardener.cloud", "Certificate"),
    ("cert-manager.io", "Certificate"),
    ("cert-manager.io", "Issuer"),
    ("", "ConfigMap"),
    ("rbac.authorization.k8s.io", "RoleBinding"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io", "Role"),
    ("rbac.authorization.k8s.io", "ClusterRole"),
    ("", "ServiceAccount"),
)
"""Group and kind of what the chart renders, in the order of removal: first what makes the API server ask a process."""


async def deployments(cluster: ClusterSession) -> list[Unstructured]:
    """The Deployments of all namespaces; where the user may not list these, of the namespace of the call."""
    try:
        return await in_sight(cluster, DEPLOYMENTS)
    except Forbidden:
        return []


async def in_sight(cluster: ClusterSession, resource: Resource, *, labels: str = "") -> list[Unstructured]:
    """Those of all namespaces; where the user may not list these, of the namespace of the call. Raises Forbidden."""
    view = unstructured(resource)
    try:
        return (await cluster.client.list(view, labels=labels, skip_unreadable=True)).items
    except Forbidden:
        if not cluster.namespace:
            raise
    return (await cluster.client.list(view, cluster.namespace, labels=labels, skip_unreadable=True)).items


async def leases(reader: ClusterReader, operator: OperatorSpec) -> list[Unstructured]:
    """The Leases of an operator in all namespaces; none where the user may not read Leases."""
    return await reader.list(_LEASES, fields=f"metadata.name={operator.installation().lease}")


async def leader(reader: ClusterReader, operator: OperatorSpec, among: Sequence[OperatorDeployment]) -> Found | None:
    """What the Lease of an operator shows; None where the user may not read Leases. `among`: its Deployments."""
    held = await leases(reader, operator)
    look = among[0].look if among else check_rules.SEE_OPERATOR
    return None if reader.may_not_see(_LEASES, "") else check_rules.of_leases(held, datetime.now(UTC), look)


def by_process(operator: OperatorSpec, among: Sequence[Unstructured]) -> dict[str, list[OperatorDeployment]]:
    """The Deployments of each process of an operator, ours and those of the original. Pure."""
    return {
        each.name: check_rules.deployments_of(each.name, each.installation().original, among)
        for each in operator.processes
    }


def running(operator: OperatorSpec, among: Sequence[Unstructured]) -> list[OperatorDeployment]:
    """The Deployments that run a process of an operator, without those of the original. Pure."""
    return [each for some in by_process(operator, among).values() for each in some if not each.is_original]


async def installed(
    cluster: ClusterSession, operators: Sequence[OperatorSpec], rendered: Iterable[JsonObject] = ()
) -> list[tuple[Resource, Unstructured]]:
    """All that `stellwerk install` has applied for these operators, in the order of removal. Raises ApiError.

    `rendered`: objects of the chart, from which the names of processes are known that values have changed. Values may
    change the names of the roles of users as well: they are known by what they grant.
    """
    served = {(each.group, each.kind): each for each in reversed(await cluster.client.mapper.all())}
    found = [
        (served[kind], obj)
        for kind in _KINDS
        if kind in served
        for obj in (await cluster.client.list(unstructured(served[kind]), labels=_SELECTOR, skip_unreadable=True)).items
    ]
    owned = {process.installation().account for operator in operators for process in operator.processes}
    owned |= {str(name) for body in rendered if (name := dig(body, "metadata", "labels", _NAME))}
    roles = [Unstructured.of(body) for each in operators for body in each.installation().roles_of_users()]
    refs, rules = {role.ref for role in roles}, [role.at("rules") for role in roles]
    return [
        (resource, obj)
        for resource, obj in found
        if obj.metadata.labels.get(_NAME) in owned or obj.ref in refs or obj.at("rules") in rules
    ]


async def remove(cluster: ClusterSession, found: Iterable[tuple[Resource, Unstructured]], *, dry_run: bool) -> None:
    """Delete objects, but none that was replaced meanwhile, and print each. Raises ApiError."""
    for resource, obj in found:
        key = obj.key
        await cluster.client.delete(
            metadata_of(resource), key.name, key.namespace, uid=obj.metadata.uid, dry_run=dry_run
        )
        settings.show([removal_line(obj, dry_run=dry_run)])


def removal_line(obj: Unstructured, *, dry_run: bool) -> str:
    """The line about an object that is removed. Pure: a ClusterRole may have almost any letter in its name."""
    return f"{escaped(str(obj.ref))} {'would be deleted (dry run)' if dry_run else 'is deleted'}"
