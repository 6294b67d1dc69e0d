"""Fields of a stored object that cannot be read as a whole (pure): what must not change may be readable still."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from stellwerk.kube.types.model import JsonObject

T = TypeVar("T")


def field_of_spec(former: JsonObject, name: str, shape: type[T]) -> T | UnsetType:
    """A field of the spec; UNSET where it is absent or not of this shape."""
    spec = former.get("spec")
    if not isinstance(spec, Mapping) or name not in spec:
        return UNSET
    try:
        return msgspec.convert(spec[name], shape)
    except msgspec.ValidationError:
        return UNSET


def has_changed(former: JsonObject, name: str, value: object) -> bool:
    """Whether a correction changes a field of the spec that is of the shape of its new value."""
    stored = field_of_spec(former, name, type(value))
    return stored is not UNSET and stored != value
