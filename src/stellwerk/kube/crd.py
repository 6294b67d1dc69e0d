"""A CustomResourceDefinition out of the structs that read and write the kind.

The struct is the one source of truth: fields, types and required keys come from its annotations, descriptions from
`documented` and from the docstrings. What msgspec would enforce while decoding (a pattern, a bound) is deliberately
written as schema only: the API server refuses bad objects at the door, and one old object that breaks a newer rule must
not blind the cache to all the others.

The result is structural (Kubernetes: "Specifying a structural schema"): every node has a type, nothing recurses, and an
optional field is left out rather than null unless it says `nullable`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec
import yaml
from msgspec.inspect import (
    AnyType,
    BoolType,
    DateTimeType,
    DictType,
    EnumType,
    Field,
    FloatType,
    FrozenSetType,
    IntType,
    ListType,
    LiteralType,
    Metadata,
    NoneType,
    RawType,
    SetType,
    StrType,
    StructType,
    Type,
    UnionType,
    VarTupleType,
    type_info,
)

from stellwerk.kube.meta import Condition, ObjectMeta
from stellwerk.kube.model import JsonObject, JsonValue, Kind, decode_json, encode_json

_UNSAID = object()


class Unrepresentable(TypeError):
    """A struct uses a type for which a structural schema has no form; the message names the field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One CEL rule: `self` must satisfy `rule`, else the API server answers `message` (KEP-2876)."""

    rule: str
    message: str
    field_path: str = ""
    reason: str = ""
    optional_old_self: bool = False

    def schema(self) -> JsonObject:
        """The rule as an entry of x-kubernetes-validations."""
        body: JsonObject = {"rule": self.rule, "message": self.message}
        if self.field_path:
            body["fieldPath"] = self.field_path
        if self.reason:
            body["reason"] = self.reason
        if self.optional_old_self:
            body["optionalOldSelf"] = True
        return body


IMMUTABLE = Rule(rule="self == oldSelf", message="the field is immutable", reason="FieldValueForbidden")


def documented(
    text: str,
    *,
    unit: str = "",
    default: JsonValue | object = _UNSAID,
    otherwise: str = "",
    example: str = "",
    pattern: str = "",
    format: str = "",
    minimum: int | None = None,
    maximum: int | None = None,
    min_length: int | None = None,
    max_length: int | None = None,
    min_items: int | None = None,
    max_items: int | None = None,
    values: Sequence[str] = (),
    required: bool | None = None,
    nullable: bool = False,
    free_form: bool = False,
    list_type: Literal["", "atomic", "set", "map"] = "",
    list_map_keys: Sequence[str] = (),
    map_type: Literal["", "atomic", "granular"] = "",
    rules: Sequence[Rule] = (),
    schema: Mapping[str, JsonValue] | None = None,
) -> msgspec.Meta:
    """What a field's CRD schema says beyond its type; use it in `Annotated`.

    `default` is set by the API server; `otherwise` only tells people what an absent value means. `required` overrides
    what the struct says, for fields that decode leniently. `free_form` keeps keys that the schema does not name.
    `schema` is merged in last, for words that have no parameter here; a word that is None there is left out.
    """
    words: dict[str, JsonValue | None] = {
        "pattern": pattern or None,
        "format": format or None,
        "minimum": minimum,
        "maximum": maximum,
        "minLength": min_length,
        "maxLength": max_length,
        "minItems": min_items,
        "maxItems": max_items,
        "enum": list(values) or None,
        "nullable": nullable or None,
        "x-kubernetes-preserve-unknown-fields": free_form or None,
        "x-kubernetes-list-type": list_type or None,
        "x-kubernetes-list-map-keys": list(list_map_keys) or None,
        "x-kubernetes-map-type": map_type or None,
        "x-kubernetes-validations": [rule.schema() for rule in rules] or None,
    }
    extra: dict[str, object] = {key: value for key, value in words.items() if value is not None}
    if default is not _UNSAID:
        extra["default"] = default
        otherwise = otherwise or _plain(default)
    extra.update(schema or {})
    details = [f"{name}: {value}." for name, value in (("Unit", unit), ("Default", otherwise)) if value]
    details += [f"Example: {example}"] if example else []
    return msgspec.Meta(
        description=" ".join([text, *details]),
        extra_json_schema=extra,
        extra={} if required is None else {"required": required},
    )


def _plain(value: object) -> str:
    return value if isinstance(value, str) and value else encode_json(value).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of `kubectl get`; priority 1 shows it with `-o wide` only."""

    name: str
    path: str
    type: Literal["string", "integer", "number", "boolean", "date"] = "string"
    priority: int = 0
    description: str = ""

    def body(self) -> JsonObject:
        """The entry of additionalPrinterColumns."""
        body: JsonObject = {"name": self.name, "type": self.type, "jsonPath": self.path}
        if self.description:
            body["description"] = self.description
        if self.priority:
            body["priority"] = self.priority
        return body


