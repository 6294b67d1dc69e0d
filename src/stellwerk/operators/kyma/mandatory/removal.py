"""What a mandatory module needs while it is there, and when it is removed: a finalizer, then the end of its Manifests.

Only Manifests with the label of mandatory modules go with it. One that a user has asked for under the same name stays.
"""

from __future__ import annotations

from stellwerk.kube.types.errors import StatusError
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject
from stellwerk.kube.types.object_meta import ObjectMeta, Record
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api_module import ModuleReleaseMeta, ModuleTemplate
from stellwerk.operators.kyma.collections import MANDATORY_MANIFESTS_OF, MANIFESTS, METAS, TEMPLATES, TEMPLATES_IN
from stellwerk.operators.kyma.kyma.catalog import module_of
from stellwerk.operators.kyma.mandatory.modules import is_former_mandatory
from stellwerk.operators.kyma.reasons import ModuleEvent
from stellwerk.runtime.control.step import Delete, Failure, Patch, RemoveFinalizer, Step, Wait
from stellwerk.runtime.reading.view import View


def decide_meta(meta: ModuleReleaseMeta, view: View) -> Step[Record]:
    """What a ModuleReleaseMeta needs next. Raises NotKnown."""
    if meta.metadata.is_terminating:
        return _leave(meta.metadata, meta.metadata.name, view)
    return _hold(meta) if meta.spec.mandatory is not None else Step()


def decide_template(template: ModuleTemplate, view: View) -> Step[Record]:
    """What a ModuleTemplate needs next: only those of earlier releases make a module mandatory. Raises NotKnown."""
    metadata, module = template.metadata, module_of(template)
    if not metadata.is_terminating:
        return _hold(template) if is_former_mandatory(template) else Step()
    if labels.MANDATORY_MODULE_FINALIZER not in metadata.finalizers:
        return Step()
    others = view.all(TEMPLATES_IN, metadata.namespace, _former_module)
    meta = view.find(METAS, ObjectKey(metadata.namespace, module), _is_mandatory)
    if meta or module in others:
        return Step(writes=(RemoveFinalizer(labels.MANDATORY_MODULE_FINALIZER),))
    return _leave(metadata, module, view)


def _former_module(template: ModuleTemplate) -> str:
    """The module that a template makes mandatory; empty if it is being deleted."""
    return module_of(template) if is_former_mandatory(template) and not template.metadata.is_terminating else ""


def _is_mandatory(meta: ModuleReleaseMeta) -> bool:
    return meta.spec.mandatory is not None


def _hold(obj: ModuleReleaseMeta | ModuleTemplate) -> Step[Record]:
    finalizers = obj.metadata.finalizers
    if labels.MANDATORY_MODULE_FINALIZER in finalizers:
        return Step()
    fields: JsonObject = {"metadata": {"finalizers": [*finalizers, labels.MANDATORY_MODULE_FINALIZER]}}
    if isinstance(obj, ModuleReleaseMeta):
        return Step(writes=(Patch(METAS, obj, fields, _refused),))
    return Step(writes=(Patch(TEMPLATES, obj, fields, _refused),))


def _leave(metadata: ObjectMeta, module: str, view: View) -> Step[Record]:
    if labels.MANDATORY_MODULE_FINALIZER not in metadata.finalizers:
        return Step()
    manifests = view.all(MANDATORY_MANIFESTS_OF, f"{metadata.namespace}/{module}")
    live = [each for each in manifests if not each.metadata.is_terminating]
    if live:
        why = f"the mandatory module {module} is removed"
        return Step(writes=tuple(Delete(MANIFESTS, each, _not_deleted, why) for each in live))
    if manifests:
        message = f"waiting for the end of Manifest {manifests[0].key}"
        return Step(waits=(Wait((MANIFESTS, manifests[0].key), message),))
    return Step(writes=(RemoveFinalizer(labels.MANDATORY_MODULE_FINALIZER),))


def _refused(message: str, error: StatusError | None) -> Failure:
    return Failure(message=message, event_reason=ModuleEvent.NOT_HELD)


def _not_deleted(message: str, error: StatusError | None) -> Failure:
    return Failure(message=message)
