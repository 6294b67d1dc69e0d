"""Artifacts survive a restart on disk, and no disk is bad enough to lose one."""

from __future__ import annotations

import hashlib
import os
import resource
import stat
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path

import pytest

from stellwerk.render.errors import BadArchive, EgressRefused
from stellwerk.render.sources.artifact_disk_cache import REST_SECONDS, Outcome, Received, Shelf
from stellwerk.render.sources.downloads import Downloads
from stellwerk.render.sources.egress import IN_CLUSTER, PUBLIC, EgressRules
from stellwerk.render.sources.http import OriginCredentials
from stellwerk.testing.servers.artifacts import ArtifactServer, Refuse

HERE = EgressRules(http=True, private=True, networks=(ip_network("127.0.0.0/8"),))
TREE = {"a.yaml": b"kind: A\n"}
URL = "http://source-controller/a.tar.gz"


class Told(Counter[Outcome]):
    """How often each outcome was told."""

    def __call__(self, outcome: Outcome) -> None:
        self[outcome] += 1


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def received(size: int, letter: str) -> tuple[str, Received]:
    data = letter.encode() * size
    return digest_of(data), Received(data, "a.tar.gz", "application/gzip")


def files(folder: Path) -> list[Path]:
    return sorted((folder / "artifacts").iterdir())


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def shelf(tmp_path: Path, told: Told) -> Shelf:
    return Shelf(tmp_path, most_bytes=10_000, tell=told)


@pytest.fixture
async def server() -> AsyncIterator[ArtifactServer]:
    async with ArtifactServer() as found:
        yield found


# ---- with downloads


async def test_an_artifact_is_there_after_a_restart_though_its_server_is_not(
    server: ArtifactServer, shelf: Shelf, told: Told
) -> None:
    artifact = server.publish("app.tar.gz", TREE)
    async with Downloads(shelf=shelf) as downloads:
        await downloads.fetch(artifact.url, artifact.digest, rules=HERE)
    server.behave("app.tar.gz", Refuse(503))
    async with Downloads(shelf=shelf) as downloads:
        assert dict(await downloads.fetch(artifact.url, artifact.digest, rules=HERE)) == TREE
    assert told == {"miss": 1, "stored": 1, "hit": 1}


async def test_a_manifest_keeps_the_name_by_which_it_is_told(server: ArtifactServer, shelf: Shelf) -> None:
    artifact = server.publish("latest", b"kind: A\n", content_type="application/yaml")
    for _ in range(2):
        async with Downloads(shelf=shelf) as downloads:
            found = await downloads.fetch(artifact.url, artifact.digest, rules=HERE)
            assert dict(found) == {"manifest.yaml": b"kind: A\n"}
    assert server.count("latest") == 1


@pytest.mark.req("R-802")
async def test_what_was_fetched_with_credentials_or_cannot_be_verified_does_not_go_to_disk(
    server: ArtifactServer, shelf: Shelf, tmp_path: Path
) -> None:
    artifact = server.publish("app.tar.gz", TREE)
    async with Downloads(shelf=shelf) as downloads:
        shown = OriginCredentials.basic(artifact.url, "user", "hunter2")
        await downloads.fetch(artifact.url, artifact.digest, rules=HERE, credentials=shown)
        await downloads.fetch(artifact.url.replace("//", "//user:hunter2@"), artifact.digest, rules=HERE)
        await downloads.fetch(artifact.url, artifact.etag, rules=HERE, digest_header="etag")
    assert not (tmp_path / "artifacts").exists()


async def test_what_cannot_be_unpacked_does_not_go_to_disk(
    server: ArtifactServer, shelf: Shelf, tmp_path: Path
) -> None:
    artifact = server.publish("app.tar.gz", b"<html>")
    async with Downloads(shelf=shelf) as downloads:
        with pytest.raises(BadArchive):
            await downloads.fetch(artifact.url, artifact.digest, rules=HERE)
    assert not (tmp_path / "artifacts").exists()


@pytest.mark.req("R-601")
async def test_what_must_not_be_called_is_not_served_from_disk_either(server: ArtifactServer, shelf: Shelf) -> None:
    artifact = server.publish("app.tar.gz", TREE)
    async with Downloads(shelf=shelf) as downloads:
        await downloads.fetch(artifact.url, artifact.digest, rules=HERE)
    async with Downloads(shelf=shelf) as downloads:
        for rules in (PUBLIC, EgressRules(http=True)):
            with pytest.raises(EgressRefused):
                await downloads.fetch(artifact.url, artifact.digest, rules=rules)


async def test_under_the_default_rules_an_artifact_of_a_former_version_is_found_by_its_url(shelf: Shelf) -> None:
    data = b"kind: A\n"
    url = "http://127.0.0.1:1/manifest.yaml"
    await shelf.put(url, digest_of(data), Received(data, "manifest.yaml", ""))
    async with Downloads(shelf=shelf) as downloads:
        assert await downloads.fetch(url, digest_of(data), rules=EgressRules(http=True, private=True))
    async with Downloads(shelf=shelf) as downloads:
        for rules in (EgressRules(http=True), replace(IN_CLUSTER, refused=HERE.networks)):
            with pytest.raises(EgressRefused):
                await downloads.fetch(url, digest_of(data), rules=rules)


# ---- the shelf itself


@pytest.mark.req("R-604")
async def test_knowing_a_digest_is_no_right_to_its_content(shelf: Shelf) -> None:
    digest, data = received(100, "a")
    await shelf.put(URL, digest, data)
    assert await shelf.take(URL, digest) == data
    assert await shelf.take("http://elsewhere/a.tar.gz", digest) is None


