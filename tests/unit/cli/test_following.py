"""What is told of an object while somebody waits for it."""

from __future__ import annotations

from stellwerk.cli.objects.wait_for import progress
from stellwerk.kube.types.model import JsonObject, Unstructured


def component(state: str, reason: str, message: str, *phases: str) -> Unstructured:
    condition: JsonObject = {"type": "Ready", "status": "False", "reason": reason, "message": message}
    inventory: list[JsonObject] = [{"name": f"one-{number}", "phase": phase} for number, phase in enumerate(phases)]
    return Unstructured.of(
        {
            "apiVersion": "core.cs.sap.com/v1alpha1",
            "kind": "Component",
            "metadata": {"name": "web", "namespace": "shop"},
            "status": {"state": state, "conditions": [condition], "inventory": list(inventory)},
        }
    )


def test_progress_names_the_object_and_how_far_it_is() -> None:
    seen = component("Processing", "Waiting", "it takes a while", "Ready", "Completed", "Processing")
    assert progress(seen) == "Component shop/web: Processing Waiting it takes a while (2 of 3 objects ready)"


def test_a_reason_that_is_the_state_once_more_is_told_once() -> None:
    assert progress(component("Processing", "Processing", "m")) == "Component shop/web: Processing m"


def test_progress_cannot_steer_the_terminal() -> None:
    assert progress(component("Processing", "Waiting", "\x1b[2Jgone")).endswith("\\x1b[2Jgone")
