"""The credentials of services as workloads read them: the variable VCAP_SERVICES (pure).

A binding Secret has one of two forms. The SAP service binding metadata lists, in the key `.metadata`, which keys are
properties of the service and which are credentials. Without it, the key `credentials` is a JSON object with all of
them.

Messages name Secrets and keys, never values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from stellwerk.kube.types import depth
from stellwerk.kube.types.model import UNREADABLE, JsonObject, JsonValue
from stellwerk.operators.cap.kinds.application import ServiceInfo
from stellwerk.operators.cap.names import go_json

VARIABLE = "VCAP_SERVICES"
"""The key of the Secret that workloads read."""

MOST_BYTES = 1 << 20
"""Of all credentials of a workload: what a Secret can hold."""

METADATA = ".metadata"
CREDENTIALS = "credentials"


class CredentialsUnusable(ValueError):
    """A binding Secret has no credentials in a form that is known."""


SecretData = Mapping[str, bytes]


def variable(services: Iterable[ServiceInfo], consumed: Collection[str], secrets: Mapping[str, SecretData]) -> str:
    """The variable for a workload that consumes these services, in the order of the application's services.

    `secrets` has the data of every Secret of a consumed service. Raises CredentialsUnusable.
    """
    used = [service for service in services if service.name in consumed]
    texts = {name: secrets[name].values() for name in {service.secret for service in used}}
    _check_size(used, sum(len(text) for values in texts.values() for text in values))
    text = go_json(classes(used, consumed, secrets), sorts=True)
    _check_size(used, len(text.encode()))  # escapes make it longer
    return text


def _check_size(services: Sequence[ServiceInfo], size: int) -> None:
    """Raise CredentialsUnusable where no Secret can hold so many bytes."""
    if size > MOST_BYTES:
        names = ", ".join(service.name for service in services[:5])
        raise CredentialsUnusable(
            f"the credentials of services {names} have {size} bytes together, more than the {MOST_BYTES} that a Secret "
            "can hold: consume fewer services in one workload"
        )


def classes(
    services: Iterable[ServiceInfo], consumed: Collection[str], secrets: Mapping[str, SecretData]
) -> JsonObject:
    """The same as an object: the entries of each class. Raises CredentialsUnusable."""
    grouped: dict[str, list[JsonValue]] = {}
    for service in services:
        if service.name in consumed:
            grouped.setdefault(service.class_name, []).append(entry(service, secrets[service.secret]))
    return {**grouped}


def entry(service: ServiceInfo, data: SecretData) -> JsonObject:
    """The entry of one service. Raises CredentialsUnusable."""
    if METADATA in data:
        return _described(service, data)
    if CREDENTIALS not in data:
        raise CredentialsUnusable(
            f"could not find credentials for secret {service.secret}: it needs the key {METADATA} or {CREDENTIALS}"
        )
    tags: list[JsonValue] = [service.class_name]
    return {
        "credentials": _json_object(service, CREDENTIALS, data[CREDENTIALS]),
        "label": service.class_name,
        "name": service.name,
        "instance_name": service.name,
        "tags": tags,
    }


@dataclass(frozen=True, slots=True)
class _Property:
    name: str
    source: str
    is_json: bool
    is_container: bool


def _described(service: ServiceInfo, data: SecretData) -> JsonObject:
    metadata = _json_object(service, METADATA, data[METADATA])
    found: JsonObject = {}
    for each in _properties(metadata, "metaDataProperties"):
        if each.source in data:
            found[each.name] = _value(service, each, data[each.source])
    found["credentials"] = _credentials(service, data, _properties(metadata, "credentialProperties"))
    found.setdefault("label", service.class_name)
    found["name"] = found.get("instance_name") or service.name
    return found


def _credentials(service: ServiceInfo, data: SecretData, properties: Iterable[_Property]) -> JsonObject:
    """The credentials. The object of a container is all of them, and ends the list."""
    credentials: JsonObject = {}
    for each in properties:
        if each.source not in data:
            continue
        value = _value(service, each, data[each.source])
        if each.is_container:
            if not isinstance(value, dict):
                raise CredentialsUnusable(f"key {each.source} of secret {service.secret} is not a JSON object")
            return value
        credentials[each.name] = value
    return credentials


def _properties(metadata: JsonObject, name: str) -> Iterator[_Property]:
    """The listed properties; the spelling of keys varies in upper and lower case between releases of the format."""
    listed = _insensitive(metadata, name)
    for item in listed if isinstance(listed, list) else ():
        if not isinstance(item, dict) or not isinstance(_insensitive(item, "name"), str):
            continue
        own = str(_insensitive(item, "name"))
        yield _Property(
            own,
            str(_insensitive(item, "sourceName") or own),
            _insensitive(item, "format") == "json",
            _insensitive(item, "container") is True,
        )


def _insensitive(found: JsonObject, name: str) -> JsonValue:
    if name in found:
        return found[name]
    return next((value for key, value in found.items() if key.lower() == name.lower()), None)


def _value(service: ServiceInfo, described: _Property, value: bytes) -> JsonValue:
    if not described.is_json:
        return value.decode("utf-8", "replace")
    return _parsed(service, described.source, value)


def _json_object(service: ServiceInfo, key: str, value: bytes) -> JsonObject:
    parsed = _parsed(service, key, value)
    if not isinstance(parsed, dict):
        raise CredentialsUnusable(f"key {key} of secret {service.secret} is not a JSON object")
    return parsed


def _parsed(service: ServiceInfo, key: str, value: bytes) -> JsonValue:
    """JSON that a key has. What is nested too deep is refused, because it cannot be written again."""
    try:
        parsed: JsonValue = msgspec.json.decode(value)
    except UNREADABLE:
        raise CredentialsUnusable(f"key {key} of secret {service.secret} is not JSON") from None
    if depth.may_be_deeper(value) and depth.is_deeper(parsed):
        raise CredentialsUnusable(f"key {key} of secret {service.secret} is {depth.TOO_DEEP}")
    return parsed
