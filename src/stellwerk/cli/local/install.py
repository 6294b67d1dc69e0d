"""`stellwerk install`: what the Helm chart installs, without Helm.

Without an image nothing is started: the verb brings what a cluster must have before an operator can run in it.
`--print` is for owners who keep their manifests elsewhere; no cluster is asked for it, so the chart takes nothing for
granted that a Kubernetes does not have by itself. Otherwise the chart sees what the cluster serves, as with Helm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from stellwerk import assembly
from stellwerk.cli.local import chart
from stellwerk.cli.local.chart import ChartChoice
from stellwerk.cli.local.operators import served
from stellwerk.cli.objects.cluster import ClusterSession, with_cluster
from stellwerk.cli.shell import output, settings
from stellwerk.delivery.operator_spec import OperatorSpec
from stellwerk.kube.types.errors import NotFound
from stellwerk.kube.types.model import Unstructured, unstructured


def install(operators: tuple[str, ...], image: str, files: tuple[Path, ...], only_print: bool, dry_run: bool) -> None:
    """Apply, or print, what the chart renders for operators; for all of them if none is named."""
    call = settings.current()
    specs = [assembly.OPERATORS[name] for name in operators or assembly.OPERATORS]
    choice = ChartChoice(image=image, files=files, namespace=call.namespace or "")
    if only_print:
        output.print_manifests(asyncio.run(chart.rendered(specs, choice)), call.output)
    else:
        _apply(specs, choice, dry_run)


@with_cluster
async def _apply(
    cluster: ClusterSession, operators: Sequence[OperatorSpec], choice: ChartChoice, dry_run: bool
) -> None:
    apis = {resource.api_version for resource in await cluster.client.mapper.all()}
    objects = await chart.rendered(operators, replace(choice, apis=sorted(apis)))
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
