"""What the VirtualService of a tenant needs next, as values."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

from stellwerk.apply.objects.desired import Desired
from stellwerk.apply.set.model.confirmation import Live
from stellwerk.apply.set.model.owner import Ownership, Standing
from stellwerk.apply.set.observed_state import ObservedState
from stellwerk.kube.types.errors import StatusError
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, PartialObjectMetadata
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.cap.collections import CLUSTER_DOMAINS, DOMAINS, ROUTES, ROUTES_OF_HOST, VERSIONS, offer
from stellwerk.operators.cap.domain import naming
from stellwerk.operators.cap.domain.naming import AnyDomain
from stellwerk.operators.cap.hashed_objects import HashedObjects, Written, is_written, owner_of
from stellwerk.operators.cap.kinds.application import CAPApplication, DomainKind, DomainRef
from stellwerk.operators.cap.kinds.domain import DomainStatus
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.reasons import TenantReason
from stellwerk.operators.cap.routing import claims, headers
from stellwerk.operators.cap.tenant.networking import (
    NETWORKING,
    is_kept,
    lacking_metadata,
    routed_hosts,
    routes,
    unrouted,
)
from stellwerk.runtime.control.memo import Memos
from stellwerk.runtime.control.step import Delete, Failure, Hands, Patch, Wait, Write
from stellwerk.runtime.reading.known import Known, Present, Unknown
from stellwerk.runtime.reading.view import Overlay, View, with_status


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteWriter:
    """Writes VirtualServices, and remembers those that others change again and again."""

    objects: HashedObjects
    memos: Memos[ObservedState] = field(default_factory=lambda: Memos(ObservedState))


@dataclass(frozen=True, slots=True)
class ApplyRoutes:
    """The VirtualService of a tenant with this content."""

    verbs: ClassVar[Mapping[str, str]] = {"create": "", **Patch.verbs}

    owner: Ownership
    desired: Desired
    hash: str
    live: Live | None = field(compare=False)
    writer: RouteWriter | None = field(compare=False)

    @property
    def about(self) -> str:
        """The object, for messages."""
        return str(self.desired.ref)

    @property
    def body(self) -> JsonObject:
        """The whole object, with the marks by which it is recognized."""
        return self.owner.stamped(self.desired.body, self.hash)

    async def perform(self, hands: Hands) -> None:
        """As `Write.perform`."""
        assert self.writer is not None, "no writer was given"
        address, live, written = self.desired.address, self.live, Written()
        shown, memory = {address: live} if live is not None else {}, self.writer.memos.of(hands.subject.key)
        await self.writer.objects.apply(self.owner, {address: (self.desired, self.hash)}, shown, memory, written)
        # The end of one that is not ours wakes no tenant.
        is_ours = live is not None and self.owner.standing(live.metadata) is Standing.OURS
        if unmet := written.unmet or ([] if is_ours or written.is_changed else written.waits):
            cause = f"invalid owner reference found for {self.desired.ref}: " if written.is_taken else ""
            hands.fail(unroutable(cause + "; ".join(unmet), None))
        for answer in written.answers:
            hands.see(ROUTES, answer.key, answer)

    def rehearse(self, overlay: Overlay, now: datetime) -> None:
        """As `Write.rehearse`."""
        overlay.put(ROUTES, ROUTES.shaped(self.body))


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantSettings:
    """What the process is started with, as far as tenants depend on it."""

    home: str
    """The namespace of the operator."""
    allowed_headers: Collection[str] = ()
    """As of `headers.of_annotations`."""
    most_previous_versions: int = 10
    writer: RouteWriter | None = field(default=None, compare=False)
    """None for one that only rehearses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    """What is due: a write, or why none is possible."""

    writes: tuple[Write, ...] = ()
    news: str = ""
    """What becomes of the routes, for an Event; empty if that is no news."""
    waits: tuple[Wait, ...] = ()
    """Domains that are not served yet."""
    failure: Failure | None = None


# ---- aspects


def served(domain: AnyDomain) -> AnyDomain:
    """A domain, and of its status only what routes depend on."""
    status = domain.status
    return with_status(domain, DomainStatus(state=status.state, gateway_name=status.gateway_name))


