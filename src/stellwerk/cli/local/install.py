"""`stellwerk install`: what the Helm chart installs, without Helm.

Without an image nothing is started: the verb brings what a cluster must have before an operator can run in it.
`--print` is for owners who keep their manifests elsewhere; no cluster is asked for it, so the chart takes nothing for
granted that a Kubernetes does not have by itself. Otherwise the chart sees what the cluster serves, as with Helm.

With an image, objects of an earlier call that the values of this one leave out are deleted, as Helm does it: webhooks
that are switched off, or a binding to cluster-admin. An operator that Helm has installed, or that runs in another
namespace, is refused: roles for the whole cluster have one account, and the running operator would lose its rights.
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
from stellwerk.cli.objects import installations
from stellwerk.cli.objects.check_rules import OperatorDeployment
from stellwerk.cli.objects.cluster import ClusterSession, with_cluster
from stellwerk.cli.shell import output, settings
from stellwerk.cli.shell.errors import Failure
from stellwerk.delivery.operator_spec import OperatorSpec
from stellwerk.kube.types.errors import NotFound
from stellwerk.kube.types.model import JsonObject, Unstructured, unstructured


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
    await _refuse_another(cluster, operators, choice.namespace)
    apis = {resource.api_version for resource in await cluster.client.mapper.all()}
    objects = await chart.rendered(operators, replace(choice, apis=sorted(apis)))
    for body in objects:
        resource = await cluster.client.mapper.resource(Unstructured.of(body).gvk)
        obj = Unstructured.of(chart.in_release(body, operators, choice) if resource.namespaced else body)
        try:
            await cluster.client.apply(
                unstructured(resource), obj.body, field_manager="stellwerk-install", dry_run=dry_run
            )
        except NotFound:
            if not dry_run:
                raise
            settings.say(f"  {obj.ref} cannot be tried: its namespace is not there yet")
        else:
            settings.show([f"{obj.ref} {'would be applied (dry run)' if dry_run else 'is applied'}"])
    if choice.image:
        await _remove_outdated(cluster, operators, objects, dry_run)
    if not dry_run:
        await served(cluster.client, objects)


async def _refuse_another(cluster: ClusterSession, operators: Sequence[OperatorSpec], namespace: str) -> None:
    """Raise Failure where an operator runs that this call would take the rights from."""
    deployments = await installations.deployments(cluster)
    for operator in operators:
        wanted = namespace or operator.installation().namespace
        for other in installations.running(operator, deployments):
            key = other.body.key
            if other.release or key.namespace != wanted:
                origin = f" (Helm release {other.release})" if other.release else ""
                raise Failure(
                    f"cannot install {operator.name} in namespace {wanted}: it runs as Deployment {key}{origin}",
                    cause="its roles for the whole cluster would be bound to another account",
                    fix=f"{other.upgrade(operator.name)}\n{_end(operator, other)} ends it first",
                )


def _end(operator: OperatorSpec, other: OperatorDeployment) -> str:
    if other.release:
        return f"helm uninstall {other.release} -n {other.body.key.namespace}"
    return f"stellwerk uninstall {operator.name}"


async def _remove_outdated(
    cluster: ClusterSession, operators: Sequence[OperatorSpec], objects: Sequence[JsonObject], dry_run: bool
) -> None:
    """Delete what an earlier call has applied for these operators and this one does not."""
    # Not by version: the API server may list an object under another one than the chart has.
    wanted = {(obj.gvk.group, obj.gvk.kind, obj.key) for obj in map(Unstructured.of, objects)}
    found = await installations.installed(cluster, operators, objects)
    outdated = [each for each in found if (each[0].group, each[0].kind, each[1].key) not in wanted]
    await installations.remove(cluster, outdated, dry_run=dry_run)
