"""The variable `destinations` of routers: under which names they find the other workloads (pure; spec section 7)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.names import go_json
from stellwerk.operators.cap.routing.targets import ports_of, service_name

VARIABLE = "destinations"
_ORDER = (
    "name",
    "url",
    "proxyHost",
    "proxyPort",
    "forwardAuthToken",
    "strictSSL",
    "timeout",
    "setXForwardedHeaders",
    "proxyType",
)


def environment(version: CAPApplicationVersion, env: Sequence[JsonObject]) -> list[JsonValue]:
    """The variables of a router with `destinations`: in the place of the given one, or else as the last.

    The entries of the given one keep all that they have but the URL of a workload of this version.
    """
    given = next((each for each in env if each.get("name") == VARIABLE), None)
    made: JsonObject = {"name": VARIABLE, "value": _value(version, given)}
    if given is None:
        return [*env, made]
    return [made if each is given else each for each in env]


def _value(version: CAPApplicationVersion, given: JsonObject | None) -> str:
    entries = _entries(given.get("value") if given is not None else None)
    made: list[JsonValue] = []
    for name, url in _urls(version):
        content = entries.pop(name, {"forwardAuthToken": True})
        made.append(_entry({**content, "name": name, "url": url}))
    return go_json([*made, *map(_entry, entries.values())])


def _urls(version: CAPApplicationVersion) -> list[tuple[str, str]]:
    return [
        (port.router_destination_name, f"http://{service_name(version, workload.name)}:{port.port}")
        for workload, details in version.spec.deployments
        for port in ports_of(details)
        if port.router_destination_name
    ]


def _entries(text: JsonValue) -> dict[str, JsonObject]:
    """The entries of a user by their names; none where the text is no JSON array."""
    try:
        content = msgspec.json.decode(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return {}
    listed = content if isinstance(content, list) else []
    return {str(each.get("name", "")): each for each in listed if isinstance(each, dict)}


def _entry(content: JsonObject) -> JsonObject:
    """An entry in the order of the original, without empty values; attributes that it does not know come last."""
    keys = (*_ORDER, *(key for key in content if key not in _ORDER))
    return {key: content[key] for key in keys if content.get(key)}
