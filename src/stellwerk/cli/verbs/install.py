"""`stellwerk install`: what a cluster must have before operators of ours can run in it.

The operators themselves are not started here: which image runs them, with how many replicas and on which nodes, is for
the cluster's owner to say. With `--print` the manifests go to where such decisions are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from stellwerk.cli.arguments import options
from stellwerk.cli.arguments.options import DRY_RUN
from stellwerk.cli.local import operators
from stellwerk.cli.shell import settings

if TYPE_CHECKING:
    from stellwerk.cli.objects.cluster import ClusterSession
    from stellwerk.kube.types.model import JsonObject


@click.command("install")
@click.argument("chosen", nargs=-1, metavar="[btp] [component]", type=click.Choice(["btp", "component"]))
@click.option("--print", "only_print", is_flag=True, help="Print the manifests; no cluster is asked.")
@DRY_RUN
@options.all_of
def command(chosen: tuple[str, ...], only_print: bool, dry_run: bool) -> None:
    """Bring the kinds and rights of operators into a cluster.

    Namespaces, CustomResourceDefinitions, service accounts and roles, of all operators if none is named. The rights of
    component include cluster-admin, as with the original. Returns when the API server serves the kinds. Nothing is
    started: stellwerk run does that.
    """
    from stellwerk import assembly
    from stellwerk.cli.objects.cluster import carry_out
    from stellwerk.cli.shell import output

    objects = assembly.installation(chosen or assembly.OPERATORS)
    if only_print:
        output.print_manifests(objects, settings.current().output)
    else:
        carry_out(lambda cluster: _apply(cluster, objects, dry_run))


async def _apply(cluster: ClusterSession, objects: Sequence[JsonObject], dry_run: bool) -> None:
    from stellwerk.kube.types.errors import NotFound
    from stellwerk.kube.types.model import Unstructured, unstructured

    for body in objects:
        obj = Unstructured.of(body)
        target = unstructured(await cluster.client.mapper.resource(obj.gvk))
        try:
            await cluster.client.apply(target, body, field_manager="stellwerk-install", dry_run=dry_run)
        except NotFound:
            if not dry_run:
                raise
            settings.say(f"  {obj.ref} cannot be tried: its namespace is not there yet")
        else:
            settings.show([f"{obj.ref} {'would be applied (dry run)' if dry_run else 'is applied'}"])
    if not dry_run:
        await operators.served(cluster.client, objects)
