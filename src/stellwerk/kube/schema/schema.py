"""The structural schema of a struct, by its fields, annotations and docstrings.

Structural (Kubernetes: "Specifying a structural schema") means that every node has a type, nothing recurses, and an
optional field is left out rather than null unless it is `nullable`. What a field contains besides its type comes from
`crd.documented`.
"""

from __future__ import annotations

import inspect

import msgspec
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

from stellwerk.kube.schema import kubernetes
from stellwerk.kube.types import text_forms
from stellwerk.kube.types.model import JsonObject, JsonValue, decode_json, encode_json
from stellwerk.kube.types.object_meta import Condition, ObjectMeta

DEFINITION = "x-stellwerk-definition"
"""In a field's extra schema: the name of a type of Kubernetes, whose schema the field has."""


class Unrepresentable(TypeError):
    """A struct uses a type for which a structural schema has no form; the message names the field."""


def of(kind: type[msgspec.Struct]) -> JsonObject:
    """The schema of an object. Raises `Unrepresentable`."""
    found = type_info(kind)
    assert isinstance(found, StructType)
    return _object(found, kind.__name__)


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
            published = extra.pop(DEFINITION, None)
            own = _of(found.type, where) if published is None else kubernetes.definition(str(published))
            words = {**own, **extra}
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
            "pattern": text_forms.CONDITION_TYPE.pattern,
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
            "pattern": text_forms.CONDITION_REASON.pattern,
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
