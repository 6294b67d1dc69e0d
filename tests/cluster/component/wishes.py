"""Specs of Components drawn from the schema of their definition, the same for the same seed.

Drawn blindly, nearly every spec would name a source that does not exist, and prove little. So some fields choose among
values of which some are good, some wait for what never comes, and some are wrong; all others are whatever the schema
takes. Left out is what says not to act (`suspend`, pins) and what leaves objects behind on purpose.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from stellwerk.kube.types.model import JsonObject, JsonValue, dig
from stellwerk.operators.component.api import COMPONENTS

NOBODY = "nobody"
"""A ServiceAccount that does not exist."""
SOURCE, SECOND_SOURCE, VALUES, ACCOUNT = "source", "second", "more-values", "worker"
"""What exists; every other name does not."""

_NAMES: tuple[JsonValue, ...] = (["one"], ["one", "two"], ["three"], [], ["one", "two", "three"])
_GIT: tuple[JsonValue, ...] = ({"fluxGitRepository": {"name": SOURCE}}, {"fluxGitRepository": {"name": SECOND_SOURCE}})
_CHOICES: Mapping[str, Sequence[JsonValue]] = {
    "sourceRef": (
        *(_GIT * 10),
        {"fluxGitRepository": {"name": "nowhere"}},
        {"blueprint": {"name": "nowhere"}},
        {"httpRepository": {"url": "not a url"}},
        {"fluxGitRepository": {"name": SOURCE}, "blueprint": {"name": "nowhere"}},
        {},
    ),
    "values": (*({"names": names} for names in _NAMES * 4), {"names": 5}, {"names": ["UPPER"]}, [], "text", {}),
    "valuesFrom": ([], [], [{"kind": "ConfigMap", "name": VALUES}], [{"name": "nowhere"}]),
    "path": ("", "", "", "sub", "nowhere", "../.."),
    "serviceAccountName": ("", ACCOUNT, NOBODY),
    "dependencies": ([], [], [], [{"name": "nowhere"}], [{"name": "comp"}]),
    "decryption": (None, {"secretRef": {"name": "nowhere"}}, {"provider": "gpg", "secretRef": {"name": "nowhere"}}),
    "kubeConfig": (None, None, {"secretRef": {"name": "nowhere"}}),
    "deletePolicy": ("Delete", "OrphanOnDelete"),
    "namespace": (None,),
    "suspend": (None,),
    "sticky": (None,),
    "digest": (None,),
    "revision": (None,),
    "timeout": ("1h", "90m"),
    "requeueInterval": ("1h", "2h"),
    "retryInterval": ("1h",),
}
_WORDS = ("a", "two words", "x-y", "Ünïcode", "{{ .x }}", "${x}", "a: [b", "", "v1", "0", "../..", "*")


def _schema() -> JsonObject:
    versions = cast("list[JsonObject]", dig(COMPONENTS.body(), "spec", "versions"))
    return cast(JsonObject, dig(versions[0], "schema", "openAPIV3Schema", "properties", "spec"))


@dataclass(slots=True)
class Wishes:
    """Draws one spec after the other."""

    chance: random.Random
    eagerness: float = 0.08
    """How likely a field is given that need not be."""

    def spec(self) -> JsonObject:
        """A spec that the schema has room for; rules that it cannot express may still forbid it."""
        schema = _schema()
        properties = cast("dict[str, JsonObject]", schema["properties"])
        always = ("sourceRef", "values", "timeout", "requeueInterval", "retryInterval", "deletePolicy")
        given = {name: self._field(name, one) for name, one in properties.items() if name in always or self._wants()}
        return {name: value for name, value in given.items() if value is not None}

    def _field(self, name: str, schema: JsonObject) -> JsonValue:
        return self.chance.choice(_CHOICES[name]) if name in _CHOICES else self._any(schema)

    def _wants(self) -> bool:
        return self.chance.random() < self.eagerness

    def _any(self, schema: JsonObject) -> JsonValue:
        if values := schema.get("enum"):
            return self.chance.choice(cast("list[JsonValue]", values))
        match schema.get("type"):
            case "object":
                return self._object(schema)
            case "array":
                return [self._any(cast(JsonObject, schema["items"])) for _ in range(self.chance.randrange(3))]
            case "boolean":
                return self.chance.random() < 0.5
            case "integer":
                return self.chance.randrange(-1, 5)
            case "string":
                return self.chance.choice(_WORDS)
            case _:
                odd: list[JsonValue] = [1, "text", None, {"a": []}]
                return self.chance.choice(odd)

    def _object(self, schema: JsonObject) -> JsonObject:
        if isinstance(values := schema.get("additionalProperties"), dict):
            return {self.chance.choice(_WORDS): self._any(values) for _ in range(self.chance.randrange(3))}
        properties = cast("dict[str, JsonObject]", schema.get("properties") or {})
        required = cast("list[str]", schema.get("required") or [])
        return {name: self._any(one) for name, one in properties.items() if name in required or self._wants()}
