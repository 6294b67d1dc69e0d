"""What a newcomer applies is complete, in order, and says only what the kinds know."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from stellwerk.apply.objects.manifests import Document, read_folder
from stellwerk.kube.types.model import JsonObject, Kind, decode_json, dig, encode_json, to_json_object
from stellwerk.operators.component.api import Blueprint, Component
from stellwerk.operators.component.intervals import Intervals
from stellwerk.operators.component.references import references
from stellwerk.operators.component.sources import sources

FOLDER = Path(__file__).parents[3] / "samples" / "component"
APPLIED = read_folder(FOLDER)
SHOWN = read_folder(FOLDER / "flux")
KINDS: dict[str, type[Kind]] = {"Component": Component, "Blueprint": Blueprint}


def components() -> list[Component]:
    found = [document.body for document in (*APPLIED, *SHOWN) if document.body["kind"] == "Component"]
    return [msgspec.convert(body, Component) for body in found]


def test_the_samples_come_in_the_order_in_which_they_can_be_applied() -> None:
    assert [document.body["kind"] for document in APPLIED] == [
        "Namespace",
        "Secret",
        "ConfigMap",
        "Secret",
        "Blueprint",
        "Blueprint",
        "Component",
        "Component",
        "Component",
        "Component",
    ]


@pytest.mark.parametrize("document", [d for d in (*APPLIED, *SHOWN) if d.body["kind"] in KINDS], ids=str)
def test_a_sample_has_no_field_that_its_kind_does_not_know(document: Document) -> None:
    kind = KINDS[str(document.body["kind"])]
    again = decode_json(encode_json(to_json_object(msgspec.convert(document.body, kind))))

    assert again["spec"] == document.body["spec"]


def test_every_component_names_one_source_and_sensible_intervals() -> None:
    for component in components():
        sources.named(component)
        Intervals.of(component.spec)


def test_what_the_applied_components_refer_to_is_among_the_samples() -> None:
    there = {(str(d.body["kind"]), _name(d.body)) for d in APPLIED}
    applied = [msgspec.convert(d.body, Component) for d in APPLIED if d.body["kind"] == "Component"]

    for component in applied:
        for target in references.targets(component):
            assert (str(target.kind), target.key.name) in there
        for dependency in component.dependencies:
            # One sample shows how a missing dependency is explained.
            waits = component.metadata.labels.get("stellwerk.local/sample") == "waiting"
            assert (("Component", dependency.name) in there) is not waits
        assert sources.named(component).key is not None


def _name(body: JsonObject) -> str:
    return str(dig(body, "metadata", "name"))
