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
from stellwerk.kube.types.errors import AlreadyExists, Conflict, NotFound, Status
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
    """Holds one ConfigMap. Before each write that is left in `changes`, another client changes it.

    It loses the answers to the next `lost` writes, and answers when they are sent again, as the transport does.
    """

    config: ConfigMap | None
    changes: list[Change] = field(default_factory=list)
    lost: int = 0
    writes: int = 0

    async def find(self, kind: object, name: str, namespace: str) -> ConfigMap | None:
        return self.config

    async def create(self, kind: object, body: JsonObject, *, repeatable: bool, **_: object) -> ConfigMap:
        assert repeatable
        self.writes += 1
        if self.config is not None:
            raise AlreadyExists(Status(message="it exists", code=409))
        self.config = with_metadata(uid="u", resource_version="1")(msgspec.convert(body, ConfigMap))
        if self.lost:
            self.lost -= 1
            return await self.create(kind, body, repeatable=repeatable)
        return self.config

    async def update(self, kind: object, body: JsonObject, **_: object) -> ConfigMap:
        self.writes += 1
        wanted = msgspec.convert(body, ConfigMap)
        if self.config is None:
            raise NotFound(Status(message="not found", code=404))
        if self.changes:
            self._store(self.changes.pop(0)(self.config))
        found = self.config.metadata
        if (wanted.metadata.uid, wanted.metadata.resource_version) != (found.uid, found.resource_version):
            raise Conflict(Status(message="the object has been modified", code=409))
        stored = self._store(with_metadata(deletion_timestamp=found.deletion_timestamp)(wanted))
        if found.deletion_timestamp and not wanted.metadata.finalizers:
            self.config = None
        if self.lost:
            self.lost -= 1
            return await self.update(kind, body)
        return stored

    def _store(self, config: ConfigMap) -> ConfigMap:
        assert self.config is not None
        version = int(self.config.metadata.resource_version) + 1
        self.config = with_metadata(resource_version=str(version))(config)
        return self.config


def stored() -> tuple[Server, Release]:
    """A release that is stored, and the server that holds it."""
    body = written(Release(key=KEY, revision=1, created_at=NOW, updated_at=NOW))
    config = msgspec.convert(body, ConfigMap)
    kept = with_metadata(uid="u", resource_version="1")(config)
    return Server(kept), read(kept)


def leaving() -> tuple[Server, Release]:
    """A release whose objects are gone, and whose ConfigMap only waits for the finalizer."""
    server, release = stored()
    kept = with_metadata(deletion_timestamp=NOW)(cast(ConfigMap, release.stored))
    server.config = kept
    return server, read(kept).now(ReleaseState.Deleting, NOW)


async def test_a_change_of_the_metadata_is_kept_and_the_write_is_repeated() -> None:
    server, release = stored()
    server.changes = [with_metadata(annotations={"seen": str(number)}) for number in range(3)]
    messages: list[str] = []
    store = ReleaseStore(cast(Client, server), messages.append)
    saved = await store.save(release.now(ReleaseState.Ready, NOW))
    assert server.config is not None
    assert server.config.data["state"] == "Ready"
    assert server.config.metadata.annotations["seen"] == "2"
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
    assert server.config is not None
    assert server.config.data["state"] == "Pending"


async def test_a_client_that_always_writes_first_ends_the_run() -> None:
    server, release = stored()
    server.changes = [with_metadata(annotations={"seen": str(number)}) for number in range(20)]
    with pytest.raises(WorkedOn):
        await ReleaseStore(cast(Client, server)).save(release)
    assert server.writes == 15


@pytest.mark.req("R-102")
async def test_an_own_write_whose_answer_was_lost_is_no_write_of_another_client() -> None:
    server, release = stored()
    store = ReleaseStore(cast(Client, server))
    for lost, state in enumerate((ReleaseState.Processing, ReleaseState.Deleting), start=1):
        server.lost = lost
        release = await store.save(release.now(state, NOW))
        assert server.config is not None
        assert (server.config.data["state"], release.stored) == (state, server.config)


