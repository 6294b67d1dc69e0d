"""What is kept of an object for another cluster."""

from __future__ import annotations

from stellwerk.cli.look.export import portable
from stellwerk.kube.types.model import JsonObject, Unstructured


def test_an_exported_object_is_as_somebody_could_have_written_it() -> None:
    written: JsonObject = {
        "apiVersion": "core.cs.sap.com/v1alpha1",
        "kind": "Component",
        "metadata": {"name": "web", "namespace": "shop", "labels": {"a": "b"}},
        "spec": {"path": "x"},
    }
    live: JsonObject = {
        **written,
        "metadata": {
            **written["metadata"],  # type: ignore[dict-item]
            "uid": "u",
            "resourceVersion": "1",
            "generation": 3,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": ["x"],
        },
        "status": {"state": "Ready"},
    }
    assert portable(Unstructured.of(live)) == written
