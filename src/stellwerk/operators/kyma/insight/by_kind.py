"""What the operator knows about objects of its kinds."""

from __future__ import annotations

from stellwerk.delivery import forced_deletion
from stellwerk.delivery.insight import KindInsight, Reconcilable
from stellwerk.kube.types.model import Unstructured
from stellwerk.lazy_imports import lazy_imports
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.insight import fleet, related_objects, why

with lazy_imports(__name__):
    from stellwerk.operators.kyma.insight import previews

_KYMA = (labels.KYMA_FINALIZER, labels.PURGE_FINALIZER)


def left_of_kyma(kyma: Unstructured) -> str:
    """What a forced deletion of a Kyma leaves behind."""
    modules = kyma.at("status", "modules")
    count = len(modules) if isinstance(modules, list) else 0
    these = f"the objects of its {count} modules" if count != 1 else "the objects of its module"
    return (
        f"{these}, the webhook, the catalog and the Kyma {labels.SKR_KYMA} stay in the remote cluster, and its "
        "Manifests go one by one, each as far as it gets"
    )


def left_of_manifest(manifest: Unstructured) -> str:
    """What a forced deletion of a Manifest leaves behind."""
    synced = manifest.at("status", "synced")
    count = len(synced) if isinstance(synced, list) else 0
    these = f"{count} objects of the module" if count != 1 else "the object of the module"
    return (
        f"{these} and all its custom resources stay in the remote cluster, and no operator manages them any more; to "
        "remove them by hand, note them first: stellwerk tree "
        f"manifest/{manifest.key.name} -n {manifest.key.namespace}"
    )


RECONCILE = Reconcilable(was_handled=lambda *_: True)
"""The statuses of the original have no place for a request. One that is stored begins a pass."""

_OF_MANDATORY_MODULE = forced_deletion.without(
    labels.MANDATORY_MODULE_FINALIZER,
    consequence="Manifests of the mandatory module that are left stay, and the module stays in their clusters",
)

INSIGHT = {
    "Kyma": KindInsight(
        diagnostician=why.KymaDiagnostician(),
        kinship=related_objects.KYMA,
        reconcile=RECONCILE,
        unstick=forced_deletion.without(*_KYMA, consequence=left_of_kyma),
        finalizers=_KYMA,
        previewer=lambda: previews.PREVIEWERS["Kyma"],
        fleet=fleet.tables,
    ),
    "Manifest": KindInsight(
        diagnostician=why.ManifestDiagnostician(),
        kinship=related_objects.MANIFEST,
        reconcile=RECONCILE,
        unstick=forced_deletion.without(*labels.MANIFEST_FINALIZERS, consequence=left_of_manifest),
        finalizers=labels.MANIFEST_FINALIZERS,
        previewer=lambda: previews.PREVIEWERS["Manifest"],
    ),
    "Watcher": KindInsight(
        diagnostician=why.WatcherDiagnostician(),
        reconcile=RECONCILE,
        unstick=forced_deletion.without(
            labels.WATCHER_FINALIZER,
            consequence="its VirtualService goes with it, and its webhook with the next pass of each Kyma",
        ),
        finalizers=(labels.WATCHER_FINALIZER,),
        previewer=lambda: previews.PREVIEWERS["Watcher"],
    ),
    "ModuleReleaseMeta": KindInsight(
        diagnostician=why.MetaDiagnostician(),
        unstick=_OF_MANDATORY_MODULE,
        finalizers=(labels.MANDATORY_MODULE_FINALIZER,),
        previewer=lambda: previews.PREVIEWERS["ModuleReleaseMeta"],
    ),
    "ModuleTemplate": KindInsight(
        diagnostician=why.TemplateDiagnostician(),
        unstick=_OF_MANDATORY_MODULE,
        finalizers=(labels.MANDATORY_MODULE_FINALIZER,),
        previewer=lambda: previews.PREVIEWERS["ModuleTemplate"],
    ),
}