@pytest.mark.req("R-102")
async def test_a_release_that_is_new_is_stored_though_the_answer_was_lost() -> None:
    server = Server(None, lost=1)
    saved = await ReleaseStore(cast(Client, server)).save(Release(key=KEY).begun(NOW))
    assert server.config is not None
    assert (saved.stored, saved.revision) == (server.config, 1)


@pytest.mark.parametrize("there", [stored()[0].config, ConfigMap()])
async def test_a_new_release_is_not_stored_over_a_config_map_of_its_name(there: ConfigMap) -> None:
    server = Server(there)
    with pytest.raises(WorkedOn):
        await ReleaseStore(cast(Client, server)).save(Release(key=KEY).begun(NOW))
    assert server.writes == 1


@pytest.mark.parametrize("is_stored", [True, False], ids=["stored", "new"])
async def test_of_two_runs_that_begin_in_the_same_second_one_ends_before_it_changes_an_object(is_stored: bool) -> None:
    server = stored()[0] if is_stored else Server(None)
    store = ReleaseStore(cast(Client, server))
    one, two = [await store.find(KEY) or Release(key=KEY) for _ in range(2)]
    kept = await store.save(one.begun(NOW))
    with pytest.raises(WorkedOn):
        await store.save(two.begun(NOW))
    assert server.config is kept.stored


async def test_a_write_of_a_program_that_keeps_the_annotation_of_the_run_is_not_its_own() -> None:
    server, release = stored()
    store = ReleaseStore(cast(Client, server))
    begun = await store.save(release.begun(NOW))
    server.changes = [with_data(state="Ready")]
    with pytest.raises(WorkedOn):
        await store.save(begun.now(ReleaseState.Error, NOW))


@pytest.mark.req("R-102")
@pytest.mark.parametrize("is_stored", [True, False], ids=["stored", "new"])
async def test_the_error_of_a_run_is_stored_though_its_write_before_was_not_answered(is_stored: bool) -> None:
    server, release = stored() if is_stored else (Server(None), Release(key=KEY))
    store = ReleaseStore(cast(Client, server))
    begun = release.begun(NOW)
    await store.save(begun)  # what it returns is not used: the run has no answer
    await store.save(begun.now(ReleaseState.Error, NOW))
    assert server.config is not None
    assert server.config.data["state"] == "Error"


@pytest.mark.req("R-102")
@pytest.mark.parametrize("is_stored", [True, False], ids=["stored", "new"])
async def test_a_deletion_that_comes_after_an_own_write_ends_the_run(is_stored: bool) -> None:
    server, release = stored() if is_stored else (Server(None), Release(key=KEY))
    wanted = release.begun(NOW)
    await ReleaseStore(cast(Client, server)).save(wanted)
    assert server.config is not None
    server.config = with_metadata(deletion_timestamp=NOW)(server.config)
    with pytest.raises(WorkedOn):
        await ReleaseStore(cast(Client, server)).save(wanted)


@pytest.mark.req("R-102")
async def test_the_last_write_of_a_deletion_may_find_the_release_gone() -> None:
    server, release = leaving()
    server.lost = 1
    await ReleaseStore(cast(Client, server)).save(release)
    assert (server.config, server.writes) == (None, 2)


@pytest.mark.req("R-105")
async def test_the_last_write_of_a_deletion_leaves_a_new_release_of_the_name_alone() -> None:
    server, release = leaving()
    new = server.config = with_metadata(uid="new")(stored()[1].stored or ConfigMap())
    await ReleaseStore(cast(Client, server)).save(release)
    assert server.config is new


async def test_the_finalizer_goes_though_another_client_changes_the_metadata() -> None:
    server, release = leaving()
    server.changes = [with_metadata(annotations={"seen": "1"})]
    await ReleaseStore(cast(Client, server)).save(release)
    assert server.config is None


async def test_a_release_that_is_lost_during_its_run_is_not_created_again() -> None:
    server, release = stored()
    server.config = None
    with pytest.raises(NotFound):
        await ReleaseStore(cast(Client, server)).save(release.now(ReleaseState.Ready, NOW))
