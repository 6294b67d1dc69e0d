"""The record of what was applied, in the cluster: read once, written when it changes, and what it is good for.

`version_record` decides what belongs into the record; here it is read and written. The ConfigMap is ours, so it is
watched with everything else: when a user deletes it, it is written again.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from stellwerk.api.core import ConfigMap, Secret
from stellwerk.apply.objects.desired import Address
from stellwerk.apply.set.model.confirmation import Live
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import NotServed
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, Resource
from stellwerk.kube.types.model import metadata_of
from stellwerk.operators.btp import api
from stellwerk.operators.btp.btpoperator.observe import Observer
from stellwerk.operators.btp.errors import DamagedRecord, NotRecorded, OrphansUnknown, RecordUnread, or_fail
from stellwerk.operators.btp.module import version_record
from stellwerk.operators.btp.module.release import ModuleRelease
from stellwerk.operators.btp.module.version_record import CredentialsSecret, VersionRecord
from stellwerk.operators.btp.watches import USUAL_KINDS

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class VersionHistory:
    """The versions that were applied, and what is left of them."""

    client: Client
    observer: Observer
    _record: VersionRecord | None = None
    _searched: VersionRecord | None = None
    """The record as it was when leftovers of unwatched kinds were last looked for."""

    async def record(self) -> VersionRecord | None:
        """The record; None before the first installation. Raises RecordUnread and DamagedRecord.

        It is read once per process, by its name: an older release may have written it without our label.
        """
        if self._record is None:
            reading = self.client.find(ConfigMap, api.VERSIONS_NAME, self.observer.chart_namespace)
            found = await or_fail(reading, RecordUnread)
            self._record = version_record.parse(found.data) if found is not None else None
        return self._record

    async def _usable(self, *, needed: bool) -> VersionRecord | None:
        """The record; a damaged one counts as none where it is not needed. Raises StepFailed.

        Only a chart needs it, because it has no list of what former versions had. Without a chart it is written again
        with the next installation, and what a skipped version left may stay.
        """
        try:
            return await self.record()
        except DamagedRecord as damage:
            if needed:
                raise
            _log.warning("The record of applied versions is ignored: %s", damage)
            return None

    async def foresee(self, release: ModuleRelease, credentials_namespace: str) -> None:
        """Before anything of a release is written: note its unusual kinds and where the operand's credentials move.

        So no crash and no later move makes us forget them. A chart is not begun at all while the record is of no use.
        Raises StepFailed.
        """
        unusual, begins = _unusual(release.kinds), self.observer.begins_move(credentials_namespace)
        if not unusual and not release.from_chart and not begins:
            return
        record = await self._usable(needed=release.from_chart)
        if begins or any(record is None or gvk not in record.kinds for gvk in unusual):
            noted = version_record.before_apply(record, release.version, release.kinds)
            moves = (*noted.moves, credentials_namespace) if begins else noted.moves
            await self._keep(replace(noted, moves=moves))

    async def applied(self, release: ModuleRelease, credentials: CredentialsSecret | None) -> bool:
        """A release is there and nothing else is left: record it, with the Secret of the operand's credentials.

        Returns whether it replaced another version.
        """
        former = await self._usable(needed=release.from_chart)
        record = version_record.after_apply(former, release.version, release.kinds)
        if credentials is not None:
            record = replace(record, credentials=credentials, moves=())
        await self._keep(record)
        self._searched = _kinds(record)
        return former is not None and former.current_version != release.version

    async def leftovers(self, release: ModuleRelease, wanted: Collection[Address]) -> Mapping[Address, Live]:
        """What other versions left. Kinds without a watch are listed, once for each record. Raises StepFailed."""
        former = await self._usable(needed=release.from_chart)
        record = version_record.after_apply(former, release.version, release.kinds)
        unwatched = await self._unwatched(record) if _kinds(record) != self._searched else {}
        return version_record.stale(
            {**self.observer.removable(), **unwatched},
            wanted=wanted,
            version=release.version,
            spared=version_record.spared(has_users_objects=self.observer.users_may_have_objects()),
        )

    async def watch_all(self) -> None:
        """Watch every recorded kind: after a restart only the usual ones are. Raises StepFailed.

        A removal does not wait for a damaged record: what it names is unknown for good.
        """
        record = await self._usable(needed=False)
        if record is not None:
            await self.observer.caches.cover((await self._served(_unusual(record.kinds))).values())

    def forget(self) -> None:
        """The module is gone, and the record with it."""
        self._record = self._searched = None

    async def _keep(self, record: VersionRecord) -> None:
        namespace, caches = self.observer.chart_namespace, self.observer.caches.resources[ConfigMap.resource]
        if record == self._record and ObjectKey(namespace, api.VERSIONS_NAME) in caches.store:
            return
        writing = self.client.apply(ConfigMap, version_record.config_map(record, namespace))
        written = await or_fail(writing, NotRecorded)
        caches.expect(written.key, written.metadata.resource_version)
        self._record = record

    async def _served(self, kinds: Iterable[GroupVersionKind]) -> Mapping[GroupVersionKind, Resource]:
        """The recorded kinds that exist. Raises OrphansUnknown where the API server does not answer which do."""
        return await or_fail(served(self.client, kinds), partial(_unknown, "recorded kinds"))

    async def _unwatched(self, record: VersionRecord) -> Mapping[Address, Live]:
        watched = {resource.gvk for resource in (*self.observer.caches.resources, Secret.resource)}
        found: dict[Address, Live] = {}
        for resource in (await self._served(set(record.kinds) - watched)).values():
            place = self.observer.chart_namespace if resource.namespaced else ""
            listing = self.client.list(metadata_of(resource), place, labels=api.MANAGED_SELECTOR)
            listed = await or_fail(listing, partial(_unknown, resource.kind))
            found.update((Address(resource, obj.key), obj) for obj in listed.items)
        return found


async def served(client: Client, kinds: Iterable[GroupVersionKind]) -> Mapping[GroupVersionKind, Resource]:
    """The resources of kinds, as far as the API server serves them."""
    known: dict[GroupVersionKind, Resource] = {}
    for gvk in kinds:
        try:
            known[gvk] = await client.mapper.resource(gvk)
        except NotServed:
            continue  # nothing of it can be there
    return known


def _unknown(what: str, cause: str) -> OrphansUnknown:
    return OrphansUnknown(f"{what}: {cause}")


def _kinds(record: VersionRecord) -> VersionRecord:
    """The record as far as it names what to look for."""
    return replace(record, credentials=None)


def _unusual(kinds: Iterable[GroupVersionKind]) -> list[GroupVersionKind]:
    return [gvk for gvk in kinds if gvk not in USUAL_KINDS]