def holder(route: Live) -> Live:
    """Of a VirtualService only whose it is and how old: what decides about a host that several want."""
    whole = route.metadata
    return PartialObjectMetadata(
        metadata=ObjectMeta(
            name=whole.name,
            namespace=whole.namespace,
            creation_timestamp=whole.creation_timestamp,
            owner_references=whole.owner_references,
        )
    )


def domain_of(view: View, namespace: str, reference: DomainRef) -> Known[AnyDomain]:
    """The domain of a reference, which may serve other namespaces only."""
    if reference.kind == DomainKind.CLUSTER_DOMAIN:
        return view.get(CLUSTER_DOMAINS, ObjectKey("", reference.name), served)
    return view.get(DOMAINS, ObjectKey(namespace, reference.name), served)


def find_domain(view: View, namespace: str, reference: DomainRef) -> AnyDomain | None:
    """The domain of a reference; None if there is none that can be read and serves the namespace."""
    found = domain_of(view, namespace, reference)
    if not isinstance(found, Present):
        return None
    is_cluster_wide = reference.kind == DomainKind.CLUSTER_DOMAIN
    return found.value if not is_cluster_wide or naming.serves(found.value, namespace) else None


# ---- the decision


def keep(tenant: CAPTenant, application: CAPApplication, version: CAPApplicationVersion, view: View) -> Routes:
    """What has the VirtualService lead to `version`.

    A tenant without domains, or whose version has no router, has none. While a domain cannot be read it stays as it is:
    without the host of that domain, clients could not reach the tenant. Raises NetworkingFailed.
    """
    namespace, settings = tenant.metadata.namespace, view.setting(TenantSettings)
    if any(isinstance(domain_of(view, namespace, each), Unknown) for each in application.spec.served_refs):
        return Routes()
    live, owner = view.find(ROUTES, tenant.key), owner_of(tenant)
    if (why := unrouted(application, version)) and live is not None and is_kept(tenant, live):
        return Routes(
            writes=(Delete(ROUTES, live, unroutable, why),), news=f"VirtualService {live.key} is deleted: {why}"
        )
    hosts = routed_hosts(application, live, lambda *reference: find_domain(view, *reference), settings.home)

    def find_version(key: ObjectKey) -> CAPApplicationVersion | None:
        found = view.get(VERSIONS, key, offer)
        return found.value if isinstance(found, Present) else None

    allowed = settings.allowed_headers
    found, problem = headers.routed(
        application,
        () if live is None else (live,),
        allowed,
        lambda each: routes(tenant, each, version, hosts, find_version, allowed),
    )
    if found is None:
        return Routes()
    desired, hash = found
    taken = claims.taken(desired, live, lambda host: view.by(ROUTES_OF_HOST, host, holder).values, of_tenant=True)
    if taken:
        problem = claims.message(desired, taken)
        without = claims.without(found, taken)
        if without is None:
            is_ours = live is not None and is_kept(tenant, live)
            if live is None or not is_ours:
                return _failing(problem)
            return Routes(writes=(Delete(ROUTES, live, unroutable, problem),))
        desired, hash = without
    is_leaving = live is not None and live.metadata.is_terminating
    is_leaving = is_leaving and live is not None and owner.standing(live.metadata) is Standing.OURS
    if not is_leaving and not is_written(owner, live, desired, hash):
        news = "" if problem else f"VirtualService {desired.address.key} leads to the current version"
        return Routes(writes=(ApplyRoutes(owner, desired, hash, live, settings.writer),), news=news)
    if problem:
        return _failing(problem)
    lacking = lacking_metadata(desired, live) if live is not None else {}
    if live is None or not lacking:
        waits = Wait(hosts.waits, f"{desired.ref} keeps its hosts: {hosts.waits}")
        return Routes(waits=(waits,) if hosts.waits else ())
    return Routes(writes=(Patch(ROUTES, live, {"metadata": lacking}, unroutable),))


def _failing(message: str) -> Routes:
    return Routes(failure=unroutable(message, None))


def unroutable(message: str, error: StatusError | None) -> Failure:
    """The VirtualService of a tenant cannot be written."""
    reason = TenantReason.VirtualServiceModificationFailed
    return Failure(message=message, event_reason=reason, action=NETWORKING)
