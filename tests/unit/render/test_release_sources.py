"""What a user names as the source of a release is rendered as clm renders it."""

from __future__ import annotations

from pathlib import Path

import pytest

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject
from stellwerk.releases import sources
from stellwerk.releases.release import Release
from stellwerk.render.errors import KustomizeFailed
from stellwerk.render.request.offline_capabilities import cluster
from stellwerk.render.request.values import Layer
from stellwerk.render.worker.renderer import Renderer

QUOTED = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: cfg}
data:
  level: "{{ .level }}"
  who: "{{ name }} in {{ namespace }}"
"""
UNQUOTED = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}-cfg
data: {level: {{ .level | quote }}, who: {{ namespace }}}
"""
BASE = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"


def written(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


async def rendered(renderer: Renderer, *paths: Path) -> list[tuple[JsonObject, str]]:
    release = Release(key=ObjectKey("default", "shop"))
    layers = [Layer("values.yaml", {"level": "debug"})]
    found = await sources.rendered(cluster(), renderer, release, sources.read(paths), layers)
    return [(document.body, str(document.origin)) for document in found]


@pytest.mark.parametrize("name", ["cfg.yaml", "cfg.yml", "cfg.json", "cfg", ".cfg.yaml", "cfg.yaml.tpl"])
@pytest.mark.parametrize(("text", "data"), [(QUOTED, "shop in default"), (UNQUOTED, "default")])
async def test_a_file_is_a_template_with_values_name_and_namespace(
    native: Renderer, tmp_path: Path, name: str, text: str, data: str
) -> None:
    written(tmp_path, {name: text})
    [(body, origin)] = await rendered(native, tmp_path / name)
    assert body["data"] == {"level": "debug", "who": data}
    assert origin == str(tmp_path / name)


@pytest.mark.parametrize(
    "files",
    [
        {"overlays/prod/.component-config.yaml": "includedKustomizations: [../../base]\n"},
        {"overlays/prod/.component-config.yaml": "includedKustomizations:\n- '../../base'\n"},
        {
            "overlays/prod/.component-config.yaml": "includedKustomizations: [../../middle]\n",
            "overlays/prod/kustomization.yaml": "resources: [../../middle]\n",
            "middle/.component-config.yaml": "includedKustomizations: [../base]\n",
            "middle/kustomization.yaml": "resources: [../base]\n",
        },
        {
            "overlays/prod/.component-config.yaml": "includedFiles: [../../base/c.yaml]\n",
            "overlays/prod/kustomization.yaml": "resources: [../../base/c.yaml]\n",
        },
    ],
)
async def test_an_overlay_takes_what_it_includes_from_outside_of_its_folder(
    native: Renderer, tmp_path: Path, files: dict[str, str]
) -> None:
    base = {
        "overlays/prod/kustomization.yaml": "resources: [../../base]\n",
        "base/kustomization.yaml": "resources: [c.yaml]\n",
        "base/c.yaml": BASE,
        "other/secret.yaml": "unread",
    }
    written(tmp_path, {**base, **files})
    [(body, origin)] = await rendered(native, tmp_path / "overlays" / "prod")
    assert body["metadata"] == {"name": "c"}
    assert origin == str(tmp_path / "base" / "c.yaml")


async def test_what_is_listed_and_not_included_is_named_with_the_way_out(native: Renderer, tmp_path: Path) -> None:
    written(
        tmp_path,
        {
            "overlays/prod/kustomization.yaml": "resources: [../../base]\n",
            "base/kustomization.yaml": "resources: [c.yaml]\n",
            "base/c.yaml": BASE,
        },
    )
    with pytest.raises(KustomizeFailed, match="outside of the path"):
        await rendered(native, tmp_path / "overlays" / "prod")
