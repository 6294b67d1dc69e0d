"""What the passes of the lifecycle manager may read and write, and by what it is found."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, TypeVar

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.core import Namespace, Pod, Secret
from stellwerk.api.istio import Gateway, VirtualService
from stellwerk.apply.set.model.confirmation import Live, live_view
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import HasMetadata, PartialObjectMetadata, Unstructured, metadata_of, unstructured
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import Kyma
from stellwerk.operators.kyma.api_manifest import Manifest
from stellwerk.operators.kyma.api_module import ModuleReleaseMeta, ModuleTemplate
from stellwerk.operators.kyma.api_watcher import Watcher
from stellwerk.runtime.reading.questions import Collection, Index

T = TypeVar("T", bound=HasMetadata)

KYMAS = Collection(Kyma)
TEMPLATES = Collection(ModuleTemplate)
METAS = Collection(ModuleReleaseMeta)
MANIFESTS = Collection(Manifest)
WATCHERS = Collection(Watcher)
GATEWAYS = Collection(Gateway, optional=True)
ROUTES = Collection(VirtualService, optional=True)
ACCESS_SECRETS: Collection[PartialObjectMetadata] = Collection(metadata_of(Secret), labels=labels.KYMA_NAME_LABEL)
"""Their content, which is a login, is read when a cluster is opened, and not kept here."""
OTHER_SECRETS: Collection[PartialObjectMetadata] = Collection(metadata_of(Secret), labels=f"!{labels.KYMA_NAME_LABEL}")
"""One of them is the Secret that remote clusters get to pull images with."""
HOME_DEFINITIONS: Collection[PartialObjectMetadata] = Collection(metadata_of(CustomResourceDefinition))

DEPLOYER_SECRETS: Collection[PartialObjectMetadata] = Collection(
    metadata_of(Secret), labels=f"{labels.MODULE_NAME_LABEL}=deployer"
)
"""Their data are for Secrets of the module of that name."""

# ---- in remote clusters

_OURS = f"{labels.MANAGED_BY_LABEL}={labels.KYMA},!{labels.PART_OF_LABEL}"
"""What belongs to no module. An object without our label counts as absent, and gets it when it is applied."""
RUNTIME_NAMESPACES = Collection(
    Namespace, labels=f"kubernetes.io/metadata.name in ({labels.SYSTEM_NAMESPACE},{labels.SKR_NAMESPACE})"
)
"""The one whose uid is that of the cluster, and ours, which modules may have among their objects with other marks."""
RUNTIME_DEFINITIONS: Collection[Unstructured] = Collection(
    unstructured(CustomResourceDefinition.resource), labels=_OURS
)
RUNTIME_SECRETS = Collection(Secret, labels=_OURS)
RUNTIME_KYMAS = Collection(Kyma, optional=True)
RUNTIME_TEMPLATES = Collection(ModuleTemplate, optional=True)
RUNTIME_METAS = Collection(ModuleReleaseMeta, optional=True)
RUNTIME_COLLECTIONS = (
    RUNTIME_NAMESPACES,
    RUNTIME_DEFINITIONS,
    RUNTIME_SECRETS,
    RUNTIME_KYMAS,
    RUNTIME_TEMPLATES,
    RUNTIME_METAS,
)
"""What the pass of a Kyma reads and writes there."""

SIGNATURE_SECRETS: Collection[PartialObjectMetadata] = Collection(metadata_of(Secret), labels=labels.SIGNATURE_LABEL)
"""Public keys of publishers of modules. The label has the name of the signature."""


HOME_COLLECTIONS: tuple[Collection[Any], ...] = (
    KYMAS,
    TEMPLATES,
    METAS,
    MANIFESTS,
    WATCHERS,
    GATEWAYS,
    ROUTES,
    ACCESS_SECRETS,
    OTHER_SECRETS,
    SIGNATURE_SECRETS,
    DEPLOYER_SECRETS,
    HOME_DEFINITIONS,
)
"""What passes read and write in the control plane."""


def _kyma_of(metadata: ObjectMeta) -> Iterable[str]:
    name = metadata.labels.get(labels.KYMA_NAME_LABEL)
    return () if name is None else (f"{metadata.namespace}/{name}",)


def _signature_of(metadata: ObjectMeta) -> Iterable[str]:
    name = metadata.labels.get(labels.SIGNATURE_LABEL)
    return () if name is None else (f"{metadata.namespace}/{name}",)


def _mandatory_module_of(metadata: ObjectMeta) -> Iterable[str]:
    if metadata.labels.get(labels.MANDATORY_MODULE_LABEL) != "true":
        return ()
    return (f"{metadata.namespace}/{metadata.labels.get(labels.MODULE_NAME_LABEL, '')}",)


MANDATORY_MANIFESTS_OF = Index(
    MANIFESTS, "mandatory module", lambda each: _mandatory_module_of(each.metadata), _mandatory_module_of
)
MANIFESTS_OF_KYMA = Index(MANIFESTS, "kyma", lambda each: _kyma_of(each.metadata), _kyma_of)
SIGNATURE_SECRETS_OF = Index(SIGNATURE_SECRETS, "signature", lambda each: _signature_of(each.metadata), _signature_of)
ACCESS_OF_KYMA = Index(ACCESS_SECRETS, "kyma", lambda each: _kyma_of(each.metadata), _kyma_of)
TEMPLATES_IN = Index(TEMPLATES, "namespace", lambda each: (each.metadata.namespace,))
METAS_IN = Index(METAS, "namespace", lambda each: (each.metadata.namespace,))
RUNTIME_TEMPLATES_EVERYWHERE = Index(RUNTIME_TEMPLATES, "all", lambda _: ("",))
RUNTIME_METAS_EVERYWHERE = Index(RUNTIME_METAS, "all", lambda _: ("",))
WATCHERS_IN = Index(WATCHERS, "namespace", lambda each: (each.metadata.namespace,))
GATEWAYS_IN = Index(GATEWAYS, "namespace", lambda each: (each.metadata.namespace,))


# ---- objects of modules, whose kinds no one knows before


@cache
def module_objects(resource: Resource) -> Collection[Live]:
    """Objects of modules of one kind, in a remote cluster. Of Secrets, the metadata."""
    return Collection(live_view(resource), labels=f"{labels.MANAGED_BY_LABEL}={labels.KYMA},{labels.PART_OF_LABEL}")


@cache
def module_resources(resource: Resource) -> Collection[PartialObjectMetadata]:
    """The custom resources of a module, of the module and of its users, in a remote cluster."""
    return Collection(metadata_of(resource), optional=True)


@cache
def manager_pods(namespace: str, selector: str) -> Collection[Unstructured]:
    """The pods of the manager of a module, in a remote cluster. Asked for only while they decide about its state."""
    return Collection(unstructured(Pod.resource), labels=selector, fields=f"{_IN_NAMESPACE}{namespace}")


_IN_NAMESPACE = "metadata.namespace="


@cache
def every(collection: Collection[T]) -> Index[T]:
    """All objects of a collection, under one value."""
    return Index(collection, "every", lambda _: (ALL,), lambda _: (ALL,))


ALL = "all"


def is_of_modules(collection: Collection[Any]) -> bool:
    """Whether a collection is one of those whose kinds modules bring."""
    pods = manager_pods(collection.fields.removeprefix(_IN_NAMESPACE), collection.labels)
    made = (module_objects(collection.resource), module_resources(collection.resource), pods)
    return any(each is collection for each in made)
