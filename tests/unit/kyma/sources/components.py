"""Components as a publisher packs them."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from tests.unit.render.archives import tar_of

NAME, VERSION = "kyma-project.io/module/template-operator", "1.0.0"
MANIFEST = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n"
OBJECT = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
"""The one in MANIFEST."""


def digest_of(content: bytes) -> str:
    """As registries write it."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def blob(name: str, reference: str, media_type: str = "application/octet-stream", **access: Any) -> dict[str, Any]:
    """A resource that is a layer."""
    return {
        "name": name,
        "version": VERSION,
        "type": "yaml",
        "relation": "local",
        "access": {"type": "localBlob", "localReference": reference, "mediaType": media_type, **access},
    }


def image(reference: str, access: str = "ociArtifact") -> dict[str, Any]:
    """A resource that is an image."""
    return {"name": "image", "type": "ociImage", "access": {"type": access, "imageReference": reference}}


def component(*resources: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A descriptor of schema v2."""
    body = {"name": NAME, "version": VERSION, "provider": "kyma", "sources": [], "resources": [*resources], **fields}
    return {"meta": {"schemaVersion": "v2"}, "component": body}


def layer_of(descriptor: dict[str, Any]) -> bytes:
    """The archive with the descriptor."""
    return tar_of({"component-descriptor.yaml": json.dumps(descriptor).encode()})


def config_of(layer: bytes) -> bytes:
    """The config blob that names it."""
    media_type = "application/vnd.ocm.software.component-descriptor.v2+yaml+tar"
    return json.dumps(
        {"componentDescriptorLayer": {"mediaType": media_type, "digest": digest_of(layer), "size": len(layer)}}
    ).encode()


def image_manifest(config: bytes, *layers: bytes) -> bytes:
    """What a version of the component names."""

    def named(content: bytes, media_type: str) -> dict[str, Any]:
        return {"mediaType": media_type, "digest": digest_of(content), "size": len(content)}

    return json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": named(config, "application/vnd.ocm.software.component.config.v1+json"),
            "layers": [named(each, "application/octet-stream") for each in layers],
        }
    ).encode()
