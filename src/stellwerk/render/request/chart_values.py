"""The default values of a chart, as Helm merges them, with where each comes from.

    defaults(files, layers) -> tuple[Layer, ...]      subcharts first, the chart's own values last

A subchart's values lie under its name, or under the alias that the chart gives it, and the chart's own values win. A
subchart whose condition is false under the merged values is left out. Values under `global` are not copied into
subcharts: they would be shown once for each of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stellwerk.kube.types.model import JsonObject, JsonValue, dig
from stellwerk.render.files import archive
from stellwerk.render.files.files import Files
from stellwerk.render.request import values
from stellwerk.render.request.values import Layer

_DEEPEST = 5
"""How many levels of subcharts are read."""


def defaults(files: Files, layers: Sequence[Layer] = ()) -> tuple[Layer, ...]:
    """The defaults of the chart in these files, the nearest last; nothing where they are no chart.

    `layers` are the values that are merged over them. Raises SourceError, InvalidValues.
    """
    return tuple(_of_chart(files, "", layers, 0)) if "Chart.yaml" in files else ()


def _of_chart(files: Files, place: str, layers: Sequence[Layer], depth: int) -> Iterator[Layer]:
    source = f"{place}values.yaml"
    own = Layer(source, values.read(files["values.yaml"], source) if "values.yaml" in files else {})
    merged = values.merge([own, *layers])
    chart = values.read(files["Chart.yaml"], f"{place}Chart.yaml")
    for folder, subchart in _subcharts(files) if depth < _DEEPEST else ():
        name = str(values.read(subchart["Chart.yaml"], f"{place}charts/{folder}/Chart.yaml").get("name") or folder)
        for key in _keys(chart, name, merged):
            given = merged.get(key)
            over = [Layer("", given)] if isinstance(given, dict) else []
            for layer in _of_chart(subchart, f"{place}charts/{folder}/", over, depth + 1):
                yield Layer(layer.source, {key: layer.values})
    yield own


def _subcharts(files: Files) -> Iterator[tuple[str, Files]]:
    """Unpacked and packed ones, by their names in `charts`."""
    names = dict.fromkeys(path.split("/")[1] for path in files if path.startswith("charts/"))
    for name in names:
        path = f"charts/{name}"
        if path not in files:
            subchart = files.under(path)
        elif name.endswith((".tgz", ".tar.gz")):
            subchart = archive.unpack(files[path], name=name)
            subchart = subchart.under(next(iter(subchart), "").partition("/")[0])
        else:
            continue
        if "Chart.yaml" in subchart:
            yield name, subchart


def _keys(chart: JsonObject, name: str, merged: JsonObject) -> list[str]:
    """Where the values of a subchart lie: under its name or its aliases, without those that are switched off."""
    listed = chart.get("dependencies")
    asked = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    matching = [one for one in asked if one.get("name") == name]
    if not matching:
        return [name]
    return [str(one.get("alias") or name) for one in matching if _is_enabled(one, merged)]


def _is_enabled(dependency: JsonObject, merged: JsonObject) -> bool:
    """The first condition that has an answer decides."""
    for path in str(dependency.get("condition") or "").split(","):
        found: JsonValue = dig(merged, *path.strip().split(".")) if path.strip() else None
        if isinstance(found, bool):
            return found
    return True
