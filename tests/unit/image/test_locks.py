"""Everything that the image and its builder are made of is named by hash."""

from __future__ import annotations

from pathlib import Path

import pytest
from deploy.image import debian, locks
from deploy.image.python import ROOT

from stellwerk.local.errors import BuildFailed

pytestmark = pytest.mark.req("R-963")

HASH = "--hash=sha256:" + "a" * 64


def test_the_locks_of_this_checkout_name_everything_by_hash() -> None:
    locks.check()


@pytest.mark.parametrize(
    "entry",
    [
        "uv==1.2.3",
        f"uv>=1.2.3 {HASH}",
        f"uv {HASH}",
        "uv==1.2.3 --hash=md5:aaaa",
        f"uv @ https://example.com/uv.whl {HASH}",
        "-r other.txt",
        "--index-url https://example.com/simple",
    ],
)
def test_what_a_lock_does_not_name_by_version_and_hash_is_found(entry: str) -> None:
    first = f"# made\nfirst==1 \\\n    {HASH} \\\n    {HASH}\n    # via\n"
    good = f"{first}second[extra]==1.0.post1 ; os == 'x' \\\n    {HASH}\n"
    assert locks.unpinned(good) == []
    assert locks.unpinned(f"{good}{entry}\n") == [entry.partition(" ")[0]]


@pytest.mark.parametrize(
    ("dockerfile", "unpinned"),
    [
        ("FROM debian:trixie AS build\nFROM scratch\n", ["debian:trixie"]),
        ("ARG BASE=debian:trixie\nFROM ${BASE} AS build\n", ["debian:trixie"]),
        ("ARG BASE\nFROM ${BASE} AS build\nFROM scratch\n", []),
        ("FROM debian@sha256:aa\n", []),
    ],
)
def test_a_base_image_without_digest_is_found(dockerfile: str, unpinned: list[str]) -> None:
    assert locks.unpinned_bases(dockerfile) == unpinned


def test_a_debian_package_without_hash_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = tmp_path / "debian.lock"
    lock.write_text(debian.LOCK.read_text().replace("sha256:", "sha256:x", 1))
    monkeypatch.setattr(debian, "LOCK", lock)
    with pytest.raises(BuildFailed, match="has no SHA-256"):
        locks.check()


def test_the_environment_begins_with_a_program_that_is_named_by_hash() -> None:
    makefile = (ROOT / "Makefile").read_text()
    installs = [line for line in makefile.splitlines() if "pip install" in line and "$(UV) pip compile" not in line]
    assert len(installs) == 3
    assert all("--require-hashes" in line or "-e ." in line for line in installs)


def test_a_scan_without_a_scanner_fails_and_names_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildFailed, match="install osv-scanner"):
        locks.scan(tmp_path)


@pytest.mark.parametrize("program", ["osv-scanner", "pip-audit"])
def test_a_scan_gets_every_lock_and_fails_with_the_scanner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    calls, scanner = tmp_path / "calls", tmp_path / program
    scanner.write_text(f'#!/bin/sh\necho "$@" > {calls}\nexit ${{SCANNED:-0}}\n')
    scanner.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    locks.scan(tmp_path)
    assert all(name in calls.read_text() for name in locks.LOCKS)
    monkeypatch.setenv("SCANNED", "1")
    with pytest.raises(BuildFailed, match="could not reach its database"):
        locks.scan(tmp_path)
