"""Pages of a kind in Busola, the Kyma dashboard: a ConfigMap that it reads as an extension.

The columns are those of `kubectl get`: the JSONPath of a printer column becomes a JSONata expression. The details show
all columns, the conditions, and the spec as YAML.
"""

from __future__ import annotations

import re

import yaml

from stellwerk.kube.schema.crd import Definition, PrinterColumn
from stellwerk.kube.types.model import JsonObject

NAMESPACE = "kube-public"
"""Where Busola looks first for extensions."""
_VERSION = "0.5"
_FILTER = re.compile(r"""\[\?\(@\.(\w+)\s*==\s*["']([^"']*)["']\)\]""")
_LAST, _EACH = "[-1:]", "[*]"
_POSITIVE = ("True", "Ready", "Consistent")
_NEGATIVE = ("False", "Error")
_CRITICAL = ("Warning", "Unknown", "Processing", "Pending", "Deleting")


def config_map(definition: Definition) -> JsonObject:
    """The extension for the newest served version of a kind."""
    version = next(version for version in definition.versions if version.served)
    resource = version.kind.resource
    general: JsonObject = {
        "resource": {"kind": resource.kind, "group": resource.group, "version": resource.version},
        "name": resource.kind,
        "category": "SAP",
        "urlPath": resource.plural,
        "scope": "namespace" if resource.namespaced else "cluster",
        "description": "description",
    }
    listed: list[JsonObject] = [
        _widget(column) for column in version.columns if not _is_age(column) and not column.priority
    ]
    shown: list[JsonObject] = [_widget(column) for column in version.columns if not _is_age(column)]
    body: list[JsonObject] = []
    if "status" in version.kind.__struct_fields__:
        body.append({"name": "Conditions", "source": "status.conditions", "widget": "ConditionList"})
    if "spec" in version.kind.__struct_fields__:
        body.append({"name": "Spec", "source": "spec", "widget": "CodeViewer", "language": "'yaml'"})
    description = (version.kind.__doc__ or resource.kind).strip().splitlines()[0]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": f"stellwerk-{definition.name}",
            "namespace": NAMESPACE,
            "labels": {
                "app.kubernetes.io/name": f"stellwerk-{resource.plural}",
                "busola.io/extension": "resource",
                "busola.io/extension-version": _VERSION,
            },
        },
        "data": {
            "general": _yaml(general),
            "list": _yaml([*listed]),
            "details": _yaml({"header": [*shown], "body": [*body]}),
            "form": _yaml([]),
            "translations": _yaml({"en": {"description": description}}),
        },
    }


def jsonata(path: str) -> str:
    """The JSONata expression of a printer column's JSONPath. Raises ValueError where it has none."""
    expression = _FILTER.sub(r'[\1="\2"]', path).replace(_LAST, "[-1]").replace(_EACH, "").lstrip(".")
    if re.search(r"[?@*()]|\.\.", expression):
        raise ValueError(f"no JSONata for {path}")
    return expression


def _widget(column: PrinterColumn) -> JsonObject:
    """A column: conditions and states as badges, the rest as it is."""
    expression = jsonata(column.path)
    body: JsonObject = {"name": column.name, "source": expression}
    if column.name not in ("Ready", "State"):
        return body
    highlights: JsonObject = {"positive": [*_POSITIVE], "negative": [*_NEGATIVE], "critical": [*_CRITICAL]}
    return {**body, "widget": "Badge", "highlights": highlights}


def _is_age(column: PrinterColumn) -> bool:
    """Whether Busola shows the column anyway."""
    return column.path == ".metadata.creationTimestamp"


def _yaml(value: JsonObject | list[JsonObject]) -> str:
    return yaml.safe_dump(value, sort_keys=False, width=110, allow_unicode=True)
