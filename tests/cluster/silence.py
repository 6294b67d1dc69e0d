"""Servers that do not answer, and webhooks that call them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from stellwerk.api.admission import ValidatingWebhookConfiguration
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.model import JsonObject, Kind
from stellwerk.testing.eventually import Signal


class Deaf:
    """A server that accepts connections and never answers, or drips a byte now and then."""

    def __init__(self, drip: bytes) -> None:
        self._drip = drip
        self.connections = 0
        self.changed = Signal()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.changed.ring()
        try:
            while await reader.read(1):
                writer.write(self._drip)
        except ConnectionError:
            pass
        finally:
            writer.close()


@asynccontextmanager
async def deaf(drip: bytes = b"") -> AsyncIterator[tuple[Deaf, int]]:
    double = Deaf(drip)
    server = await asyncio.start_server(double.serve, "127.0.0.1", 0)
    async with server:
        yield double, server.sockets[0].getsockname()[1]


@asynccontextmanager
async def hanging_webhook(client: Client, namespace: str, port: int, kind: type[Kind]) -> AsyncIterator[None]:
    """Each creation of an object of this kind in the namespace takes as long as a webhook may take to answer."""
    resource = kind.resource
    rule: JsonObject = {
        "apiGroups": [resource.group],
        "apiVersions": [resource.version],
        "operations": ["CREATE"],
        "resources": [resource.plural],
    }
    hook: JsonObject = {
        "name": "hangs.example.org",
        "clientConfig": {"url": f"https://127.0.0.1:{port}/"},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": 30,
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "rules": [rule],
    }
    name = f"{namespace}-hangs"
    await client.apply(ValidatingWebhookConfiguration, {"metadata": {"name": name}, "webhooks": [hook]})
    try:
        yield
    finally:
        await client.delete(ValidatingWebhookConfiguration, name)
