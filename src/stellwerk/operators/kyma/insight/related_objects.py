"""What belongs to a Kyma and its Manifests, on both clusters, and which of them an object belongs to.

Down: Manifests by their label, objects of a module by `status.synced`. Up: the annotation of each object, which names
the Manifest in the control plane, and that of the Kyma of a remote cluster, which names the one that is followed.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from stellwerk.kube.types import lenient
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, ObjectRef
from stellwerk.kube.types.model import Unstructured, dig
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import Kyma
from stellwerk.operators.kyma.api_manifest import Manifest
from stellwerk.operators.kyma.insight.surroundings import kyma_of, ref_of, remote_cluster
from stellwerk.operators.kyma.manifest.status import ConditionType
from stellwerk.runtime.conditions import is_true
from stellwerk.runtime.insight.diagnosis import ClusterReader
from stellwerk.runtime.insight.related_objects import Fact, ManagingObject, Member

_REMOTE_KYMA = ObjectRef(Kyma.resource.gvk, labels.SKR_KYMA)


class _Elsewhere:
    """The cluster of a Kyma."""

    def elsewhere(self, reader: ClusterReader, cluster: ObjectKey) -> AbstractAsyncContextManager[ClusterReader]:
        """As `ReachesElsewhere.elsewhere`."""
        return remote_cluster(reader, cluster)


class KymaKinship(_Elsewhere):
    """Reads the Manifests of a Kyma; the Kyma of its cluster is a member, too."""

    def cluster_of(self, subject: Unstructured) -> ObjectKey:
        """As `ReachesElsewhere.cluster_of`."""
        return subject.key

    async def members(self, reader: ClusterReader, subject: Unstructured) -> list[Member]:
        """As `Kinship.members`."""
        if subject.key == labels.SKR_KYMA:
            return []
        marked = f"{labels.KYMA_NAME_LABEL}={subject.key.name}"
        manifests = await reader.list(Manifest.resource, subject.key.namespace, labels=marked)
        return [Member(_REMOTE_KYMA, is_elsewhere=True), *(Member(each.ref) for each in manifests)]

    async def manager(self, reader: ClusterReader, obj: Unstructured) -> ManagingObject | None:
        """As `Kinship.manager`: of the Kyma of a remote cluster, the one of the control plane."""
        if obj.ref.key != labels.SKR_KYMA or obj.gvk[::2] != Kyma.resource.gvk[::2]:
            return None
        owner = owner_named_on(obj)
        return ManagingObject(ObjectRef(Kyma.resource.gvk, owner), is_elsewhere=True) if owner is not None else None

    def origin(self, subject: Unstructured, obj: Unstructured) -> list[Fact]:
        """As `Kinship.origin`."""
        kyma = lenient.convert(subject.body, Kyma)
        return [("Channel", kyma.spec.channel)] if kyma.spec.channel else []


class ManifestKinship(_Elsewhere):
    """Reads what a Manifest has in the remote cluster."""

    def cluster_of(self, subject: Unstructured) -> ObjectKey:
        """As `ReachesElsewhere.cluster_of`."""
        return kyma_of(lenient.convert(subject.body, Manifest))

    async def members(self, reader: ClusterReader, subject: Unstructured) -> list[Member]:
        """As `Kinship.members`: what the status lists, and the default custom resource."""
        manifest = lenient.convert(subject.body, Manifest)
        found = [Member(ref_of(each), is_elsewhere=True) for each in manifest.status.synced]
        body = manifest.spec.resource
        if body is not None and is_true(manifest.status.conditions, ConditionType.MODULE_CR):
            gvk = GroupVersionKind.parse(str(body.get("apiVersion") or ""), str(body.get("kind") or ""))
            key = ObjectKey(*(str(dig(body, "metadata", name) or "") for name in ("namespace", "name")))
            found.append(Member(ObjectRef(gvk, key), is_elsewhere=True))
        return found

    async def manager(self, reader: ClusterReader, obj: Unstructured) -> ManagingObject | None:
        """As `Kinship.manager`: by the annotation. In a remote cluster, its Kyma names the one that is followed."""
        is_of_module = labels.PART_OF_LABEL in obj.metadata.labels
        owner = owner_named_on(obj) if is_of_module else None
        if owner is None:
            return None
        ref = ObjectRef(Manifest.resource.gvk, owner)
        if await reader.client.mapper.serves(Manifest.resource):
            return ManagingObject(ref)
        kyma = await reader.find(Kyma.resource, labels.SKR_KYMA.name, labels.SKR_KYMA.namespace)
        followed = owner_named_on(kyma) if kyma is not None else None
        above = ManagingObject(ObjectRef(Kyma.resource.gvk, followed), is_elsewhere=True) if followed else None
        return ManagingObject(ref, is_elsewhere=True, above=above)

    def origin(self, subject: Unstructured, obj: Unstructured) -> list[Fact]:
        """As `Kinship.origin`: module, version, and the layer that was last applied completely."""
        manifest = lenient.convert(subject.body, Manifest)
        marks, source = manifest.metadata, manifest.spec.install.source
        words = [word for key in ("repo", "name", "url", "ref") if isinstance(word := source.get(key), str) and word]
        facts = [
            ("Module", marks.labels.get(labels.MODULE_NAME_LABEL, "")),
            ("Channel", marks.labels.get(labels.CHANNEL_LABEL, "")),
            ("Version", manifest.spec.version),
            ("Source", " ".join(words) or str(source.get("type", ""))),
            ("Applied", marks.annotations.get(labels.SYNCED_LAYER_ANNOTATION, "")),
        ]
        return [(label, text) for label, text in facts if text]


KYMA, MANIFEST = KymaKinship(), ManifestKinship()


def owner_named_on(obj: Unstructured) -> ObjectKey | None:
    """The object of the control plane that an object of a remote cluster names."""
    if obj.metadata.labels.get(labels.MANAGED_BY_LABEL) != labels.KYMA:
        return None
    namespace, _, name = obj.metadata.annotations.get(labels.OWNED_BY_ANNOTATION, "").partition("/")
    return ObjectKey(namespace, name) if namespace and name else None
