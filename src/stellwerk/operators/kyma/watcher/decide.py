"""What a Watcher needs next, as a value: the route by which remote clusters report to the manager that it names.

Reports come in through Istio Gateways of the control plane and go to the Service of the Watcher. The route is a
VirtualService that the Watcher owns, with the hosts of all Gateways that its selector takes.

| the Watcher | needs |
| --- | --- |
| is being deleted | its VirtualService deleted, then its finalizer removed |
| has no finalizer | it |
| cannot have a route: no manager, no port, no Gateway, no host | to show that, and to wait |
| has a VirtualService of its name that it does not own | to show that, and to wait |
| has no VirtualService, or one with another route | it written |
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from stellwerk.api.istio import (
    Gateway,
    HttpMatch,
    HttpRoute,
    HttpRouteDestination,
    PortSelector,
    RouteDestination,
    StringMatch,
    VirtualService,
    VirtualServiceSpec,
)
from stellwerk.apply.objects import name_validation
from stellwerk.delivery.step_rights import Use
from stellwerk.kube.types.errors import StatusError
from stellwerk.kube.types.model import JsonObject, owner_reference, plain_json
from stellwerk.kube.types.object_meta import Condition, ObjectMeta
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api_status import GROUP, State
from stellwerk.operators.kyma.api_watcher import Watcher, WatcherStatus
from stellwerk.operators.kyma.collections import GATEWAYS, GATEWAYS_IN, ROUTES, WATCHERS
from stellwerk.operators.kyma.reasons import WatcherReason
from stellwerk.runtime import conditions
from stellwerk.runtime.clock import Clock
from stellwerk.runtime.control.step import Create, Delete, Failure, Patch, RemoveFinalizer, Step, Wait
from stellwerk.runtime.reading.known import NotKnown
from stellwerk.runtime.reading.questions import Collection
from stellwerk.runtime.reading.view import View
from stellwerk.runtime.reconciler import Notice, Severity

WatcherStep: TypeAlias = Step[WatcherStatus]

OWN = Use(WATCHERS, "no Watcher is seen, or held until its route is gone", (Patch, RemoveFinalizer))
USES = (
    Use(ROUTES, "no remote cluster can report", (Create, Patch, Delete)),
    Use(GATEWAYS, "no route has a host"),
)
"""What passes ask about and steps write, for the rights."""

REASON = "Ready"
"""Of the condition, whether it holds or not, as with the original."""
CONFIGURED = "VirtualService is configured"
NOT_CONFIGURED = "VirtualService is not configured"

MOST_PORT = 65_535
_WORD = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?|\*")
"""Versions and plural names of kinds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatcherSettings:
    """What the process is started with, as far as Watchers depend on it."""

    gateway_namespace: str = labels.KCP_NAMESPACE
    """Where Gateways are looked for."""


class NoRoute(Exception):
    """A Watcher cannot have a route: the cause, and what a user can do."""

    def __init__(self, cause: str, fix: str, event_reason: str = WatcherReason.NO_ROUTE) -> None:
        super().__init__(f"{cause}; {fix}")
        self.event_reason = event_reason


# ---- the decision


def decide(watcher: Watcher, view: View) -> WatcherStep:
    """What the Watcher needs next."""
    if watcher.metadata.is_terminating:
        return _leave(watcher, view)
    if labels.WATCHER_FINALIZER not in watcher.metadata.finalizers:
        finalizers = [*watcher.metadata.finalizers, labels.WATCHER_FINALIZER]
        return Step(writes=(Patch(WATCHERS, watcher, {"metadata": {"finalizers": [*finalizers]}}, _refused),))
    try:
        return _with_route(watcher, wanted_route(watcher, view), view)
    except NoRoute as problem:
        return _show_problem(watcher, problem, view)


def _leave(watcher: Watcher, view: View) -> WatcherStep:
    if labels.WATCHER_FINALIZER not in watcher.metadata.finalizers:
        return Step()
    status = _status(watcher, State.Deleting, view.now, is_configured=False)
    route = view.find(ROUTES, watcher.key)
    if route is None or not _is_owned(route, watcher):
        return Step(writes=(RemoveFinalizer(labels.WATCHER_FINALIZER),))
    if not route.metadata.is_terminating:
        return Step(status=status, writes=(Delete(ROUTES, route, _refused, "its Watcher is being deleted"),))
    return Step(status=status, waits=(Wait((ROUTES, watcher.key), f"{route.ref} is being deleted"),))


