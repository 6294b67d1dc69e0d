"""`stellwerk check`: whether a cluster has what our operators need, and whether they do their work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from stellwerk import assembly
from stellwerk.cli import kinds
from stellwerk.cli.objects import check_rules, health
from stellwerk.cli.objects.check_rules import Found
from stellwerk.cli.objects.cluster import ClusterSession, with_cluster
from stellwerk.cli.shell import settings
from stellwerk.cli.shell.errors import Exit
from stellwerk.cli.shell.output import print_value
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, Unstructured, dig
from stellwerk.runtime.insight.diagnosis import ClusterReader


@with_cluster
async def check(cluster: ClusterSession, operators: Sequence[str], pre: bool) -> int:
    """Print what was found about the operators, all of them if none is named. Returns the exit code."""
    found = [await _server(cluster)]
    for operator in operators or assembly.OPERATORS:
        reader = ClusterReader(cluster.client)
        seen = await _prepared(reader, operator)
        seen += [] if pre else await _at_work(reader, operator)
        seen += check_rules.of_unread(reader.hidden)
        seen += check_rules.of_unreadable(reader.unreadable)
        found += [replace(one, subject=f"{operator}: {one.subject}") for one in seen]
    if cluster.settings.output.is_table:
        settings.show(check_rules.shown(found, cluster.settings.style()))
    else:
        print_value(check_rules.as_json(found), cluster.settings.output)
    verdicts = {one.verdict for one in found}
    return Exit.FAILED if "bad" in verdicts else Exit.DIFFERENT if "warning" in verdicts else Exit.DONE


async def _server(cluster: ClusterSession) -> Found:
    version = (await cluster.client.document("/version")).get("gitVersion")
    return Found("API server", "good", f"{str(version or '').removeprefix('v')} at {cluster.client.config.server}")


async def _prepared(reader: ClusterReader, operator: str) -> list[Found]:
    """Kinds and rights, compared with what `stellwerk install` would bring."""
    install = f"stellwerk install {operator}"
    found, absent, count = list[Found](), list[str](), 0
    for body in assembly.installation([operator]):
        wanted = Unstructured.of(body)
        resource = await reader.client.mapper.resource(wanted.gvk)
        live = await reader.find(resource, wanted.key.name, wanted.key.namespace)
        if live is None and reader.may_not_see(resource, wanted.key.namespace):
            continue
        if wanted.gvk.kind == "CustomResourceDefinition":
            found.append(check_rules.of_definition(body, live.body if live else None, install))
        elif not _is_a_choice(body):
            count += 1
            absent += [str(wanted.ref)] if live is None else []
    return [*found, check_rules.of_rights(absent, count, install)] if count else found


def _is_a_choice(body: JsonObject) -> bool:
    """The binding to cluster-admin may be left out on purpose."""
    return dig(body, "roleRef", "name") == "cluster-admin"


async def _at_work(reader: ClusterReader, operator: str) -> list[Found]:
    """Who leads, and how the objects are."""
    found: list[Found] = []
    leases = Resource("coordination.k8s.io", "v1", "Lease", "leases", namespaced=True)
    held = await reader.list(leases, fields=f"metadata.name={assembly.OPERATORS[operator].installation().lease}")
    if not reader.may_not_see(leases, ""):
        found.append(check_rules.of_leases(held, datetime.now(UTC)))
    for row in kinds.OWN:
        objects = await reader.list(row.resource) if row.operator.name == operator else []
        if row.operator.name == operator and not reader.may_not_see(row.resource, ""):
            unready = [str(obj.ref) for obj in objects if health.of(obj).needs_attention]
            found.append(check_rules.of_objects(row.resource.kind, row.short, unready, len(objects)))
    return found
