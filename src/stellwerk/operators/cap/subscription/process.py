"""The process of the subscription server.

Every replica answers requests. Callbacks are sent by the one that holds the Lease; without `--leader-elect` there may
be one replica only.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_network
from pathlib import Path

from stellwerk.api.core import Secret
from stellwerk.delivery.operator_spec import CannotStart, Launch
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import metadata_of
from stellwerk.lazy_imports import lazy_imports
from stellwerk.operators.cap.kinds.application import CALLBACKS_DELIVERED, IDENTITY_PROVED, CAPApplication
from stellwerk.operators.cap.subscription import identity
from stellwerk.operators.cap.subscription.callbacks import promise, report
from stellwerk.operators.cap.subscription.callbacks.metrics import CallbackMetrics
from stellwerk.operators.cap.subscription.callbacks.outputs import OutputReader
from stellwerk.operators.cap.subscription.callbacks.promise import PromiseSecret, PromiseUnreadable
from stellwerk.operators.cap.subscription.callbacks.reconcile import CallbackReconciler, NoStatus
from stellwerk.operators.cap.subscription.callbacks.registry import RegistryClient
from stellwerk.operators.cap.subscription.callers.authorities import Authorities
from stellwerk.operators.cap.subscription.callers.bindings import Bindings
from stellwerk.operators.cap.subscription.callers.gateway import (
    ASK_FOR_SECRET,
    BY_ADDRESS_ONLY,
    Gateway,
    GatewayPod,
    GatewaySecret,
)
from stellwerk.operators.cap.subscription.callers.keys import IssuerKeys
from stellwerk.operators.cap.subscription.callers.proofs import Proofs
from stellwerk.operators.cap.subscription.condition_report import ConditionReport
from stellwerk.operators.cap.subscription.directory import Directory
from stellwerk.operators.cap.subscription.identity import Identities
from stellwerk.operators.cap.subscription.installation import INSTALLATION, LEASE_NAME
from stellwerk.operators.cap.subscription.metrics import RequestMetrics
from stellwerk.operators.cap.subscription.outgoing import Outgoing
from stellwerk.operators.cap.subscription.server import SubscriptionRoutes
from stellwerk.operators.cap.subscription.services import ServiceReader
from stellwerk.operators.cap.subscription.settings import ServerSettings
from stellwerk.operators.cap.subscription.subscriptions import Subscriptions
from stellwerk.operators.cap.variables import check_watched
from stellwerk.render.sources.http import Resolver
from stellwerk.runtime import conditions
from stellwerk.runtime.access.permission_check import Rights
from stellwerk.runtime.cache.informer import Delta
from stellwerk.runtime.control.controller import Controller, EventSink
from stellwerk.runtime.control.status_writer import StatusWriter
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.process.process import OperatorIdentity, Parts
from stellwerk.runtime.serving.health import HealthChecks
from stellwerk.runtime.serving.http import ListenAddress, Server, ServerLimits
from stellwerk.runtime.serving.rate_limit import RateLimit
from stellwerk.runtime.settings.process_settings import ProcessSettings
from stellwerk.runtime.supervision.tasks import Closing

with lazy_imports(__name__):  # it takes memory, and mostly the gateway ends TLS
    from stellwerk.runtime.serving import tls

COMPONENT = "cap-subscription-server.sme.sap.com"
"""Field manager, and reporting controller of Events."""
LIMITS = ServerLimits(body_bytes=64 * 1024)
"""Payloads of the registries have about one kilobyte."""
_GRACE_SECONDS = 3.0
_WORKERS = 10
_AT_ONCE_OF_A_TENANT = 10
"""Requests of a tenant at once, in seconds of its rate: a registry may repeat a request many times at once."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SubscriptionServer:
    """The parts that run."""

    server: Server
    subscriptions: Subscriptions
    """What requests write."""
    callbacks: Controller[PromiseSecret, NoStatus]
    certificates: tls.MountedCertificates | None
    """What the server presents; None without TLS."""
    proofs: Proofs


