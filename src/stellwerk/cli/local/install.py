"""`stellwerk install`: what a cluster must have before operators of ours can run in it.

The verb starts no operator: the cluster's owner decides about image, replicas and nodes. `--print` is for owners who
keep their manifests elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from stellwerk import assembly
from stellwerk.cli.local.operators import served
from stellwerk.cli.objects.cluster import ClusterSession, with_cluster
from stellwerk.cli.shell import output, settings
from stellwerk.kube.types.errors import NotFound
from stellwerk.kube.types.model import JsonObject, Unstructured, unstructured


def install(operators: tuple[str, ...], only_print: bool, dry_run: bool) -> None:
    """Apply, or print, what the operators need in a cluster; all operators if none is named."""
    objects = assembly.installation(operators or assembly.OPERATORS)
    if only_print:
        output.print_manifests(objects, settings.current().output)
    else:
        _apply(objects, dry_run)


@with_cluster
async def _apply(cluster: ClusterSession, objects: Sequence[JsonObject], dry_run: bool) -> None:
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
        await served(cluster.client, objects)
