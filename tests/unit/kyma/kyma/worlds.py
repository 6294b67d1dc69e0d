"""Kymas, modules and remote clusters as values."""

from __future__ import annotations

from typing import Any

import msgspec

from stellwerk.api.core import ConfigMap
from stellwerk.operators.kyma.api import Kyma
from stellwerk.operators.kyma.api_manifest import Manifest
from stellwerk.operators.kyma.api_module import ModuleReleaseMeta, ModuleTemplate

HOME = "kcp-system"
PREFIX = "operator.kyma-project.io"
DELETED = "2026-01-01T00:00:00Z"


def metadata(name: str, namespace: str = HOME, **fields: Any) -> dict[str, Any]:
    """The metadata of an object."""
    return {"name": name, "namespace": namespace, "uid": f"uid-of-{name}", "resourceVersion": "7", **fields}


def a_kyma(name: str = "k", *, spec: Any = None, status: Any = None, namespace: str = HOME, **fields: Any) -> Kyma:
    """A Kyma."""
    body = {
        "metadata": metadata(name, namespace, **fields),
        "spec": {"channel": "regular", **(spec or {})},
        "status": status or {},
    }
    return msgspec.convert(body, Kyma)


def a_template(module: str, version: str, *, labels: Any = None, written: bool = False, **spec: Any) -> ModuleTemplate:
    """A template. `written`: by this operator, in a remote cluster."""
    managers = [{"manager": "catalog-sync", "operation": "Apply"}] if written else []
    meta = metadata(f"{module}-{version}", labels=labels or {}, managedFields=managers)
    wanted = {"descriptor": {}, "moduleName": module, "version": version, **spec}
    return msgspec.convert({"metadata": meta, "spec": wanted}, ModuleTemplate)


def a_meta(module: str, mandatory: str = "", labels: Any = None, **channels: str) -> ModuleReleaseMeta:
    """A ModuleReleaseMeta: versions by channel, or that of a mandatory module."""
    spec: dict[str, Any] = {"moduleName": module, "ocmComponentName": f"kyma-project.io/module/{module}"}
    if mandatory:
        spec["mandatory"] = {"version": mandatory}
    else:
        spec["channels"] = [{"channel": channel, "version": version} for channel, version in channels.items()]
    return msgspec.convert({"metadata": metadata(module, labels=labels or {}), "spec": spec}, ModuleReleaseMeta)


def a_manifest(name: str, *, labels: Any = None, **fields: Any) -> Manifest:
    """A Manifest."""
    return msgspec.convert({"metadata": metadata(name, labels=labels or {}, **fields)}, Manifest)


def a_rollout(template: str, *, state: str = "Running", done: int = 0, **turns: Any) -> ConfigMap:
    """The ConfigMap of the rollout of a version, with turns by Kyma."""
    data = {"state": state, "done": str(done), "forgiven": "0", "turns": msgspec.json.encode(turns).decode()}
    meta = metadata(f"rollout-{template}", labels={f"{PREFIX}/rollout": template.partition("-")[0]})
    return msgspec.convert({"metadata": meta, "data": data}, ConfigMap)