def launch(
    process: ProcessSettings,
    settings: ServerSettings,
    environment: Mapping[str, str],
    *,
    resolver: Resolver | None = None,
) -> Launch:
    """Prepare a process of the subscription server. Without a `resolver`, DNS finds issuers and registries. Raises
    CannotStart."""
    check_watched(settings.watch_namespaces)
    if settings.watch_namespaces and settings.gateway_labels and not settings.gateway_namespace:
        raise CannotStart(
            "WATCH_NAMESPACES limits the program to some namespaces, and GATEWAY_NAMESPACE is empty",
            fix="name the namespace of the ingress gateway in GATEWAY_NAMESPACE",
        )
    own = OperatorIdentity(
        component=COMPONENT,
        lease=LEASE_NAME,
        namespace=settings.pod_namespace,
        rights=Rights(INSTALLATION.needs(settings.limits), "stellwerk install cap"),
        namespaces=settings.watch_namespaces,
    )
    outgoing = _outgoing(settings, resolver)
    if settings.tls_enabled and not (settings.tls_cert and settings.tls_key):
        raise CannotStart("TLS is enabled without a certificate", fix="set TLS_CERT and TLS_KEY to files with PEM")

    def add(parts: Parts) -> None:
        client = parts.unfenced()
        parts.manager.add_server("client of requests", Closing(client.close))
        home = own.home(parts.manager.client.config)
        install(parts.manager, settings, home=home, requests=client, outgoing=outgoing, recorder=parts.recorder)

    return Launch(own, add)


def install(
    manager: Manager,
    settings: ServerSettings,
    *,
    home: str = INSTALLATION.namespace,
    requests: Client,
    outgoing: Outgoing,
    recorder: EventSink | None = None,
) -> SubscriptionServer:
    """Give the subscription server to a manager. `home` is its namespace, `requests` the client of HTTP requests, which
    every replica answers; `outgoing` is closed at the end."""
    directory = Directory.opened(manager)
    bindings = Bindings(
        ServiceReader(requests),
        manager.clock,
        directory.applications,
        lambda namespace: manager.informer(metadata_of(Secret), namespace=namespace),
        manager.release,
    )
    proofs = Proofs(bindings, outgoing, manager.clock, directory.applications)
    identities = Identities(directory, bindings, proofs, settings.serve_unproved)
    subscriptions = Subscriptions(requests.with_field_manager(COMPONENT).for_tenants_by_namespace(), directory)
    keys = IssuerKeys(outgoing, manager.clock, bindings.origin)
    counts = RequestMetrics(manager.metrics)
    routes = SubscriptionRoutes(
        directory=directory,
        bindings=bindings,
        identities=identities,
        subscriptions=subscriptions,
        keys=keys,
        gateway=_gateway(manager, settings, home),
        authorities=Authorities(settings.sms_client_ca, manager.clock).current,
        clock=manager.clock,
        counts=counts,
        client_limit=_limit(manager, settings.client_requests_per_second, 2),
        tenant_limit=_limit(manager, settings.tenant_requests_per_second, _AT_ONCE_OF_A_TENANT),
        standard_status_codes=settings.standard_status_codes,
    )
    manager.add_server("outgoing calls", Closing(outgoing.close))
    manager.add_server("keys of issuers", keys)
    manager.add_server("bindings", bindings)
    manager.add_server("proofs of identity", proofs)
    manager.add_server("conditions about identities", _identity_report(manager, identities, counts, recorder))
    manager.add_server("conditions about callbacks", _callback_report(manager, directory))
    certificates = None
    if settings.tls_enabled:
        certificates = tls.MountedCertificates(
            Path(), certificate=settings.tls_cert, key=settings.tls_key, clock=manager.clock
        )
    health = HealthChecks()
    health.ready_when("caches", manager.unready)
    health.ready_when("bindings", bindings.unready)
    manager.ready_when("bindings", bindings.unready)
    server = Server(
        "subscriptions",
        ListenAddress(settings.host, settings.port),
        [*routes.routes(), *health.routes()],
        metrics=manager.metrics,
        tls=certificates.context if certificates is not None else None,
        limits=LIMITS,
        grace_seconds=_GRACE_SECONDS,
    )
    presented = server if certificates is None else tls.Certified(certificates, server, manager.border)
    manager.add_server("subscriptions", presented)
    if not settings.sms_client_ca:
        _log.info("requests of the Subscription Management Service are refused: SMS_CLIENT_CA is not set")
    elif not settings.gateway_secret:
        if settings.gateway_by_address:
            _log.warning("each user who may create a VirtualService can forge client certificates: %s", ASK_FOR_SECRET)
        else:
            _log.warning("client certificates are refused: %s; %s", ASK_FOR_SECRET, BY_ADDRESS_ONLY)
    callbacks = _callbacks(manager, directory, outgoing, recorder)
    return SubscriptionServer(server, subscriptions, callbacks, certificates, proofs)


