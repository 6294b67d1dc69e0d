"""How a release is stored while others write its ConfigMap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

import msgspec
import pytest

from stellwerk.api.core import ConfigMap
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import Conflict, Status
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject
from stellwerk.releases.errors import WorkedOn
from stellwerk.releases.release import Release, ReleaseState, read, written
from stellwerk.releases.release_store import ReleaseStore

KEY = ObjectKey("shop", "web")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
Change = Callable[[ConfigMap], ConfigMap]


def with_metadata(**changes: Any) -> Change:
    return lambda found: msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, **changes))


def with_data(**changes: str) -> Change:
    return lambda found: msgspec.structs.replace(found, data={**found.data, **changes})


@dataclass
class Server:
    """Holds one ConfigMap. Before each write that is left in `changes`, another client changes it."""

    config: ConfigMap
    changes: list[Change] = field(default_factory=list)
    writes: int = 0

    async def find(self, kind: object, name: str, namespace: str) -> ConfigMap | None:
        return self.config

    async def update(self, kind: object, body: JsonObject, **_: object) -> ConfigMap:
        self.writes += 1
        version = int(self.config.metadata.resource_version)
        if self.changes:
            version += 1
            changed = self.changes.pop(0)(self.config)
            self.config = with_metadata(resource_version=str(version))(changed)
        wanted = msgspec.convert(body, ConfigMap)
        if wanted.metadata.resource_version != self.config.metadata.resource_version:
            raise Conflict(Status(message="the object has been modified", code=409))
        self.config = with_metadata(resource_version=str(version + 1))(wanted)
        return self.config


def stored() -> tuple[Server, Release]:
    """A release that is stored, and the server that holds it."""
    body = written(Release(key=KEY, revision=1, created_at=NOW, updated_at=NOW))
    config = msgspec.convert(body, ConfigMap)
    server = Server(with_metadata(uid="u", resource_version="1")(config))
    return server, read(server.config)


async def test_a_change_of_the_metadata_is_kept_and_the_write_is_repeated() -> None:
    server, release = stored()
    server.changes = [with_metadata(annotations={"seen": str(number)}) for number in range(3)]
    messages: list[str] = []
    store = ReleaseStore(cast(Client, server), messages.append)
    saved = await store.save(release.now(ReleaseState.Ready, NOW))
    assert server.config.data["state"] == "Ready"
    assert server.config.metadata.annotations == {"seen": "2"}
    assert saved.stored is server.config
    assert [message[-len("(retrying 1/15)") :] for message in messages] == [
        "(retrying 1/15)",
        "(retrying 2/15)",
        "(retrying 3/15)",
    ]


@pytest.mark.parametrize(
    "change",
    [
        with_data(revision="2"),
        with_data(inventory="[]  "),
        with_metadata(deletion_timestamp=NOW),
        with_metadata(uid="another"),
    ],
)
async def test_a_change_of_the_release_itself_ends_the_run(change: Change) -> None:
    server, release = stored()
    server.changes = [change]
    with pytest.raises(WorkedOn):
        await ReleaseStore(cast(Client, server)).save(release.now(ReleaseState.Ready, NOW))
    assert server.writes == 1
    assert server.config.data["state"] == "Pending"


async def test_a_client_that_always_writes_first_ends_the_run() -> None:
    server, release = stored()
    server.changes = [with_metadata(annotations={"seen": str(number)}) for number in range(20)]
    with pytest.raises(WorkedOn):
        await ReleaseStore(cast(Client, server)).save(release)
    assert server.writes == 15
