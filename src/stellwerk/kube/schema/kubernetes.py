"""Structural schemas of Kubernetes' own types, for kinds that embed parts of pods.

A field that holds an `EnvVar` or an `Affinity` as a pod has it is JSON to us, and its schema is the one that
Kubernetes publishes (OpenAPI v3). `kubernetes.json` has those definitions, converted by `structural` from the answer of
an API server: `python deploy/kubernetes_schemas.py` writes it, and a test compares it with the one that we build.

Descriptions are left out, as in most published CustomResourceDefinitions: with them, one definition with two pod
templates exceeds what `kubectl apply` can store in an annotation. Enumerations are left out as well, because a newer
API server may know more words.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from importlib.resources import files

from stellwerk.kube.types import text_forms
from stellwerk.kube.types.model import JsonObject, JsonValue, decode_json

FILE = "kubernetes.json"
PATHS = ("api/v1", "apis/autoscaling/v2", "apis/policy/v1")
"""Below `/openapi/v3/`: where the definitions are published."""

ROOTS = (
    *(
        f"io.k8s.api.core.v1.{name}"
        for name in (
            "Affinity",
            "Container",
            "EnvVar",
            "Lifecycle",
            "PodSecurityContext",
            "Probe",
            "ResourceRequirements",
            "SecurityContext",
            "Toleration",
            "TopologySpreadConstraint",
            "Volume",
            "VolumeMount",
        )
    ),
    "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerBehavior",
    "io.k8s.api.autoscaling.v2.MetricSpec",
    "io.k8s.api.policy.v1.PodDisruptionBudgetSpec",
)
"""The definitions that kinds of ours embed."""

_INT_OR_STRING: JsonObject = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
_SCALARS: Mapping[str, JsonObject] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {**_INT_OR_STRING, "pattern": text_forms.QUANTITY.pattern},
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": _INT_OR_STRING,
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": {"type": "string", "format": "date-time"},
    "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    },
}
"""Types that are no objects of named fields, in the form that a structural schema has for them."""

_ATOMIC = frozenset(
    f"io.k8s.api.core.v1.{name}"
    for name in (
        "ConfigMapEnvSource",
        "ConfigMapProjection",
        "ConfigMapVolumeSource",
        "SecretEnvSource",
        "SecretProjection",
    )
)
"""Types with the fields of a LocalObjectReference, which is atomic. OpenAPI does not show it, published
CustomResourceDefinitions do."""

_KEPT = ("type", "format", "required", "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type")


@cache
def definition(name: str) -> JsonObject:
    """The structural schema of a type of Kubernetes, such as `io.k8s.api.core.v1.EnvVar`. Raises KeyError."""
    return _expanded(_stored()[name])


@cache
def _stored() -> Mapping[str, JsonObject]:
    text = files(__package__).joinpath(FILE).read_bytes()
    return {name: schema for name, schema in decode_json(text).items() if isinstance(schema, dict)}


def _expanded(schema: JsonObject) -> JsonObject:
    """A schema with every reference replaced by its definition."""
    match schema:
        case {"$ref": str(name), **rest}:
            return {**definition(name), **rest}
    expanded = dict(schema)
    match schema.get("properties"):
        case dict(properties):
            expanded["properties"] = {name: _expanded(_object(value)) for name, value in properties.items()}
    for key in ("items", "additionalProperties"):
        if key in schema:
            expanded[key] = _expanded(_object(schema[key]))
    return expanded


def structural(published: Mapping[str, JsonObject], roots: Collection[str] = ROOTS) -> JsonObject:
    """The definitions of `roots` and of all that they refer to, out of `components.schemas` of OpenAPI v3 (pure)."""
    found: JsonObject = {}
    missing = [*roots]
    while missing:
        name = missing.pop()
        if name not in found:
            converted = _SCALARS.get(name) or _converted(published[name], is_required=False)
            found[name] = converted | ({"x-kubernetes-map-type": "atomic"} if name in _ATOMIC else {})
            missing.extend(_references(converted))
    return {name: found[name] for name in sorted(found)}


def _converted(schema: JsonObject, *, is_required: bool) -> JsonObject:
    match schema:
        case {"$ref": str(reference)} | {"allOf": [{"$ref": str(reference)}]}:
            return {"$ref": reference.rpartition("/")[2]}
    converted = {key: schema[key] for key in _KEPT if key in schema}
    default = schema.get("default")
    if default is not None and default != {} and not is_required:  # a required field's default is Go's empty value
        converted["default"] = default
    match schema.get("properties"):
        case dict(properties):
            required = schema.get("required")
            names = required if isinstance(required, list) else []
            converted["properties"] = {
                name: _converted(_object(value), is_required=name in names) for name, value in properties.items()
            }
    for key in ("items", "additionalProperties"):
        if key in schema:
            converted[key] = _converted(_object(schema[key]), is_required=True)
    return converted


def _references(schema: JsonValue) -> set[str]:
    match schema:
        case {"$ref": str(name)}:
            return {name}
        case dict():
            return {name for value in schema.values() for name in _references(value)}
        case _:
            return set()


def _object(value: JsonValue) -> JsonObject:
    assert isinstance(value, dict), value
    return value
