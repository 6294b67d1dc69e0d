"""The objects of a rendering, as they are applied. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from stellwerk.api.apps import Deployment
from stellwerk.apply.objects import json_edit
from stellwerk.apply.objects.manifests import Document
from stellwerk.apply.set.model.desired_set import Terms
from stellwerk.apply.set.model.inventory import Inventory, ObjectIdentity
from stellwerk.apply.set.model.owner import Owner
from stellwerk.apply.set.model.policy import (
    AdoptionPolicy,
    DeletePolicy,
    MissingNamespacesPolicy,
    Policies,
    UpdatePolicy,
)
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, JsonValue, dig
from stellwerk.kube.yaml import Origin
from stellwerk.operators.cap_manager.api import DELETE_POLICY_ANNOTATION, MANAGER
from stellwerk.render.request.request import Rendered

POLICIES = Policies(
    adoption=AdoptionPolicy.ALWAYS,
    update=UpdatePolicy.SSA_OVERRIDE,
    missing_namespaces=MissingNamespacesPolicy.DO_NOT_CREATE,
)
"""For all objects of an installation: those that exist are taken over, as with the original. Updates are server-side
applies, so that what other clients add (labels, a restart of pods, a certificate's bundle) stays. The namespaces are
those of the CAPOperator and of Istio; the manager needs no right to create others."""


def terms(capoperator: ObjectKey, cluster_uid: str) -> Terms:
    """What holds for all objects of a CAPOperator."""
    return Terms(capoperator.namespace, Owner.of(MANAGER, cluster_uid, capoperator), POLICIES)


def documents(rendered: Rendered, *, retains: bool) -> list[Document]:
    """The objects, marked to stay where the CAPOperator retains them."""
    return [
        Document(_marked(body, retains=retains), Origin(file=origin))
        for body, origin in zip(rendered.objects, rendered.origins, strict=True)
    ]


def deployments(found: Sequence[Document], namespace: str) -> list[ObjectKey]:
    """The Deployments among the objects. `namespace` is where objects without one go."""
    return [_key(document, namespace) for document in found if _is_deployment(document.body)]


def with_selectors(
    found: Sequence[Document], selectors: Mapping[ObjectKey, JsonObject], namespace: str
) -> list[Document]:
    """The objects, with Deployments under the selectors that they have in the cluster.

    The selector of a Deployment cannot be changed, and that of another chart is another one. The pods get its labels
    besides their own, so that the Deployment is taken over as it is: its pods are replaced one by one, and those who
    select them by the labels of the chart find them. Where the chart gives a label another value than the selector, the
    pods keep the selector's, and whatever selects these pods does so by that value.
    """
    relabelled: list[_Relabelled] = []
    result: list[Document] = []
    for document in found:
        key = _key(document, namespace)
        body = document.body
        if _is_deployment(body):
            labels = _mapping(selectors.get(key, {}), "matchLabels")
            relabelled.append(_Relabelled(key.namespace, _mapping(body, *_POD_LABELS), labels))
            if key in selectors:
                body = json_edit.with_value(body, selectors[key], "spec", "selector")
                body = json_edit.merged(body, labels, *_POD_LABELS)
        result.append(Document(body, document.origin))
    return [_following(document, relabelled, namespace) for document in result]


_POD_LABELS = ("spec", "template", "metadata", "labels")
_SELECTS_PODS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("", "Service"): ("spec",),
    ("apps", "Deployment"): ("spec", "template"),
    ("policy", "PodDisruptionBudget"): ("spec",),
    ("networking.k8s.io", "NetworkPolicy"): ("spec",),
    ("monitoring.coreos.com", "PodMonitor"): ("spec",),
}
"""The kinds that select pods, and where; a ServiceMonitor selects Services by their own labels, which do not change."""
_SELECTORS = ("matchLabels", "selector")
"""The fields that hold labels of pods; the selector of a Service does so itself."""


@dataclass(frozen=True, slots=True)
class _Relabelled:
    """Pods that have some labels by the chart, and others by the selector of their Deployment in the cluster."""

    namespace: str
    by_chart: JsonObject
    by_selector: JsonObject

    def selects(self, labels: JsonObject) -> bool:
        """Whether these labels select the pods as the chart has them."""
        return bool(labels) and labels.items() <= self.by_chart.items()

    def followed(self, labels: JsonObject) -> JsonObject:
        """The labels that select the pods as they are."""
        return {key: self.by_selector.get(key, value) for key, value in labels.items()}


def _following(document: Document, relabelled: Sequence[_Relabelled], namespace: str) -> Document:
    body, home = document.body, _key(document, namespace).namespace
    group = str(body.get("apiVersion", "")).rpartition("/")[0]
    place = _SELECTS_PODS.get((group, str(body.get("kind", ""))))
    pods = [each for each in relabelled if each.namespace == home]
    if place is None or not pods:
        return document
    return Document(json_edit.with_value(body, _reselected(dig(body, *place), pods), *place), document.origin)


def _reselected(value: JsonValue, pods: Sequence[_Relabelled]) -> JsonValue:
    if isinstance(value, list):
        return [_reselected(item, pods) for item in value]
    if not isinstance(value, dict):
        return value
    changed = {key: _reselected(item, pods) for key, item in value.items()}
    for field in _SELECTORS:
        labels = changed.get(field)
        if isinstance(labels, dict):
            found = [each.followed(labels) for each in pods if each.selects(labels)]
            # One that selects the pods of several Deployments can follow them only where they agree.
            if found and all(each == found[0] for each in found):
                changed[field] = found[0]
    return changed


def _mapping(body: JsonObject, *path: str) -> JsonObject:
    found = dig(body, *path)
    return found if isinstance(found, dict) else {}


def _is_deployment(body: JsonObject) -> bool:
    return (body.get("apiVersion"), body.get("kind")) == (Deployment.resource.api_version, Deployment.resource.kind)


def _key(document: Document, namespace: str) -> ObjectKey:
    name, own = dig(document.body, "metadata", "name"), dig(document.body, "metadata", "namespace")
    return ObjectKey(str(own or namespace), str(name or ""))


def keeping_certificate(inventory: Inventory, capoperator: ObjectKey) -> Inventory:
    """The inventory with the Secret of the webhooks' certificate as one that stays when the chart does not have it.

    The chart of the original has it as an object. With ours the webhooks keep it by themselves: they go on with its
    authority, which API servers trust, and so does the original after a way back.
    """
    secret = ObjectIdentity("", "Secret", ObjectKey(capoperator.namespace, f"{capoperator.name}-webhook-tls"))
    entry = inventory.by_identity().get(secret)
    return inventory.changed({secret: replace(entry, delete=DeletePolicy.ORPHAN_ON_APPLY)} if entry is not None else {})


def retained(inventory: Inventory) -> Inventory:
    """The inventory of objects that all stay."""
    return inventory.changed({entry.identity: replace(entry, delete=DeletePolicy.ORPHAN) for entry in inventory})


def _marked(body: JsonObject, *, retains: bool) -> JsonObject:
    if retains:
        return json_edit.with_annotations(body, {DELETE_POLICY_ANNOTATION: "orphan"})
    if dig(body, "metadata", "annotations", DELETE_POLICY_ANNOTATION) is None:
        return body
    return json_edit.without(body, "metadata", "annotations", DELETE_POLICY_ANNOTATION)
