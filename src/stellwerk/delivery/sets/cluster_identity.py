"""The uid of a cluster, which is a part of the owner's id on each object of a set."""

from __future__ import annotations

from stellwerk.api.core import Namespace
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.model import metadata_of


class ClusterIdentity:
    """The uid of the operator's own cluster, asked for once: that of its namespace kube-system."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._uid = ""

    async def __call__(self) -> str:
        """The uid. Raises ApiError."""
        if not self._uid:
            found = await self._client.get(metadata_of(Namespace), "kube-system")
            self._uid = found.metadata.uid
        return self._uid
