"""Reads an object in spite of timestamps in its `status` that cannot be read.

The API server checks a `date-time` by a pattern, so a status can hold `2020-01-01T00:00:00+99:99`.
That must neither hide the object nor lose what else its status holds (an inventory), so such a timestamp counts as
absent, as far as it is optional. Everything else that is wrong with an object remains an error.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from datetime import datetime
from functools import cache
from typing import Any, TypeVar, cast

import msgspec
from msgspec import inspect

S = TypeVar("S")

_json = msgspec.json.Decoder(dict[str, Any])
_STATUS = "status"


def decode(data: bytes | msgspec.Raw, shape: type[S]) -> S:
    """One object. Raises `msgspec.ValidationError` where more than timestamps in its status is wrong."""
    return convert(_json.decode(data), shape)


def convert(body: Mapping[str, object], shape: type[S]) -> S:
    """One object that is JSON already. Raises as `decode` does."""
    body = dict(body)
    status = _type_of_status(cast("Hashable", shape))
    if status is not None and _STATUS in body:
        body[_STATUS] = _without_odd_times(body[_STATUS], status)
    return msgspec.convert(body, shape)


@cache
def _type_of_status(shape: Hashable) -> inspect.Type | None:
    described = inspect.type_info(shape)
    fields = described.fields if isinstance(described, inspect.StructType) else ()
    return next((field.type for field in fields if field.encode_name == _STATUS), None)


def _without_odd_times(value: object, type_: inspect.Type) -> object:
    match type_:
        case inspect.Metadata(type=inner):
            return _without_odd_times(value, inner)
        case inspect.UnionType(types=types):
            if _is_optional_time(types):
                return value if _is_time(value) else None
            for each in types:
                value = _without_odd_times(value, each)
        case inspect.StructType(fields=fields) if isinstance(value, dict):
            types_of = {field.encode_name: field.type for field in fields}
            return {
                name: _without_odd_times(each, types_of[name]) if name in types_of else each
                for name, each in value.items()
            }
        case inspect.ListType(item_type=inner) | inspect.VarTupleType(item_type=inner) if isinstance(value, list):
            return [_without_odd_times(each, inner) for each in value]
        case _:
            pass
    return value


def _is_optional_time(types: tuple[inspect.Type, ...]) -> bool:
    kinds = {type(each) for each in types}
    return kinds == {inspect.DateTimeType, inspect.NoneType}


def _is_time(value: object) -> bool:
    try:
        msgspec.convert(value, datetime)
    except msgspec.ValidationError:
        return False
    return True
