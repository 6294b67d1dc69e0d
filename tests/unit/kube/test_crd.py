"""A struct becomes the CustomResourceDefinition that it deserves."""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from typing import Annotated, ClassVar, Literal

import msgspec
import pytest
import yaml

from stellwerk.kube.schema import crd
from stellwerk.kube.schema.crd import Definition, PrinterColumn, ValidationRule, Version, documented
from stellwerk.kube.schema.schema import Unrepresentable
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, JsonValue, Kind, dig
from stellwerk.kube.types.object_meta import Condition, Record


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Inner(Record, frozen=True, kw_only=True):
    """A part.

    The second paragraph is for us.
    """

    name: str
    crd_rules: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(rule="self.name != ''", message="name it", field_path=".name"),
    )


class Spec(Record, frozen=True, kw_only=True):
    """What is wanted."""

    needed: str
    colour: Colour = Colour.RED
    size: Literal["small", "large"] = "small"
    count: int = 0
    share: float = 0.0
    on: bool = False
    when: datetime | None = None
    parts: Annotated[tuple[Inner, ...], documented("Parts.", list_type="map", list_map_keys=["name"], max_items=9)] = ()
    limits: dict[str, int | str] = msgspec.field(default_factory=dict)
    port: int | str = 0
    free: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)
    anything: msgspec.Raw = msgspec.Raw(b"")
    timeout: Annotated[
        str, documented("How long.", unit="Go duration", default="5m", example="90s", pattern="^[0-9]+m$", min_length=2)
    ] = "5m"
    fixed: Annotated[str, documented("Which.", rules=[crd.IMMUTABLE])] = ""
    nothing: Annotated[Inner | None, documented("May be null.", nullable=True)] = None
    lenient: Annotated[str, documented("Decodes when absent.", required=True)] = ""


class Status(Record, frozen=True, kw_only=True):
    conditions: tuple[Condition, ...] = ()


class Thing(Kind, frozen=True, kw_only=True):
    """A thing."""

    resource: ClassVar[Resource] = Resource("example.com", "v1", "Thing", "things", True)
    spec: Spec | None = None
    status: Status | None = None


class BareThing(Kind, frozen=True, kw_only=True):
    resource: ClassVar[Resource] = Resource("example.com", "v1beta1", "Thing", "things", False)


THINGS = Definition(
    versions=[
        Version(
            kind=Thing,
            columns=[PrinterColumn(name="Size", path=".spec.size", priority=1), crd.AGE],
            rules=[ValidationRule(rule="self.metadata.name != 'x'", message="not x")],
        ),
        Version(kind=BareThing, deprecated="use v1"),
    ],
    short_names=["th"],
    categories=["all"],
)


def version(body: JsonObject, index: int) -> JsonValue:
    versions = dig(body, "spec", "versions")
    assert isinstance(versions, list)
    return versions[index]


def field(name: str) -> JsonValue:
    return dig(version(THINGS.body(), 0), "schema", "openAPIV3Schema", "properties", "spec", "properties", name)


def test_names_follow_from_the_resource() -> None:
    body = THINGS.body()

    assert dig(body, "metadata", "name") == "things.example.com"
    assert dig(body, "spec", "scope") == "Namespaced"
    assert dig(body, "spec", "names") == {
        "kind": "Thing",
        "listKind": "ThingList",
        "plural": "things",
        "singular": "thing",
        "shortNames": ["th"],
        "categories": ["all"],
    }


def test_the_first_version_is_stored_and_a_deprecated_one_warns() -> None:
    first, second = version(THINGS.body(), 0), version(THINGS.body(), 1)

    assert (dig(first, "storage"), dig(second, "storage"), dig(second, "served")) == (True, False, True)
    assert (dig(second, "deprecated"), dig(second, "deprecationWarning")) == (True, "use v1")


def test_only_a_kind_with_a_status_has_the_subresource() -> None:
    assert dig(version(THINGS.body(), 0), "subresources") == {"status": {}}
    assert dig(version(THINGS.body(), 1), "subresources") is None