AGE = Column(name="Age", path=".metadata.creationTimestamp", type="date")


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One served version and the struct that describes it. A struct with a `status` field gets the subresource."""

    kind: type[Kind]
    columns: Sequence[Column] = ()
    served: bool = True
    rules: Sequence[Rule] = ()
    """CEL rules on the whole object."""
    deprecated: str = ""
    """The warning that users of a deprecated version get."""
    selectable_fields: Sequence[str] = ()
    """Paths that field selectors may name (KEP-4358)."""
    has_status_subresource: bool | None = None
    """None: if the struct has a `status`."""

    @property
    def name(self) -> str:
        """`v1alpha1`."""
        return self.kind.resource.version


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A custom resource as the API server is to know it. The first version is the stored one."""

    versions: Sequence[Version]
    short_names: Sequence[str] = ()
    categories: Sequence[str] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """`btpoperators.operator.kyma-project.io`."""
        return self.versions[0].kind.resource.group_resource

    def body(self) -> JsonObject:
        """The CustomResourceDefinition. Raises `Unrepresentable` where a struct has no structural schema."""
        resource = self.versions[0].kind.resource
        metadata: JsonObject = {"name": self.name}
        if self.annotations:
            metadata["annotations"] = dict(self.annotations)
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": metadata,
            "spec": {
                "group": resource.group,
                "names": self._names(resource.kind, resource.plural),
                "scope": "Namespaced" if resource.namespaced else "Cluster",
                "versions": [_version(version, index == 0) for index, version in enumerate(self.versions)],
            },
        }

    def _names(self, kind: str, plural: str) -> JsonObject:
        names: JsonObject = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
        if self.short_names:
            names["shortNames"] = list(self.short_names)
        if self.categories:
            names["categories"] = list(self.categories)
        return names


def to_yaml(body: JsonObject) -> str:
    """An object as YAML for people: keys in the given order, no aliases."""
    return yaml.dump(body, Dumper=_Dumper, sort_keys=False, width=110, allow_unicode=True)


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True


def _version(version: Version, storage: bool) -> JsonObject:
    body: JsonObject = {"name": version.name, "served": version.served, "storage": storage}
    if version.deprecated:
        body |= {"deprecated": True, "deprecationWarning": version.deprecated}
    body["schema"] = {"openAPIV3Schema": _root(version)}
    if _has_status_subresource(version):
        body["subresources"] = {"status": {}}
    if version.selectable_fields:
        body["selectableFields"] = [{"jsonPath": path} for path in version.selectable_fields]
    if version.columns:
        body["additionalPrinterColumns"] = [column.body() for column in version.columns]
    return body


def _has_status_subresource(version: Version) -> bool:
    if version.has_status_subresource is not None:
        return version.has_status_subresource
    return any(item.encode_name == "status" for item in _struct(version.kind).fields)


_API_VERSION: JsonObject = {"type": "string", "description": "The schema version of this object, as group/version."}
_KIND: JsonObject = {"type": "string", "description": "What this object is. Cannot be changed."}


def _root(version: Version) -> JsonObject:
    schema = _object(_struct(version.kind), version.kind.__name__)
    properties = schema["properties"]
    assert isinstance(properties, dict)
    schema["properties"] = {"apiVersion": dict(_API_VERSION), "kind": dict(_KIND), **properties}
    if version.rules:
        schema["x-kubernetes-validations"] = [rule.schema() for rule in version.rules]
    return schema


def _struct(kind: type[msgspec.Struct]) -> StructType:
    found = type_info(kind)
    assert isinstance(found, StructType)
    return found


