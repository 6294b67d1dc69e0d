"""`stellwerk check`: whether a cluster has what our operators need, and whether they do their work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from stellwerk import assembly
from stellwerk.apply.objects import json_edit
from stellwerk.cli import kinds
from stellwerk.cli.objects import check_rules, health, installations
from stellwerk.cli.objects.check_rules import Found, OperatorDeployment
from stellwerk.cli.objects.cluster import ClusterSession, with_cluster
from stellwerk.cli.shell.errors import Exit
from stellwerk.cli.shell.output import print_result
from stellwerk.delivery.grants import added_to
from stellwerk.delivery.operator_spec import OperatorSpec
from stellwerk.kube.types.model import JsonObject, Unstructured, dig
from stellwerk.runtime.insight.diagnosis import ClusterReader


@with_cluster
async def check(cluster: ClusterSession, operators: Sequence[str], pre: bool, no_objects: bool) -> int:
    """Print what was found about the operators. Returns the exit code.

    If none is named: about those that the cluster has, or about all of them if it has none.
    """
    found = [await _server(cluster)]
    deployments = await installations.deployments(cluster)
    chosen = operators or await _present(cluster, deployments)
    for operator in chosen or assembly.OPERATORS:
        spec, reader = assembly.OPERATORS[operator], ClusterReader(cluster.client)
        installed = installations.by_process(spec, deployments)
        seen = [] if pre else [one for some in installed.values() for one in check_rules.of_deployments(some)]
        seen += await _prepared(reader, spec, installed)
        if not pre and (leader := await installations.leader(reader, spec)) is not None:
            seen.append(leader)
        seen += [] if pre or no_objects else await _objects(reader, operator)
        seen += check_rules.of_unread(reader.hidden)
        seen += check_rules.of_unreadable(reader.unreadable)
        found += [replace(one, subject=f"{operator}: {one.subject}") for one in seen]
    print_result(lambda style: check_rules.shown(found, style), lambda: check_rules.as_json(found))
    verdicts = {one.verdict for one in found}
    return Exit.FAILED if "bad" in verdicts else Exit.DIFFERENT if "warning" in verdicts else Exit.DONE


async def _server(cluster: ClusterSession) -> Found:
    version = (await cluster.client.document("/version")).get("gitVersion")
    return Found("API server", "good", f"{str(version or '').removeprefix('v')} at {cluster.client.config.server}")


async def _present(cluster: ClusterSession, deployments: Sequence[Unstructured]) -> list[str]:
    """The operators of which the cluster has a Deployment or a kind: a cluster need not have all of them."""
    served = set(await cluster.client.mapper.all())
    return [
        name
        for name, spec in assembly.OPERATORS.items()
        if any(installations.by_process(spec, deployments).values())
        or any(row.resource in served for row in kinds.OWN if row.operator.name == name)
    ]


async def _prepared(
    reader: ClusterReader, spec: OperatorSpec, installed: Mapping[str, Sequence[OperatorDeployment]]
) -> list[Found]:
    """Kinds and rights, compared with what an installation brings."""
    ours = [each for some in installed.values() for each in some if not each.is_original]
    install = ours[0].upgrade(spec.name) if ours else f"stellwerk install {spec.name}"
    found, absent, count = list[Found](), list[str](), 0
    only_original = bool(installed[spec.name]) and all(each.is_original for each in installed[spec.name])
    for definition in spec.installation().definitions:
        live, is_hidden = await _live(reader, definition.body())
        if not is_hidden:
            about = check_rules.of_definition(definition.body(), live.body if live else None, install)
            is_older = only_original and about.verdict == "warning"
            found.append(replace(about, verdict="unsure", fix="") if is_older else about)
    if only_original:
        return [*found, Found("rights", "unsure", "those of the original")]
    for body in _accounts(spec, installed):
        live, is_hidden = await _live(reader, body)
        if not is_hidden:
            count += 1
            absent += [str(Unstructured.of(body).ref)] if live is None else []
    return [*found, check_rules.of_rights(absent, count, install)] if count else found


def _accounts(spec: OperatorSpec, installed: Mapping[str, Sequence[OperatorDeployment]]) -> list[JsonObject]:
    """The accounts of all processes, with their roles, under the names that the chart gives them in this installation.

    Roles for users are a choice, and so are webhooks and the binding to cluster-admin.
    """
    bodies = list[JsonObject]()
    for process in spec.processes:
        installation = process.installation()
        ours = next((each for each in installed[process.name] if not each.is_original), None)
        if ours is None and installed[spec.name] and installation.webhooks is not None:
            continue
        namespace = ours.body.key.namespace if ours else installation.namespace
        roles = ours.name_of_roles if ours else installation.account
        account = ours.account if ours else installation.account
        home: JsonObject = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        wanted = [
            _renamed(body, installation.account, account if _is_account(body, installation.account) else roles)
            for body in installation.accounts(namespace)
        ]
        bodies += [body for body in (home, *wanted) if body not in bodies and not _is_of_users(body)]
    return bodies


def _is_of_users(body: JsonObject) -> bool:
    labels = dig(body, "metadata", "labels")
    return isinstance(labels, dict) and any(label.startswith(added_to("")) for label in labels)


def _is_account(body: JsonObject, account: str) -> bool:
    return body["kind"] == "ServiceAccount" and dig(body, "metadata", "name") == account


def _renamed(body: JsonObject, account: str, name: str) -> JsonObject:
    former = str(dig(body, "metadata", "name"))
    if not former.startswith(account):
        return body
    return json_edit.with_value(body, name + former.removeprefix(account), "metadata", "name")


async def _live(reader: ClusterReader, body: JsonObject) -> tuple[Unstructured | None, bool]:
    """The object in the cluster, and whether the user may not see it."""
    wanted = Unstructured.of(body)
    resource = await reader.client.mapper.resource(wanted.gvk)
    live = await reader.find(resource, wanted.key.name, wanted.key.namespace)
    return live, live is None and reader.may_not_see(resource, wanted.key.namespace)


async def _objects(reader: ClusterReader, operator: str) -> list[Found]:
    found = list[Found]()
    for row in kinds.OWN:
        objects = await reader.list(row.resource) if row.operator.name == operator else []
        if row.operator.name == operator and not reader.may_not_see(row.resource, ""):
            unready = [str(obj.ref) for obj in objects if health.of(obj).needs_attention]
            found.append(check_rules.of_objects(row.resource.kind, unready, len(objects)))
    return found
