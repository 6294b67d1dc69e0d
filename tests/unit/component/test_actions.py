"""What a person may do to a Component."""

from __future__ import annotations

from stellwerk.kube.types.model import Unstructured
from stellwerk.operators.component.insight import by_kind


def test_force_takes_our_finalizer_off_this_very_version_and_leaves_those_of_others() -> None:
    finalizers = ["component-operator.cs.sap.com", "somebody.else/keeps"]
    live = Unstructured.of({"metadata": {"name": "x", "resourceVersion": "7", "finalizers": [*finalizers]}})
    assert by_kind.UNSTICK.force(live) == {"metadata": {"finalizers": ["somebody.else/keeps"], "resourceVersion": "7"}}