def _object(struct: StructType, where: str) -> JsonObject:
    schema: JsonObject = {"type": "object"}
    if text := _first_paragraph(struct.cls):
        schema["description"] = text
    properties: JsonObject = {}
    required: list[JsonValue] = []
    for item in struct.fields:
        properties[item.encode_name] = _of(item.type, f"{where}.{item.encode_name}")
        if _is_required(item):
            required.append(item.encode_name)
    if properties:
        schema["properties"] = properties
    if required:
        schema["required"] = required
    if rules := getattr(struct.cls, "crd_rules", ()):  # a class variable, where the struct has rules of its own
        schema["x-kubernetes-validations"] = [rule.schema() for rule in rules]
    return schema


def _is_required(item: Field) -> bool:
    said = (item.type.extra or {}).get("required") if isinstance(item.type, Metadata) else None
    return item.required if said is None else bool(said)


def _first_paragraph(cls: type) -> str:
    text = inspect.cleandoc(cls.__dict__.get("__doc__") or "")
    return " ".join(text.split("\n\n")[0].split())


def _of(found: Type, where: str) -> JsonObject:
    """The schema of one type. Raises `Unrepresentable`."""
    match found:
        case Metadata():
            extra = decode_json(encode_json(found.extra_json_schema or {}))
            words = {**_of(found.type, where), **extra}
            inner: JsonObject = {word: value for word, value in words.items() if value is not None}
            return _without_type(inner) if inner.get("x-kubernetes-int-or-string") else inner
        case UnionType():
            return _union(found, where)
        case StructType() if found.cls is ObjectMeta:
            return {"type": "object"}
        case StructType() if found.cls is Condition:
            return decode_json(encode_json(CONDITION))
        case StructType():
            return _object(found, where)
        case DictType():
            return {"type": "object", **_values(found.value_type, where)}
        case ListType() | VarTupleType() | SetType() | FrozenSetType():
            return {"type": "array", "items": _of(found.item_type, f"{where}[]")}
        case _:
            return _scalar(found, where)


def _values(found: Type, where: str) -> JsonObject:
    if isinstance(found, AnyType | RawType):
        return {"x-kubernetes-preserve-unknown-fields": True}
    return {"additionalProperties": _of(found, f"{where}{{}}")}


def _union(found: UnionType, where: str) -> JsonObject:
    kinds = [kind for kind in found.types if not isinstance(kind, NoneType)]
    if len(kinds) == 1:
        return _of(kinds[0], where)
    if {type(kind) for kind in kinds} == {IntType, StrType}:
        return {"x-kubernetes-int-or-string": True}
    raise Unrepresentable(f"{where}: a structural schema has no unions except int | str")


def _scalar(found: Type, where: str) -> JsonObject:
    match found:
        case StrType():
            return {"type": "string"}
        case BoolType():
            return {"type": "boolean"}
        case IntType():
            return {"type": "integer", "format": "int64"}
        case FloatType():
            return {"type": "number"}
        case DateTimeType():
            return {"type": "string", "format": "date-time"}
        case EnumType():
            return {"type": "string", "enum": [str(member.value) for member in found.cls]}
        case LiteralType():
            return {"type": "string", "enum": [str(value) for value in found.values]}
        case AnyType() | RawType():
            return {"x-kubernetes-preserve-unknown-fields": True}
        case _:
            raise Unrepresentable(f"{where}: {type(found).__name__} has no structural schema")


def _without_type(schema: JsonObject) -> JsonObject:
    return {key: value for key, value in schema.items() if key not in ("type", "format")}


CONDITION: JsonObject = {
    "type": "object",
    "description": "One observation of the object's state (metav1.Condition).",
    "required": ["lastTransitionTime", "message", "reason", "status", "type"],
    "properties": {
        "type": {
            "type": "string",
            "description": "What is observed, in CamelCase. Example: Ready",
            "maxLength": 316,
            "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
            r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
        },
        "status": {
            "type": "string",
            "description": "Whether it holds.",
            "enum": ["True", "False", "Unknown"],
        },
        "reason": {
            "type": "string",
            "description": "Why, as one CamelCase word for programs. Example: ReconcileSucceeded",
            "minLength": 1,
            "maxLength": 1024,
            "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        },
        "message": {
            "type": "string",
            "description": "Why, as a sentence for people.",
            "maxLength": 32768,
        },
        "lastTransitionTime": {
            "type": "string",
            "format": "date-time",
            "description": "When status last changed.",
        },
        "observedGeneration": {
            "type": "integer",
            "format": "int64",
            "minimum": 0,
            "description": "The metadata.generation that this observation is about.",
        },
    },
}
"""The schema of metav1.Condition with its bounds (apimachinery, meta/v1)."""
