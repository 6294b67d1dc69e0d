"""A process around a manager: login, lease, rights, Events, probes, numbers, traces and watchdog, together once.

Several clients, for two reasons. What the operators write passes the leader's fence, and the Lease itself must not. And
a client has a bounded number of connections: the Lease has its own, so that it never waits behind Events or behind the
tokens of strangers.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from stellwerk.kube.client.client import Client
from stellwerk.kube.http.transport import (
    LARGEST_ANSWER_BYTES,
    LARGEST_FOREIGN_ANSWER_BYTES,
    LARGEST_FOREIGN_LIST_BYTES,
    RequestFacts,
    ServerBounds,
)
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.memory_budget import FOREIGN_BYTES, SERVER_BYTES, MemoryBudget
from stellwerk.kube.types.errors import LoginFailed
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.lazy_imports import lazy_imports
from stellwerk.runtime.access.permission_check import Rights, RightsCheck
from stellwerk.runtime.cache import cache_budget
from stellwerk.runtime.cache.cache_budget import CacheBudget
from stellwerk.runtime.cache.clusters import Cluster
from stellwerk.runtime.cache.remote_clusters import Connect, RemoteClusters, RemoteLimits
from stellwerk.runtime.clock import SystemClock
from stellwerk.runtime.control.events import EventRecorder
from stellwerk.runtime.process.leader import Fence, LeaderElector, Terms, new_identity
from stellwerk.runtime.process.manager import Manager, Runnable
from stellwerk.runtime.serving.health import HealthChecks, metrics_route
from stellwerk.runtime.serving.http import ListenAddress, Server
from stellwerk.runtime.serving.metrics_auth import Guard
from stellwerk.runtime.settings.process_settings import ProcessSettings
from stellwerk.runtime.supervision import collector
from stellwerk.runtime.supervision.memory_pressure import MemoryCheck
from stellwerk.runtime.supervision.watchdog import Watchdog
from stellwerk.runtime.telemetry import logs, traces
from stellwerk.runtime.telemetry.metrics import Metrics

with lazy_imports(__name__):  # X.509 takes 9 MB of memory, and metrics are in plain text by default
    from stellwerk.runtime.serving import tls

V = TypeVar("V")

ALIVE_SECONDS = 10.0
"""How long the event loop may be silent before the process counts as dead."""
FORBIDDEN = 403

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorIdentity:
    """Who an operator is to the cluster: its name in Events and user agents, its Lease, and what it must be allowed.

    Without a namespace the Lease is in the namespace of the login: the pod's own, or the kubeconfig's. A process
    without a Lease serves requests: each replica works, and none sends Events about objects that it cannot read.
    """

    component: str
    lease: str = ""
    namespace: str = ""
    rights: Rights = field(default_factory=Rights)
    namespaces: tuple[str, ...] = ()
    """The only ones whose objects it watches; empty: all."""
    terms: Terms | None = None
    """Those of the Lease; None: the usual ones."""

    def home(self, config: ClusterConfig) -> str:
        """The namespace that it has for its own."""
        return self.namespace or config.namespace or "default"


def cluster_config(kubeconfig: str) -> ClusterConfig:
    """The cluster of an operator process: the file it was given, the usual files, or the account of its pod.

    Raises LoginFailed with what was looked for.
    """
    try:
        return ClusterConfig.load(Path(kubeconfig) if kubeconfig else None)
    except LoginFailed:
        if kubeconfig or "KUBERNETES_SERVICE_HOST" not in os.environ:
            raise
        return ClusterConfig.in_cluster()


@dataclass(frozen=True, slots=True)
class Parts:
    """What an operator is given to install itself with."""

    manager: Manager
    recorder: EventRecorder
    connect: Connect
    """Opens a client for another cluster; its writes pass the leader's fence, too."""
    unfenced: Callable[[], Client]
    """Opens a client for what every replica does, whether it leads or not: answering requests. The caller closes it."""

    def remote_clusters(
        self,
        build: Callable[[Cluster, ObjectKey], V],
        *,
        field_manager: str,
        wake: Callable[[ObjectKey], None],
        limits: RemoteLimits = RemoteLimits(),  # noqa: B008  # immutable
    ) -> RemoteClusters[V]:
        """Clusters of kubeconfigs as long as the process runs. See `RemoteClusters`."""
        manager = self.manager
        remotes = RemoteClusters(
            manager.home,
            connect=self.connect,
            build=build,
            clock=manager.clock,
            border=manager.border,
            field_manager=field_manager,
            limits=limits,
            wake=wake,
            on_gone=manager.metrics.forget_host,
        )
        manager.add_server("remote clusters", remotes)
        return remotes


