"""Where releases are kept: a ConfigMap each, in the namespace of the release.

Each write has the resourceVersion that was read, so the second of two programs that change a release gets an error.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from stellwerk.api.core import ConfigMap
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import AlreadyExists, Conflict, NotFound
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.releases import release as releases
from stellwerk.releases.errors import WorkedOn
from stellwerk.releases.release import LABEL, RECONCILER, Release, ReleaseListing


@dataclass(frozen=True, slots=True)
class ReleaseStore:
    """The releases of one cluster."""

    client: Client

    async def find(self, key: ObjectKey) -> Release | None:
        """A release, or None where there is none. Raises UnreadableRelease, ApiError."""
        found = await self.client.find(ConfigMap, releases.config_name(key.name), key.namespace)
        return releases.read(found) if found is not None else None

    async def all(self, namespace: str = "") -> ReleaseListing:
        """The releases of a namespace, or of all. Raises ApiError."""
        return releases.listing(await self.client.list(ConfigMap, namespace, labels=LABEL, skip_unreadable=True))

    async def save(self, release: Release, *, dry_run: bool = False) -> Release:
        """The release as it is stored now, or with `dry_run` as it would be.

        Raises WorkedOn where another client wrote it meanwhile, and ApiError.
        """
        body = releases.written(release)
        try:
            if release.stored is None:
                made = await self.client.create(
                    ConfigMap, body, release.key.namespace, field_manager=RECONCILER, dry_run=dry_run
                )
            else:
                made = await self.client.update(ConfigMap, body, field_manager=RECONCILER, dry_run=dry_run)
        except (AlreadyExists, Conflict):
            raise WorkedOn(release.key) from None
        return replace(release, stored=made)

    async def end(self, release: Release) -> Release | None:
        """Ask for its deletion, which waits until its objects are gone. None where it is gone already."""
        name = releases.config_name(release.key.name)
        try:
            uid = release.stored.metadata.uid if release.stored else ""
            await self.client.delete(ConfigMap, name, release.key.namespace, uid=uid)
        except NotFound:
            return None
        return await self.find(release.key)
