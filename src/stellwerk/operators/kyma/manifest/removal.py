"""What leaves a remote cluster, in which order, and what holds it there.

Only objects that `status.synced` names ever leave. The module's own controller goes last: until then it can do what the
finalizers of the module's other objects ask for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import dig
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api_manifest import CustomResourcePolicy, ManifestSpec, SyncedResource
from stellwerk.operators.kyma.api_module import Manager

SAME_LAYER = "resource syncTarget diff detected but in same oci layer, prevent sync resource to be deleted"
WAITING_FOR_USERS = "waiting for module crs deletion"

_WITH_THE_CONTROLLER = frozenset(
    {
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
        ("", "Namespace"),
        ("", "ServiceAccount"),
        ("rbac.authorization.k8s.io", "Role"),
        ("rbac.authorization.k8s.io", "ClusterRole"),
        ("rbac.authorization.k8s.io", "RoleBinding"),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
        ("", "Service"),
        ("apps", "Deployment"),
        # The original counts these among the others, and so takes from a controller what it runs with.
        ("apps", "StatefulSet"),
        ("", "ConfigMap"),
        ("", "Secret"),
    }
)
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Removal:
    """What is to be deleted. `last`: once the server knows none of `first` any more."""

    first: tuple[SyncedResource, ...] = ()
    last: tuple[SyncedResource, ...] = ()
    refused: str = ""
    """Why nothing is deleted although objects are missing from what was read."""


def plan_removal(
    synced: Iterable[SyncedResource], wanted: Iterable[SyncedResource], manager: Manager | None, *, same_layer: bool
) -> Removal:
    """What of the synced objects is not wanted any more.

    `same_layer`: what is wanted was read from the layer that was last applied completely, and the Manifest stays. Then
    something missing from it means that the layer was not read completely.

    An object wanted in another API version is the same object. The namespace of all modules is never deleted.
    """
    kept = {_identity(each) for each in wanted}
    obsolete = sorted({each for each in synced if _identity(each) not in kept and not _is_shared_namespace(each)})
    if obsolete and same_layer:
        return Removal(refused=SAME_LAYER)
    last = [each for each in obsolete if _goes_last(each, manager)]
    return Removal(tuple(each for each in obsolete if each not in last), tuple(last))


def _identity(resource: SyncedResource) -> tuple[str, str, str, str]:
    return resource.group, resource.kind, resource.namespace, resource.name


def _is_shared_namespace(resource: SyncedResource) -> bool:
    return (resource.group, resource.kind, resource.name) == ("", "Namespace", labels.SKR_NAMESPACE)


def _goes_last(resource: SyncedResource, manager: Manager | None) -> bool:
    if (resource.group, resource.kind) in _WITH_THE_CONTROLLER:
        return True
    return manager is not None and _identity(resource) == (
        manager.group,
        manager.kind,
        manager.namespace,
        manager.name,
    )


class Hold(Enum):
    """What keeps the objects of a module that is removed."""

    NOTHING = "nothing"
    DEFAULT_RESOURCE = "its default custom resource"
    """The operator deletes it, and the module's controller must still be there to let it go."""
    USERS_RESOURCES = "custom resources of users"
    """Only their users delete them."""


@dataclass(frozen=True, slots=True)
class Holding:
    """What keeps the objects, and the operation that a Manifest shows meanwhile."""

    hold: Hold = Hold.NOTHING
    operation: str = ""


def held_by(spec: ManifestSpec, found: Collection[ObjectKey], *, namespaced: bool) -> Holding:
    """What keeps the objects of a module that is removed.

    `found`: every custom resource of the module's kind, in all namespaces and versions, from one reading: two readings
    may contradict each other. A kind that the cluster does not serve has none; discovery must be refreshed before that
    is believed.
    """
    if spec.resource is None:
        return Holding()
    default = None
    if spec.custom_resource_policy == CustomResourcePolicy.CreateAndDelete:
        metadata = spec.resource.get("metadata")
        namespace = str(dig(metadata, "namespace") or "default") if namespaced else ""
        default = ObjectKey(namespace, str(dig(metadata, "name") or ""))
    present = {each if namespaced else ObjectKey("", each.name) for each in found}
    others = sorted(present - {default})
    if others:
        shown = ", ".join(map(str, others[:_SHOWN]))
        more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
        kind = str(spec.resource.get("kind") or "")
        return Holding(Hold.USERS_RESOURCES, f"{WAITING_FOR_USERS}: {len(others)} {kind}: {shown}{more}")
    return Holding(Hold.DEFAULT_RESOURCE) if present else Holding()
