"""The policies of `docs/security.md` that keep namespaces from ClusterDomains, in force for one of them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import yaml

from stellwerk.kube.client.client import Client
from stellwerk.kube.types.identifiers import GroupVersionKind
from stellwerk.kube.types.model import Unstructured, View, unstructured
from tests import pages


@contextlib.asynccontextmanager
async def policies(client: Client, namespace: str) -> AsyncIterator[None]:
    """Create the policies; delete them at the end. They concern no namespace of other tests."""
    made: list[tuple[View[Unstructured], str]] = []
    documents = next(
        [*yaml.safe_load_all(block.text)]
        for block in pages.blocks("docs/security.md")
        if "cluster-domains-by-label" in block.text
    )
    for body in documents:
        if matched := body["spec"].get("matchResources"):
            matched["namespaceSelector"]["matchLabels"] = {"kubernetes.io/metadata.name": namespace}
    try:
        for body in documents:
            view = unstructured(await client.mapper.resource(GroupVersionKind.parse(body["apiVersion"], body["kind"])))
            await client.create(view, body)
            made.append((view, body["metadata"]["name"]))
        yield
    finally:
        for view, name in made:
            await client.delete(view, name)
