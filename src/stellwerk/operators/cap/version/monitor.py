"""Looks now and then for versions that are not used any more, and deletes them where their application asks for it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import Conflict, NotFound
from stellwerk.kube.types.model import metadata_of
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.reasons import VersionReason
from stellwerk.operators.cap.version import monitoring
from stellwerk.operators.cap.version.monitoring import UnusableRule
from stellwerk.operators.cap.version.prometheus import Prometheus, PrometheusFailed
from stellwerk.operators.cap.watches import BY_APPLICATION, Caches
from stellwerk.runtime.control.controller import EventSink
from stellwerk.runtime.reconciler import Notice

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionMonitor:
    """One look at all applications."""

    client: Client
    caches: Caches
    address: str
    """Of Prometheus; empty: versions with rules are never found to be unused."""
    recorder: EventSink | None = None

    async def look(self) -> None:
        """Report unused versions by an Event, and delete those that may be. Raises ApiError."""
        for application in self.caches.applications.store.all():
            if not (asked := monitoring.asks(application)):
                continue
            key = str(application.key)
            versions = self.caches.versions.store.by(BY_APPLICATION, key)
            for version in monitoring.candidates(versions, self.caches.tenants.store.by(BY_APPLICATION, key)):
                if await self._is_unused(version):
                    await self._report(version, deletes=asked == monitoring.DELETE)

    async def _is_unused(self, version: CAPApplicationVersion) -> bool:
        try:
            questions = monitoring.questions(version)
            return not questions or (bool(self.address) and await self._answers(questions))
        except (UnusableRule, PrometheusFailed) as error:
            _log.warning("%s stays: %s", version.ref, error)
            return False

    async def _answers(self, questions: Sequence[monitoring.Question]) -> bool:
        async with Prometheus.connected(self.address) as prometheus:
            for question in questions:
                if not question.is_unused(await prometheus.ask(question.query)):
                    return False
        return True

    async def _report(self, version: CAPApplicationVersion, *, deletes: bool) -> None:
        metadata = version.metadata
        if self.recorder is not None:
            message = f"version {version.spec.version} is not used any more" + (", and is deleted" if deletes else "")
            self.recorder.send(version, Notice(VersionReason.ReadyForDeletion, message, action="EvaluateMetrics"))
        if not deletes:
            return
        try:
            target = metadata_of(CAPApplicationVersion)
            await self.client.delete(target, metadata.name, metadata.namespace, uid=metadata.uid)
        except (NotFound, Conflict):
            return
