"""The files of the Helm chart that are made from the operators: values, their schema, the README, and files/.

The templates in `deploy/chart/stellwerk/templates` name no operator. They go through `files/operators`, which has one
file for each registered operator, with an entry for each of its processes: account and roles, the flags of its
settings, the variables that it needs, its ports and webhooks. Objects that only one operator has come from templates of
its own, which are copied.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from textwrap import indent
from typing import Any

import yaml

import stellwerk
from stellwerk.delivery import grants, limited_grants
from stellwerk.delivery.chart import readme
from stellwerk.delivery.chart.part import ChartPart
from stellwerk.delivery.chart.values import (
    COMMON,
    OBJECT,
    OF_WEBHOOKS,
    POD,
    SETTING,
    SHARED,
    SWITCH,
    SWITCH_OR_EMPTY,
    TEXT,
    WEBHOOKS,
    Shared,
    Value,
    accepted,
)
from stellwerk.delivery.installation import Installation, Webhooks
from stellwerk.delivery.limited_grants import LimitedGrants, Limits
from stellwerk.delivery.monitoring import objects as monitoring
from stellwerk.delivery.operator_spec import OperatorSpec, ProcessSpec
from stellwerk.kube.schema.crd import Definition, to_yaml
from stellwerk.kube.types.model import JsonObject, JsonValue, dig
from stellwerk.kube.yaml import TextDumper, text_node
from stellwerk.runtime.settings import parsers
from stellwerk.runtime.settings.table import Setting

CHART = Path("deploy/chart/stellwerk")
NAMESPACE = "release-namespace-placeholder"
"""The text that `files/operators` has where the templates write the namespace of the release."""
WATCHED, INGRESS = "watched-namespace-placeholder", "ingress-namespace-placeholder"
"""The same for each watched namespace, and for each one of ingress gateways."""
SERVICE, SERVICE_PORT = "service-name-placeholder", 65_535
"""The same for the Service of webhooks."""
CERTIFICATE_FOLDER = "/etc/stellwerk/certificate"
HEADER = "# Made by `make generate`; do not edit.\n"

_REPLACED_IN_COMPONENTS = ("replicaCount", "resources")
"""Values of every pod that processes with a key of their own do not take from their operator."""


def folder() -> Path:
    """The folder of the chart: in `deploy` of a checkout, inside the package when installed."""
    package = Path(stellwerk.__file__).parent
    inside = package / "chart"
    return inside if inside.is_dir() else package.parent.parent / CHART


def key(spec: ProcessSpec) -> str:
    """The key of the values of an operator, or of a server below it: its title in camel case, `btpManager`."""
    head, *tail = spec.title.split()
    return head.lower() + "".join(word[:1].upper() + word[1:] for word in tail)


def about(operators: Iterable[OperatorSpec], samples: Iterable[JsonObject], changes: Iterable[str]) -> str:
    """Chart.yaml, with what Artifact Hub shows: `changes`, the kinds of `operators`, and the first sample of each.

    It names no image and no link: the image is one that the user builds, and `image.repository` has no default.
    """
    kinds = [kind for spec in operators for kind in spec.installation().definitions]
    by_kind = {(body["apiVersion"], body["kind"]): body for body in reversed([*samples])}
    resources = [kind.versions[0].kind.resource for kind in kinds]
    examples = [by_kind[key] for each in resources if (key := (each.api_version, each.kind)) in by_kind]
    lists: dict[str, list[JsonValue]] = {
        "crds": [_described_kind(kind) for kind in kinds],
        "crdsExamples": [*examples],
        "changes": [*changes],
    }
    head: JsonObject = {
        "apiVersion": "v2",
        "name": "stellwerk",
        "description": "Operators for SAP BTP services and for what charts and kustomizations deploy, "
        "each with a switch.",
        "type": "application",
        "version": stellwerk.__version__,
        "appVersion": stellwerk.__version__,
        "annotations": {"artifacthub.io/license": "Apache-2.0", "artifacthub.io/operator": "true"},
    }
    annotations = [
        f"  artifacthub.io/{name}: |\n{indent(_dump(bodies), '    ')}" for name, bodies in lists.items() if bodies
    ]
    return HEADER + to_yaml(head) + "".join(annotations)


def _described_kind(kind: Definition) -> JsonObject:
    """A kind as Artifact Hub lists it."""
    stored = kind.versions[0]
    return {
        "kind": stored.kind.resource.kind,
        "version": stored.name,
        "name": kind.name,
        "displayName": stored.kind.resource.kind,
        "description": inspect.cleandoc(stored.kind.__doc__ or "").partition("\n\n")[0].replace("\n", " "),
    }


def values(operators: Iterable[OperatorSpec]) -> list[Value]:
    """The values of the chart, in the order of its file."""
    specs = tuple(operators)
    further = _further_help(specs)
    common = [*COMMON, *(_of_all(shared, specs) for shared in SHARED), *OF_WEBHOOKS, *POD]
    return [
        *(replace(value, help=f"{value.help} {further.get(value.path, '')}".strip()) for value in common),
        *(value for spec in specs for value in _of_operator(spec)),
    ]


def _of_all(shared: Shared, operators: Iterable[OperatorSpec]) -> Value:
    """A common value with the schema of the first setting that it sets and that knows what it accepts."""
    rows = (row for spec in operators for process in spec.processes for _, row, _ in _options(process))
    schemas = (accepted(row, otherwise={}) for row in rows if shared.sets(row.field) and not row.is_switch)
    return replace(shared.value, schema=next(filter(None, schemas), shared.value.schema))


def _further_help(operators: Sequence[OperatorSpec]) -> dict[str, str]:
    """What the help of a common value adds about operators, by its path."""
    roles = "; ".join(f"{spec.title}: {', '.join(names)}" for spec in operators if (names := _extended_roles(spec)))
    own = [
        f"{key(spec)}.{component(spec, process)}"
        for spec in operators
        for process in spec.processes
        if any(value.path == "replicas" for value in process.chart_part().values)
    ]
    further = {"rbac.aggregate": f"{roles}."} if roles else {}
    for common, name in {"replicaCount": "replicas", "resources": "resources"}.items() if own else ():
        places = ", ".join(f"`{place}.{name}`" for place in own)
        further[common] = f"This value does not count for processes with a value of their own: {places}."
    return further


def _extended_roles(spec: OperatorSpec) -> list[str]:
    """The roles of Kubernetes to which rights to the kinds of an operator are added."""
    installation = spec.installation()
    bodies = [*installation.roles_of_users(), *installation.accounts(NAMESPACE)]
    return [
        role
        for role in ("view", "edit", "admin")
        if any(dig(body, "metadata", "labels", grants.added_to(role)) for body in bodies)
    ]


def files(operators: Iterable[OperatorSpec]) -> dict[Path, str]:
    """The generated files of the chart, relative to the root of the repository."""
    specs = tuple(operators)
    table = values(specs)
    definitions = {kind.name: kind for spec in specs for kind in spec.installation().definitions}
    shared = monitoring.shared(specs)
    watching = {spec.name: monitoring.of_operator(spec, is_installed=True) for spec in specs}
    boards = {name: board for part in (shared, *watching.values()) for name, board in part.dashboards.items()}
    rules = {"shared": shared.groups, **{name: part.groups for name, part in watching.items()}}
    return {
        CHART / "values.yaml": _values_yaml(table),
        CHART / "values.schema.json": json.dumps(_schema(specs, table), indent=2) + "\n",
        CHART / "README.md": readme.text(table),
        **{CHART / f"files/crds/{name}.yaml": HEADER + to_yaml(kind.body()) for name, kind in definitions.items()},
        **{CHART / f"files/operators/{key(spec)}.yaml": HEADER + _dump(_described(spec)) for spec in specs},
        **{CHART / f"files/dashboards/{name}.json": json.dumps(board) + "\n" for name, board in boards.items()},
        **{CHART / f"files/rules/{name}.yaml": HEADER + _dump([*groups]) for name, groups in rules.items()},
        **{CHART / f"files/busola/{name}.yaml": HEADER + _dump([*part.busola]) for name, part in watching.items()},
        **{
            CHART / f"templates/{spec.name}-{name}": f"{{{{- /* Made by `make generate`; do not edit. */}}}}\n{text}"
            for spec in specs
            for name, text in spec.chart().templates.items()
        },
    }


def apis_of_defaults(operators: Iterable[OperatorSpec]) -> list[str]:
    """The APIs of a cluster in which each value that depends on what is served is the default of its program.

    For manifests that are made without a cluster: nothing is known of it, so no flag may claim what it serves.
    """
    options = (option for spec in operators for process in spec.processes for option in _options(process))
    return sorted({api for value, _, default in options for api, text in value.detected if api and text == default})


def component(operator: OperatorSpec, process: ProcessSpec) -> str:
    """The key below the operator's where a process has its values; empty for the operator's own."""
    own = process.chart_part().key
    return own or ("" if process is operator else key(process))


def _name(operator: OperatorSpec) -> str:
    return operator.chart().name or operator.installation().account


def _options(spec: ProcessSpec) -> Iterator[tuple[Value, Setting[Any], str]]:
    """The values that set a setting by its flag: value, setting, and the default of the program as text."""
    table, process = spec.settings(), spec.process()
    ports = {port.flag for port in spec.installation().ports}
    webhooks = spec.installation().webhooks
    kept = {webhooks.service_flag, *_flags_of_certificate(webhooks)} if webhooks else set()
    part = spec.chart_part()
    named = {value.field: value for value in part.values if value.field}
    known = [
        row
        for row in table.rows
        if row.has_flag and row.flag not in kept and row.field not in (*part.local_settings, limited_grants.SETTING)
    ]
    rows = [(row, table.default(row)) for row in known]
    if isinstance(spec, OperatorSpec):
        rows += [(row, process.default(row)) for row in process.rows if row.field == "allow_unconfined_renderer"]
    for row, default in rows:
        if row.field in named:
            yield named[row.field], row, default
        elif row.flag not in ports:
            yield _option(row, default), row, default


def _flags_of_certificate(webhooks: Webhooks) -> set[str]:
    return {flag.removeprefix("--").partition("=")[0] for flag in webhooks.certificate_flags("")}


def _option(row: Setting[Any], default: str) -> Value:
    head, *tail = row.field.split("_")
    name = head + "".join(word.capitalize() for word in tail)
    if shared := _shared(row):
        otherwise = f", else {default}" if default else ""
        help = f"`--{row.flag}`: {row.help} Empty: `{shared.value.path}`{otherwise}."
        return Value(f"options.{name}", "", SWITCH_OR_EMPTY if row.is_switch else accepted(row), help)
    shown: JsonValue = (default == "true") if row.is_switch else int(default) if default.isdecimal() else default
    return Value(f"options.{name}", shown, SWITCH if row.is_switch else accepted(row), f"`--{row.flag}`: {row.help}")


def _shared(row: Setting[Any]) -> Shared | None:
    return next((shared for shared in SHARED if shared.sets(row.field)), None)


def _of_operator(spec: OperatorSpec) -> Iterator[Value]:
    installation, own = spec.installation(), key(spec)
    yield Value(f"{own}.enabled", False, SWITCH, f"Install the {spec.title}.")
    yield Value(f"{own}.fullnameOverride", "", TEXT, f"Name of its objects; empty: `{_name(spec)}`.")
    yield Value(f"{own}.nameOverride", "", TEXT, "The same, where fullnameOverride is empty.")
    for variable in installation.local_environment:
        yield Value(f"{own}.environment.{variable}", "", TEXT, "Required by this operator.")
    if installation.cluster_admin:
        yield Value(f"{own}.rbac.clusterAdmin", False, SWITCH, "The operator is cluster-admin, as the original is.")
        yield Value(
            f"{own}.rbac.acknowledgeClusterAdminOfTenants",
            False,
            SWITCH,
            "Accept rbac.clusterAdmin although options.tenancy is strict.",
        )
    for value in spec.chart().values:
        yield replace(value, path=f"{own}.{value.path}")
    for process in spec.processes:
        place = ".".join(part for part in (own, component(spec, process)) if part)
        for value in _of_process(process):
            yield replace(value, path=f"{place}.{value.path}")


def _of_process(spec: ProcessSpec) -> Iterator[Value]:
    part = spec.chart_part()
    rows = {row.field: row for _, row, _ in _options(spec)}
    for value in part.values:
        yield _narrowed(value, rows[value.field], part) if value.field else value
    if spec.installation().webhooks is not None:
        yield from WEBHOOKS
    yield from (value for value, _, _ in _options(spec) if not value.field)
    yield Value(
        "options.extraArgs",
        [],
        {"type": "array", "items": {"type": "string"}},
        f"Further flags of `stellwerk run {spec.name}`.",
    )


def _narrowed(value: Value, row: Setting[Any], part: ChartPart) -> Value:
    """A value with the schema of its setting, unless it has a narrower one, or the program forgives it.

    A variable that cannot be read counts as the default, as with an original's chart, except one of some words: a
    misspelled one would silently choose another manager of certificates.
    """
    is_forgiven = part.by_variable and not isinstance(row.read, parsers.Words)
    if is_forgiven or value.file or value.schema not in (TEXT, SETTING):
        return value
    return replace(value, schema=accepted(row, otherwise=value.schema))


def _described(spec: OperatorSpec) -> JsonObject:
    """What the templates read about an operator. Manifests are text, because names in them are replaced."""
    installation = spec.installation()
    return {
        "key": key(spec),
        "name": spec.name,
        "title": spec.title,
        "objectName": _name(spec),
        "crds": [kind.name for kind in installation.definitions],
        "namespaces": [each.namespace for each in _placed(installation).grants_in],
        "ignoredImages": list(spec.chart().ignored_images),
        "rolesOfUsers": _dump(list(installation.roles_of_users())),
        "processes": [_process(spec, each) for each in spec.processes],
    }


def _process(operator: OperatorSpec, spec: ProcessSpec) -> JsonObject:
    """What the templates read about a process."""
    installation, part = spec.installation(), spec.chart_part()
    admin = installation.cluster_admin(NAMESPACE) if installation.cluster_admin else ()
    webhooks, names = installation.webhooks, {port.name for port in installation.ports}
    fields = {row.flag: value for value, row, _ in _options(spec)}
    paths = {row.field: value.path for value, row, _ in _options(spec)}
    ports: list[JsonValue] = [
        {
            "name": port.name,
            "number": port.number,
            "value": fields[port.flag].path if port.flag in fields else "",
        }
        for port in installation.ports
    ]
    return {
        "name": spec.name,
        "title": spec.title,
        "component": component(operator, spec),
        "account": installation.account,
        "suffix": part.suffix,
        "labels": dict(part.labels),
        "leads": bool(installation.lease),
        "lease": installation.lease,
        "environment": list(installation.local_environment),
        "imageVariable": installation.image_variable,
        "passedValues": {name: list(keys) for name, keys in installation.passed_values.items()},
        "options": [_described_option(spec, value, row, default) for value, row, default in _options(spec)],
        "ports": ports,
        "webhooks": _webhooks(webhooks) if webhooks else {},
        # Nothing is left of such a process where the values switch webhooks off.
        "servesOnlyWebhooks": spec is not operator and webhooks is not None and names == {webhooks.port},
        "places": {
            _place(each.setting): {"value": paths[each.setting], "default": each.namespace}
            for each in installation.grants_in
            if each.setting
        },
        "configMaps": dict(part.config_maps),
        "manifests": _dump([dict(body) for body in _placed(installation).accounts(NAMESPACE)]),
        "limited": _limited(spec, installation.limited) if installation.limited else {},
        "clusterAdmin": _dump(list(admin)),
    }


def _place(setting: str) -> str:
    """The text that `files/operators` has where the templates write the namespace that a setting names."""
    return f"{setting}-placeholder"


def _placed(installation: Installation) -> Installation:
    return installation.placed(_place)


def _limited(spec: ProcessSpec, limited: LimitedGrants) -> JsonObject:
    """What the templates read about a process that may be limited to namespaces, besides `manifests`."""
    named = next((value.path for value, row, _ in _options(spec) if row.field == limited.ingress_setting), "")
    bodies = spec.installation().accounts(NAMESPACE, Limits(watched=(WATCHED,), ingress=(INGRESS,)))
    flag = f"--{limited_grants.SETTING.replace('_', '-')}"
    return {"manifests": _dump([dict(body) for body in bodies]), "ingress": named, "flag": flag}


def _described_option(spec: ProcessSpec, value: Value, row: Setting[Any], default: str) -> JsonObject:
    """What the templates read about a value that sets a setting."""
    shared = _shared(row)
    return {
        "value": value.path,
        "flag": row.flag,
        "variable": row.environment if value.field and spec.chart_part().by_variable else "",
        "default": default,
        "file": value.file,
        "detected": [{"api": api, "value": text} for api, text in value.detected],
        "derived": {"with": value.derived[0], "word": value.derived[1]} if value.derived[0] else {},
        "common": shared.value.path if shared else "",
        "isOpposite": shared is not None and shared.is_opposite,
    }


def _webhooks(webhooks: Webhooks) -> JsonObject:
    def client_config(path: str) -> JsonObject:
        return {"service": {"name": SERVICE, "namespace": NAMESPACE, "path": path, "port": SERVICE_PORT}}

    return {
        "port": webhooks.port,
        "serviceFlag": webhooks.service_flag,
        "certificateFolder": CERTIFICATE_FOLDER,
        "certificateFlags": list(webhooks.certificate_flags(CERTIFICATE_FOLDER)),
        "configurations": _dump(list(webhooks.configurations(client_config, NAMESPACE))),
    }


def _dump(body: Any) -> str:
    return str(yaml.dump(body, Dumper=_Dumper, sort_keys=False, width=1_000))


class _Dumper(TextDumper):
    """Writes long texts as blocks."""


_Dumper.add_representer(str, partial(text_node, as_block=True))


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
        _put(root, value.path, value.described)
    _put(root, "global", OBJECT)
    for spec in specs:
        components = [name for process in spec.processes if (name := component(spec, process))]
        has_own = any(not component(spec, process) for process in spec.processes)
        for value in POD:
            if has_own or value.path not in _REPLACED_IN_COMPONENTS:
                _put(root, f"{key(spec)}.{value.path}", value.described)
            for name in components:
                if value.path != "replicaCount":
                    _put(root, f"{key(spec)}.{name}.{value.path}", value.described)
        if any(process.installation().webhooks for process in spec.processes):
            for value in OF_WEBHOOKS:
                _put(root, f"{key(spec)}.{value.path}", value.described)
        if spec.installation().cluster_admin and any(row.field == "tenancy" for _, row, _ in _options(spec)):
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
