"""Artifacts of 64 MiB are received, checked, unpacked and put on disk while the event loop goes on (R-412)."""

from __future__ import annotations

import gzip
import hashlib
import io
import random
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_network
from pathlib import Path
from threading import Event, Thread

import pytest

from stellwerk.render.errors import BadArchive
from stellwerk.render.files.archive import unpack
from stellwerk.render.sources.artifact_disk_cache import Shelf
from stellwerk.render.sources.downloads import Downloads
from stellwerk.render.sources.egress import EgressRules
from stellwerk.testing.checks.loop_stalls import LONGEST_STALL_SECONDS, least_stall

pytestmark = pytest.mark.heavy

HERE = EgressRules(http=True, private=True, networks=(ip_network("127.0.0.0/8"),))
SIZE, COUNT = 64 * 2**20, 1_000
TRIES = 3
NOISE = random.Random(1).randbytes(2**20)


class Quiet(SimpleHTTPRequestHandler):
    """Serves a folder."""

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """A server in a thread of its own, that the event loop which is measured has no part in."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def entries() -> Iterator[tuple[str, bytes]]:
    part = SIZE // COUNT
    return ((f"folder-{number % 9}/{number}", NOISE[number : number + part]) for number in range(COUNT))


def tar_gz() -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name, data in entries():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return gzip.compress(content.getvalue(), 1)


def zipped() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, data in entries():
            archive.writestr(name, data)
    return content.getvalue()


def text() -> bytes:
    return "text: \u00e4\U0001f600".encode() * (SIZE // 12)


@pytest.mark.req("R-412")
@pytest.mark.parametrize(("name", "made"), [("a.tar.gz", tar_gz), ("a.zip", zipped), ("a.yaml", text)])
async def test_an_artifact_of_64_mib_is_received_and_found_again_without_a_stall(
    tmp_path: Path, name: str, made: Callable[[], bytes]
) -> None:
    content = made()
    (tmp_path / name).write_bytes(content)
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    shelves: list[Shelf] = []

    async def fetch(url: str, shelf: Shelf) -> None:
        async with Downloads(shelf=shelf) as downloads:
            files = await downloads.fetch(f"{url}/{name}", digest, rules=HERE)
        assert sum(map(len, files.values())) >= SIZE // COUNT * COUNT - 12

    async def receive() -> None:
        shelves.append(Shelf(tmp_path / f"shelf-{len(shelves)}", most_bytes=2 * SIZE))
        await fetch(url, shelves[-1])

    with serving(tmp_path) as url:
        assert await least_stall(receive) < LONGEST_STALL_SECONDS
        (tmp_path / name).unlink()
        assert await least_stall(lambda: fetch(url, shelves[-1])) < LONGEST_STALL_SECONDS


@pytest.mark.req("R-412")
def test_other_threads_go_on_while_a_text_of_64_mib_is_checked() -> None:
    content = text()
    shares = [_share_of_the_longest_gap(lambda: unpack(content, name="a.yaml")) for _ in range(TRIES)]
    assert min(shares) < 0.5, "one call into the interpreter takes most of the time: no other thread runs meanwhile"


def _share_of_the_longest_gap(work: Callable[[], object]) -> float:
    """The longest time for which another thread did not run, as a share of the whole, however fast the machine is."""
    done, gaps = Event(), [0.0]

    def watch() -> None:
        last = time.perf_counter()
        while not done.wait(0.001):
            now = time.perf_counter()
            gaps.append(now - last)
            last = now
        gaps.append(time.perf_counter() - last)

    thread = Thread(target=watch)
    thread.start()
    began = time.perf_counter()
    work()
    taken = time.perf_counter() - began
    done.set()
    thread.join()
    return max(gaps) / taken


@pytest.mark.parametrize("end", [b"\xc3", b"\xc3(", b"\xf0\x9f\x98"])
def test_a_large_text_that_is_no_utf_8_somewhere_is_refused(end: bytes) -> None:
    whole = ("x" * (256 * 1024 - 1) + "\u00e4").encode()  # a character on the border of two pieces
    assert unpack(whole, name="a.yaml")["a.yaml"] == whole
    with pytest.raises(BadArchive, match="no UTF-8 text"):
        unpack(whole + end, name="a.yaml")
