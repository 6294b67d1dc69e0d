"""`stellwerk values`: the merged values of a Component with its chart's defaults, and where each came from."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from stellwerk.cli.arguments.object_argument import ObjectArgument
from stellwerk.cli.objects import previews
from stellwerk.cli.objects.cluster import ClusterSession, with_cluster
from stellwerk.cli.shell import settings, text
from stellwerk.cli.shell.output import as_yaml, print_result
from stellwerk.kube.types.errors import ApiError
from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.operators.component.api import Component
from stellwerk.operators.component.errors import ComponentFailed
from stellwerk.operators.component.insight.preview import ComponentPreviewInput
from stellwerk.operators.component.references.inputs import layers_of
from stellwerk.render.errors import RenderError
from stellwerk.render.request import chart_values
from stellwerk.render.request.values import Layer, Leaf, origins


@with_cluster
async def values(cluster: ClusterSession, subject: ObjectArgument) -> None:
    """Print the values of a Component with the origin of each."""
    component = await previews.component_of(cluster, subject)
    try:
        given = layers_of(component, await ComponentPreviewInput(client=cluster.client).resolved(component))
    except (ComponentFailed, RenderError) as error:
        raise previews.failure(error, component) from None
    defaults = await _defaults(cluster, component, given)
    leaves = origins([*defaults, *given])
    if cluster.settings.output.form == "yaml":
        settings.show_exactly(as_yaml(as_values_file(leaves, {layer.source for layer in defaults})))
    else:
        print_result(lambda _: _table(leaves), lambda: as_json(leaves))


async def _defaults(cluster: ClusterSession, component: Component, given: Sequence[Layer]) -> Sequence[Layer]:
    """The defaults of the Component's chart; none, with a message, where its source cannot be downloaded."""
    try:
        async with previews.tools() as tools:
            _, files = await ComponentPreviewInput(client=cluster.client).offered(component, tools.downloads)
        return chart_values.defaults(files.under(component.spec.path), given)
    except (ComponentFailed, RenderError, ApiError) as error:
        settings.say(f"Defaults of a chart are left out: {text.escaped(str(error))}")
        return ()


def as_values_file(leaves: Sequence[Leaf], defaults: Collection[str] = ()) -> JsonObject:
    """The values nested as in a values file. A null removes what is below it, unless it is itself one of `defaults`."""
    top: JsonObject = {}
    for leaf in leaves:
        if leaf.shown is None and leaf.source not in defaults:
            continue
        here = top
        for key in leaf.path[:-1]:
            inner = here.setdefault(key, {})
            assert isinstance(inner, dict)  # a leaf has nothing below it
            here = inner
        here[leaf.path[-1]] = leaf.shown
    return top


def _table(leaves: Sequence[Leaf]) -> list[str]:
    if not leaves:
        settings.say("The Component has no values; defaults of its chart or kustomization apply.")
        return []
    rows = [[leaf.name, _word(leaf.shown), leaf.source, ", ".join(leaf.overrides)] for leaf in leaves]
    columns = [
        text.TableColumn("PATH"),
        text.TableColumn("VALUE", most=60),
        text.TableColumn("FROM"),
        text.TableColumn("OVERRIDES"),
    ]
    return text.table(columns, rows)


def _word(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def as_json(leaves: Sequence[Leaf]) -> JsonObject:
    """The same for programs."""
    return {
        "values": [
            {"path": [*leaf.path], "value": leaf.shown, "from": leaf.source, "overrides": [*leaf.overrides]}
            for leaf in leaves
        ]
    }