@pytest.mark.req("R-305")
@pytest.mark.parametrize("where", ["head", "data", "end"])
async def test_a_file_that_is_not_what_was_written_is_thrown_away(
    shelf: Shelf, told: Told, tmp_path: Path, where: str
) -> None:
    digest, data = received(100, "a")
    await shelf.put(URL, digest, data)
    [file] = files(tmp_path)
    text = file.read_bytes()
    damaged = {"head": text.replace(b"gzip", b"html"), "data": text[:-1] + b"b", "end": text[:50]}
    file.write_bytes(damaged[where])
    assert await shelf.take(URL, digest) is None
    assert told["damaged"] == 1
    assert not files(tmp_path)


@pytest.mark.req("R-508")
async def test_only_the_user_of_the_process_can_look_into_the_folder(shelf: Shelf, tmp_path: Path) -> None:
    (tmp_path / "artifacts").mkdir(mode=0o755)
    digest, data = received(100, "a")
    await shelf.put(URL, digest, data)
    [file] = files(tmp_path)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (file.parent, file)] == [0o700, 0o600]


async def test_where_room_is_needed_what_was_read_longest_ago_goes_and_nothing_of_others(
    shelf: Shelf, told: Told, tmp_path: Path
) -> None:
    kept = {letter: received(3_000, letter) for letter in "abcd"}
    for age, letter in enumerate("abc"):
        digest, data = kept[letter]
        await shelf.put(URL, digest, data, letter)
        newest = max(files(tmp_path), key=lambda file: file.stat().st_mtime)
        os.utime(newest, (1_000_000 + age, 1_000_000 + age))
    (tmp_path / "artifacts" / "notes.txt").write_text("mine" * 5_000)
    assert await shelf.take(URL, kept["a"][0]) is not None
    await shelf.put(URL, *kept["d"], "d")
    found = [await shelf.take(URL, kept[letter][0]) is not None for letter in "abcd"]
    assert found == [True, False, True, True]
    assert told["evicted"] == 1
    assert (tmp_path / "artifacts" / "notes.txt").exists()


@pytest.mark.req("R-411")
async def test_what_a_tenant_stores_beyond_its_share_costs_its_own_artifacts(
    shelf: Shelf, told: Told, tmp_path: Path
) -> None:
    digest, data = received(2_000, "v")
    await shelf.put(URL, digest, data, "victim")
    [of_victim] = files(tmp_path)
    os.utime(of_victim, (1, 1))  # of all, read longest ago
    flood = [received(3_000, letter) for letter in "abcdef"]
    for theirs, large in flood:
        await shelf.put(URL, theirs, large, "flood")
    assert of_victim in files(tmp_path)
    assert sum(file.stat().st_size for file in files(tmp_path) if file != of_victim) <= 7_500
    assert told["evicted"] == len(flood) - 2
    assert await shelf.take(URL, digest, "another") == data, "who stored it does not matter to those who may read it"


@pytest.mark.req("R-411")
async def test_one_artifact_may_be_larger_than_a_share(shelf: Shelf, tmp_path: Path) -> None:
    for size in (3_000, 9_000, 8_000):
        digest, data = received(size, f"{size % 7}")
        await shelf.put(URL, digest, data, "shop")
        assert await shelf.take(URL, digest, "shop") == data
        assert len(files(tmp_path)) == 1


async def test_an_artifact_of_a_former_version_is_found(shelf: Shelf, tmp_path: Path) -> None:
    digest, data = received(100, "a")
    await shelf.put(URL, digest, data, "shop")
    [file] = files(tmp_path)
    file.rename(file.with_suffix(""))
    assert await shelf.take(URL, digest, "shop") == data


async def test_what_is_larger_than_the_folder_may_be_is_not_kept(shelf: Shelf, told: Told) -> None:
    digest, data = received(10_000, "a")
    await shelf.put(URL, digest, data)
    assert not told


@pytest.mark.req("R-305")
async def test_a_full_disk_is_counted_told_once_and_left_alone_for_a_while(
    tmp_path: Path, told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    time = [0.0]
    shelf = Shelf(tmp_path, most_bytes=10**6, tell=told, now=lambda: time[0])
    digest, data = received(100_000, "a")
    with full_after(50_000):
        for _ in range(3):
            await shelf.put(URL, digest, data)
    assert told == {"write failed": 1}
    assert len(caplog.messages) == 1
    assert "cannot write the cache" in caplog.messages[0]
    assert not files(tmp_path), "nothing half-written is left"
    time[0] += REST_SECONDS
    await shelf.put(URL, digest, data)
    assert await shelf.take(URL, digest) == data


@pytest.mark.req("R-305")
async def test_no_folder_is_bad_enough_to_fail_a_download(server: ArtifactServer, tmp_path: Path, told: Told) -> None:
    artifact = server.publish("app.tar.gz", TREE)
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", Path("/proc"), Path("/dev/null")):
        async with Downloads(shelf=Shelf(folder, most_bytes=10_000, tell=told)) as downloads:
            assert dict(await downloads.fetch(artifact.url, artifact.digest, rules=HERE)) == TREE
    assert told["write failed"] == 3


async def test_what_a_crash_has_left_goes(shelf: Shelf, tmp_path: Path) -> None:
    (tmp_path / "artifacts").mkdir()
    left = [
        tmp_path / "artifacts" / f".{letter * 64}.{'0' * 16}{suffix}"
        for letter, suffix in (("a", ""), ("b", f".{'1' * 16}"))
    ]
    for file in left:
        file.write_bytes(b"half")
    os.utime(left[0], (1_000_000, 1_000_000))
    digest, data = received(100, "c")
    await shelf.put(URL, digest, data)
    assert [file.exists() for file in left] == [False, True], "the other may be under way in another process"


@contextmanager
def full_after(size: int) -> Iterator[None]:
    """No file of this process may become larger: to who writes it, that is a disk without room."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
