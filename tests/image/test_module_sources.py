"""A module that a real client has pushed is read from a real registry."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from ipaddress import ip_network
from pathlib import Path
from typing import TypeVar

import pytest
from tests.image import registry
from tests.image.registry import Registry
from tests.unit.kyma.sources.components import (
    MANIFEST,
    NAME,
    VERSION,
    blob,
    component,
    config_of,
    digest_of,
    image_manifest,
    layer_of,
)

from stellwerk.operators.kyma.api_manifest import LayerType
from stellwerk.operators.kyma.sources.registry import Pull, Repository
from stellwerk.render.errors import Unavailable
from stellwerk.render.sources.egress import EgressRules
from stellwerk.render.sources.http import HttpClient

HERE = EgressRules(networks=(ip_network("127.0.0.0/8"),))
R = TypeVar("R")


def test_a_pushed_component_is_read_and_another_version_is_not_there(tmp_path: Path) -> None:
    with registry.running(tmp_path) as remote:
        _push(remote, tmp_path / "layout")

        async def read(reads: Pull) -> bytes:
            found = await reads.descriptor(VERSION)
            assert (found.name, found.version) == (NAME, VERSION)
            assert found.manifest == (digest_of(MANIFEST), LayerType.OciRef)
            with pytest.raises(Unavailable, match="404"):
                await reads.descriptor("9.9.9")
            return await reads.layer(digest_of(MANIFEST))

        assert asyncio.run(_with_client(remote, read)) == MANIFEST


def _push(remote: Registry, folder: Path) -> None:
    """An OCI layout with the component, pushed under its version."""
    layer = layer_of(component(blob("raw-manifest", digest_of(MANIFEST))))
    config = config_of(layer)
    manifest = image_manifest(config, layer, MANIFEST)
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    for content in (config, layer, MANIFEST, manifest):
        (blobs / digest_of(content).removeprefix("sha256:")).write_bytes(content)
    media_type = json.loads(manifest)["mediaType"]
    index = {"mediaType": media_type, "digest": digest_of(manifest), "size": len(manifest)}
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [index]}))
    remote.crane("push", str(folder), f"{remote.address}/modules/component-descriptors/{NAME}:{VERSION}")


async def _with_client(remote: Registry, work: Callable[[Pull], Coroutine[None, None, R]]) -> R:
    client = HttpClient(tls=None, user_agent="test", connect_seconds=5, silence_seconds=30)
    try:
        return await work(Pull(client, HERE, Repository.of(f"http://{remote.address}", "modules"), NAME))
    finally:
        await client.close()
