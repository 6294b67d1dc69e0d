"""`stellwerk list`: the releases in a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stellwerk.cli.arguments import options
from stellwerk.cli.releases import releasing
from stellwerk.cli.shell import settings

if TYPE_CHECKING:
    from stellwerk.cli.objects.cluster import ClusterSession


@click.command("list")
@options.all_of
def command() -> None:
    """List releases with their state."""
    from stellwerk.cli.objects.cluster import carry_out

    carry_out(_list)


async def _list(cluster: ClusterSession) -> None:
    from stellwerk.cli.shell import output
    from stellwerk.kube.types.identifiers import ObjectKey
    from stellwerk.releases.release_store import ReleaseStore

    chosen = cluster.settings.output
    with releasing.explained("list", ObjectKey(cluster.namespace, "*")):
        found = await ReleaseStore(cluster.client).all(cluster.namespace)
    if chosen.form == "yamlstream":
        settings.show_exactly("".join(f"---\n{output.as_yaml(releasing.as_json(one))}" for one in found))
    elif chosen.form == "name":
        settings.show(one.key.name for one in found)
    elif not chosen.is_table:
        output.print_values([releasing.as_json(one) for one in found], chosen)
    elif found:
        settings.show(releasing.table(found))
    else:
        where = f"namespace {cluster.namespace}" if cluster.namespace else "any namespace"
        settings.say(f"There is no release in {where}. Make one: stellwerk apply NAME SOURCE")