def _with_route(watcher: Watcher, wanted: VirtualServiceSpec, view: View) -> WatcherStep:
    route = view.find(ROUTES, watcher.key)
    if route is None:
        body = _body(watcher, wanted)
        return Step(writes=(Create(ROUTES, body, _refused),))
    if not _is_owned(route, watcher):
        cause = f"{route.ref} exists, and this Watcher does not own it"
        fix = f"delete it: kubectl delete virtualservice {route.key.name} -n {route.key.namespace}"
        raise NoRoute(cause, fix)
    if route.metadata.is_terminating:
        message = f"{route.ref} is being deleted, and is created again when it is gone"
        status = _status(watcher, State.Processing, view.now, is_configured=False)
        return Step(status=status, waits=(Wait((ROUTES, watcher.key), message),))
    if route.spec != wanted:
        return Step(writes=(Patch(ROUTES, route, {"spec": plain_json(wanted)}, _refused),))
    return Step(status=_status(watcher, State.Ready, view.now, is_configured=True))


def _show_problem(watcher: Watcher, problem: NoRoute, view: View) -> WatcherStep:
    status = _status(watcher, State.Error, view.now, is_configured=False, why=str(problem))
    is_news = status.conditions != watcher.status.conditions
    event = Notice(problem.event_reason, str(problem), Severity.WARNING, action=problem.event_reason)
    return Step(status=status, events=(event,) if is_news else (), waits=(Wait(str(problem)),))


# ---- the route


def wanted_route(watcher: Watcher, view: View) -> VirtualServiceSpec:
    """Where reports of remote clusters go. Raises NoRoute, NotKnown."""
    if (flaw := flaw_of(watcher)) is not None:
        raise flaw
    service = watcher.spec.service_info
    gateways = _gateways(watcher, view)
    hosts = [host.rpartition("/")[2] for each in gateways for server in each.spec.servers for host in server.hosts]
    if not hosts:
        named = ", ".join(str(each.key) for each in gateways)
        raise NoRoute(
            f"no server of Gateway {named} has a host", "add one to spec.servers[].hosts", WatcherReason.NO_GATEWAY
        )
    match = HttpMatch(uri=StringMatch(prefix=f"/v2/{manager_of(watcher)}/event"))
    host = f"{service.name}.{service.namespace}.svc.cluster.local"
    destination = RouteDestination(host=host, port=PortSelector(number=service.port))
    to = HttpRouteDestination(destination=destination)
    return VirtualServiceSpec(
        hosts=tuple(dict.fromkeys(hosts)),
        gateways=tuple(str(each.key) for each in gateways),
        http=(HttpRoute(name=str(watcher.key), match=(match,), route=(to,)),),
    )


def manager_of(watcher: Watcher) -> str:
    """The controller that gets the reports; older Watchers name it by a label. Empty if none is named."""
    return watcher.spec.manager or watcher.metadata.labels.get(labels.MANAGED_BY_LABEL, "")


def webhook_name(watcher: Watcher) -> str:
    """What the webhook for a Watcher is called in remote clusters."""
    return f"{watcher.metadata.namespace}.{watcher.metadata.name}.{GROUP}"


def flaw_of(watcher: Watcher) -> NoRoute | None:
    """Why there can be neither a route nor a webhook for a Watcher, whatever else there is; None if there can.

    One such webhook would make the API servers of all remote clusters refuse the webhooks of all Watchers.
    """
    manager, port, what = manager_of(watcher), watcher.spec.service_info.port, watcher.spec.resource_to_watch
    if not manager:
        return NoRoute("no manager is named", f"set spec.manager, or the label {labels.MANAGED_BY_LABEL}")
    if not name_validation.is_subdomain(manager):  # a segment of a path must not reach into those of others
        shown = conditions.truncated(manager, 63)
        return NoRoute(f"{shown!r} is not the name of a manager", "use lower-case letters, digits and -")
    if not 1 <= port <= MOST_PORT:
        return NoRoute(f"spec.serviceInfo.port is {port}", f"set a port from 1 to {MOST_PORT}")
    if not (_WORD.fullmatch(what.version) and _WORD.fullmatch(what.resource)):
        shown = conditions.truncated(f"{what.resource}/{what.version}", 63)
        return NoRoute(
            f"spec.resourceToWatch names no kind: {shown!r}", "set resource and version, such as kymas and *"
        )
    if what.group not in ("", "*") and not name_validation.is_subdomain(what.group):
        shown = conditions.truncated(what.group, 63)
        return NoRoute(f"spec.resourceToWatch.group is {shown!r}", "set the API group of the kind")
    marks: JsonObject = {"labels": {**watcher.spec.labels_to_watch}}
    if (why := next(name_validation.complaints("v1", marks), "")) != "":
        why = why.replace("metadata.labels", "spec.labelsToWatch")
        return NoRoute(conditions.truncated(why, 200), "use labels as Kubernetes allows them")
    if not name_validation.is_subdomain(webhook_name(watcher)):
        return NoRoute("the name is too long for a webhook", "use a shorter name")
    return None


