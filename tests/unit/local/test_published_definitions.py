"""Definitions of others, without what the API server does not act on."""

from __future__ import annotations

from stellwerk.kube.types.model import JsonObject
from stellwerk.local.build.published_definitions import MODULES, without_descriptions


def test_descriptions_go_and_properties_of_that_name_stay() -> None:
    field: JsonObject = {"type": "string", "description": "for people"}
    schema: JsonObject = {"description": "for people", "properties": {"description": field, "hosts": {"items": field}}}
    left: JsonObject = {"properties": {"description": {"type": "string"}, "hosts": {"items": {"type": "string"}}}}
    assert without_descriptions(schema) == left


def test_a_definition_comes_from_one_module() -> None:
    names = [name for module in MODULES for name in module.files]
    assert len(names) == len(set(names))
