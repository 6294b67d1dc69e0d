"""The operator on the page for authors works as it stands there."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.runtime.lamps import CRD, definition

from stellwerk.api.core import ConfigMap
from stellwerk.kube.client import Client
from stellwerk.kube.errors import AlreadyExists, NotServed
from stellwerk.kube.model import JsonObject, unstructured
from stellwerk.kube.names import Resource
from stellwerk.kube.patch import MergePatch
from stellwerk.local.cluster import LocalCluster
from stellwerk.testing.eventually import eventually

PAGE = Path(__file__).parents[3] / "docs" / "operator-author.md"
GREETINGS = unstructured(Resource("example.com", "v1", "Greeting", "greetings", namespaced=True))


def example() -> str:
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.S | re.M)
    assert isinstance(code, str)
    return code


def test_a_whole_operator_is_forty_lines_at_most() -> None:
    assert len(example().splitlines()) <= 40


@pytest.fixture
def greeter(cluster: LocalCluster, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """The example, running as a program."""
    program = tmp_path / "greeter.py"
    program.write_text(example())
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
    process = subprocess.Popen([sys.executable, str(program)], env=environment, stderr=subprocess.PIPE, text=True)
    yield process
    process.terminate()
    _, errors = process.communicate(timeout=15)
    assert process.returncode == 0
    assert "Traceback" not in errors


async def install(client: Client) -> None:
    """Have the API server serve greetings."""
    with contextlib.suppress(AlreadyExists):
        await client.create(CRD, definition("greetings", "Greeting", "example.com"))

    async def is_served() -> bool:
        try:
            await client.list(GREETINGS, "default", limit=1)
        except NotServed:
            return False
        return True

    await eventually(is_served, within=30)


def greeting(namespace: str, to: str) -> JsonObject:
    metadata: JsonObject = {"name": "world", "namespace": namespace}
    return {"apiVersion": "example.com/v1", "kind": "Greeting", "metadata": metadata, "spec": {"to": to}}


async def test_the_example_greets_mends_and_explains(
    client: Client, namespace: str, greeter: subprocess.Popen[str]
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

    async def is_puzzled() -> bool:
        return await reason() == "NobodyToGreet"

    await install(client)
    await client.create(GREETINGS, greeting(namespace, "World"))
    await eventually(lambda: letter_says("Hello World"), within=30)
    await eventually(is_greeted)
    await client.delete(ConfigMap, "world", namespace)
    await eventually(lambda: letter_says("Hello World"))
    await client.patch(ConfigMap, "world", namespace, MergePatch({"data": {"text": "Go away"}}))
    await eventually(lambda: letter_says("Hello World"))
    await client.patch(GREETINGS, "world", namespace, MergePatch({"spec": {"to": ""}}))
    await eventually(is_puzzled)
    (owner,) = (await client.get(ConfigMap, "world", namespace)).metadata.owner_references
    assert owner.uid == (await client.get(GREETINGS, "world", namespace)).metadata.uid, "it goes with its greeting"
    await client.delete(GREETINGS, "world", namespace)
