"""Custom resource definitions (apiextensions.k8s.io/v1), as far as operators read them."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import Kind
from stellwerk.kube.types.object_meta import Condition, Record


class CustomResourceDefinitionNames(Record, frozen=True, kw_only=True):
    """What the kind is called."""

    kind: str = ""
    plural: str = ""
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


class CustomResourceDefinitionVersion(Record, frozen=True, kw_only=True):
    """One version of the kind."""

    name: str
    served: bool = False
    storage: bool = False
    deprecated: bool = False


class CustomResourceDefinitionSpec(Record, frozen=True, kw_only=True):
    """The kind."""

    group: str = ""
    scope: str = ""
    names: CustomResourceDefinitionNames = CustomResourceDefinitionNames()
    versions: tuple[CustomResourceDefinitionVersion, ...] = ()


class CustomResourceDefinitionStatus(Record, frozen=True, kw_only=True):
    """Whether it is served yet. The API server writes null for lists that it has not filled in."""

    conditions: tuple[Condition, ...] | None = None
    accepted_names: CustomResourceDefinitionNames = CustomResourceDefinitionNames()
    stored_versions: tuple[str, ...] | None = None


class CustomResourceDefinition(Kind, frozen=True, kw_only=True):
    """A kind that was added to the API server."""

    resource: ClassVar[Resource] = Resource(
        "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
    )

    spec: CustomResourceDefinitionSpec = msgspec.field(default_factory=CustomResourceDefinitionSpec)
    status: CustomResourceDefinitionStatus = msgspec.field(default_factory=CustomResourceDefinitionStatus)

    @property
    def is_established(self) -> bool:
        """Whether objects of the kind can be written."""
        return any(condition.type == "Established" and condition.is_true for condition in self.status.conditions or ())
