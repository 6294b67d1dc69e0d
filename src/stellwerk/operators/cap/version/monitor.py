"""Looks now and then for versions that are not used any more, and deletes them where their application asks for it."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

from stellwerk.kube.client import conditional
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import ApiError
from stellwerk.kube.types.model import metadata_of
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.tenant import hidden_message
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.reasons import VersionReason
from stellwerk.operators.cap.version import monitoring
from stellwerk.operators.cap.version.monitoring import UnusableRule
from stellwerk.operators.cap.version.prometheus import Ask, PrometheusAccess, PrometheusFailed, PrometheusLeftAlone
from stellwerk.operators.cap.watches import BY_APPLICATION, BY_VERSION, Caches
from stellwerk.runtime.control.controller import EventSink
from stellwerk.runtime.reconciler import Notice
from stellwerk.runtime.supervision.tasks import Border

_log = logging.getLogger(__name__)

NAME = "version-monitor"


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionMonitor:
    """One look at all applications."""

    client: Client
    caches: Caches
    prometheus: PrometheusAccess | None
    """Without one, versions with rules are never found to be unused."""
    border: Border
    unrestricted: bool = False
    """Expressions of versions may read the metrics of all namespaces."""
    recorder: EventSink | None = None

    async def look(self) -> None:
        """Report unused versions by an Event, and delete those that may be.

        An application whose versions cannot be looked at keeps no other from its look.
        """
        async with AsyncExitStack() as stack:
            ask = await stack.enter_async_context(self.prometheus.look()) if self.prometheus is not None else None
            for application in self.caches.applications.store.all():
                if asked := monitoring.asks(application):
                    look = partial(self._look_at, application, ask, deletes=asked == monitoring.DELETE)
                    await self.border.once(NAME, f"{NAME} of {application.ref}", look)

    async def _look_at(self, application: CAPApplication, ask: Ask | None, *, deletes: bool) -> None:
        caches, key = self.caches, str(application.key)
        if unseen := caches.unseen_tenants:
            _log.warning("versions of %s stay: %s", application.ref, unseen)
            return
        if odd := caches.unreadable_tenants(application.key.namespace):
            _log.warning("versions of %s stay: %s", application.ref, hidden_message(odd))
            return
        versions, tenants = caches.versions.store.by(BY_APPLICATION, key), caches.tenants.store.by(BY_APPLICATION, key)
        operations = [each for version in versions for each in caches.operations.store.by(BY_VERSION, str(version.key))]
        try:
            for version in monitoring.candidates(versions, tenants, operations):
                if await self._is_unused(version, ask):
                    await self._report(version, deletes=deletes)
        except ApiError as error:
            _log.warning("versions of %s: %s", application.ref, error)

    async def _report(self, version: CAPApplicationVersion, *, deletes: bool) -> None:
        if self.recorder is not None:
            message = f"version {version.spec.version} is not used any more" + (", and is deleted" if deletes else "")
            self.recorder.send(version, Notice(VersionReason.ReadyForDeletion, message, action="EvaluateMetrics"))
        if deletes:
            await conditional.delete(self.client, metadata_of(CAPApplicationVersion), version)

    async def _is_unused(self, version: CAPApplicationVersion, ask: Ask | None) -> bool:
        """Whether all rules of a version mean that it is unused. Without an answer it is not."""
        try:
            questions = monitoring.questions(version, unrestricted=self.unrestricted)
            for question in questions:
                if ask is None or not question.is_unused(await ask(question.query)):
                    return False
        except PrometheusLeftAlone as error:
            _log.debug("%s stays: %s", version.ref, error)
            return False
        except (UnusableRule, PrometheusFailed) as error:
            _log.warning("%s stays: %s", version.ref, error)
            return False
        return True
