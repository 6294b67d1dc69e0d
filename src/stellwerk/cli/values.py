"""`stellwerk values`: the merged values of a Component, and where each came from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stellwerk.cli import previewing, settings, text
from stellwerk.cli.completion import complete_subject
from stellwerk.cli.subject import Subject, SubjectType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stellwerk.cli.cluster import Cluster
    from stellwerk.kube.model import JsonObject, JsonValue
    from stellwerk.render.values import Leaf


@click.command("values")
@click.argument("subject", metavar="comp/NAME", type=SubjectType(), shell_complete=complete_subject)
@settings.all_of
def command(subject: Subject) -> None:
    """Show the merged values of a Component and their origin, Secrets masked."""
    from stellwerk.cli.cluster import carry_out

    carry_out(lambda cluster: _show(cluster, subject))


async def _show(cluster: Cluster, subject: Subject) -> None:
    from stellwerk.operators.component.deployment import layers_of
    from stellwerk.operators.component.errors import ComponentFailed
    from stellwerk.operators.component.preview import Desk
    from stellwerk.render import values
    from stellwerk.render.errors import RenderError

    component = await previewing.component_of(cluster, subject)
    try:
        layers = layers_of(component, await Desk(client=cluster.client).resolved(component))
    except (ComponentFailed, RenderError) as error:
        raise previewing.failure(error, component) from None
    leaves = values.origins(layers)
    if cluster.settings.output.is_table:
        settings.show(_table(leaves))
        return
    from stellwerk.cli.output import print_value

    print_value(as_json(leaves), cluster.settings.output)


def _table(leaves: Sequence[Leaf]) -> list[str]:
    if not leaves:
        settings.say("The Component has no values; defaults of its chart or kustomization apply.")
        return []
    rows = [[leaf.name, _word(leaf.shown), leaf.source, ", ".join(leaf.overrides)] for leaf in leaves]
    columns = [text.Column("PATH"), text.Column("VALUE", most=60), text.Column("FROM"), text.Column("OVERRIDES")]
    return text.table(columns, rows)


def _word(value: JsonValue) -> str:
    import json

    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def as_json(leaves: Sequence[Leaf]) -> JsonObject:
    """The same for programs."""
    return {
        "values": [
            {"path": [*leaf.path], "value": leaf.shown, "from": leaf.source, "overrides": [*leaf.overrides]}
            for leaf in leaves
        ]
    }
