"""Headers that annotations of a CAPApplication set on every route. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from stellwerk.api.istio import HeaderOperations, RouteHeaders
from stellwerk.operators.cap import names
from stellwerk.operators.cap.routing.targets import Unroutable

MOST_BYTES = 16 << 10
"""Of one annotation."""

_decode = msgspec.json.Decoder(dict[str, str]).decode


def of_annotations(annotations: Mapping[str, str], owner: str) -> RouteHeaders | None:
    """The headers to set; None without any. `owner` names the application. Raises Unroutable."""
    request = _operations(annotations, names.REQUEST_HEADERS_ANNOTATION, owner)
    response = _operations(annotations, names.RESPONSE_HEADERS_ANNOTATION, owner)
    return RouteHeaders(request=request, response=response) if request or response else None


def with_response(
    headers: RouteHeaders | None, *, set: Mapping[str, str] | None = None, add: Mapping[str, str] | None = None
) -> RouteHeaders:
    """The headers with more for the response."""
    given = headers or RouteHeaders()
    response = given.response or HeaderOperations()
    merged = HeaderOperations(set={**response.set, **(set or {})}, add={**response.add, **(add or {})})
    return RouteHeaders(request=given.request, response=merged)


def _operations(annotations: Mapping[str, str], key: str, owner: str) -> HeaderOperations | None:
    text = annotations.get(key, "")
    if not text:
        return None
    try:
        if len(text.encode()) > MOST_BYTES:
            raise msgspec.ValidationError(f"it has more than {MOST_BYTES >> 10} KiB")
        found = _decode(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise Unroutable(
            f"error getting headers via CA annotations for {owner}: {key} must be a JSON object of texts: {error}"
        ) from error
    return HeaderOperations(set=found) if found else None
