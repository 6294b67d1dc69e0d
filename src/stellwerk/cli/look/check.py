"""`stellwerk check`: whether a cluster has what our operators need, and whether they do their work."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from stellwerk import assembly
from stellwerk.api.core import Secret
from stellwerk.apply.objects import json_edit
from stellwerk.cli import kinds
from stellwerk.cli.local.operators import SAMPLE_LABEL, WAITING
from stellwerk.cli.objects import check_rules, health, installations, operator_liveness, webhook_calls
from stellwerk.cli.objects.check_rules import Found, OperatorDeployment
from stellwerk.cli.objects.cluster import ClusterSession, with_cluster
from stellwerk.cli.shell.errors import Exit
from stellwerk.cli.shell.output import print_result
from stellwerk.delivery import deployed_process, workloads
from stellwerk.delivery.deployed_process import DeployedProcess
from stellwerk.delivery.grants import added_to
from stellwerk.delivery.installation import Installation, Webhooks
from stellwerk.delivery.limited_grants import Limits
from stellwerk.delivery.operator_spec import OperatorSpec, ProcessSpec
from stellwerk.kube.types.model import JsonObject, JsonValue, Unstructured, dig
from stellwerk.runtime.insight.diagnosis import ClusterReader


@with_cluster
async def check(cluster: ClusterSession, operators: Sequence[str], pre: bool, no_objects: bool, no_rights: bool) -> int:
    """Print what was found about the operators. Returns the exit code."""
    found = await findings(cluster, operators, pre=pre, no_objects=no_objects, no_rights=no_rights)
    print_result(lambda style: check_rules.shown(found, style), lambda: check_rules.as_json(found))
    verdicts = {one.verdict for one in found}
    return Exit.FAILED if "bad" in verdicts else Exit.DIFFERENT if "warning" in verdicts else Exit.DONE


async def findings(
    cluster: ClusterSession, operators: Sequence[str], *, pre: bool, no_objects: bool, no_rights: bool
) -> list[Found]:
    """What was found about the operators. If none is named: those that the cluster has, or all if it has none."""
    found = [await _server(cluster)]
    deployments = await installations.deployments(cluster)
    chosen = operators or await _present(cluster, deployments)
    for operator in chosen or assembly.OPERATORS:
        spec, reader = assembly.OPERATORS[operator], ClusterReader(cluster.client)
        installed = installations.by_process(spec, deployments)
        unnoted = ClusterReader(cluster.client)  # what it may not read adds a detail, and its absence is no finding
        seen = [] if pre else [one for some in installed.values() for one in await _deployed(unnoted, some)]
        seen += await _definitions(reader, spec, installed)
        seen += [] if no_rights else await _rights(reader, spec, installed)
        seen += _other_projects(spec, {resource.group for resource in await cluster.client.mapper.all()})
        seen += [] if pre else await _webhooks(reader, unnoted, spec, installed)
        local = [] if pre else _local(cluster, spec)
        seen += local
        if (
            not pre
            and not local
            and (led := await installations.leader(reader, spec, installed[spec.name])) is not None
        ):
            seen.append(led)
        seen += [] if pre or no_objects else await _objects(reader, operator, _watched(spec, installed))
        seen += check_rules.of_unread(reader.hidden)
        seen += check_rules.of_unreadable(reader.unreadable)
        found += [replace(one, subject=f"{operator}: {one.subject}") for one in seen]
    return found


def _local(cluster: ClusterSession, spec: OperatorSpec) -> list[Found]:
    """Whether the processes of an operator answer that the local system has started. These need no Lease."""
    now = datetime.now(UTC)
    states = ((each, operator_liveness.local_state(cluster, each, now)) for each in spec.processes)
    return [replace(state, subject=f"process {each.name}") for each, state in states if state is not None]


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


async def _deployed(reader: ClusterReader, deployments: Sequence[OperatorDeployment]) -> list[Found]:
    causes = {
        each.body.key: workloads.in_one_line(await workloads.read_first(reader, each.body))
        for each in deployments
        if each.available < each.replicas
    }
    return check_rules.of_deployments(deployments, causes)


_BROUGHT = frozenset({"services.cloud.sap.com"})
"""Groups of kinds that an operator installs while it works."""


def _other_projects(spec: OperatorSpec, served: Collection[str]) -> list[Found]:
    installations = [process.installation() for process in spec.processes]
    grants = [grant for each in installations for grant in each.every_grant]
    own = _BROUGHT.union(row.resource.group for row in kinds.OWN)
    return check_rules.of_other_projects(grants, own, served)


async def _webhooks(
    reader: ClusterReader,
    unnoted: ClusterReader,
    spec: OperatorSpec,
    installed: Mapping[str, Sequence[OperatorDeployment]],
) -> list[Found]:
    """The admission webhooks of all processes, unless only the original runs, or an installation leaves them out."""
    found = list[Found]()
    for process in spec.processes:
        webhooks, ours = process.installation().webhooks, _own(installed[process.name])
        if webhooks is None or (ours is None and installed[spec.name]):
            continue
        namespace = ours.body.key.namespace if ours else process.installation().namespace
        for body in webhooks.configurations(lambda _: {}, namespace):
            live, is_hidden = await _live(reader, body)
            if live is not None:
                served = await _served(unnoted, process.name, webhooks, live, ours) if ours else ""
                logs = f"kubectl logs deployment/{ours.body.key.name} -n {namespace}" if ours else "stellwerk logs"
                fix = f"see why the webhook server does not renew it: {logs}"
                judged = check_rules.of_webhooks(live, served, datetime.now(UTC), fix)
                found.append(judged)
                if judged.verdict == "good" and (silence := await webhook_calls.silence(reader.client, live)):
                    found[-1] = Found("webhooks", "bad", silence, ours.look if ours else "stellwerk logs")
            elif ours is not None and ours.replicas and not is_hidden:
                detail = f"not there: {Unstructured.of(body).ref}"
                found.append(Found("webhooks", "warning", detail, ours.upgrade(spec.name)))
    return found


async def _served(
    reader: ClusterReader, process: str, webhooks: Webhooks, live: Unstructured, ours: OperatorDeployment
) -> str:
    """The certificate of the webhook server, in base64; empty where its Secret has none, or the user may not read it.

    Secret and Service have the same name but for its end, under whichever name the chart installs them.
    """
    listed = live.at("webhooks")
    service = dig(listed[0], "clientConfig", "service") if isinstance(listed, list) and listed else None
    name, namespace = dig(service, "name"), dig(service, "namespace")
    if not (isinstance(name, str) and isinstance(namespace, str)):
        return ""
    own = name + webhooks.secret.removeprefix(webhooks.service)
    served, key = check_rules.served_certificate(ours, process, webhooks, own)
    secret = await reader.find(Secret.resource, served, namespace) if served else None
    return str(secret.at("data", key) or "") if secret is not None else ""


def _own(deployments: Sequence[OperatorDeployment]) -> OperatorDeployment | None:
    return next((each for each in deployments if not each.is_original), None)


async def _definitions(
    reader: ClusterReader, spec: OperatorSpec, installed: Mapping[str, Sequence[OperatorDeployment]]
) -> list[Found]:
    """Kinds, compared with those that an installation brings."""
    install, found = _install(spec, installed), list[Found]()
    for definition in spec.installation().definitions:
        live, is_hidden = await _live(reader, definition.body())
        if not is_hidden:
            about = check_rules.of_definition(definition.body(), live.body if live else None, install)
            is_older = _has_only_original(spec, installed) and about.verdict == "warning"
            found.append(replace(about, verdict="unsure", fix="") if is_older else about)
    return found


async def _rights(
    reader: ClusterReader, spec: OperatorSpec, installed: Mapping[str, Sequence[OperatorDeployment]]
) -> list[Found]:
    """Accounts and roles, compared with those that an installation brings."""
    if _has_only_original(spec, installed):
        return [Found("rights", "unsure", "those of the original")]
    absent, lacking, count = list[str](), list[str](), 0
    wanted = accounts(spec, installed)
    for body in wanted:
        live, is_hidden = await _live(reader, body)
        if not is_hidden:
            count += 1
            absent += [str(Unstructured.of(body).ref)] if live is None else []
            lacking += [lack] if live is not None and (lack := await _lack(reader, body, live, wanted)) else []
    return [check_rules.of_rights(absent, lacking, count, _install(spec, installed))] if count else []


def _install(spec: OperatorSpec, installed: Mapping[str, Sequence[OperatorDeployment]]) -> str:
    """The command that brings what is missing."""
    ours = (own for some in installed.values() if (own := _own(some)) is not None)
    return next((own.upgrade(spec.name) for own in ours), f"stellwerk install {spec.name}")


def _has_only_original(spec: OperatorSpec, installed: Mapping[str, Sequence[OperatorDeployment]]) -> bool:
    return bool(installed[spec.name]) and _own(installed[spec.name]) is None


async def _lack(reader: ClusterReader, body: JsonObject, live: Unstructured, wanted: Sequence[JsonObject]) -> str:
    """What a live role or binding lacks; empty where the user may not see the role that it refers to."""
    other = check_rules.other_role(body, live.body)
    if other is None:
        return check_rules.lack_of(body, live.body)
    role, is_hidden = await _live(reader, other)
    ref = check_rules.role_of(body)
    known = next((each for each in wanted if Unstructured.of(each).ref == Unstructured.of(ref).ref), None)
    is_equal = role is not None and known is not None and check_rules.grants_all(known, role.body)
    return check_rules.lack_of(body, live.body, has_equal_role=is_equal or is_hidden)


def accounts(spec: OperatorSpec, installed: Mapping[str, Sequence[OperatorDeployment]]) -> list[JsonObject]:
    """The accounts of all processes, with their roles, under the names that the chart gives them in this installation.

    Roles for users are a choice, and so are webhooks and the binding to cluster-admin. A process of the original has
    the rights of the original. Pure.
    """
    bodies = list[JsonObject]()
    for process in spec.processes:
        ours = _own(installed[process.name])
        installation = _placed(process, ours)
        has_original = ours is None and bool(installed[process.name])
        if has_original or (ours is None and installed[spec.name] and installation.webhooks is not None):
            continue
        namespace = ours.body.key.namespace if ours else installation.namespace
        roles = ours.name_of_roles if ours else installation.account
        account = ours.account if ours else installation.account
        home: JsonObject = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        wanted = [
            _renamed(body, installation.account, account=account, roles=roles)
            for body in installation.accounts(namespace, _limits(process, ours))
        ]
        bodies += [body for body in (home, *wanted) if body not in bodies and not _is_of_users(body)]
    return bodies


def _limits(process: ProcessSpec, ours: OperatorDeployment | None) -> Limits | None:
    """The namespaces to which a Deployment limits a process; None for all."""
    limited, found = process.installation().limited, _running(process, ours)
    return limited.limits(found.words, found.variables) if limited is not None and found is not None else None


def _placed(process: ProcessSpec, ours: OperatorDeployment | None) -> Installation:
    """The installation with rights in the namespaces that a Deployment names."""
    installation, found = process.installation(), _running(process, ours)
    if found is None or not installation.grants_in:
        return installation
    return installation.placed(partial(getattr, process.settings().of_process(found.words, found.variables)))


def _running(process: ProcessSpec, ours: OperatorDeployment | None) -> DeployedProcess | None:
    running = deployed_process.of_deployment(ours.body) if ours is not None else ()
    return next((each for each in running if each.runs(process.name)), None)


def _watched(spec: OperatorSpec, installed: Mapping[str, Sequence[OperatorDeployment]]) -> Sequence[str]:
    """The namespaces to which the controllers are limited; empty for all."""
    limits = _limits(spec, _own(installed[spec.name]))
    return limits.watched if limits is not None else ()


def _is_of_users(body: JsonObject) -> bool:
    labels = dig(body, "metadata", "labels")
    return isinstance(labels, dict) and any(label.startswith(added_to("")) for label in labels)


def _renamed(body: JsonObject, former: str, *, account: str, roles: str) -> JsonObject:
    """The object as the chart names it: the account `former` is `account`, and the names of its roles, of their
    bindings and of the objects that these name begin with `roles`."""

    def renamed(value: JsonValue) -> JsonValue:
        is_own = isinstance(value, str) and value.startswith(former)
        return roles + value.removeprefix(former) if is_own and isinstance(value, str) else value

    if body["kind"] == "ServiceAccount" and dig(body, "metadata", "name") == former:
        return json_edit.with_value(body, account, "metadata", "name")
    named = json_edit.with_value(body, renamed(dig(body, "metadata", "name")), "metadata", "name")
    if isinstance(named.get("roleRef"), dict):
        named = json_edit.with_value(named, renamed(dig(body, "roleRef", "name")), "roleRef", "name")
    if isinstance(subjects := body.get("subjects"), list):
        named["subjects"] = [
            {**each, "name": account} if isinstance(each, dict) and each.get("name") == former else each
            for each in subjects
        ]
    if isinstance(rules := body.get("rules"), list):
        named["rules"] = [
            {**rule, "resourceNames": [renamed(name) for name in names]}
            if isinstance(rule, dict) and isinstance(names := rule.get("resourceNames"), list)
            else rule
            for rule in rules
        ]
    return named


async def _live(reader: ClusterReader, body: JsonObject) -> tuple[Unstructured | None, bool]:
    """The object in the cluster, and whether the user may not see it."""
    wanted = Unstructured.of(body)
    resource = await reader.client.mapper.resource(wanted.gvk)
    live = await reader.find(resource, wanted.key.name, wanted.key.namespace)
    return live, live is None and reader.may_not_see(resource, wanted.key.namespace)


def _is_example(obj: Unstructured) -> bool:
    """Whether it is the sample of the local system that shows an object which waits."""
    return obj.metadata.labels.get(SAMPLE_LABEL) == WAITING


async def _objects(reader: ClusterReader, operator: str, watched: Sequence[str]) -> list[Found]:
    found = list[Found]()
    for row in kinds.OWN:
        objects = await reader.list(row.resource) if row.operator.name == operator else []
        if row.operator.name == operator and not reader.may_not_see(row.resource, ""):
            seen = [obj for obj in objects if not (watched and obj.key.namespace) or obj.key.namespace in watched]
            unready = [str(obj.ref) for obj in seen if health.of(obj).needs_attention and not _is_example(obj)]
            found.append(check_rules.of_objects(row.resource.kind, unready, len(seen)))
            found += check_rules.of_unwatched(row.resource.kind, [obj.key.namespace for obj in objects], watched)
    return found
