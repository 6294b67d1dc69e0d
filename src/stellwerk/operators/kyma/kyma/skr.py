"""What a remote cluster has of its Kyma besides the catalog, and what is taken from there.

The user writes the specification of the Kyma in the remote cluster; the control plane writes its status and marks. All
of this is pure: what is equal to what is there already needs no write.
"""

from __future__ import annotations

from typing import cast

import msgspec

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.core import Namespace, Secret
from stellwerk.apply.fields.compare import compare
from stellwerk.apply.objects.desired import Desired
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, JsonValue, Kind, Unstructured, plain_json
from stellwerk.kube.types.object_meta import LAST_APPLIED, ObjectMeta
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import Kyma, KymaSpec, KymaStatus, ModuleStatus, TrackedObject


class InvalidKymaSpec(Exception):
    """The specification cannot be followed."""

    def __init__(self) -> None:
        super().__init__('invalid kyma spec: value "none" is not allowed in spec.channel')


def namespace() -> Desired:
    """The namespace of the Kyma in the remote cluster."""
    return Desired.named(
        Namespace.resource, ObjectKey("", labels.SKR_NAMESPACE), {"labels": {**labels.SKR_NAMESPACE_LABELS}}
    )


def copied_annotations(metadata: ObjectMeta) -> JsonObject:
    """The annotations of a copy. What kubectl notes for its next apply is about the original only."""
    return {key: value for key, value in metadata.annotations.items() if key != LAST_APPLIED}


def definition(source: Unstructured) -> Desired:
    """The copy of a CustomResourceDefinition of the control plane. The remote cluster has no webhook to convert."""
    spec = {**cast("JsonObject", source.body["spec"]), "conversion": {"strategy": "None"}}
    marks: JsonObject = {"labels": {labels.MANAGED_BY_LABEL: labels.KYMA}}
    return Desired.named(CustomResourceDefinition.resource, source.key, marks, spec=cast("JsonValue", spec))


def pull_secret(source: Secret) -> Desired:
    """The copy of the Secret that pods of the remote cluster pull images with."""
    marks: JsonObject = {"labels": {**source.metadata.labels, labels.MANAGED_BY_LABEL: labels.KYMA}}
    if annotations := copied_annotations(source.metadata):
        marks["annotations"] = annotations
    key = ObjectKey(labels.SKR_NAMESPACE, source.metadata.name)
    return Desired.named(Secret.resource, key, marks, type=source.type, data={**source.data})


def is_written(desired: Desired, live: Unstructured | Kind | None) -> bool:
    """Whether a live object has all that is wanted of it."""
    if live is None:
        return False
    if isinstance(live, Unstructured):
        wanted, found = desired.body, live.body
    else:  # both sides leave out the same defaults
        wanted, found = plain_json(msgspec.convert(desired.body, type(live))), plain_json(live)
    # A definition has thousands of fields, and each pass looks at three.
    differing = {key: value for key, value in wanted.items() if found.get(key) != value}
    return not compare(differing, found).differences


# ---- the Kyma


def new_kyma(kyma: Kyma) -> JsonObject:
    """The Kyma that a remote cluster without one gets: the specification of the control plane is its default."""
    return {
        "apiVersion": Kyma.resource.api_version,
        "kind": Kyma.resource.kind,
        "metadata": {"name": labels.SKR_KYMA.name, "namespace": labels.SKR_KYMA.namespace, **_marks(kyma)},
        "spec": plain_json(kyma.spec),
    }


def lacking_marks(kyma: Kyma, remote: Kyma) -> JsonObject:
    """The labels and annotations, as metadata, that the Kyma of the remote cluster lacks; empty if it has all.

    One that is being deleted is left alone.
    """
    if remote.metadata.is_terminating:
        return {}
    lacking: JsonObject = {}
    marks = _marks(kyma)
    for field, shown in (("labels", remote.metadata.labels), ("annotations", remote.metadata.annotations)):
        wanted = cast("dict[str, str]", marks[field])
        if missing := {key: value for key, value in wanted.items() if shown.get(key) != value}:
            lacking[field] = cast("JsonValue", missing)
    return lacking


def _marks(kyma: Kyma) -> JsonObject:
    forwarded = {key: value for key in labels.COPIED_LABELS if (value := kyma.metadata.labels.get(key))}
    own = {labels.WATCHED_BY_LABEL: labels.KYMA, labels.MANAGED_BY_LABEL: labels.KYMA}
    return {"labels": {**own, **forwarded}, "annotations": {labels.OWNED_BY_ANNOTATION: str(kyma.key)}}


def status_for_skr(status: KymaStatus) -> KymaStatus:
    """The status that the user sees: without Manifests, which the remote cluster does not have."""
    return msgspec.structs.replace(status, modules=tuple(map(_module_for_skr, status.modules)))


def _module_for_skr(module: ModuleStatus) -> ModuleStatus:
    template = module.template
    return msgspec.structs.replace(module, manifest=None, template=_in_skr(template) if template else None)


def _in_skr(template: TrackedObject) -> TrackedObject:
    metadata = msgspec.structs.replace(template.metadata, namespace=labels.SKR_NAMESPACE)
    return msgspec.structs.replace(template, metadata=metadata)


def effective_spec(kyma: Kyma, remote: Kyma) -> KymaSpec:
    """What is followed: modules and channel of the user. Maintenance windows are skipped if either side wants it.

    Raises InvalidKymaSpec.
    """
    if remote.spec.channel.lower() == labels.NO_CHANNEL:
        raise InvalidKymaSpec
    return msgspec.structs.replace(
        kyma.spec,
        channel=remote.spec.channel,
        modules=remote.spec.modules,
        skip_maintenance_windows=kyma.spec.skip_maintenance_windows or remote.spec.skip_maintenance_windows,
    )
