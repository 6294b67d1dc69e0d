"""The objects of a module as they are to be in a remote cluster. Pure.

A layer is shared by all Manifests with its version. What differs from Manifest to Manifest is put on here: marks,
images, credentials and namespaces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from stellwerk.apply.objects import json_edit
from stellwerk.apply.objects.desired import Desired, Document, defined_by, desired_set
from stellwerk.apply.set.model.owner import Ownership, Standing
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, Resource
from stellwerk.kube.types.model import JsonObject, JsonValue, dig
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api_manifest import Manifest, SyncedResource
from stellwerk.operators.kyma.api_module import Manager
from stellwerk.operators.kyma.manifest.workloads import with_localized_images, with_pull_secret
from stellwerk.runtime.reading.known import Known, NotKnown, Present, Unknown

DEPLOYER = "deployer"
"""The only module whose Secrets get data from the control plane."""
DISCLAIMER = (
    "DO NOT EDIT - This resource is managed by Kyma.\n"
    "Any modifications are discarded and the resource is reverted to the original state."
)
_DEFAULT_NAMESPACE = "default"


class InjectionRefused(Exception):
    """A Secret of a module cannot get the data that it asks for; the message names the cause and what to do."""


@dataclass(frozen=True, slots=True)
class ModuleOwner(Ownership):
    """A Manifest. An object is its own by the annotation that names it; one without our label has no owner."""

    manifest: ObjectKey
    prefix: str = labels.MODULE_MANAGER
    takes_all: bool = True
    hash_key: str = ""

    def standing(self, metadata: ObjectMeta) -> Standing:
        """As `Ownership.standing`."""
        if metadata.labels.get(labels.MANAGED_BY_LABEL) != labels.KYMA:
            return Standing.UNOWNED
        named = metadata.annotations.get(labels.OWNED_BY_ANNOTATION)
        return Standing.OURS if named == str(self.manifest) else Standing.FOREIGN

    def owner_named_on(self, metadata: ObjectMeta) -> str:
        """As `Ownership.owner_named_on`."""
        return metadata.annotations.get(labels.OWNED_BY_ANNOTATION, "")

    def stamped(self, body: JsonObject, digest: str) -> JsonObject:
        """As `Ownership.stamped`: the marks are there since the object was rendered."""
        return body


@dataclass(frozen=True, slots=True, kw_only=True)
class Additions:
    """What the control plane adds to all modules."""

    pull_secret: str = ""
    """Name of the Secret with which workloads get their images; empty: none."""
    injected: Callable[[str], JsonObject] | None = None
    """The data of a Secret of the control plane by its name. Raises InjectionRefused, NotKnown. None: none is given."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """What of a module can be applied."""

    objects: tuple[Desired, ...]
    """In the order of the layer, each once."""
    unserved: Mapping[GroupVersionKind, str] = field(default_factory=dict)
    """Kinds that the cluster does not serve, and why."""

    @property
    def synced(self) -> tuple[SyncedResource, ...]:
        """As the status of a Manifest lists them."""
        return tuple(sorted(synced_resource(each.resource, each.key) for each in self.objects))


def synced_resource(resource: Resource, key: ObjectKey) -> SyncedResource:
    """The entry of an object in the status of a Manifest."""
    return SyncedResource(
        group=resource.group, version=resource.version, kind=resource.kind, name=key.name, namespace=key.namespace
    )


def rendered(
    documents: Sequence[Document],
    manifest: Manifest,
    additions: Additions,
    kind: Callable[[GroupVersionKind], Known[Resource]],
) -> Rendered:
    """The objects of a module for the cluster of its Manifest. `kind`: where that cluster serves a kind.

    Raises InvalidSet for objects that no API server takes, VariableTaken, InjectionRefused, NotKnown.
    """
    defined = defined_by(documents)
    served: dict[GroupVersionKind, Resource] = {}
    unserved: dict[GroupVersionKind, str] = {}
    for gvk in dict.fromkeys(_gvk(each.body) for each in documents):
        found = Present(defined[gvk]) if gvk in defined else kind(gvk)
        if isinstance(found, Present):
            served[gvk] = found.value
        elif isinstance(found, Unknown) and not found.is_refused:
            raise NotKnown(f"where {gvk} is served", found.why)  # a smaller set would have objects deleted
        else:
            unserved[gvk] = found.why if isinstance(found, Unknown) else f"the API server serves no {gvk}"
    wanted = _each_once((each for each in documents if _gvk(each.body) in served), served)
    changed = [Document(_changed(each.body, manifest, additions), each.origin) for each in wanted]
    return Rendered(desired_set(changed, served, namespace=_DEFAULT_NAMESPACE), unserved)


def _gvk(body: JsonObject) -> GroupVersionKind:
    return GroupVersionKind.parse(str(body.get("apiVersion") or ""), str(body.get("kind") or ""))


def _each_once(documents: Iterable[Document], served: Mapping[GroupVersionKind, Resource]) -> list[Document]:
    """The first of each object."""
    found: dict[tuple[GroupVersionKind, ObjectKey], Document] = {}
    for each in documents:
        gvk, metadata = _gvk(each.body), each.body.get("metadata")
        namespace = str(dig(metadata, "namespace") or _DEFAULT_NAMESPACE)
        found.setdefault((gvk, served[gvk].key(namespace, str(dig(metadata, "name")))), each)
    return list(found.values())


def _changed(body: JsonObject, manifest: Manifest, additions: Additions) -> JsonObject:
    marks = {
        labels.MANAGED_BY_LABEL: labels.KYMA,
        labels.COMPONENT_LABEL: manifest.metadata.name,
        labels.PART_OF_LABEL: labels.PART_OF,
    }
    notes = {labels.OWNED_BY_ANNOTATION: str(manifest.key), labels.DISCLAIMER_ANNOTATION: DISCLAIMER}
    if not isinstance(body.get("metadata"), dict):
        return body  # refused with its position
    changed = json_edit.with_annotations(json_edit.with_labels(body, marks), notes)
    changed = with_localized_images(changed, manifest.spec.localized_images)
    if additions.pull_secret:
        manager = manifest.spec.manager
        is_manager = manager is None or _is(changed, manager)
        changed = with_pull_secret(changed, additions.pull_secret, is_manager=is_manager)
    if additions.injected is not None and _asks_for_data(changed, manifest):
        name = str(dig(changed, "metadata", "name"))
        data: JsonValue = additions.injected(name)
        changed = json_edit.with_value(json_edit.without(changed, "stringData"), data, "data")
    return changed


def _is(body: JsonObject, manager: Manager) -> bool:
    metadata = body.get("metadata")
    named = (_gvk(body), dig(metadata, "namespace") or _DEFAULT_NAMESPACE, dig(metadata, "name"))
    gvk = GroupVersionKind(manager.group, manager.version, manager.kind)
    return named == (gvk, manager.namespace or _DEFAULT_NAMESPACE, manager.name)


def _asks_for_data(body: JsonObject, manifest: Manifest) -> bool:
    if manifest.metadata.labels.get(labels.MODULE_NAME_LABEL) != DEPLOYER or _gvk(body) != ("", "v1", "Secret"):
        return False
    return dig(body, "metadata", "annotations", labels.INJECT_DATA_ANNOTATION) == "true"
