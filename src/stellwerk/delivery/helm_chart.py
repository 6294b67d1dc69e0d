"""The files of the Helm chart that are made from the operators: values, their schema, the README, and files/.

The templates in `deploy/chart/stellwerk/templates` name no operator. They go through `files/operators`, which has one
file for each registered operator: its account and roles, the flags of its settings, and the variables that it needs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from stellwerk.delivery.operator_spec import OperatorSpec
from stellwerk.kube.schema.crd import to_yaml
from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.runtime.settings.process_settings import PROCESS
from stellwerk.runtime.settings.table import Setting

CHART = Path("deploy/chart/stellwerk")
NAMESPACE = "release-namespace-placeholder"
"""The text that `files/operators` has where the templates write the namespace of the release."""
HEADER = "# Made by `make generate`; do not edit.\n"

_TEXT: JsonObject = {"type": "string"}
_SWITCH: JsonObject = {"type": "boolean"}
_OBJECT: JsonObject = {"type": "object"}
_LIST: JsonObject = {"type": "array", "items": {"type": "object"}}
_TEXTS: JsonObject = {"type": "object", "additionalProperties": {"type": "string"}}
_SHARE: JsonObject = {"type": ["string", "integer"]}


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the chart, its schema and its row of the README."""

    path: str
    default: JsonValue
    schema: JsonObject
    help: str = field(default="")


def _enum(*words: str) -> JsonObject:
    return {"enum": [*words]}