def watched(watcher: Watcher) -> Watcher:
    """An aspect: what of a Watcher webhooks depend on."""
    whole = watcher.metadata
    managed = {key: value for key, value in whole.labels.items() if key == labels.MANAGED_BY_LABEL}
    metadata = ObjectMeta(
        name=whole.name, namespace=whole.namespace, labels=managed, deletion_timestamp=whole.deletion_timestamp
    )
    return Watcher(metadata=metadata, spec=watcher.spec)


def servers_of(gateway: Gateway) -> Gateway:
    """An aspect: what of a Gateway a route depends on."""
    whole = gateway.metadata
    return Gateway(
        metadata=ObjectMeta(name=whole.name, namespace=whole.namespace, labels=whole.labels), spec=gateway.spec
    )


def _gateways(watcher: Watcher, view: View) -> Sequence[Gateway]:
    namespace, selector = view.setting(WatcherSettings).gateway_namespace, watcher.spec.gateway.selector
    if not view.serves(GATEWAYS):
        raise NoRoute("the cluster does not serve Gateways of Istio", "install Istio", WatcherReason.NO_GATEWAY)
    found = [each for each in view.all(GATEWAYS_IN, namespace, servers_of) if selector.matches(each.metadata.labels)]
    if not found:
        cause = f"no Gateway in namespace {namespace} has the labels of spec.gateway.selector"
        raise NoRoute(
            cause,
            f"see kubectl get gateways.networking.istio.io -n {namespace} --show-labels",
            WatcherReason.NO_GATEWAY,
        )
    return found


def _is_owned(route: VirtualService, watcher: Watcher) -> bool:
    controller = route.metadata.controller
    return controller is not None and controller.uid == watcher.metadata.uid


def _body(watcher: Watcher, wanted: VirtualServiceSpec) -> JsonObject:
    resource, metadata = VirtualService.resource, watcher.metadata
    owner = plain_json(owner_reference(watcher))
    named: JsonObject = {"name": metadata.name, "namespace": metadata.namespace, "ownerReferences": [owner]}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": named, "spec": plain_json(wanted)}


def _refused(message: str, _: StatusError | None) -> Failure:
    return Failure(message=message, event_reason=WatcherReason.NO_ROUTE)


# ---- the status


def _status(watcher: Watcher, state: State, now: datetime, *, is_configured: bool, why: str = "") -> WatcherStatus:
    message = CONFIGURED if is_configured else f"{NOT_CONFIGURED}: {why}" if why else NOT_CONFIGURED
    shown = Condition(
        type=WatcherReason.ROUTE.value,
        status="True" if is_configured else "False",
        reason=REASON,
        message=message,
        observed_generation=watcher.metadata.generation,
    )
    return WatcherStatus(
        state=state,
        conditions=conditions.set_condition(watcher.status.conditions, shown, now),
        observed_generation=watcher.metadata.generation,
    )


@dataclass(slots=True)
class WatcherLogic:
    """A Watcher, for the engine."""

    clock: Clock
    collection: Collection[Watcher] = WATCHERS

    def decide(self, watcher: Watcher, view: View) -> WatcherStep:
        """As `Logic.decide`."""
        return decide(watcher, view)

    def unknown(self, watcher: Watcher, view: View, missing: NotKnown) -> WatcherStep:
        """As `Logic.unknown`: the status stays, since the route does."""
        return Step(waits=(Wait(str(missing)),))

    def failed(self, watcher: Watcher, failure: Failure) -> WatcherStatus:
        """As `Logic.failed`."""
        return self.unexpected(watcher, failure.message)

    def unexpected(self, watcher: Watcher, message: str) -> WatcherStatus:
        """As `Logic.unexpected`."""
        return _status(watcher, State.Error, self.clock.now(), is_configured=False, why=message)
