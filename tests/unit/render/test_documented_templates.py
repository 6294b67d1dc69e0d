"""Every example of docs/templates.md does what the page says."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml
from tests.unit.render.given import request

from stellwerk.kube.types.model import JsonObject
from stellwerk.render.binary import renderer_path
from stellwerk.render.errors import RendererMissing
from stellwerk.render.request.request import ClusterApis, ReleaseInfo
from stellwerk.render.worker.pool import Shares
from stellwerk.render.worker.renderer import Renderer

PAGE = (Path(__file__).parents[3] / "docs" / "templates.md").read_text()
_BLOCK = re.compile(r"^```\w+ (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\| `(\{\{.*?\}\})` \| (?:`(.*?)`)? \|", re.MULTILINE)
_CLUSTER = ClusterApis(
    {"major": "1", "minor": "36", "gitVersion": "v1.36.3"},
    api_resources=({"GroupVersion": "v1", "APIResources": [{"Name": "pods", "Kind": "Pod"}]},),
)


@pytest.fixture
async def renderer() -> AsyncIterator[Renderer]:
    try:
        program = renderer_path()
    except RendererMissing as error:
        pytest.skip(str(error))
    async with Renderer(lambda: program, shares=Shares(workers=1)) as renderer:
        yield renderer


async def made(renderer: Renderer, values: JsonObject, files: dict[str, str], path: str) -> list[JsonObject]:
    asked = request(
        values,
        files,
        path=path,
        release=ReleaseInfo("web", "apps"),
        component={"metadata": {"name": "web"}, "status": {"state": "Processing"}},
        component_digest="3f2a",
        cluster=_CLUSTER,
    )
    return [*(await renderer.render(asked)).objects]


def wholes() -> list[tuple[dict[str, str], str]]:
    """The files of each example, and what they come to."""
    found, files = [], dict[str, str]()
    for name, text in _BLOCK.findall(PAGE):
        if name == "result":
            found.append((files, text))
            files = {}
        else:
            files[name] = text
    return found


@pytest.mark.parametrize(("files", "result"), wholes(), ids=lambda value: next(iter(value), "")[:20])
async def test_an_example_renders_to_what_stands_below_it(
    renderer: Renderer, files: dict[str, str], result: str
) -> None:
    values: JsonObject = {"replicas": 3, "image": {"tag": "1.1"}}
    found = await made(renderer, values, files, next(iter(files)).partition("/")[0])
    assert sorted(found, key=str) == sorted(yaml.safe_load_all(result), key=str)


@pytest.mark.parametrize(("expression", "result"), _ROW.findall(PAGE), ids=lambda value: value[:30])
async def test_an_expression_gives_what_stands_beside_it(renderer: Renderer, expression: str, result: str) -> None:
    code = expression.replace("\\|", "|")
    files = {
        "a.yaml": '{{ define "name" }}{{ end }}{{ define "expression" }}' + code + "{{ end }}"
        'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {is: {{ include "expression" . | quote }}}\n',
        "docs/a.md": "Hello",
        "docs/b.md": "",
        ".component-ignore": "docs/\n",
    }
    (found,) = await made(renderer, {"tier": "front", "ports": [80, 443], "empty": ""}, files, "")
    assert found["data"] == {"is": result.replace("⏎", "\n")}


def test_the_page_has_examples() -> None:
    assert len(wholes()) == 2
    assert len(_ROW.findall(PAGE)) > 20
