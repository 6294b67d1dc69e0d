"""The configuration of the image, and the Dockerfile that repeats it."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from datetime import UTC, datetime

import pytest
from deploy.image import config, debian
from deploy.image.python import ROOT

RELEASE = config.Release("stellwerk", "1.2.3", "Operators", "Apache-2.0", "abc", "", datetime(2026, 1, 2, tzinfo=UTC))
DOCKERFILE = (ROOT / "deploy/image/Dockerfile").read_text().replace("\\\n", " ")


def test_the_labels_are_those_of_the_specification_and_empty_ones_are_left_out() -> None:
    assert RELEASE.labels == {
        "org.opencontainers.image.title": "Stellwerk",
        "org.opencontainers.image.description": "Operators",
        "org.opencontainers.image.version": "1.2.3",
        "org.opencontainers.image.revision": "abc",
        "org.opencontainers.image.created": "2026-01-02T00:00:00Z",
        "org.opencontainers.image.licenses": "Apache-2.0",
    }


def test_the_environment_replaces_what_git_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    monkeypatch.setenv("IMAGE_REVISION", "abc")
    monkeypatch.setenv("IMAGE_SOURCE", "https://git.example.com/stellwerk")
    release = config.of_checkout()
    assert (release.timestamp, release.revision) == ("1970-01-02T00:00:00Z", "abc")
    assert release.labels["org.opencontainers.image.source"] == "https://git.example.com/stellwerk"


def test_the_revision_is_that_of_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("SOURCE_DATE_EPOCH", "IMAGE_REVISION", "IMAGE_SOURCE"):
        monkeypatch.delenv(variable, raising=False)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    if commit.returncode != 0:
        pytest.skip("this is not a Git checkout")
    assert config.of_checkout().revision.removesuffix("-dirty") == commit.stdout.strip()


def test_the_dockerfile_starts_the_same_process() -> None:
    process = config.process(RELEASE)
    last = DOCKERFILE[DOCKERFILE.rindex("\nFROM ") :]
    assert _instruction(last, "USER") == process["User"]
    assert _instruction(last, "WORKDIR") == process["WorkingDir"]
    assert json.loads(_instruction(last, "ENTRYPOINT")) == process["Entrypoint"]
    assert json.loads(_instruction(last, "CMD")) == process["Cmd"]
    assert shlex.split(_instruction(last, "ENV")) == process["Env"]


def test_the_dockerfile_has_the_same_labels() -> None:
    release = config.of_checkout()
    labels = dict(pair.split("=", 1) for pair in shlex.split(_instruction(DOCKERFILE, "LABEL")))
    version = re.search(r"VERSION=(\S+)", DOCKERFILE)
    assert version
    assert version[1] == release.version
    fixed = {name: value for name, value in labels.items() if not value.startswith("${")}
    assert fixed.items() <= release.labels.items()
    assert labels.keys() | {"org.opencontainers.image.created"} >= release.labels.keys()


def test_the_dockerfile_builds_on_the_debian_of_the_lock() -> None:
    assert f"debian:{debian.RELEASE}-slim" in DOCKERFILE
    assert "make image" in DOCKERFILE


def _instruction(text: str, name: str) -> str:
    (found,) = re.findall(rf"^{name}\s+(.*)$", text, re.MULTILINE)
    return str(found).strip()
