"""A warning for an operator that is cluster-admin.

With strict tenancy every Component acts as a ServiceAccount, and the operator needs no right to write what Components
consist of. As cluster-admin it would still hold all of them: a mistake in it, or its token in other hands, would cost
the whole cluster. One SelfSubjectAccessReview at the start asks for everything; the answer is a line in the log, an
Event on the operator's namespace, and a metric. In compatible tenancy to be cluster-admin is a choice of the
installation, and the line in the log is all. It is a hint: nothing waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import KW_ONLY, dataclass, field

from prometheus_client import Gauge

from stellwerk.api import authorization
from stellwerk.api.authorization import ResourceAttributes
from stellwerk.api.core import Namespace
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import ApiError
from stellwerk.operators.component.settings import Mode
from stellwerk.runtime.clock import Clock, happens_within
from stellwerk.runtime.control.controller import EventSink
from stellwerk.runtime.reconciler import Notice, Severity
from stellwerk.runtime.telemetry.metrics import Metrics

RETRY_SECONDS = 60.0
REASON = "TooManyRights"
METRIC = "component_operator_strict_tenancy_as_cluster_admin"
MESSAGE = (
    "the operator runs with --tenancy=strict and is cluster-admin, which it does not need: remove the binding of its "
    "account to cluster-admin (chart: rbac.clusterAdmin=false) and apply deploy/rbac/component-operator.yaml"
)
CHOSEN = (
    "the operator is cluster-admin, and so is every user that may create a Component without a service account: set "
    "rbac.clusterAdmin=false in the values of the chart to give it only the rights that it needs itself"
)
_EVERYTHING = ResourceAttributes(verb="*", group="*", resource="*")

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class PrivilegeCheck:
    """Asks once, while this process leads. `namespace` is the operator's own. A `manager.Worker`."""

    name = "privileges"
    client: Client
    namespace: str
    _: KW_ONLY
    events: EventSink
    metrics: Metrics
    clock: Clock
    tenancy: Mode
    _stopped: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    _gauge: Gauge = field(init=False)

    def __post_init__(self) -> None:
        self._gauge = Gauge(METRIC, "1 while the operator is cluster-admin though its tenancy is strict", registry=None)
        self.metrics.register(self._gauge)

    async def run(self) -> None:
        """Ask until there is an answer, then wait for the stop."""
        while (is_admin := await self._is_admin()) is None:
            if await happens_within(self.clock, RETRY_SECONDS, self._stopped):
                return
        is_strict = self.tenancy is Mode.STRICT
        self._gauge.set(is_admin and is_strict)
        if is_admin:
            _log.warning("%s", MESSAGE if is_strict else CHOSEN)
        if is_admin and is_strict:
            await self._send_event()
        await self._stopped.wait()

    def stop(self) -> None:
        """End `run`."""
        self._stopped.set()

    async def _is_admin(self) -> bool | None:
        """Whether everything is allowed; None without an answer."""
        try:
            return await authorization.may(self.client, _EVERYTHING)
        except ApiError as error:
            _log.info("the rights of the operator are not known yet: %s", error)
            return None

    async def _send_event(self) -> None:
        try:
            namespace = await self.client.find(Namespace, self.namespace)
        except ApiError as error:
            _log.info("no Event about the rights of the operator: %s", error)
            return
        if namespace is not None:
            self.events.send(namespace, Notice(REASON, MESSAGE, Severity.WARNING, "Start"))
