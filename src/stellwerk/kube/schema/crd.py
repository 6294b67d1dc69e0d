"""A CustomResourceDefinition out of the structs that read and write the kind.

The struct is the one source of truth: fields, types and required keys come from its annotations, descriptions from
`documented` and from the docstrings. What msgspec would enforce while decoding (a pattern, a bound) is deliberately
written as schema only: the API server refuses bad objects at the door, and one old object that breaks a newer rule must
not blind the cache to all the others.

This module has the definitions of a kind and its fields; how types become a structural schema is in `schema.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypedDict, Unpack

import msgspec
import yaml

from stellwerk.kube.schema import schema as schemas
from stellwerk.kube.types.model import JsonObject, JsonValue, Kind, encode_json
from stellwerk.kube.types.text_forms import TextForm
from stellwerk.kube.yaml import TextDumper

_UNSAID = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationRule:
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


IMMUTABLE = ValidationRule(rule="self == oldSelf", message="the field is immutable", reason="FieldValueForbidden")


class Words(TypedDict, total=False):
    """What the schema of a field may contain besides its type, under the names of OpenAPI and Kubernetes.

    `values` is OpenAPI's enum; `free_form` keeps keys that the schema does not name.
    """

    pattern: str
    format: str
    minimum: int
    maximum: int
    min_length: int
    max_length: int
    min_items: int
    max_items: int
    values: Sequence[str]
    nullable: bool
    free_form: bool
    list_type: Literal["atomic", "set", "map"]
    list_map_keys: Sequence[str]
    map_type: Literal["atomic", "granular"]
    rules: Sequence[ValidationRule]


_SPELLED = {
    "min_length": "minLength",
    "max_length": "maxLength",
    "min_items": "minItems",
    "max_items": "maxItems",
    "values": "enum",
    "free_form": "x-kubernetes-preserve-unknown-fields",
    "list_type": "x-kubernetes-list-type",
    "list_map_keys": "x-kubernetes-list-map-keys",
    "map_type": "x-kubernetes-map-type",
    "rules": "x-kubernetes-validations",
}


def documented(
    text: str,
    *,
    unit: str = "",
    default: JsonValue | object = _UNSAID,
    otherwise: str = "",
    example: str = "",
    required: bool | None = None,
    form: TextForm | None = None,
    definition: str = "",
    schema: Mapping[str, JsonValue] | None = None,
    **words: Unpack[Words],
) -> msgspec.Meta:
    """What a field's CRD schema contains besides its type; use it in `Annotated`.

    The API server sets `default`; `otherwise` only documents what an absent value means. `required` overrides
    what the struct declares, for fields that decode leniently. A text that has not its `form`
    is refused with the sentence of the form; a list or map without a bound must have none in it, because its rules
    would cost too much there. A field that holds JSON of a type of Kubernetes has the schema of that type: `definition`
    is its name, such as `io.k8s.api.core.v1.EnvVar`. `schema` is merged in last, for keys without a parameter here; a
    word that is None there is left out.
    """
    said = {_SPELLED.get(word, word): _written(value) for word, value in words.items()}
    if default is not _UNSAID:
        said["default"] = default
        otherwise = otherwise or _plain(default)
    if form is not None:
        said[_SPELLED["rules"]] = [
            ValidationRule(rule=each, message=form.sentence).schema() for each in form.expressions
        ]
    if definition:
        said[schemas.DEFINITION] = definition
    return msgspec.Meta(
        description=_description(text, unit, otherwise, example),
        extra_json_schema={**said, **(schema or {})},
        extra={} if required is None else {"required": required},
    )


def _written(value: object) -> object:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [item.schema() if isinstance(item, ValidationRule) else item for item in value]
    return value


def _description(text: str, unit: str, otherwise: str, example: str) -> str:
    details = [f"{name}: {value}." for name, value in (("Unit", unit), ("Default", otherwise)) if value]
    return " ".join([text, *details, *([f"Example: {example}"] if example else [])])


def _plain(value: object) -> str:
    return value if isinstance(value, str) and value else encode_json(value).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class PrinterColumn:
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


AGE = PrinterColumn(name="Age", path=".metadata.creationTimestamp", type="date")


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One served version and the struct that describes it. A struct with a `status` field gets the subresource."""

    kind: type[Kind]
    columns: Sequence[PrinterColumn] = ()
    served: bool = True
    rules: Sequence[ValidationRule] = ()
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
    return yaml.dump(body, Dumper=TextDumper, sort_keys=False, width=110, allow_unicode=True)


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
    return "status" in version.kind.__struct_encode_fields__


_API_VERSION: JsonObject = {"type": "string", "description": "The schema version of this object, as group/version."}
_KIND: JsonObject = {"type": "string", "description": "What this object is. Cannot be changed."}


def _root(version: Version) -> JsonObject:
    root = schemas.of(version.kind)
    properties = root["properties"]
    assert isinstance(properties, dict)
    root["properties"] = {"apiVersion": dict(_API_VERSION), "kind": dict(_KIND), **properties}
    if version.rules:
        root["x-kubernetes-validations"] = [rule.schema() for rule in version.rules]
    return root
