"""Pages for the Kyma dashboard: parseable, complete, and about fields that the kind has."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from tests.toy_operator.operator import OPERATOR as TOY

from stellwerk.assembly import OPERATORS
from stellwerk.delivery.monitoring import busola
from stellwerk.kube.schema.crd import Definition

DEFINITIONS = [each for spec in (*OPERATORS.values(), TOY) for each in spec.installation().definitions]
WIDGETS = {"Badge", "ConditionList", "CodeViewer"}
META = {"metadata.generation", "metadata.name"}


def page(definition: Definition) -> tuple[dict[str, Any], dict[str, Any]]:
    """The ConfigMap, and its sections."""
    body: Any = busola.config_map(definition)
    return body, {name: yaml.safe_load(text) for name, text in body["data"].items()}


def fields(schema: dict[str, Any], prefix: str = "") -> set[str]:
    """The paths of all fields, those of list items included."""
    found = {prefix} if prefix else set[str]()
    for name, child in schema.get("properties", {}).items():
        found |= fields(child, f"{prefix}.{name}".lstrip("."))
    if "items" in schema:
        found |= fields(schema["items"], prefix)
    return found


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: str(definition.name))
def test_a_page_is_about_its_kind_and_shows_fields_that_exist(definition: Definition) -> None:
    body, sections = page(definition)
    crd: Any = definition.body()
    version = crd["spec"]["versions"][0]
    assert body["metadata"]["labels"]["busola.io/extension"] == "resource"
    assert body["metadata"]["labels"]["busola.io/extension-version"] == "0.5"
    assert set(sections) == {"general", "list", "details", "form", "translations"}
    general = sections["general"]
    expected = {"kind": crd["spec"]["names"]["kind"], "group": crd["spec"]["group"], "version": version["name"]}
    assert general["resource"] == expected
    assert general["scope"] == ("namespace" if crd["spec"]["scope"] == "Namespaced" else "cluster")
    assert general["urlPath"] == crd["spec"]["names"]["plural"]
    known = fields(version["schema"]["openAPIV3Schema"]) | META
    shown = [*sections["list"], *sections["details"]["header"], *sections["details"]["body"]]
    assert shown
    for each in shown:
        assert each["name"]
        assert re.sub(r"\[[^\]]*\]", "", each["source"]) in known
        assert each.get("widget") in {None, *WIDGETS}


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: str(definition.name))
def test_all_columns_of_kubectl_are_on_a_page(definition: Definition) -> None:
    _, sections = page(definition)
    columns = [column for column in definition.versions[0].columns if column.name != "Age"]
    assert [each["name"] for each in sections["details"]["header"]] == [column.name for column in columns]
    assert [each["name"] for each in sections["list"]] == [column.name for column in columns if not column.priority]


@pytest.mark.parametrize(
    ("path", "expression"),
    [
        (".status.state", "status.state"),
        ('.status.conditions[?(@.type=="Ready")].status', 'status.conditions[type="Ready"].status'),
        (".status.conditions[?(@.type=='Ready')].reason", 'status.conditions[type="Ready"].reason'),
        (".status.conditions[-1:].reason", "status.conditions[-1].reason"),
        (".status.conditions[0].reason", "status.conditions[0].reason"),
        (".spec.channels[*].version", "spec.channels.version"),
    ],
)
def test_a_jsonpath_becomes_a_jsonata_expression(path: str, expression: str) -> None:
    assert busola.jsonata(path) == expression


@pytest.mark.parametrize("path", [".status..reason", ".a[?(@.b>1)].c"])
def test_a_jsonpath_without_a_translation_is_an_error(path: str) -> None:
    with pytest.raises(ValueError, match="no JSONata"):
        busola.jsonata(path)
