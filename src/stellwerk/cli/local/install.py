"""`stellwerk install`: what the Helm chart installs, without Helm.

Without an image nothing is started: the verb brings what a cluster must have before an operator can run in it.
`--print` is for owners who keep their manifests elsewhere; no cluster is asked for it, so what depends on the APIs of
the cluster is the default of each program. Otherwise the chart sees what the cluster serves, as with Helm.

With an image, objects of an earlier call that the values of this one leave out are deleted, as Helm does it: webhooks
that are switched off, or a binding to cluster-admin. An operator that Helm has installed, or that runs in another
namespace, is refused: roles for the whole cluster have one account, and the running operator would lose its rights.
So is one whose objects the cluster cannot take: nothing is written before all kinds are known, and while a Deployment
of the original has the name of one of ours.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from stellwerk import assembly
from stellwerk.apply.objects.desired import defined_by
from stellwerk.apply.objects.manifests import Document
from stellwerk.cli.local import chart, obstacles
from stellwerk.cli.local.chart import ChartChoice
from stellwerk.cli.local.operators import served
from stellwerk.cli.objects import installations
from stellwerk.cli.objects.check_rules import OperatorDeployment
from stellwerk.cli.objects.cluster import ClusterSession, with_cluster
from stellwerk.cli.shell import output, settings
from stellwerk.cli.shell.errors import Failure
from stellwerk.delivery import helm_chart
from stellwerk.delivery.operator_spec import OperatorSpec
from stellwerk.delivery.template_lookup import answer
from stellwerk.kube.types.errors import NotFound, NotServed
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, Unstructured, unstructured


def install(operators: tuple[str, ...], image: str, files: tuple[Path, ...], only_print: bool, dry_run: bool) -> None:
    """Apply, or print, what the chart renders for operators; for all of them if none is named."""
    call = settings.current()
    specs = [assembly.OPERATORS[name] for name in operators or assembly.OPERATORS]
    choice = ChartChoice(image=image, files=files, namespace=call.namespace or "")
    if only_print:
        offline = replace(choice, apis=helm_chart.apis_of_defaults(specs))
        output.print_manifests(asyncio.run(chart.rendered(specs, offline)), call.output)
    else:
        _apply(specs, choice, dry_run)


@with_cluster
async def _apply(
    cluster: ClusterSession, operators: Sequence[OperatorSpec], choice: ChartChoice, dry_run: bool
) -> None:
    deployments = await installations.deployments(cluster)
    _refuse_another(operators, deployments, choice.namespace)
    apis = {resource.api_version for resource in await cluster.client.mapper.all()}
    objects = await chart.rendered(operators, replace(choice, apis=sorted(apis)), partial(answer, cluster.client))
    if failure := obstacles.original_in_place(operators, deployments, objects):
        raise failure
    for body, resource in await _resolved(cluster, objects):
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


async def _resolved(cluster: ClusterSession, objects: Sequence[JsonObject]) -> list[tuple[JsonObject, Resource]]:
    """The objects with their resources. Raises Failure for a kind that is neither served nor among the objects."""
    brought = defined_by(map(Document, objects))
    found = list[tuple[JsonObject, Resource]]()
    for obj in map(Unstructured.of, objects):
        try:
            resource = brought.get(obj.gvk) or await cluster.client.mapper.resource(obj.gvk)
        except NotServed:
            raise obstacles.absent_kind(obj) from None
        found.append((obj.body, resource))
    return found


def _refuse_another(operators: Sequence[OperatorSpec], deployments: Sequence[Unstructured], namespace: str) -> None:
    """Raise Failure where an operator runs that this call would take the rights from."""
    for operator in operators:
        wanted = namespace or operator.installation().namespace
        for other in installations.running(operator, deployments):
            key = other.body.key
            if other.release or key.namespace != wanted:
                origin = f" (Helm release {other.release})" if other.release else ""
                raise Failure(
                    f"cannot install {operator.name} in namespace {wanted}: it runs as Deployment {key}{origin}",
                    cause="its roles for the whole cluster would be bound to another account",
                    fix=f"{other.upgrade(operator.name)}\n{_end(operator, other)}".strip(),
                )


def _end(operator: OperatorSpec, other: OperatorDeployment) -> str:
    """How to end it first; empty for a release of the original, with which objects of users may go."""
    if other.release:
        command = f"helm uninstall {other.release} -n {other.body.key.namespace} ends it first"
        return command if other.is_of_chart else ""
    return f"stellwerk uninstall {operator.name} ends it first"


async def _remove_outdated(
    cluster: ClusterSession, operators: Sequence[OperatorSpec], objects: Sequence[JsonObject], dry_run: bool
) -> None:
    """Delete what an earlier call has applied for these operators and this one does not."""
    # Not by version: the API server may list an object under another one than the chart has.
    wanted = {(obj.gvk.group, obj.gvk.kind, obj.key) for obj in map(Unstructured.of, objects)}
    found = await installations.installed(cluster, operators, objects)
    outdated = [each for each in found if (each[0].group, each[0].kind, each[1].key) not in wanted]
    await installations.remove(cluster, outdated, dry_run=dry_run)
