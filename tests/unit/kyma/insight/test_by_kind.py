"""What users may do with Kymas, and what it costs."""

from __future__ import annotations

from typing import Any

import pytest

from stellwerk.kube.types.model import JsonValue, Unstructured, dig
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.insight.by_kind import INSIGHT


def leaving(kind: str, *finalizers: str, **status: JsonValue) -> Unstructured:
    metadata: dict[str, Any] = {"name": "x", "namespace": "n", "resourceVersion": "7", "finalizers": [*finalizers]}
    metadata["deletionTimestamp"] = "2026-05-01T12:00:00Z"
    group = {"apiVersion": "operator.kyma-project.io/v1beta2", "kind": kind}
    return Unstructured.of({**group, "metadata": metadata, "status": status})


def test_force_takes_our_finalizers_off_the_very_object_that_was_seen_and_leaves_those_of_others() -> None:
    ours = (labels.MANIFEST_FINALIZER, labels.LABEL_REMOVAL_FINALIZER, labels.RESOURCE_FINALIZER)
    action = INSIGHT["Manifest"].unstick
    assert action is not None
    patch = action.force(leaving("Manifest", *ours, "example.org/theirs"))
    assert patch == {"metadata": {"finalizers": ["example.org/theirs"], "resourceVersion": "7"}}


@pytest.mark.parametrize(
    ("kind", "field", "count", "begins"),
    [
        ("Manifest", "synced", 3, "3 objects of the module and all its custom resources stay in the remote cluster"),
        ("Manifest", "synced", 1, "the object of the module and all"),
        ("Kyma", "modules", 2, "the objects of its 2 modules, the webhook, the catalog and the Kyma"),
    ],
)
def test_force_names_what_stays_in_the_remote_cluster(kind: str, field: str, count: int, begins: str) -> None:
    action = INSIGHT[kind].unstick
    assert action is not None
    listed: list[JsonValue] = [{}] * count
    assert action.consequence_for(leaving(kind, **{field: listed})).startswith(begins)


@pytest.mark.parametrize("kind", ["Kyma", "Manifest", "Watcher"])
def test_a_request_for_a_pass_counts_as_handled_when_it_is_stored(kind: str) -> None:
    action = INSIGHT[kind].reconcile
    assert action is not None
    assert dig(action.request("now"), "metadata", "annotations")
    assert action.was_handled(leaving(kind), "now")
