"""Writes the schemas of Kubernetes' own types that kinds of ours embed, as the local API server publishes them.

usage: python deploy/kubernetes_schemas.py
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.schema import kubernetes
from stellwerk.kube.types.model import JsonObject, dig
from stellwerk.local.cluster import named
from stellwerk.local.components import Options

TARGET = Path(kubernetes.__file__).with_name(kubernetes.FILE)


async def published(client: Client) -> JsonObject:
    """The content of the file, out of what the API server publishes. Raises ApiError."""
    schemas: dict[str, JsonObject] = {}
    for path in kubernetes.PATHS:
        components = dig(await client.document(f"/openapi/v3/{path}"), "components", "schemas")
        assert isinstance(components, dict), path
        schemas |= {name: schema for name, schema in components.items() if isinstance(schema, dict)}
    return kubernetes.structural(schemas)


async def write() -> None:
    """Ask a local API server, and write the file."""
    cluster = named("schemas", Options(controllers=False, pods=False, durable=False))
    cluster.up()
    try:
        async with Client.connect(ClusterConfig.load(cluster.kubeconfig)) as client:
            TARGET.write_text(json.dumps(await published(client), separators=(",", ":")) + "\n")
    finally:
        cluster.down()


if __name__ == "__main__":
    asyncio.run(write())