def _gateway(manager: Manager, settings: ServerSettings, home: str) -> Gateway:
    namespace, labels = settings.gateway_namespace, settings.gateway_labels
    secret = None
    if name := settings.gateway_secret:
        watch = manager.informer(Secret, namespace=home, fields=f"metadata.name={name}")
        secret = GatewaySecret(ObjectKey(home, name), watch)
    return Gateway(
        networks=tuple(ip_network(each) for each in settings.gateway_networks),
        pods=manager.informer(GatewayPod, namespace=namespace, labels=labels) if labels else None,
        secret=secret,
        by_address=settings.gateway_by_address,
    )


def _identity_report(
    manager: Manager, identities: Identities, counts: RequestMetrics, recorder: EventSink | None
) -> ConditionReport:
    directory = identities.directory
    made = ConditionReport(
        type=IDENTITY_PROVED,
        calm=identity.CALM,
        find=identities.finding,
        is_known=identities.is_known,
        related=lambda application: [each.key for each in directory.rivals(application)],
        directory=directory,
        writer=_status_writer(manager),
        clock=manager.clock,
        leads=lambda: manager.leads,
        action="Prove",
        recorder=recorder,
    )
    for reason in (identity.UNPROVED, identity.SHARED):
        counts.count_silent(reason, partial(made.count, reason))
    identities.proofs.on_change = lambda key: made.changed(key, *made.wrong)
    return made


def _callback_report(manager: Manager, directory: Directory) -> ConditionReport:
    made = ConditionReport(
        type=CALLBACKS_DELIVERED,
        calm=report.CALM,
        find=lambda application: report.finding(application.key, directory.given_up_of(application.key)),
        directory=directory,
        writer=_status_writer(manager),
        clock=manager.clock,
        leads=lambda: manager.leads,
    )

    def on_promise(delta: Delta[PromiseSecret]) -> None:
        for each in filter(None, (delta.old, delta.new)):
            with suppress(PromiseUnreadable):
                if (shown_by := promise.shown_by(each)) is not None:
                    made.changed(shown_by)

    def on_application(delta: Delta[CAPApplication]) -> None:
        is_shown = conditions.find(delta.latest.status.conditions, CALLBACKS_DELIVERED) is not None
        if is_shown or directory.given_up_of(delta.key):
            made.changed(delta.key)

    directory.promises.on_change(on_promise)
    directory.applications.on_change(on_application)
    return made


def _status_writer(manager: Manager) -> StatusWriter:
    client = manager.client.with_field_manager(COMPONENT).for_tenants_by_namespace()
    return StatusWriter(client=client, clock=manager.clock)


def _limit(manager: Manager, per_second: int, seconds: int) -> RateLimit:
    return RateLimit(per_second=per_second, at_once=per_second * seconds, clock=manager.clock)


def _callbacks(
    manager: Manager, directory: Directory, outgoing: Outgoing, recorder: EventSink | None
) -> Controller[PromiseSecret, NoStatus]:
    client = manager.client.with_field_manager(COMPONENT).for_tenants_by_namespace()
    reconciler = CallbackReconciler(
        client=client,
        services=ServiceReader(client),
        outputs=OutputReader(client),
        directory=directory,
        subscriptions=Subscriptions(client, directory),
        registry=RegistryClient(outgoing),
        clock=manager.clock,
        counts=CallbackMetrics(manager.metrics, lambda: directory.pending, lambda: directory.given_up),
        recorder=recorder,
    )
    controller: Controller[PromiseSecret, NoStatus] = Controller(
        "SubscriptionCallback",
        directory.promises,
        reconciler,
        write_status=StatusWriter(client=client, clock=manager.clock),
        workers=_WORKERS,
        tenant_of=lambda key: key.namespace,
        recorder=recorder,
        metrics=manager.metrics,
        clock=manager.clock,
    )
    controller.watches(directory.tenants, lambda delta: directory.promises_of(delta.latest))
    # After a start an application that cannot be decoded hides its tenants from its promises, until it is corrected.
    controller.watches(
        directory.applications, lambda delta: [] if delta.old else directory.pending_in(delta.key.namespace)
    )
    controller.watches(directory.promises, lambda delta: [] if delta.old else directory.promises_of(delta.latest))
    manager.add_controller(controller)
    return controller


def _outgoing(settings: ServerSettings, resolver: Resolver | None) -> Outgoing:
    """Raises CannotStart."""
    try:
        authority = Path(settings.outgoing_ca).read_bytes() if settings.outgoing_ca else b""
        return Outgoing(networks=settings.allowed_networks, authority=authority, resolver=resolver)
    except (OSError, ValueError) as error:
        raise CannotStart(
            f"the file of OUTGOING_CA cannot be read: {error}", fix="set OUTGOING_CA to a PEM file"
        ) from None
