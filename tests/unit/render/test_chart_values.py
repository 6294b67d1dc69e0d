"""The defaults of a chart, as Helm merges them."""

from __future__ import annotations

import io
import tarfile

from stellwerk.render.files.files import Files
from stellwerk.render.request import chart_values, values
from stellwerk.render.request.values import Layer

CHART = (
    "apiVersion: v2\nname: app\ndependencies:\n- name: db\n  alias: store\n  condition: store.enabled\n- name: cache\n"
)
FILES: dict[str, bytes | str] = {
    "Chart.yaml": CHART,
    "values.yaml": "replicas: 1\nimage: {tag: a}\nstore: {size: 5Gi}\n",
    "charts/db/Chart.yaml": "apiVersion: v2\nname: db\n",
    "charts/db/values.yaml": "size: 1Gi\nuser: admin\n",
}


def packed(name: str, text: str) -> bytes:
    """A subchart as `helm package` makes it."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for path, content in (("Chart.yaml", f"name: {name}\n"), ("values.yaml", text)):
            info = tarfile.TarInfo(f"{name}/{path}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content.encode()))
    return data.getvalue()


def origins(files: Files, *layers: Layer) -> dict[str, tuple[object, str]]:
    found = values.origins([*chart_values.defaults(files, layers), *layers])
    return {leaf.name: (leaf.shown, leaf.source) for leaf in found}


def test_the_chart_comes_before_its_subcharts_and_what_is_given_before_both() -> None:
    files = Files.of({**FILES, "charts/cache-1.tgz": packed("cache", "ttl: 10\n")})
    assert origins(files, Layer("spec.values", {"image": {"tag": "b"}})) == {
        "replicas": (1, "values.yaml"),
        "image.tag": ("b", "spec.values"),
        "store.size": ("5Gi", "values.yaml"),
        "store.user": ("admin", "charts/db/values.yaml"),
        "cache.ttl": (10, "charts/cache-1.tgz/values.yaml"),
    }


def test_a_subchart_that_is_switched_off_has_no_defaults() -> None:
    found = origins(Files.of(FILES), Layer("spec.values", {"store": {"enabled": False}}))
    assert "store.user" not in found
    assert found["store.size"] == ("5Gi", "values.yaml")


def test_what_is_no_chart_has_no_defaults() -> None:
    assert chart_values.defaults(Files.of({"values.yaml": "a: 1\n"})) == ()
    assert chart_values.defaults(Files.of({"Chart.yaml": "name: x\n"})) == (Layer("values.yaml", {}),)
