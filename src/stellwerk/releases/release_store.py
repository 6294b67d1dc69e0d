"""Where releases are kept: a ConfigMap each, in the namespace of the release.

Each write has the resourceVersion that was read, so the second of two programs that change a release gets an error.
A client that changed only the metadata (a label, a managed field) did not change the release: the write is repeated.
So it is where an earlier write of the same run caused the error, because its answer was lost; the annotation proves
that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from stellwerk.api.core import ConfigMap
from stellwerk.kube.client import conditional
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.conditional import NotAsSeen
from stellwerk.kube.types.errors import Busy, NotFound
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.releases import release as releases
from stellwerk.releases.errors import WorkedOn
from stellwerk.releases.release import LABEL, RECONCILER, Release, ReleaseListing
from stellwerk.releases.retry_policy import MOST_CONFLICTS


@dataclass(frozen=True, slots=True)
class ReleaseStore:
    """The releases of one cluster."""

    client: Client
    tell: Callable[[str], None] = lambda words: None
    """Receives messages about retries."""

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
        for attempt in range(1, MOST_CONFLICTS + 1):
            try:
                written = await self._written(release, dry_run=dry_run)
            except NotFound:
                if _has_ended(release, None):
                    return release
                raise
            if not isinstance(written, NotAsSeen):
                return replace(release, stored=written)
            error = written.refusal
            found = await self.client.find(ConfigMap, releases.config_name(release.key.name), release.key.namespace)
            if _has_ended(release, found):
                return release
            if found is None or releases.differs(release, found):
                raise WorkedOn(release.key) from error
            release = replace(release, stored=found)
            self.tell(f"Error: cannot store release {release.key}: {error} (retrying {attempt}/{MOST_CONFLICTS})")
        raise WorkedOn(release.key)

    async def _written(self, release: Release, *, dry_run: bool) -> ConfigMap | NotAsSeen:
        body = releases.written(release)
        if release.stored is not None:
            return await conditional.update_if_unchanged(
                self.client, ConfigMap, body, field_manager=RECONCILER, dry_run=dry_run
            )
        try:
            return await conditional.create_if_absent(
                self.client, ConfigMap, body, field_manager=RECONCILER, dry_run=dry_run, repeatable=True
            )
        except Busy as error:
            return NotAsSeen(error)

    async def end(self, release: Release) -> Release | None:
        """Ask for its deletion, which waits until its objects are gone. None where it is gone already."""
        name = releases.config_name(release.key.name)
        try:
            uid = release.stored.metadata.uid if release.stored else ""
            await self.client.delete(ConfigMap, name, release.key.namespace, uid=uid)
        except NotFound:
            return None
        return await self.find(release.key)


def _has_ended(release: Release, found: ConfigMap | None) -> bool:
    """Whether the last write of a deletion has nothing left to do: the ConfigMap that it releases is gone."""
    stored = release.stored
    return release.is_over and stored is not None and (found is None or found.metadata.uid != stored.metadata.uid)
