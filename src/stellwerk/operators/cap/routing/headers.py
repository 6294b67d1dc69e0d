"""Headers that annotations of a CAPApplication set on every route. Pure.

The author of an application is a tenant, and all tenants share the gateway. So a header may neither change where a
request goes or ends, nor show who has sent it, nor read from the gateway itself, which replaces `%NAME%` in values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

import msgspec

from stellwerk.api.istio import HeaderOperations, RouteHeaders
from stellwerk.apply.set.model.confirmation import Live
from stellwerk.kube.types.model import Unstructured, dig
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.routing.targets import Unroutable

R = TypeVar("R")

MOST_BYTES = 16 << 10
"""Of one annotation."""
LONGEST_NAME = 256
LONGEST_VALUE = 8 << 10

_NEVER = frozenset(
    {
        "host",
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "content-length",
        names.GATEWAY_HEADER,
    }
)
"""What decides where a request goes, and where it ends."""
_BY_SETTING = re.compile(r"authorization|forwarded|x-forwarded-.*|x-envoy-.*|x-real-ip")
"""What shows who has sent a request, and how the gateway treats it."""
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VALUE = re.compile(r"([!-~]([ \t!-~]*[!-~])?)?")
_REPLACED = re.compile(
    r"%%|%(REQ|RESP|PROTOCOL|START_TIME|RESPONSE_CODE|REQUESTED_SERVER_NAME|STREAM_ID|TRACE_ID|DOWNSTREAM_\w+|UPSTREAM_\w+)"
    r"(\([^%()]*\))?(:[0-9]+)?%"
)
"""What a gateway may replace: what belongs to the request. It knows others, such as files and its variables."""

_decode = msgspec.json.Decoder(dict[str, str]).decode


def of_annotations(annotations: Mapping[str, str], owner: str, allowed: Collection[str] = ()) -> RouteHeaders | None:
    """The headers to set; None without any. `owner` names the application. Raises Unroutable.

    `allowed`: names that may be set although others rely on them, in small letters.
    """
    request = _operations(annotations, names.REQUEST_HEADERS_ANNOTATION, owner, allowed)
    response = _operations(annotations, names.RESPONSE_HEADERS_ANNOTATION, owner, allowed)
    return RouteHeaders(request=request, response=response) if request or response else None


def reduced(application: CAPApplication, allowed: Collection[str] = ()) -> CAPApplication:
    """The application with those headers alone that may be set. An annotation that cannot be read sets none."""
    found = dict(application.metadata.annotations)
    for key in (names.REQUEST_HEADERS_ANNOTATION, names.RESPONSE_HEADERS_ANNOTATION):
        if key in found:
            found[key] = msgspec.json.encode(_permitted(found[key], allowed)).decode()
    metadata = msgspec.structs.replace(application.metadata, annotations=found)
    return msgspec.structs.replace(application, metadata=metadata)


def _permitted(text: str, allowed: Collection[str]) -> dict[str, str]:
    try:
        listed = _decode(text) if len(text.encode()) <= MOST_BYTES else {}
    except (msgspec.DecodeError, UnicodeError):
        return {}
    return {name: value for name, value in listed.items() if not problem_of(name, value, allowed)}


def routed(
    application: CAPApplication,
    live: Iterable[Live],
    allowed: Collection[str],
    routes_of: Callable[[CAPApplication], R],
) -> tuple[R, str]:
    """The routes of an application, and why a header in its annotations is refused; empty if none is.

    What `live` sets already is taken from it first: a VirtualService that sets a refused header gets routes without it,
    and then the refusal is reported. Raises what `routes_of` raises if none does.
    """
    try:
        return routes_of(application), ""
    except Unroutable as error:
        if not any(are_refused(each, allowed) for each in live):
            raise
        return routes_of(reduced(application, allowed)), str(error)


def are_refused(live: Live, allowed: Collection[str] = ()) -> bool:
    """Whether a VirtualService sets a header for which an annotation is refused.

    It may be older than the rule, or than a change of the setting.
    """
    routes = live.at("spec", "http") if isinstance(live, Unstructured) else None
    listed = [route for route in routes if isinstance(route, dict)] if isinstance(routes, list) else []
    targets = [each for route in listed if isinstance(found := route.get("route"), list) for each in found]
    return any(
        problem_of(name, str(value), allowed)
        for place in (*listed, *targets)
        for part in ("request", "response")
        if isinstance(values := dig(place, "headers", part, "set"), dict)
        for name, value in values.items()
    )


def with_response(
    headers: RouteHeaders | None, *, set: Mapping[str, str] | None = None, add: Mapping[str, str] | None = None
) -> RouteHeaders:
    """The headers with more for the response."""
    given = headers or RouteHeaders()
    response = given.response or HeaderOperations()
    merged = HeaderOperations(set={**response.set, **(set or {})}, add={**response.add, **(add or {})})
    return RouteHeaders(request=given.request, response=merged)


def _operations(
    annotations: Mapping[str, str], key: str, owner: str, allowed: Collection[str]
) -> HeaderOperations | None:
    text = annotations.get(key, "")
    if not text:
        return None
    prefix = f"error getting headers via CA annotations for {owner}: {key}"
    try:
        if len(text.encode()) > MOST_BYTES:
            raise msgspec.ValidationError(f"it has more than {MOST_BYTES >> 10} KiB")
        found = _decode(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise Unroutable(f"{prefix} must be a JSON object of texts: {error}") from error
    for name, value in found.items():
        if problem := problem_of(name, value, allowed):
            raise Unroutable(f"{prefix} {problem}")
    return HeaderOperations(set=found) if found else None


def problem_of(name: str, value: str, allowed: Collection[str] = ()) -> str:
    """Why an annotation may not set this header; empty where it may. The value, which may be secret, is not shown."""
    lower = name.lower()
    if len(name) > LONGEST_NAME or not _TOKEN.fullmatch(name):
        return f"has a header whose name is no name of a header: {name[:60]!r}"
    if lower in _NEVER:
        return f"may not set header {name}: the gateway needs it to lead requests"
    if _BY_SETTING.fullmatch(lower) and lower not in allowed:
        return (
            f"may not set header {name}: others take it as the word of the gateway; "
            f"an administrator allows it by ALLOWED_ROUTE_HEADERS={lower} at the controller and at the webhooks"
        )
    if len(value) > LONGEST_VALUE or not _VALUE.fullmatch(value):
        return (
            f"has a value of header {name} with other characters than visible ones of ASCII, a blank at its end, or "
            f"more than {LONGEST_VALUE >> 10} KiB"
        )
    if "%" in _REPLACED.sub("", value):
        return (
            f"has a value of header {name} with a percent sign that the gateway cannot replace, or may not; "
            "write %% for the sign itself"
        )
    return ""
