"""The objects of a rendering, as they are applied. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from stellwerk.api.apps import Deployment
from stellwerk.apply.objects import json_edit
from stellwerk.apply.objects.manifests import Document
from stellwerk.apply.set.model.desired_set import DesiredObject, prepared
from stellwerk.apply.set.model.inventory import Inventory
from stellwerk.apply.set.model.owner import Owner
from stellwerk.apply.set.model.policy import (
    AdoptionPolicy,
    DeletePolicy,
    MissingNamespacesPolicy,
    Policies,
    UpdatePolicy,
)
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, Resource
from stellwerk.kube.types.model import JsonObject, dig
from stellwerk.kube.yaml import Origin
from stellwerk.operators.cap_manager.api import DELETE_POLICY_ANNOTATION, MANAGER, CAPOperator
from stellwerk.render.request.request import Rendered

POLICIES = Policies(
    adoption=AdoptionPolicy.ALWAYS,
    update=UpdatePolicy.SSA_OVERRIDE,
    missing_namespaces=MissingNamespacesPolicy.DO_NOT_CREATE,
)
"""For all objects of an installation: those that exist are taken over, as with the original. Updates are server-side
applies, so that what other clients add (labels, a restart of pods, a certificate's bundle) stays. The namespaces are
those of the CAPOperator and of Istio; the manager needs no right to create others."""

_ORPHAN = "orphan"


def owner_of(key: ObjectKey, cluster_uid: str) -> Owner:
    """The owner of a CAPOperator's objects, spelled as the original does."""
    return Owner(MANAGER, f"{cluster_uid}/{key.namespace}/{key.name}")


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
    select them by the labels of the chart find them.
    """
    return [
        Document(_selecting(document.body, selectors[key]), document.origin)
        if _is_deployment(document.body) and (key := _key(document, namespace)) in selectors
        else document
        for document in found
    ]


def _selecting(body: JsonObject, selector: JsonObject) -> JsonObject:
    labels = selector.get("matchLabels")
    selecting = json_edit.with_value(body, selector, "spec", "selector")
    return json_edit.merged(
        selecting, labels if isinstance(labels, dict) else {}, "spec", "template", "metadata", "labels"
    )


def _is_deployment(body: JsonObject) -> bool:
    return (body.get("apiVersion"), body.get("kind")) == (Deployment.resource.api_version, Deployment.resource.kind)


def _key(document: Document, namespace: str) -> ObjectKey:
    name, own = dig(document.body, "metadata", "name"), dig(document.body, "metadata", "namespace")
    return ObjectKey(str(own or namespace), str(name or ""))


def desired(
    found: Sequence[Document], served: Mapping[GroupVersionKind, Resource], capoperator: CAPOperator, owner: Owner
) -> tuple[DesiredObject, ...]:
    """The objects as they are applied. Raises InvalidSet."""
    return prepared(
        found,
        served,
        namespace=capoperator.metadata.namespace,
        owner=owner,
        policies=POLICIES,
        set_digest=capoperator.status.processing_digest,
    )


def retained(inventory: Inventory) -> Inventory:
    """The inventory of objects that all stay."""
    return inventory.changed({entry.identity: replace(entry, delete=DeletePolicy.ORPHAN) for entry in inventory})


def _marked(body: JsonObject, *, retains: bool) -> JsonObject:
    if retains:
        return json_edit.with_annotations(body, {DELETE_POLICY_ANNOTATION: _ORPHAN})
    if dig(body, "metadata", "annotations", DELETE_POLICY_ANNOTATION) is None:
        return body
    return json_edit.without(body, "metadata", "annotations", DELETE_POLICY_ANNOTATION)
