"""A cache keeps each repeated string of its objects once, and the objects stay equal."""

from __future__ import annotations

import msgspec
import pytest

from stellwerk.api.core import ConfigMap
from stellwerk.kube.types.model import HasMetadata, JsonObject, View, metadata_of, unstructured
from stellwerk.runtime.cache.shared_strings import MOST_SHARED
from stellwerk.runtime.cache.store import Store

LABEL = "example.com/a-label-that-is-longer-than-decoders-remember"


def body(name: str) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": "a-namespace",
            "uid": name,
            "labels": {LABEL: "a repeated value"},
            "annotations": {f"{LABEL}-too": name},
            "finalizers": ["example.com/finalizer"],
            "ownerReferences": [{"apiVersion": "example.com/v1", "kind": "Owner", "name": name, "uid": name}],
        },
    }


VIEWS: list[View[HasMetadata]] = [unstructured(ConfigMap.resource), metadata_of(ConfigMap)]  # type: ignore[list-item]


@pytest.mark.parametrize("view", VIEWS, ids=["whole", "metadata"])
def test_two_objects_of_a_cache_share_their_repeated_strings(view: View[HasMetadata]) -> None:
    store: Store[HasMetadata] = Store()
    first, second = (view.decode(msgspec.json.encode(body(name))) for name in ("a", "b"))
    expected = [msgspec.json.encode(each.metadata) for each in (first, second)]
    store.replace([first])
    store.put(second)
    one, other = first.metadata, second.metadata
    assert next(iter(one.labels)) is next(iter(other.labels))
    assert one.labels[LABEL] is other.labels[LABEL]
    assert next(iter(one.annotations)) is next(iter(other.annotations))
    assert one.namespace is other.namespace
    assert one.finalizers[0] is other.finalizers[0]
    assert one.owner_references[0].kind is other.owner_references[0].kind
    assert [msgspec.json.encode(each.metadata) for each in (first, second)] == expected


def test_a_free_form_object_has_its_labels_once() -> None:
    store: Store[HasMetadata] = Store()
    obj = unstructured(ConfigMap.resource).decode(msgspec.json.encode(body("a")))
    store.put(obj)
    assert obj.at("metadata", "labels") is obj.metadata.labels
    assert obj.at("metadata", "annotations") is obj.metadata.annotations
    assert obj.body == body("a")


@pytest.mark.req("R-931")
@pytest.mark.parametrize("view", VIEWS, ids=["whole", "metadata"])
def test_strings_of_an_object_with_thousands_of_labels_are_not_looked_for(view: View[HasMetadata]) -> None:
    store: Store[HasMetadata] = Store()
    labels: JsonObject = {f"{LABEL}-{number}": "a value" for number in range(MOST_SHARED + 1)}
    large = body("a")
    large["metadata"] = {"name": "a", "namespace": "a-namespace", "labels": labels}
    obj = view.decode(msgspec.json.encode(large))
    before = obj.metadata.labels
    store.put(obj)
    assert obj.metadata.labels is before
    assert obj.metadata.labels == labels
