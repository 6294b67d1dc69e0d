"""Manifests as authors write them. JSON is YAML, so each is a file of its own or one document of many.

A *gate* is an object of a kind of ours that is not ready before a test opens it: what a rollout waits for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.operators.component.api import RECONCILER

GATE = Resource("test.example.com", "v1", "Gate", "gates", namespaced=True)
"""Installed with the cluster; anything may stand in it."""

RELIC = Resource("old.example.com", "v1", "Relic", "relics", namespaced=True)
"""Deprecated, where a test asks for the fixture `relics`."""

RELIC_REMARK = "old.example.com/v1 Relic is old; use something newer"

FATE = "stellwerk.local/fate"
"""The annotation of a pod that says how it ends."""

_CONTAINERS: list[JsonValue] = [{"name": "main", "image": "example.com/main:1"}]


def policies(**asked: str) -> dict[str, str]:
    """Annotations of an object for the operator: `policies(apply_order="1")`."""
    return {f"{RECONCILER}/{name.replace('_', '-')}": value for name, value in asked.items()}


def manifest(
    kind: str,
    name: str,
    content: Mapping[str, JsonValue] | None = None,
    *,
    api_version: str = "v1",
    namespace: str = "",
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
) -> str:
    """An object."""
    metadata: JsonObject = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    if annotations:
        metadata["annotations"] = {**annotations}
    if labels:
        metadata["labels"] = {**labels}
    return json.dumps({"apiVersion": api_version, "kind": kind, "metadata": metadata, **(content or {})}) + "\n"


def config(name: str, value: str = "", *, namespace: str = "", **asked: str) -> str:
    """A ConfigMap that asks something of the operator."""
    return config_of(name, {"value": value}, namespace=namespace, **asked)


def config_of(name: str, data: Mapping[str, str], *, namespace: str = "", **asked: str) -> str:
    """A ConfigMap with several values."""
    content: JsonObject = {"data": {**data}}
    return manifest("ConfigMap", name, content, namespace=namespace, annotations=policies(**asked))


def gate(name: str, **asked: str) -> str:
    """An object that is not ready before it is opened."""
    annotations = policies(**{"status_hint": "has-ready-condition", **asked})
    return manifest("Gate", name, api_version="test.example.com/v1", annotations=annotations)


def relic(name: str, content: str = "") -> str:
    """An object whose kind the API server calls deprecated at each write."""
    return manifest("Relic", name, {"spec": {"content": content}}, api_version=RELIC.api_version)


def job(name: str, *, fate: str = "", annotations: Mapping[str, str] | None = None, **asked: str) -> str:
    """A Job; it completes within a second unless its fate is another."""
    template: JsonObject = {
        "metadata": {"annotations": {FATE: fate}} if fate else {},
        "spec": {"restartPolicy": "Never", "containers": _CONTAINERS},
    }
    spec: JsonObject = {"spec": {"backoffLimit": 0, "template": template}}
    return manifest("Job", name, spec, api_version="batch/v1", annotations={**policies(**asked), **(annotations or {})})


def deployment(name: str, *, fate: str = "", **asked: str) -> str:
    """A Deployment of one pod, available within a second unless the fate of its pod is another."""
    labels: JsonObject = {"app": name}
    metadata: JsonObject = {"labels": labels, "annotations": {FATE: fate} if fate else {}}
    template: JsonObject = {"metadata": metadata, "spec": {"containers": _CONTAINERS}}
    spec: JsonObject = {"spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}}
    return manifest("Deployment", name, spec, api_version="apps/v1", annotations=policies(**asked))


def definition(group: str, kind: str, **asked: str) -> str:
    """A CustomResourceDefinition for namespaced objects without any rules, with a status of their own."""
    plural = f"{kind.lower()}s"
    free: JsonObject = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version: JsonObject = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": free, "status": free}}},
    }
    names: JsonObject = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
    spec: JsonObject = {"spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}}
    return manifest(
        "CustomResourceDefinition",
        f"{plural}.{group}",
        spec,
        api_version="apiextensions.k8s.io/v1",
        annotations=policies(**asked),
    )
