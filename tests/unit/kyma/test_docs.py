"""The pages about the lifecycle manager name what there is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
import pytest

from stellwerk.cli import verb_tree
from stellwerk.kube.schema.crd import Definition
from stellwerk.operators.kyma import api, labels
from stellwerk.operators.kyma.insight.help_topics import HELP
from stellwerk.operators.kyma.settings import PROCESS_TABLE, TABLE

ROOT = Path(__file__).parents[3]
HELP_FILES = sorted((ROOT / "src/stellwerk/operators/kyma/help").glob("*.md"))
PAGES = [ROOT / "docs/kyma.md", ROOT / "docs/migration/kyma-lifecycle-manager.md", *HELP_FILES]
OF_OTHERS = {
    "docker-server",
    "docker-username",
    "field-selector",
    "force-conflicts",
    "from-file",
    "ignore-not-found",
    "merge",
    "overwrite",
}
OF_OTHERS |= {"patch", "replicas", "server-side", "show-labels", "type", "all"}
"""Flags of kubectl."""


def _flags() -> set[str]:
    verbs = [verb.load(name) for name, verb in verb_tree.VERBS.items()]
    verbs += [each for verb in verbs if isinstance(verb, click.Group) for each in verb.commands.values()]
    parameters = [*PROCESS_TABLE.options(), *(parameter for verb in verbs for parameter in verb.params)]
    return {option.lstrip("-") for parameter in parameters for option in parameter.opts} | OF_OTHERS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_flag_and_mark_that_is_named_exists(page: Path) -> None:
    text = page.read_text()
    assert set(re.findall(r"--([a-z][a-z-]+[a-z])", text)) <= {row.flag for row in TABLE.rows} | _flags()
    marks = {str(value) for name, value in vars(labels).items() if name.isupper()}
    kinds = {each.name for each in api.DEFINITIONS}
    named = set(
        re.findall(r"operator\.kyma-project\.io/[a-z0-9-]*[a-z0-9]|(?<![$a-z])[a-z]+\.operator\.kyma-project\.io", text)
    )
    assert named <= marks | kinds | {"operator.kyma-project.io/v1beta2", "btpoperators.operator.kyma-project.io"}


def test_no_topic_is_named_like_a_reason() -> None:
    words = {str(word).lower() for help in HELP.values() for word in help.catalogue.meanings}
    assert not words & {name for help in HELP.values() for name in help.topics}


def undescribed(schema: dict[str, Any], path: str) -> list[str]:
    """The fields below a schema that have no description."""
    fields = schema.get("properties") or {}
    found = [f"{path}.{name}" for name, field in fields.items() if not field.get("description")]
    for name, field in fields.items():
        found += undescribed(field, f"{path}.{name}")
    items = schema.get("items")
    return found + (undescribed(items, f"{path}[]") if items else [])


@pytest.mark.parametrize("definition", api.DEFINITIONS, ids=lambda each: str(each.name))
def test_kubectl_explains_every_field_of_our_kinds(definition: Definition) -> None:
    body: Any = definition.body()
    for version in body["spec"]["versions"]:
        parts = version["schema"]["openAPIV3Schema"]["properties"]
        ours = {name: parts[name] for name in ("spec", "status") if name in parts}
        assert undescribed({"properties": ours}, definition.name) == []


def test_a_field_without_a_description_is_found() -> None:
    items = {"properties": {"name": {"type": "string"}}}
    schema = {
        "properties": {"spec": {"description": "d", "properties": {"modules": {"description": "d", "items": items}}}}
    }
    assert undescribed(schema, "k") == ["k.spec.modules[].name"]


def test_the_columns_are_those_of_the_original_and_what_explains_a_state() -> None:
    served = [each.versions[0] for each in api.DEFINITIONS]
    shown = {each.kind.resource.kind: [column.name for column in each.columns] for each in served}
    assert shown == {
        "Kyma": ["State", "Reason", "Age"],
        "ModuleTemplate": ["Module", "Version", "Age"],
        "ModuleReleaseMeta": ["Channels", "Mandatory", "Age"],
        "Manifest": ["State", "Version", "Reason", "Age"],
        "Watcher": ["State", "Reason", "Age"],
    }
