"""Objects for the tests of this folder."""

from __future__ import annotations

from collections.abc import Mapping

from stellwerk.apply.fields.managed_fields import applied_by
from stellwerk.apply.objects.desired import Address, Desired, desired_set, digest_of
from stellwerk.apply.objects.json_edit import with_labels
from stellwerk.apply.objects.manifests import read_text
from stellwerk.apply.set.model.confirmation import Confirmation, Live, confirm
from stellwerk.apply.set.model.owner import LabelOwner
from stellwerk.apply.set.observed_state import ObservedState
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, Resource
from stellwerk.kube.types.model import JsonObject, JsonValue, PartialObjectMetadata, Unstructured, dig
from stellwerk.kube.types.object_meta import FieldManager, ObjectMeta

US = "btp-manager"
LABELS = {"app": "x"}
OWNER = LabelOwner(US, LABELS)

CLUSTER_SCOPED = {
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "CustomResourceDefinition": "customresourcedefinitions",
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "Namespace": "namespaces",
    "PriorityClass": "priorityclasses",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
}
NAMESPACED = {
    "ConfigMap": "configmaps",
    "Deployment": "deployments",
    "NetworkPolicy": "networkpolicies",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "Secret": "secrets",
    "Service": "services",
    "ServiceAccount": "serviceaccounts",
}


def resource_of(gvk: GroupVersionKind) -> Resource | None:
    """What discovery would say."""
    if gvk.kind in CLUSTER_SCOPED:
        return Resource(*gvk, CLUSTER_SCOPED[gvk.kind], False)
    return Resource(*gvk, NAMESPACED[gvk.kind], True) if gvk.kind in NAMESPACED else None


def wanted(text: str, namespace: str = "there") -> tuple[Desired, ...]:
    """The objects of a YAML text."""
    return desired_set(read_text(text), resource_of, namespace=namespace)


def labelled(text: str) -> tuple[Desired, ...]:
    """The same, with the labels of the set."""
    return tuple(Desired(one.address, with_labels(one.body, LABELS), one.origin) for one in wanted(text))


def config_map(name: str = "one", **data: str) -> Desired:
    """A ConfigMap with a label."""
    body: JsonObject = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "there", "labels": {"app": "x"}},
        "data": dict[str, JsonValue](data),
    }
    return Desired(Address(Resource("", "v1", "ConfigMap", "configmaps", True), ObjectKey("there", name)), body)


def secret(name: str = "one") -> Desired:
    """A Secret."""
    body: JsonObject = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": "there", "labels": {"app": "x"}},
        "data": {"password": "aHVudGVyMg=="},
    }
    return Desired(Address(Resource("", "v1", "Secret", "secrets", True), ObjectKey("there", name)), body)


OURS = FieldManager(manager=US, operation="Apply")


def applied(
    desired: Desired, *managers: FieldManager, uid: str = "u1", version: str = "", more: JsonObject | None = None
) -> Unstructured:
    """The object as it is live after our apply; `more` is laid over it as the server or others would.

    As on a server, its resourceVersion changes with its content.
    """
    body = overlaid(desired.body, more or {})
    return Unstructured(body, metadata_of(body, (OURS, *managers), uid, version))


def applied_metadata(
    desired: Desired, *managers: FieldManager, uid: str = "u1", version: str = ""
) -> PartialObjectMetadata:
    """The same, where the cache holds metadata only."""
    return PartialObjectMetadata(metadata=metadata_of(desired.body, (OURS, *managers), uid, version))


def metadata_of(body: JsonObject, managers: tuple[FieldManager, ...], uid: str, version: str) -> ObjectMeta:
    """Metadata as the server would give it."""
    labels = dig(body, "metadata", "labels")
    return ObjectMeta(
        name=str(dig(body, "metadata", "name")),
        namespace=str(dig(body, "metadata", "namespace") or ""),
        uid=uid,
        resource_version=version or digest_of([body, [entry.manager for entry in managers]]),
        labels={key: str(value) for key, value in labels.items()} if isinstance(labels, dict) else {},
        managers=managers,
    )


def overlaid(base: JsonObject, more: JsonObject) -> JsonObject:
    """Two objects as one; what is a mapping in both is joined."""
    result = dict(base)
    for key, value in more.items():
        present = result.get(key)
        result[key] = overlaid(present, value) if isinstance(present, dict) and isinstance(value, dict) else value
    return result


def memory_of(live: Mapping[Address, Live], *desired: Desired, restored_at: float | None = None) -> ObservedState:
    """What we would remember had we applied all of `desired` and been answered `live`."""
    return ObservedState({one.address: confirm(one, live[one.address], US, restored_at=restored_at) for one in desired})


__all__ = [
    "OURS",
    "OWNER",
    "US",
    "Confirmation",
    "applied",
    "applied_by",
    "applied_metadata",
    "config_map",
    "labelled",
    "memory_of",
    "overlaid",
    "resource_of",
    "secret",
    "wanted",
]
