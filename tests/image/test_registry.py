"""The image goes through a real registry unchanged."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from deploy.image import layout
from tests import pages
from tests.image import registry
from tests.image.conftest import BuiltImage
from tests.image.container import Chroot, Container, OciRuntime, Runtime, run
from tests.image.registry import Registry


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with registry.running(tmp_path_factory.mktemp("registry")) as served:
        yield served


def test_what_is_pulled_from_a_registry_is_what_was_pushed(
    remote: Registry, image: BuiltImage, root: Path, runtime: Runtime, tmp_path: Path
) -> None:
    name = f"{remote.address}/stellwerk/stellwerk"
    remote.crane("push", str(image.layout), f"{name}:1")
    digest = json.loads((image.layout / "index.json").read_bytes())["manifests"][0]["digest"]
    assert remote.crane("digest", f"{name}:1") == digest
    remote.crane("validate", "--remote", f"{name}@{digest}")

    remote.crane("pull", "--format=oci", f"{name}@{digest}", str(tmp_path / "pulled"))
    assert _blobs(tmp_path / "pulled") == _blobs(image.layout)

    pulled_root = tmp_path / "root"
    layout.unpack(tmp_path / "pulled", pulled_root)
    again: Runtime = Chroot(pulled_root) if runtime.name == "chroot" else OciRuntime(runtime.name, pulled_root)
    program = Container(arguments=["stellwerk", "--version"], environment={"PATH": "/usr/local/bin:/usr/bin"})
    assert run(again, program, tmp_path / "container").stdout.startswith("stellwerk ")


def test_the_commands_of_the_page_push_the_image(remote: Registry, image: BuiltImage) -> None:
    (commands,) = (block.text for block in pages.blocks("docs/image.md") if "crane push" in block.text)
    text = commands.replace("registry.example.com", remote.address).replace("build/image/oci", str(image.layout))
    path = f"{remote.programs}:{os.environ['PATH']}"
    done = subprocess.run(["sh", "-ec", text], env={"PATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads((image.layout / "index.json").read_bytes())["manifests"][0]["digest"] in done.stdout


def test_a_registry_reports_the_labels(remote: Registry, image: BuiltImage) -> None:
    name = f"{remote.address}/labels"
    remote.crane("push", str(image.layout), name)
    config = json.loads(remote.crane("config", name))
    assert config == layout.read_config(image.layout)
    assert json.loads(remote.crane("manifest", name)) == layout.read_manifest(image.layout)


def _blobs(folder: Path) -> dict[str, bytes]:
    return {blob.name: blob.read_bytes() for blob in (folder / "blobs/sha256").iterdir()}
