"""The reference page of the rights of a process: what each is for, and the roles that grant them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stellwerk.delivery.grants import Grant, added_to, rule_object
from stellwerk.delivery.installation import GrantsIn, Installation
from stellwerk.delivery.limited_grants import EVENTS_NAMESPACE, LimitedGrants
from stellwerk.kube.types.model import JsonObject, JsonValue, dig

_CLUSTER_ADMIN = """
A binding to `cluster-admin` is added only on request (chart: `rbac.clusterAdmin`); see [security](../../security.md).
"""


def page(title: str, installation: Installation) -> str:
    """The page, as Markdown."""
    account = f"`{installation.namespace}/{installation.account}`"
    admin = _CLUSTER_ADMIN if installation.cluster_admin else ""
    return "\n".join(
        [
            f"# Rights of the {title}",
            "",
            f"For administrators who review roles. The program acts as the ServiceAccount {account}.",
            "No role contains a wildcard. A right with an occasion is used only then.",
            admin,
            *_table(installation.grants),
            "",
            *(["## In its own namespace", "", *_table(home), ""] if (home := installation.home_grants) else ()),
            *(
                line
                for placed in installation.grants_in
                for line in (f"## {_place(placed).capitalize()}", "", *_table(placed.grants), "")
            ),
            *(_limited(installation.limited) if installation.limited else ()),
            "## Objects",
            "",
            "| object | content |",
            "| --- | --- |",
            *_objects(installation),
            "",
        ]
    )


def _place(placed: GrantsIn) -> str:
    other = f", or that of `--{placed.setting.replace('_', '-')}`" if placed.setting else ""
    return f"in the namespace {placed.namespace}{other}"


def _table(grants: Iterable[Grant]) -> list[str]:
    return ["| API group | resources | verbs | without it |", "| --- | --- | --- | --- |", *map(_row, grants)]


def _row(grant: Grant) -> str:
    rule = grant.rule
    groups = _code(group or "core" for group in rule.api_groups)
    names = f" with the names {_code(rule.resource_names)}" if rule.resource_names else ""
    without = grant.purpose + "".join(f"; `{verb}` when {occasion}" for verb, occasion in grant.seldom.items())
    return f"| {groups} | {_code(rule.resources)}{names} | {_code(rule.verbs)} | {without} |"


def _limited(limited: LimitedGrants) -> list[str]:
    """Where the rights are if the process is limited to namespaces."""
    places = {
        "in the whole cluster, by a ClusterRole": limited.of_cluster,
        "in each watched namespace": limited.watched,
        "in each namespace of ingress gateways": limited.ingress,
        "in its own namespace, besides those above": (*limited.home, *limited.events),
        f"in `{EVENTS_NAMESPACE}`, for Events about objects without a namespace": limited.events,
    }
    rows = {
        place: dict.fromkeys(resource for grant in grants for resource in grant.rule.resources)
        for place, grants in places.items()
    }
    return [
        "## With watched namespaces",
        "",
        "`WATCH_NAMESPACES` (chart: `watchNamespaces`) limits the program to some namespaces. Its rights are then "
        "these, each with the verbs and the purpose of the tables above:",
        "",
        "| where | resources |",
        "| --- | --- |",
        *(f"| {place} | {_code(resources)} |" for place, resources in rows.items() if resources),
        "",
    ]


def _objects(installation: Installation) -> Iterator[str]:
    granted: dict[str, tuple[Grant, ...]] = {
        "rights of the table above": installation.grants,
        "rights in its own namespace": installation.home_grants,
        **{f"rights {_place(each)}": each.grants for each in installation.grants_in},
    }
    tables = {name: [rule_object(grant.rule) for grant in each] for name, each in granted.items()}
    for body in (*installation.accounts(), *installation.roles_of_users()):
        rules = _list(body.get("rules"))
        content = next(
            (name for name, table in tables.items() if rules and all(rule in table for rule in rules)), _content(body)
        )
        yield f"| {body['kind']} `{dig(body, 'metadata', 'name')}` | {content} |"


def _content(body: JsonObject) -> str:
    """What an object of the installation grants, and to which account."""
    if role := dig(body, "roleRef", "name"):
        accounts = _code(str(dig(subject, "name")) for subject in _list(body.get("subjects")))
        return f"gives {dig(body, 'roleRef', 'kind')} `{role}` to {accounts}"
    if selectors := _list(dig(body, "aggregationRule", "clusterRoleSelectors")):
        return f"the rules of each ClusterRole with the label {_code(_labels(dig(selectors[0], 'matchLabels')))}"
    added = [label.removeprefix(added_to("")) for label in _labels(dig(body, "metadata", "labels"))]
    part = f"; part of the role `{added[0]}`" if added and "/" not in added[0] else ""
    return "; ".join(_granted(rule) for rule in _list(body.get("rules"))) + part


def _granted(rule: JsonValue) -> str:
    resources = [*_list(dig(rule, "resources")), *_list(dig(rule, "nonResourceURLs"))]
    names = _list(dig(rule, "resourceNames"))
    only = f" with the names {_code(map(str, names))}" if names else ""
    return f"{_code(map(str, _list(dig(rule, 'verbs'))))} on {_code(map(str, resources))}{only}"


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def _labels(value: JsonValue) -> list[str]:
    return list(value) if isinstance(value, dict) else []


def _code(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)
