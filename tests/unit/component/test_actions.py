"""What a person may do to a Component."""

from __future__ import annotations

import pytest

from stellwerk.api import flux
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import JsonObject, Unstructured
from stellwerk.operators.component.insight import by_kind


def test_force_takes_our_finalizer_off_this_very_version_and_leaves_those_of_others() -> None:
    finalizers = ["component-operator.cs.sap.com", "somebody.else/keeps"]
    live = Unstructured.of({"metadata": {"name": "x", "resourceVersion": "7", "finalizers": [*finalizers]}})
    assert by_kind.UNSTICK.force(live) == {"metadata": {"finalizers": ["somebody.else/keeps"], "resourceVersion": "7"}}


@pytest.mark.parametrize(
    ("named", "asked"),
    [
        ({"fluxBucket": {"name": "one"}}, (flux.Bucket.resource, ObjectKey("shop", "one"))),
        ({}, None),
        ({"fluxBucket": {"name": "one"}, "fluxGitRepository": {"name": "other"}}, None),
        ({"blueprint": {"name": "one"}}, None),
        ({"httpRepository": {"url": "https://example.com/a.tar.gz"}}, None),
    ],
)
def test_only_a_component_with_one_flux_source_has_one_that_can_be_asked(
    named: JsonObject, asked: tuple[Resource, ObjectKey] | None
) -> None:
    live = Unstructured.of({"metadata": {"name": "x", "namespace": "shop"}, "spec": {"sourceRef": named}})
    assert by_kind.RECONCILE.source(live) == asked