_POD = (
    Value("replicaCount", 2, {"type": "integer", "minimum": 0}, "One replica acts, the others wait for its Lease."),
    Value("image.registry", "", _TEXT, "Registry of the image, in front of the repository."),
    Value("image.repository", "", _TEXT, "The image that you built (`make image`); required."),
    Value("image.tag", "", _TEXT, "Tag of the image; empty: the appVersion of the chart."),
    Value("image.digest", "", _TEXT, "Digest such as `sha256:...`, instead of the tag."),
    Value("image.pullPolicy", "IfNotPresent", _enum("Always", "IfNotPresent", "Never")),
    Value("imagePullSecrets", [], _LIST, "References to Secrets such as `{name: login}`."),
    Value("podLabels", {}, _TEXTS),
    Value("podAnnotations", {}, _TEXTS),
    Value("nodeSelector", {}, _TEXTS),
    Value("affinity", {}, _OBJECT),
    Value("tolerations", [], _LIST),
    Value(
        "topologySpreadConstraints",
        [],
        _LIST,
        "Empty: over hosts and zones. A constraint without labelSelector gets that of the Deployment.",
    ),
    Value("defaultHostNameSpreadPolicy", "ScheduleAnyway", _enum("ScheduleAnyway", "DoNotSchedule")),
    Value("defaultZoneSpreadPolicy", "ScheduleAnyway", _enum("ScheduleAnyway", "DoNotSchedule")),
    Value("priorityClassName", "", _TEXT),
    Value(
        "podSecurityContext",
        {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "fsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        _OBJECT,
    ),
    Value(
        "securityContext",
        {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}},
        _OBJECT,
    ),
    Value(
        "resources",
        {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
        _OBJECT,
        "The limit includes the processes that render charts and kustomizations.",
    ),
    Value("pdb.enabled", True, _SWITCH, "A PodDisruptionBudget, from two replicas on."),
    Value("pdb.minAvailable", 1, _SHARE),
    Value("pdb.maxUnavailable", "", _SHARE, "Replaces minAvailable."),
    Value("pdb.labels", {}, _TEXTS),
    Value("pdb.annotations", {}, _TEXTS),
    Value("serviceAccount.annotations", {}, _TEXTS),
)
"""Values of all operators, which each operator's key may replace for its own pods."""

_CHART = (
    Value("commonLabels", {}, _TEXTS, "Labels of every object."),
    Value("rbac.create", True, _SWITCH, "False: you create the roles and their bindings."),
    Value("crds.install", True, _SWITCH, "Install the CustomResourceDefinitions of the enabled operators."),
    Value("crds.keep", True, _SWITCH, "`helm uninstall` leaves them, and the objects of users with them."),
    Value("networkPolicy.enabled", True, _SWITCH, "Only metrics and probes can be reached."),
    Value(
        "networkPolicy.egressPorts",
        [80, 443, 6443, 9090],
        {"type": "array", "items": {"type": "integer"}},
        "TCP ports that the operators may call, besides DNS: API servers, HTTP servers, Flux's source-controller.",
    ),
    Value("networkPolicy.extraEgress", [], _LIST, "Further rules of the NetworkPolicy."),
    Value("monitoring.service", True, _SWITCH, "A Service for the metrics of each operator."),
    Value("monitoring.serviceMonitor", False, _SWITCH, "A ServiceMonitor of the Prometheus operator."),
    Value("monitoring.podMonitor", False, _SWITCH, "A PodMonitor of the Prometheus operator."),
    Value("log.level", "info", _TEXT, "debug, info, warn, error, panic, or a number above 0."),
    Value("log.format", "json", _enum("json", "console")),
    Value("leaderElection", True, _SWITCH, "Act only while holding the Lease; several replicas need it."),
    Value("extraEnv", [], _LIST, "Further variables of each pod."),
    Value("extraObjects", [], _LIST, "Further objects of the release."),
)


def key(spec: OperatorSpec) -> str:
    """The key of an operator's values: its title in camel case, `btpManager`."""
    head, *tail = spec.title.split()
    return head.lower() + "".join(word[:1].upper() + word[1:] for word in tail)


def values(operators: Iterable[OperatorSpec]) -> list[Value]:
    """The values of the chart, in the order of its file."""
    return [*_CHART, *_POD, *(value for spec in operators for value in _of_operator(spec))]


def files(operators: Iterable[OperatorSpec]) -> dict[Path, str]:
    """The generated files of the chart, relative to the root of the repository."""
    specs = tuple(operators)
    table = values(specs)
    definitions = {kind.name: kind for spec in specs for kind in spec.installation().definitions}
    return {
        CHART / "values.yaml": _values_yaml(table),
        CHART / "values.schema.json": json.dumps(_schema(specs, table), indent=2) + "\n",
        CHART / "README.md": _readme(table),
        **{CHART / f"files/crds/{name}.yaml": HEADER + to_yaml(kind.body()) for name, kind in definitions.items()},
        **{CHART / f"files/operators/{key(spec)}.yaml": HEADER + _dump(_described(spec)) for spec in specs},
    }


def _options(spec: OperatorSpec) -> Iterator[tuple[str, Setting[Any], str]]:
    """The settings that `options` can set: name of the value, setting, default as text."""
    table = spec.settings()
    renderer = [(row, PROCESS.default(row)) for row in PROCESS.rows if row.field == "allow_unconfined_renderer"]
    for row, default in [*((row, table.default(row)) for row in table.rows if row.has_flag), *renderer]:
        head, *tail = row.field.split("_")
        yield head + "".join(word.capitalize() for word in tail), row, default


def _of_operator(spec: OperatorSpec) -> Iterator[Value]:
    installation, own = spec.installation(), key(spec)
    yield Value(f"{own}.enabled", False, _SWITCH, f"Install the {spec.title}.")
    yield Value(f"{own}.fullnameOverride", "", _TEXT, f"Name of its objects; empty: `{installation.account}`.")
    yield Value(f"{own}.nameOverride", "", _TEXT, "The same, where fullnameOverride is empty.")
    for variable in installation.local_environment:
        yield Value(f"{own}.environment.{variable}", "", _TEXT, "Required by this operator.")
    if installation.cluster_admin:
        yield Value(f"{own}.rbac.clusterAdmin", False, _SWITCH, "The operator is cluster-admin, as the original is.")
        yield Value(
            f"{own}.rbac.acknowledgeClusterAdminOfTenants",
            False,
            _SWITCH,
            "Accept rbac.clusterAdmin although options.tenancy is strict.",
        )
    for name, row, default in _options(spec):
        shown: JsonValue = (default == "true") if row.is_switch else int(default) if default.isdecimal() else default
        schema: JsonObject = _SWITCH if row.is_switch else {"type": ["string", "integer", "boolean"]}
        yield Value(f"{own}.options.{name}", shown, schema, f"`--{row.flag}`: {row.help}")
    yield Value(
        f"{own}.options.extraArgs",
        [],
        {"type": "array", "items": {"type": "string"}},
        f"Further flags of `stellwerk run {spec.name}`.",
    )


def _described(spec: OperatorSpec) -> JsonObject:
    """What the templates read about an operator. Manifests are text, because names in them are replaced."""
    installation = spec.installation()
    manifests = [dict(body) for body in installation.accounts(NAMESPACE)]
    admin = installation.cluster_admin(NAMESPACE) if installation.cluster_admin else ()
    return {
        "key": key(spec),
        "name": spec.name,
        "title": spec.title,
        "account": installation.account,
        "crds": [kind.name for kind in installation.definitions],
        "environment": list(installation.local_environment),
        "options": [{"value": name, "flag": row.flag, "default": default} for name, row, default in _options(spec)],
        "manifests": _dump(manifests),
        "clusterAdmin": _dump(list(admin)),
    }


def _dump(body: Any) -> str:
    return str(yaml.dump(body, Dumper=_Dumper, sort_keys=False, width=1_000))


class _Dumper(yaml.SafeDumper):
    """Writes long texts as blocks, and no aliases: the same rule may be in two roles."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: _Dumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def _values_yaml(table: Iterable[Value]) -> str:
    lines = [HEADER.rstrip()]
    open_groups: list[str] = []
    for value in table:
        *groups, name = value.path.split(".")
        for depth, group in enumerate(groups):
            if open_groups[: depth + 1] != groups[: depth + 1]:
                lines.append(f"{'  ' * depth}{group}:")
                open_groups = groups[: depth + 1]
        open_groups = groups
        indent = "  " * len(groups)
        if value.help:
            lines.append(f"{indent}# -- {value.help}")
        lines.append(f"{indent}{name}: {json.dumps(value.default)}")
    return "\n".join(lines) + "\n"


def _schema(specs: Iterable[OperatorSpec], table: Iterable[Value]) -> JsonObject:
    root = _group()
    for value in table:
        _put(root, value.path, value.schema)
    _put(root, "global", _OBJECT)
    for spec in specs:
        for value in _POD:
            _put(root, f"{key(spec)}.{value.path}", value.schema)
        if spec.installation().cluster_admin and any(name == "tenancy" for name, _, _ in _options(spec)):
            own: Any = root["properties"]
            own[key(spec)] |= _guard_of_cluster_admin()
    return {"$schema": "http://json-schema.org/draft-07/schema#", **root}


def _group() -> dict[str, JsonValue]:
    return {"type": "object", "additionalProperties": False, "properties": {}}


def _put(root: dict[str, JsonValue], path: str, schema: JsonObject) -> None:
    *groups, name = path.split(".")
    place: Any = root
    for group in groups:
        place = place["properties"].setdefault(group, _group())
    place["properties"][name] = dict(schema)


def _guard_of_cluster_admin() -> dict[str, JsonValue]:
    """With strict tenancy, cluster-admin has to be acknowledged."""

    def has(group: str, name: str, value: JsonValue) -> JsonObject:
        inner: JsonObject = {"required": [name], "properties": {name: {"const": value}}}
        return {"required": [group], "properties": {group: inner}}

    return {
        "if": {"allOf": [has("options", "tenancy", "strict"), has("rbac", "clusterAdmin", True)]},
        "then": has("rbac", "acknowledgeClusterAdminOfTenants", True),
    }


def _readme(table: Iterable[Value]) -> str:
    rows = [f"| `{value.path}` | `{json.dumps(value.default)}` | {value.help.replace('|', ',')} |" for value in table]
    return _INTRODUCTION + "\n".join(["| value | default | meaning |", "| --- | --- | --- |", *rows, ""])


_INTRODUCTION = """\
# The chart of Stellwerk

```shell
helm install stellwerk deploy/chart/stellwerk --namespace kyma-system --create-namespace \\
  --set image.repository=registry.example.com/stellwerk --set componentOperator.enabled=true
```

Each operator has a switch. Its key also accepts every value from `replicaCount` to `serviceAccount.annotations`, which
then replaces the common value for the pods of that operator. A key that does not exist is an error. The roles contain
what each operator needs and no wildcard; `componentOperator.rbac.clusterAdmin` is off, so Components name a service
account that the operator impersonates.

Upgrades of the chart upgrade the CustomResourceDefinitions, because they are templates here. All kinds have one stored
version, so there is no conversion.

"""
