"""What the API server answers to a write of a step means the same for every kind of write."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, NoReturn, cast

import pytest
from tests.unit.kube.scripted import serving

from stellwerk.api.core import ConfigMap
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.runtime.control.step import Apply, Create, Delete, Failure, Hands, Patch, Write
from stellwerk.runtime.reading.questions import Collection
from stellwerk.testing.clock import FakeClock

MAPS = Collection(ConfigMap)
SEEN = ConfigMap(metadata=ObjectMeta(name="one", namespace="here", uid="1", resource_version="1"))
BODY: JsonObject = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "namespace": "here"}}


class Failed(Exception):
    """The pass ends with this failure."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure


@dataclass
class Places:
    """The executor of a pass, as far as a write needs it. Notes what is laid over the view."""

    client: Client
    seen: list[Any] = field(default_factory=list)
    clock: FakeClock = field(default_factory=FakeClock)

    def at(self, cluster: object) -> Places:
        return self

    def see(self, collection: object, key: ObjectKey, found: Any) -> None:
        self.seen.append((key, found))

    def fail(self, failure: Failure) -> NoReturn:
        raise Failed(failure)


def refused(message: str, error: Any) -> Failure:
    return Failure(message=f"{error.code}: {message}", event_reason="NotAccepted")


WRITES = [
    Create(MAPS, BODY, refused),
    Apply(MAPS, BODY, "a-manager", refused),
    Patch(MAPS, SEEN, {"data": {"a": "b"}}, refused),
    Delete(MAPS, SEEN, refused),
]


def said(code: int, body: JsonObject) -> bytes:
    text = json.dumps(body).encode()
    return b"HTTP/1.1 %d Said\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
        code,
        len(text),
        text,
    )


@pytest.mark.parametrize("write", WRITES, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize(("code", "reason"), [(400, "BadRequest"), (403, "Forbidden"), (422, "Invalid")])
async def test_a_refused_write_is_what_the_kind_makes_of_it(write: Write, code: int, reason: str) -> None:
    status: JsonObject = {"kind": "Status", "reason": reason, "message": "a webhook denied it", "code": code}
    async with (
        serving(said(code, status)) as (server, _),
        Client.connect(ClusterConfig(server=f"http://127.0.0.1:{server.port}")) as client,
    ):
        hands = Places(client)
        with pytest.raises(Failed) as failed:
            await write.perform(cast("Hands", hands))
    failure = failed.value.failure
    assert failure.message.startswith(f"{code}: cannot ")
    assert "a webhook denied it" in failure.message
    assert failure.event_reason == "NotAccepted"
    assert not hands.seen


@pytest.mark.parametrize("is_held", [True, False])
async def test_a_deletion_lays_over_the_view_what_is_left(is_held: bool) -> None:
    metadata: JsonObject = {"name": "one", "namespace": "here", "uid": "1", "finalizers": ["others/one"]}
    held: JsonObject = {**BODY, "metadata": {**metadata, "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    done: JsonObject = {"kind": "Status", "apiVersion": "v1", "status": "Success"}
    async with (
        serving(said(200, held if is_held else done)) as (server, _),
        Client.connect(ClusterConfig(server=f"http://127.0.0.1:{server.port}")) as client,
    ):
        hands = Places(client)
        await Delete(MAPS, SEEN, refused).perform(cast("Hands", hands))
    ((key, found),) = hands.seen
    assert key == SEEN.key
    assert (found is not None) is is_held
    assert found is None or found.metadata.is_terminating


def test_writes_of_the_same_effect_are_equal_whatever_their_refusal_means() -> None:
    assert Delete(MAPS, SEEN, refused) == Delete(MAPS, SEEN, lambda message, _: Failure(message=message), "another")
    assert Delete(MAPS, SEEN, refused) != Delete(MAPS, SEEN, refused, propagation="Orphan")
