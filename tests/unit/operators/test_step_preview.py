"""What a preview notes of writes: of each cluster and field manager apart."""

from __future__ import annotations

from typing import Any

from stellwerk.api.core import ConfigMap
from stellwerk.delivery.step_preview import Draft
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.runtime.cache.remote_clusters import Kubeconfig
from stellwerk.runtime.control.step import Apply, Create, Delete, Failure, Patch, Write
from stellwerk.runtime.reading.questions import Collection

MAPS = Collection(ConfigMap)
FAR = Kubeconfig(ObjectKey("n", "login"), b"far")
SEEN = ConfigMap(metadata=ObjectMeta(name="a", namespace="n", uid="1"))
BODY: JsonObject = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n"}}


def refused(message: str, _: object) -> Failure:
    return Failure(message=message)


def noted(*writes: Write) -> Draft:
    draft = Draft(subject=SEEN)
    for write in writes:
        draft.note(write)
    return draft


def names(part: Draft) -> dict[str, Any]:
    objects = [str(each.ref) for each in part.objects]
    return {"objects": objects, "changed": {str(ref): why for ref, why in part.changed.items()}}


def test_writes_of_another_cluster_are_noted_apart() -> None:
    draft = noted(
        Create(MAPS, BODY, refused),
        Apply(MAPS, BODY, "theirs", refused, cluster=FAR),
        Delete(MAPS, SEEN, refused, cluster=FAR),
    )
    assert names(draft) == {"objects": ["ConfigMap n/a"], "changed": {}}
    assert names(draft.others[FAR, "theirs"])["objects"] == ["ConfigMap n/a"]
    assert [str(ref) for ref in draft.others[FAR, ""].deleted] == ["ConfigMap n/a"]
    assert draft.warnings == []


def test_an_apply_of_a_status_is_a_change_and_patches_of_an_object_add_up() -> None:
    draft = noted(
        Apply(MAPS, BODY, "theirs", refused, subresource="status", cluster=FAR),
        Patch(MAPS, SEEN, {"metadata": {"finalizers": ["f"]}}, refused),
        Patch(MAPS, SEEN, {"data": {"b": "c"}}, refused),
    )
    assert names(draft)["changed"] == {"ConfigMap n/a": "changed fields: metadata.finalizers, data.b"}
    assert names(draft.others[FAR, ""])["changed"] == {"ConfigMap n/a": "its status changes"}