async def run(process: ProcessSettings, identity: OperatorIdentity, install: Callable[[Parts], object]) -> None:
    """Run what `install` gives to a manager, until SIGTERM or SIGINT.

    Raises LoginFailed and CannotListen before anything is done; LeadershipLost when another process may lead.
    """
    metrics = Metrics(object_limit=process.object_metrics_limit)
    metrics.operator(identity.component, identity.lease)
    asyncio.get_running_loop().set_exception_handler(partial(_report_callback, metrics))
    fence = Fence(SystemClock()) if process.leader_elect and identity.lease else None
    lines = _Lines(cluster_config(process.kubeconfig), identity.component, metrics, fence)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(traces.exported(identity.component, os.environ))
        own = await stack.enter_async_context(lines.unfenced())
        recorder = _recorder(own, identity, metrics, fence)
        renewing = await stack.enter_async_context(lines.unfenced())
        elector = _elector(renewing, identity, metrics, recorder, fence) if fence else None
        client = await stack.enter_async_context(
            lines.fenced(lines.home, on_forbidden=lambda resource: rights.invalidate(resource))
        )
        announcing = recorder if identity.lease else None
        budget = CacheBudget(_cache_bytes(process))
        manager = Manager(
            client,
            leadership=elector,
            metrics=metrics,
            recorder=announcing,
            budget=budget,
            namespaces=identity.namespaces,
        )
        manager.add_server("events", recorder)
        rights = RightsCheck(
            own,
            identity.rights,
            namespace=identity.home(lines.home),
            metrics=metrics,
            regained=manager.try_again,
            is_ending=manager.home.is_ending,
        )
        manager.add_server("rights", rights)
        install(Parts(manager, recorder, lines.fenced, lines.unfenced))
        if elector is not None:
            manager.ready_when("lease", elector.refusal)
        strangers = await stack.enter_async_context(lines.unfenced())
        _serve(manager, process, strangers)
        _log.info("%s starts against %s", identity.component, lines.home.server)
        with collector.short_pauses():
            await manager.run_until_signal()


@dataclass(frozen=True, slots=True)
class _Lines:
    """Opens clients under the operator's name, whose requests are counted and traced."""

    home: ClusterConfig
    component: str
    metrics: Metrics
    fence: Fence | None
    foreign: MemoryBudget = field(default_factory=lambda: MemoryBudget(FOREIGN_BYTES))
    """Of the answers of all servers that users name."""

    def unfenced(self) -> Client:
        """One for what must not pass the fence: the Lease, and Events, which look at it themselves."""
        return Client.connect(self.home, user_agent=self.component, on_request=self._counted)

    def fenced(
        self,
        to: ClusterConfig,
        bounds: ServerBounds = ServerBounds(),  # noqa: B008  # immutable
        *,
        on_forbidden: Callable[[str], None] = lambda resource: None,
    ) -> Client:
        """One whose writes pass the leader's fence. `on_forbidden` receives the resource of a forbidden request."""

        def counted(facts: RequestFacts) -> None:
            self._counted(facts)
            if facts.code == FORBIDDEN:
                on_forbidden(facts.resource)

        return Client.connect(
            to,
            bounds,
            field_manager=self.component,
            user_agent=self.component,
            on_request=counted,
            before_write=self.fence.check if self.fence else None,
            largest_answer_bytes=LARGEST_ANSWER_BYTES if to is self.home else LARGEST_FOREIGN_ANSWER_BYTES,
            largest_list_bytes=None if to is self.home else LARGEST_FOREIGN_LIST_BYTES,
            budget=None if to is self.home else self.foreign.part(SERVER_BYTES),
        )

    def _counted(self, facts: RequestFacts) -> None:
        self.metrics.requested(facts.method, facts.host, facts.code)
        traces.requested(facts)


