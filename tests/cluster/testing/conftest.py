"""A fault proxy before the shared cluster, and a small operator in a process of its own."""

from __future__ import annotations

import base64
import json
import ssl
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from stellwerk.kube.http.sockets import Sockets
from stellwerk.kube.types.model import JsonObject
from stellwerk.testing.faults import FaultProxy
from stellwerk.testing.processes.operator_process import OperatorProcess

# Makes copy-1 to copy-5 of the ConfigMap `source`, then says that it is done. Knows nothing but the API: what is there
# already stays, a create whose outcome is unknown is asked for again.
COPIER = """
import base64, http.client, json, signal, ssl, sys
content = json.load(open(sys.argv[1]))
cluster = content["clusters"][0]["cluster"]
trust = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
address = cluster["server"].removeprefix("https://")
headers = {"Authorization": "Bearer " + content["users"][0]["user"]["token"], "Content-Type": "application/json"}
path = f"/api/v1/namespaces/{sys.argv[2]}/configmaps"

def ask(method, path, body=None):
    while True:
        connection = http.client.HTTPSConnection(address, context=trust)
        try:
            connection.request(method, path, json.dumps(body) if body else None, headers)
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError):
            print("again", flush=True)

_, source = ask("GET", f"{path}/source")
owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "source", "uid": source["metadata"]["uid"]}
for number in range(1, 6):
    metadata = {"name": f"copy-{number}", "labels": {"test": "yes"}, "ownerReferences": [owner]}
    status, answer = ask("POST", path, {"metadata": metadata, "data": source["data"]})
    print(status, flush=True)
print("done", flush=True)
signal.pause()
"""


class Api:
    """Plain calls through a kubeconfig with a token, in this process."""

    def __init__(self, kubeconfig: Path) -> None:
        content = json.loads(kubeconfig.read_text())
        cluster = content["clusters"][0]["cluster"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._sockets = Sockets()
        self.session = aiohttp.ClientSession(
            base_url=cluster["server"],
            headers={"Authorization": f"Bearer {content['users'][0]['user']['token']}"},
            connector=aiohttp.TCPConnector(
                ssl=ssl.create_default_context(cadata=authority), socket_factory=self._sockets.make
            ),
            timeout=aiohttp.ClientTimeout(total=30),
            read_bufsize=2**20,
        )

    async def end(self) -> None:
        """Leave no connection."""
        await self.session.close()
        await self._sockets.hang_up()

    async def ask(
        self, method: str, path: str, body: JsonObject | None = None, **headers: str
    ) -> tuple[int, JsonObject]:
        """One request; status and body."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        sent = {"Content-Type": kind, **headers}
        content = json.dumps(body).encode() if body is not None else None
        async with self.session.request(method, path, data=content, headers=sent) as response:
            answer: JsonObject = json.loads(await response.read())
            return response.status, answer


@pytest.fixture
async def api(proxy: FaultProxy) -> AsyncIterator[Api]:
    """Calls through the proxy."""
    made = Api(proxy.kubeconfig)
    yield made
    await made.end()


@pytest.fixture
async def copier(proxy: FaultProxy, namespace: str, tmp_path: Path) -> AsyncIterator[OperatorProcess]:
    """The small operator, not started."""
    arguments = [sys.executable, "-c", COPIER, str(proxy.kubeconfig), namespace]
    async with OperatorProcess(arguments, log=tmp_path / "copier.log") as made:
        yield made


@pytest.fixture
def maps(namespace: str) -> str:
    """Where the test's ConfigMaps are."""
    return f"/api/v1/namespaces/{namespace}/configmaps"


def metadata_of(item: JsonObject) -> JsonObject:
    """An object's metadata."""
    metadata = item["metadata"]
    assert isinstance(metadata, dict)
    return metadata
