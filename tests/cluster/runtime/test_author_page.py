"""The operator on the page for authors works as it stands there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import pages

from stellwerk.api.core import ConfigMap
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.testing.eventually import eventually

GREETING: JsonObject = {"apiVersion": "example.com/v1", "kind": "Greeting", "spec": {"to": "World"}}
GREETINGS = unstructured(Resource("example.com", "v1", "Greeting", "greetings", namespaced=True))


FILES = {block.file: block.text for block in pages.blocks("docs/operator-author.md") if block.file}


def test_a_whole_operator_is_forty_lines_at_most() -> None:
    assert len(FILES["greeter.py"].splitlines()) <= 40


def run(script: str, environment: dict[str, str], folder: Path) -> str:
    """What a terminal answers."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def terminal(cluster: LocalCluster, namespace: str, tmp_path: Path) -> dict[str, str]:
    """The environment of a reader, in whose cluster the test's namespace is the default."""
    content = json.loads(cluster.kubeconfig.read_text())
    content["contexts"][0]["context"]["namespace"] = namespace
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(content))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "KUBECONFIG": str(kubeconfig), "PATH": path}


@pytest.fixture
def greeter(terminal: dict[str, str], tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """The example, installed and running as the page says."""
    (tmp_path / "greeter.py").write_text(FILES["greeter.py"])
    run("python greeter.py manifests | kubectl apply -f -", terminal, tmp_path)
    process = subprocess.Popen(
        [sys.executable, "greeter.py"], env=terminal, cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    yield process
    process.terminate()
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Traceback" not in errors


async def test_the_example_greets_mends_and_explains(
    client: Client, namespace: str, greeter: subprocess.Popen[str], terminal: dict[str, str], tmp_path: Path
) -> None:
    async def letter_says(text: str) -> bool:
        assert greeter.poll() is None
        letter = await client.find(ConfigMap, "world", namespace)
        return letter is not None and letter.data == {"text": text}

    async def reason() -> object:
        shown = (await client.get(GREETINGS, "world", namespace)).at("status", "conditions")
        return shown[0].get("reason") if isinstance(shown, list) and isinstance(shown[0], dict) else None

    async def is_greeted() -> bool:
        return await reason() == "Greeted"

    async def has_no_name() -> bool:
        return await reason() == "NameMissing"

    async def is_discovered() -> bool:
        client.mapper.invalidate()
        return GREETINGS.resource in await client.mapper.all()

    await eventually(is_discovered)
    await client.create(GREETINGS, GREETING | {"metadata": {"name": "world", "namespace": namespace}})
    await eventually(lambda: letter_says("Hello World"))
    await eventually(is_greeted)
    await client.delete(ConfigMap, "world", namespace)
    await eventually(lambda: letter_says("Hello World"))
    await client.patch(ConfigMap, "world", namespace, MergePatch({"data": {"text": "Go away"}}))
    await eventually(lambda: letter_says("Hello World"))
    await client.patch(GREETINGS, "world", namespace, MergePatch({"spec": {"to": ""}}))
    await eventually(has_no_name)
    assert "set spec.to" in run("python greeter.py why gr/world", terminal, tmp_path)
    await client.delete(ConfigMap, "world", namespace)
    wish = json.dumps(GREETING | {"metadata": {"name": "world", "namespace": namespace}})
    (tmp_path / "wish.json").write_text(wish)
    shown = run("python greeter.py diff -f wish.json || test $? = 3", terminal, tmp_path)
    assert f"+ ConfigMap {namespace}/world" in shown
    await client.patch(GREETINGS, "world", namespace, MergePatch({"spec": {"to": "World"}}))
    await eventually(is_greeted)
    (owner,) = (await client.get(ConfigMap, "world", namespace)).metadata.owner_references
    assert owner.uid == (await client.get(GREETINGS, "world", namespace)).metadata.uid, "it goes with its greeting"
    await client.delete(GREETINGS, "world", namespace)