def test_a_version_may_name_fields_for_selectors_and_do_without_the_subresource() -> None:
    body = Definition(
        versions=[Version(kind=Thing, selectable_fields=[".spec.size"], has_status_subresource=False)]
    ).body()

    assert dig(version(body, 0), "selectableFields") == [{"jsonPath": ".spec.size"}]
    assert dig(version(body, 0), "subresources") is None


def test_columns_are_as_kubectl_expects_them() -> None:
    assert dig(version(THINGS.body(), 0), "additionalPrinterColumns") == [
        {"name": "Size", "type": "string", "jsonPath": ".spec.size", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("needed", {"type": "string"}),
        ("colour", {"type": "string", "enum": ["red", "blue"]}),
        ("count", {"type": "integer", "format": "int64"}),
        ("share", {"type": "number"}),
        ("on", {"type": "boolean"}),
        ("when", {"type": "string", "format": "date-time"}),
        ("limits", {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True}}),
        ("port", {"x-kubernetes-int-or-string": True}),
        ("free", {"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
        ("anything", {"x-kubernetes-preserve-unknown-fields": True}),
    ],
)
def test_a_type_becomes_its_schema(name: str, expected: JsonObject) -> None:
    assert field(name) == expected


def test_a_literal_becomes_an_enum() -> None:
    values = dig(field("size"), "enum")

    assert isinstance(values, list)
    assert {str(value) for value in values} == {"small", "large"}


def test_a_documented_field_tells_unit_default_and_example() -> None:
    assert field("timeout") == {
        "type": "string",
        "description": "How long. Unit: Go duration. Default: 5m. Example: 90s",
        "default": "5m",
        "pattern": "^[0-9]+m$",
        "minLength": 2,
    }


def test_lists_carry_their_merge_keys_and_their_items_rules() -> None:
    parts = field("parts")

    assert dig(parts, "x-kubernetes-list-type") == "map"
    assert dig(parts, "x-kubernetes-list-map-keys") == ["name"]
    assert dig(parts, "maxItems") == 9
    assert dig(parts, "items", "x-kubernetes-validations") == [
        {"rule": "self.name != ''", "message": "name it", "fieldPath": ".name"}
    ]
    assert dig(parts, "items", "description") == "A part."


def test_an_immutable_field_says_so_in_cel() -> None:
    assert dig(field("fixed"), "x-kubernetes-validations") == [
        {"rule": "self == oldSelf", "message": "the field is immutable", "reason": "FieldValueForbidden"}
    ]


def test_an_optional_field_is_nullable_only_on_request() -> None:
    assert dig(field("nothing"), "nullable") is True
    assert dig(field("when"), "nullable") is None


def test_required_is_what_has_no_default_unless_the_field_says_otherwise() -> None:
    spec = dig(version(THINGS.body(), 0), "schema", "openAPIV3Schema", "properties", "spec")

    assert dig(spec, "required") == ["needed", "lenient"]


def test_rules_on_the_whole_object_stand_at_the_root() -> None:
    root = dig(version(THINGS.body(), 0), "schema", "openAPIV3Schema")

    assert dig(root, "x-kubernetes-validations") == [{"rule": "self.metadata.name != 'x'", "message": "not x"}]
    assert dig(root, "properties", "metadata") == {"type": "object"}


def test_conditions_have_the_schema_of_kubernetes() -> None:
    conditions = dig(version(THINGS.body(), 0), "schema", "openAPIV3Schema", "properties", "status", "properties")

    assert dig(conditions, "conditions", "items", "required") == [
        "lastTransitionTime",
        "message",
        "reason",
        "status",
        "type",
    ]


def test_yaml_has_no_aliases_and_reads_back_the_same() -> None:
    text = crd.to_yaml(THINGS.body())

    assert yaml.safe_load(text) == THINGS.body()
    assert not any(line.lstrip("- ").startswith("&") for line in text.splitlines())


class Twofold(Kind, frozen=True, kw_only=True):
    resource: ClassVar[Resource] = Resource("example.com", "v1", "Twofold", "twofolds", True)
    spec: Spec | None = None
    either: int | bool = 0


def test_a_type_without_a_structural_schema_is_named() -> None:
    with pytest.raises(Unrepresentable, match=r"Twofold\.either"):
        Definition(versions=[Version(kind=Twofold)]).body()
