"""What a source offers is taken only if it is what was promised, and a bad artifact harms nobody else."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from stellwerk.api.core import ConfigMap
from stellwerk.testing.servers.artifacts import GarbageDownload, Refuse, packed
from tests.cluster.component.given import Given
from tests.cluster.component.manifests import config
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then


def archive(fill: Callable[[tarfile.TarFile], None]) -> bytes:
    """An archive with a good file, and what else is filled in."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        add(tar, "good.yaml", config("one").encode())
        fill(tar)
    return out.getvalue()


def add(tar: tarfile.TarFile, name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, target: str = "") -> None:
    """One entry."""
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = len(content), kind, target
    tar.addfile(info, io.BytesIO(content))


def many(tar: tarfile.TarFile) -> None:
    for number in range(10_001):
        add(tar, f"n{number}")


def hostile() -> dict[str, tuple[bytes, str]]:
    """Archives that are refused, and what the refusal states."""
    return {
        "parent": (archive(lambda tar: add(tar, "../up.yaml", b"x")), "../up.yaml"),
        "absolute": (archive(lambda tar: add(tar, "/etc/passwd", b"x")), "/etc/passwd"),
        "link": (archive(lambda tar: add(tar, "link", kind=tarfile.SYMTYPE, target="../../etc")), "link"),
        "device": (archive(lambda tar: add(tar, "null", kind=tarfile.CHRTYPE)), "null"),
        "twice": (archive(lambda tar: add(tar, "good.yaml", b"x")), "good.yaml: the name appears twice"),
        "many": (archive(many), "more than 10000 entries"),
        "bomb": (archive(lambda tar: add(tar, "zeros", bytes(101 * 1024 * 1024))), "1000 times its size"),
        "truncated": (packed({"good.yaml": config("one"), "noise": os.urandom(50_000)})[:-20_000], "is cut off"),
        "trailing": (packed({"good.yaml": config("one")}) + b"more", "data follows the end"),
        "no-archive": (b"<html>not found</html>", "neither tar"),
        "no-tar": (gzip.compress(b"no archive at all" * 100), "neither tar"),
        "empty": (b"", "neither tar"),
    }


@pytest.mark.req("R-403")
@pytest.mark.req("R-401")
async def test_a_hostile_archive_is_refused_and_nothing_of_it_is_applied(
    given: Given, running: Running, then: Then
) -> None:
    archives = hostile()
    for case, (content, _) in archives.items():
        await given.offers(given.server.publish(f"{given.namespace}/{case}.tar.gz", content), case)
    await given.source({"fine.yaml": config("fine")}, "fine")
    await running.start()
    for case in archives:
        await given.component(case, case)
    await given.component("fine", "fine")
    await then.ready("fine")
    for case, (_, says) in archives.items():
        found = await then.shows("Error", "Error", case, saying=says)
        assert found.status.source_ref is not None
        assert found.status.source_ref.artifact is not None
        assert found.status.source_ref.artifact.url.endswith(f"/{case}.tar.gz")
    assert not await then.exists(ConfigMap, "one")


@pytest.mark.req("R-604")
async def test_a_content_that_is_not_what_its_digest_says_is_refused_until_it_is(
    given: Given, running: Running, then: Then
) -> None:
    good = given.server.publish("good.tar.gz", {"one.yaml": config("one", "good")}, revision="r1")
    await given.offers(good, digest=f"sha256:{'0' * 64}")
    await given.component()
    await running.start()
    await then.shows("Error", "Error", saying="digest")
    assert not await then.exists(ConfigMap, "one")
    await given.offers(good)
    await then.ready(revision="r1")

    bad = given.server.publish(
        "bad.tar.gz", {"one.yaml": config("one", "bad")}, revision="r2", behaviour=GarbageDownload(packed({"a": "b"}))
    )
    await given.offers(bad)
    await then.shows("Error", "Error", saying="digest")
    assert (await then.config("one")).data == {"value": "good"}


@pytest.mark.req("R-305")
async def test_a_restart_while_the_server_is_down_leaves_components_workable_where_artifacts_lie_on_disk(
    given: Given, running: Running, then: Then, tmp_path: Path
) -> None:
    path = f"{given.namespace}/source.tar.gz"
    await given.source({"one.yaml": config("one", "{{ .value }}")})
    await given.component(values={"value": "first"})
    await running.start(artifact_cache_dir=str(tmp_path))
    await then.ready()
    await running.stop()
    given.server.behave(path, Refuse(503))
    await running.start(artifact_cache_dir=str(tmp_path))
    await given.component(values={"value": "second"})
    await then.ready()
    assert (await then.config("one")).data == {"value": "second"}
    assert given.server.count(path) == 1
    assert b'component_operator_artifact_cache_total{outcome="hit"} 1.0' in running.manager.metrics.exposition()


async def test_a_server_that_fails_is_asked_again(given: Given, running: Running, then: Then) -> None:
    path = f"{given.namespace}/source.tar.gz"
    await given.source({"one.yaml": config("one")})
    given.server.behave(path, Refuse(503))
    await given.component()
    await running.start()
    await then.shows("Error", "Error", saying="503")
    await given.server.asked(path, 3)
    given.server.behave(path, Refuse(200))
    await then.shows("Error", "Error", saying="promised")
    await given.source({"one.yaml": config("one")})
    await then.ready()
