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
"""Of all credentials of a workload: what a Secret can hold. No more is read of binding Secrets to make them."""

METADATA = ".metadata"
CREDENTIALS = "credentials"


class CredentialsUnusable(ValueError):
    """A binding Secret is absent or in no form that is known, or the Secret made of it cannot be written."""


SecretData = Mapping[str, bytes]


@dataclass(slots=True)
class _Budget:
    """Counts the bytes of credentials. A value counts each time it is read: metadata may list one key many times."""

    services: Sequence[ServiceInfo]
    """Those whose credentials share the budget."""
    _used: int = 0

    def spend(self, value: bytes) -> bytes:
        """The value, to be parsed. Raises CredentialsUnusable where no Secret can hold all of them."""
        self._used += len(value)
        if self._used > MOST_BYTES:
            names = ", ".join(service.name for service in self.services[:5])
            raise CredentialsUnusable(
                f"the credentials of services {names} have more than the {MOST_BYTES} bytes that a Secret can hold: "
                f"consume fewer services in one workload, and list each key of a binding Secret once in {METADATA}"
            )
        return value


def variable(services: Iterable[ServiceInfo], consumed: Collection[str], secrets: Mapping[str, SecretData]) -> str:
    """The variable for a workload that consumes these services, in the order of the application's services.

    `secrets` has the data of every Secret of a consumed service. Raises CredentialsUnusable.
    """
    names_used = {*consumed}
    used = [service for service in services if service.name in names_used]
    budget = _Budget(used)
    by_class: dict[str, list[JsonValue]] = {}
    for service in used:
        by_class.setdefault(service.class_name, []).append(_entry(service, secrets[service.secret], budget))
    text = go_json({**by_class}, sorts=True)
    _Budget(used).spend(text.encode())  # escapes make it longer
    return text


def entry(service: ServiceInfo, data: SecretData) -> JsonObject:
    """The entry of one service. Raises CredentialsUnusable."""
    return _entry(service, data, _Budget((service,)))


def _entry(service: ServiceInfo, data: SecretData, budget: _Budget) -> JsonObject:
    if METADATA in data:
        return _described(service, data, budget)
    if CREDENTIALS not in data:
        raise CredentialsUnusable(
            f"could not find credentials for secret {service.secret}: it needs the key {METADATA} or {CREDENTIALS}"
        )
    tags: list[JsonValue] = [service.class_name]
    return {
        "credentials": _object(service, CREDENTIALS, _parsed(service, CREDENTIALS, budget.spend(data[CREDENTIALS]))),
        "label": service.class_name,
        "name": service.name,
        "instance_name": service.name,
        "tags": tags,
    }


def _described(service: ServiceInfo, data: SecretData, budget: _Budget) -> JsonObject:
    metadata = _object(service, METADATA, _parsed(service, METADATA, budget.spend(data[METADATA])))
    properties = _properties(service, data, metadata, "metaDataProperties", budget)
    found: JsonObject = {name: value for name, _, value, _ in properties}
    found["credentials"] = _credentials(service, data, metadata, budget)
    found.setdefault("label", service.class_name)
    found["name"] = found.get("instance_name") or service.name
    return found


def _credentials(service: ServiceInfo, data: SecretData, metadata: JsonObject, budget: _Budget) -> JsonObject:
    """The credentials. The object of a container is all of them, and ends the list."""
    credentials: JsonObject = {}
    for name, key, value, is_container in _properties(service, data, metadata, "credentialProperties", budget):
        if is_container:
            return _object(service, key, value)
        credentials[name] = value
    return credentials


def _properties(
    service: ServiceInfo, data: SecretData, metadata: JsonObject, listed_in: str, budget: _Budget
) -> Iterator[tuple[str, str, JsonValue, bool]]:
    """Name, key and value of each listed property that the Secret has, and whether it is a container.

    The spelling of keys in the metadata varies in upper and lower case between releases of the format. A key that is
    listed many times is parsed once, so that no more is parsed than the Secret has.
    """
    parsed: dict[str, JsonValue] = {}
    listed = _insensitive(metadata, listed_in)
    for item in listed if isinstance(listed, list) else ():
        if not isinstance(item, dict) or not isinstance(name := _insensitive(item, "name"), str):
            continue
        key = str(_insensitive(item, "sourceName") or name)
        if key in data:
            text = budget.spend(data[key])
            if _insensitive(item, "format") != "json":
                value: JsonValue = text.decode("utf-8", "replace")
            elif key in parsed:
                value = parsed[key]
            else:
                value = parsed[key] = _parsed(service, key, text)
            yield name, key, value, _insensitive(item, "container") is True


def _insensitive(found: JsonObject, name: str) -> JsonValue:
    if name in found:
        return found[name]
    return next((value for key, value in found.items() if key.lower() == name.lower()), None)


def _object(service: ServiceInfo, key: str, value: JsonValue) -> JsonObject:
    if not isinstance(value, dict):
        raise CredentialsUnusable(f"key {key} of secret {service.secret} is not a JSON object")
    return value


def _parsed(service: ServiceInfo, key: str, value: bytes) -> JsonValue:
    """JSON that a key has. What is nested too deep is refused, because it cannot be written again."""
    try:
        parsed: JsonValue = msgspec.json.decode(value)
    except UNREADABLE:
        raise CredentialsUnusable(f"key {key} of secret {service.secret} is not JSON") from None
    if depth.may_be_deeper(value) and depth.is_deeper(parsed):
        raise CredentialsUnusable(f"key {key} of secret {service.secret} is {depth.TOO_DEEP}")
    return parsed
