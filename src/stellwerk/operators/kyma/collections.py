"""What the passes of the lifecycle manager may read and write, and by what it is found."""

from __future__ import annotations

from collections.abc import Iterable

from stellwerk.api.core import Secret
from stellwerk.api.istio import Gateway, VirtualService
from stellwerk.kube.types.model import PartialObjectMetadata, metadata_of
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api_manifest import Manifest
from stellwerk.operators.kyma.api_module import ModuleReleaseMeta, ModuleTemplate
from stellwerk.operators.kyma.api_watcher import Watcher
from stellwerk.runtime.reading.questions import Collection, Index

TEMPLATES = Collection(ModuleTemplate)
METAS = Collection(ModuleReleaseMeta)
MANIFESTS = Collection(Manifest)
WATCHERS = Collection(Watcher)
GATEWAYS = Collection(Gateway, optional=True)
ROUTES = Collection(VirtualService, optional=True)
ACCESS_SECRETS: Collection[PartialObjectMetadata] = Collection(metadata_of(Secret), labels=labels.KYMA_NAME_LABEL)
"""Their content, which is a login, is read when a cluster is opened, and not kept here."""

SIGNATURE_SECRETS: Collection[PartialObjectMetadata] = Collection(metadata_of(Secret), labels=labels.SIGNATURE_LABEL)
"""Public keys of publishers of modules. The label has the name of the signature."""


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
GATEWAYS_IN = Index(GATEWAYS, "namespace", lambda each: (each.metadata.namespace,))
