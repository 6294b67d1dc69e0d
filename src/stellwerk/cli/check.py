"""`stellwerk check`: whether a cluster has what our operators need, and whether they do their work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from stellwerk.cli import settings
from stellwerk.cli.errors import Exit

if TYPE_CHECKING:
    from stellwerk.cli.checkup import Found
    from stellwerk.cli.cluster import Cluster
    from stellwerk.kube.model import JsonObject, Unstructured


@click.command("check")
@click.argument("operators", nargs=-1, metavar="[btp] [component]", type=click.Choice(["btp", "component"]))
@click.option("--pre", is_flag=True, help="Only what must be there before an operator starts: kinds and rights.")
@settings.all_of
def command(operators: tuple[str, ...], pre: bool) -> int:
    """Check whether a cluster has what operators need, and whether they do their work.

    Looked at are kinds, rights, leaders and objects, of all operators if none is named. Exits with 3 where something
    deserves a look, and with 1 where an operator cannot work.
    """
    from stellwerk import assembly
    from stellwerk.cli.cluster import carry_out

    return carry_out(lambda cluster: _check(cluster, operators or assembly.OPERATORS, pre))


async def _check(cluster: Cluster, operators: Sequence[str], pre: bool) -> int:
    from stellwerk.cli import checkup

    found = [await _server(cluster)]
    for operator in operators:
        seen = await _prepared(cluster, operator)
        seen += [] if pre else await _at_work(cluster, operator)
        found += [replace(one, subject=f"{operator}: {one.subject}") for one in seen]
    if cluster.settings.output.is_table:
        settings.show(checkup.shown(found, cluster.settings.style()))
    else:
        from stellwerk.cli.output import print_value

        print_value(checkup.as_json(found), cluster.settings.output)
    verdicts = {one.verdict for one in found}
    return Exit.FAILED if "bad" in verdicts else Exit.DIFFERENT if "warning" in verdicts else Exit.DONE


async def _server(cluster: Cluster) -> Found:
    from stellwerk.cli.checkup import Found

    version = (await cluster.client.document("/version")).get("gitVersion")
    return Found("API server", "good", f"{str(version or '').removeprefix('v')} at {cluster.client.config.server}")


async def _prepared(cluster: Cluster, operator: str) -> list[Found]:
    """Kinds and rights, compared with what `stellwerk install` would bring."""
    from stellwerk import assembly
    from stellwerk.cli import checkup
    from stellwerk.kube.model import Unstructured

    install = f"stellwerk install {operator}"
    found, absent, count = list[checkup.Found](), list[str](), 0
    for body in assembly.installation([operator]):
        live = await _live(cluster, body)
        if body["kind"] == "CustomResourceDefinition":
            found.append(checkup.of_definition(body, live.body if live else None, install))
        elif not _is_a_choice(body):
            count += 1
            absent += [str(Unstructured.of(body).ref)] if live is None else []
    return [*found, checkup.of_rights(absent, count, install)]


def _is_a_choice(body: JsonObject) -> bool:
    """The binding to cluster-admin may be left out on purpose."""
    from stellwerk.kube.model import dig

    return dig(body, "roleRef", "name") == "cluster-admin"


async def _live(cluster: Cluster, body: JsonObject) -> Unstructured | None:
    from stellwerk.kube.model import Unstructured, unstructured

    wanted = Unstructured.of(body)
    resource = await cluster.client.mapper.resource(wanted.gvk)
    return await cluster.client.find(unstructured(resource), wanted.key.name, wanted.key.namespace)


async def _at_work(cluster: Cluster, operator: str) -> list[Found]:
    """Who leads, and how the objects are."""
    from stellwerk import assembly
    from stellwerk.cli import checkup, health, kinds
    from stellwerk.cli.errors import Failure
    from stellwerk.kube.names import Resource

    leases = Resource("coordination.k8s.io", "v1", "Lease", "leases", namespaced=True)
    held = await cluster.list(leases, fields=f"metadata.name={assembly.lease_of(operator)}")
    found = [checkup.of_leases(held, datetime.now(UTC))]
    for row in kinds.OWN:
        if row.operator != operator:
            continue
        try:
            objects = await cluster.list(row.resource)
        except Failure:
            continue  # the kind is not there, which has been said
        unready = [str(obj.ref) for obj in objects if health.of(obj).needs_attention]
        found.append(checkup.of_objects(row.resource.kind, row.short, unready, len(objects)))
    return found