def _report_callback(metrics: Metrics, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What a callback of the event loop raised, or a task whose result nothing reads. The loop continues."""
    metrics.task_failed("callback")
    _log.error("event loop: %s", context.get("message"), exc_info=context.get("exception"), extra=logs.STACK)


def _cache_bytes(process: ProcessSettings) -> int | None:
    """How much memory cached objects may take; None without a setting and a limit of the container."""
    if process.cache_memory_mib:
        return process.cache_memory_mib << 20
    usage = MemoryCheck().usage()
    return None if usage is None else int(usage[1] * cache_budget.SHARE)


def _recorder(own: Client, identity: OperatorIdentity, metrics: Metrics, fence: Fence | None) -> EventRecorder:
    return EventRecorder(
        own,
        component=identity.component,
        instance=new_identity(),
        metrics=metrics,
        before_write=fence.check_not_lost if fence else None,
    )


def _elector(
    client: Client, identity: OperatorIdentity, metrics: Metrics, recorder: EventRecorder, fence: Fence
) -> LeaderElector:
    namespace = identity.home(client.config)
    return LeaderElector(
        client, identity.lease, namespace, terms=identity.terms, metrics=metrics, recorder=recorder, fence=fence
    )


def _serve(manager: Manager, process: ProcessSettings, strangers: Client) -> None:
    """Probes and metrics, each on its own port, and the watchdog behind the liveness probe. `strangers` asks who a
    caller is."""
    watchdog, health = Watchdog(manager.metrics), HealthChecks()
    health.alive_when("event-loop", lambda: _silence(watchdog))
    health.ready_when("caches", manager.unready)
    memory = MemoryCheck()
    health.ready_when("memory", memory.finding)
    manager.metrics.memory(memory.usage)
    for name, check in manager.checks.items():
        health.ready_when(name, check)
    manager.add_server("watchdog", watchdog)
    if address := ListenAddress.parse(process.health_probe_bind_address):
        manager.add_server("probes", Server("probes", address, health.routes(), metrics=manager.metrics))
    if address := ListenAddress.parse(process.metrics_bind_address):
        manager.add_server("metrics", _metrics_server(manager, process, address, strangers))


def _metrics_server(manager: Manager, process: ProcessSettings, address: ListenAddress, strangers: Client) -> Runnable:
    """Plain and open, as the originals serve them; or by HTTPS and guarded."""
    route = metrics_route(manager.metrics)
    if not process.metrics_secure:
        return Server("metrics", address, [route], metrics=manager.metrics)
    route = Guard(strangers).protect(route)
    folder = process.metrics_cert_path
    certificate = tls.MountedCertificates(Path(folder)) if folder else tls.SelfSigned(names=("localhost",))
    server = Server("metrics", address, [route], metrics=manager.metrics, tls=certificate.context)
    return tls.Certified(certificate, server, manager.border)


def _silence(watchdog: Watchdog) -> str | None:
    silent = watchdog.silent_seconds
    return f"the event loop has been silent for {silent:.0f} s" if silent > ALIVE_SECONDS else None


def configure_logs(process: ProcessSettings, *, tty: bool) -> None:
    """Log lines as the process settings ask for. Raises ValueError with what is allowed."""
    logs.configure(
        logs.settings_from_flags(
            level=process.zap_log_level,
            encoder=process.zap_encoder,
            devel=process.zap_devel,
            time_encoding=process.zap_time_encoding,
            stacktrace_level=process.zap_stacktrace_level,
            tty=tty,
        )
    )
