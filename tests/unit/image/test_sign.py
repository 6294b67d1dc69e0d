"""What is signed: the image that was built, by digest, with its bill of materials and its provenance."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from deploy.image import debian, provenance, sign
from deploy.image.build import BILL, PROVENANCE
from deploy.image.config import Release
from deploy.image.python import ROOT

from stellwerk.local.errors import BuildFailed

pytestmark = pytest.mark.req("R-963")

RELEASE = Release(
    "stellwerk",
    "1.2.3",
    "Operators",
    "Apache-2.0",
    "c0ffee",
    "https://git.example.com/s",
    datetime(2026, 1, 2, tzinfo=UTC),
)
DIGEST = "sha256:" + "b" * 64
IMAGE = f"registry.example.com/stellwerk@{DIGEST}"


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """The folder of a build."""
    (tmp_path / PROVENANCE).write_text(provenance.statement(RELEASE, DIGEST, debian.locked()))
    (tmp_path / BILL).write_text("{}")
    return tmp_path


@pytest.fixture
def calls(built: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a program that stands in for cosign writes how it was called."""
    program, calls = built / "cosign", built / "calls"
    program.write_text(f'#!/bin/sh\necho "$@" >> {calls}\nexit ${{SIGNED:-0}}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(built))
    for variable in ("COSIGN_KEY", "COSIGN_OPTIONS"):
        monkeypatch.delenv(variable, raising=False)
    return calls


def test_the_provenance_names_the_commit_every_lock_and_every_debian_package_by_digest() -> None:
    text = provenance.statement(RELEASE, DIGEST, debian.locked())
    body = json.loads(text)
    assert (body["_type"], body["predicateType"]) == (
        "https://in-toto.io/Statement/v1",
        "https://slsa.dev/provenance/v1",
    )
    assert provenance.subject(text) == DIGEST
    found = body["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert found[0] == {"uri": RELEASE.source, "digest": {"gitCommit": "c0ffee"}}
    digests = {one["uri"]: one["digest"].get("sha256") for one in found[1:]}
    for name in provenance.LOCKS:
        assert digests[f"file:{name}"] == hashlib.sha256((ROOT / name).read_bytes()).hexdigest()
    assert {package.sha256 for package in debian.locked()} <= {*digests.values()}
    assert text == provenance.statement(RELEASE, DIGEST, debian.locked())


def test_image_bill_and_provenance_are_signed(built: Path, calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COSIGN_KEY", "cosign.key")
    sign.sign(IMAGE, built)
    first, second, third = calls.read_text().splitlines()
    assert first == f"sign --yes --key cosign.key {IMAGE}"
    assert second.startswith("attest --yes --key cosign.key --type cyclonedx --predicate ")
    assert third.startswith("attest --yes --key cosign.key --type slsaprovenance1 --predicate ")
    assert second.endswith(IMAGE)
    assert third.endswith(IMAGE)


@pytest.mark.parametrize(
    "image", ["", "registry.example.com/stellwerk:1.2.3", f"registry.example.com/stellwerk@sha256:{'c' * 64}"]
)
def test_nothing_but_the_digest_of_this_build_is_signed(built: Path, calls: Path, image: str) -> None:
    with pytest.raises(BuildFailed, match=f"make sign IMAGE=.*@{DIGEST}"):
        sign.sign(image, built)
    assert not calls.exists()


def test_without_cosign_or_a_build_the_message_says_what_to_do(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(BuildFailed, match="there is no cosign on the path"):
        sign.sign(IMAGE, built)
    with pytest.raises(BuildFailed, match="build it: make image"):
        sign.sign(IMAGE, tmp_path / "nothing")


def test_a_signature_that_fails_ends_the_command(built: Path, calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGNED", "1")
    with pytest.raises(BuildFailed, match="cosign sign failed"):
        sign.sign(IMAGE, built)
    assert len(calls.read_text().splitlines()) == 1
