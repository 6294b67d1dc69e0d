"""One pass over a Domain or ClusterDomain: observe, plan, write, report."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile
from typing import Protocol, TypeAlias, TypeVar

import msgspec

from stellwerk.api.gardener import DnsEntry
from stellwerk.apply.objects.desired import Address
from stellwerk.apply.set.model.confirmation import Live
from stellwerk.apply.set.observed_state import ObservedState
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.identifiers import ObjectKey, ObjectRef
from stellwerk.kube.types.model import Kind, unstructured
from stellwerk.operators.cap import names, preparation
from stellwerk.operators.cap.domain import dns, hosts, ingress, plan
from stellwerk.operators.cap.domain.dns import Subdomains
from stellwerk.operators.cap.domain.errors import DomainProblem, IngressProblem, NotWritten
from stellwerk.operators.cap.domain.naming import AnyDomain
from stellwerk.operators.cap.domain.pace import Pace
from stellwerk.operators.cap.domain.plan import DnsManager, DomainSettings, DomainSnapshot, World
from stellwerk.operators.cap.domain.readiness import Progress, Readiness
from stellwerk.operators.cap.domain.reasons import DomainEvent
from stellwerk.operators.cap.domain.resources import DnsRecord, DomainResource
from stellwerk.operators.cap.domain.watches import DomainCaches
from stellwerk.operators.cap.domain.writer import DomainWriter
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.domain import DNSMode, DomainState, DomainStatus
from stellwerk.operators.cap.kinds.status import READY, condition
from stellwerk.operators.cap.reasons import DomainReason
from stellwerk.render.errors import Unrenderable
from stellwerk.render.request.request import Texts
from stellwerk.render.worker.renderer import Renderer
from stellwerk.runtime import conditions
from stellwerk.runtime.clock import Clock
from stellwerk.runtime.control import finalizer
from stellwerk.runtime.control.controller import EventSink
from stellwerk.runtime.control.memo import Memos
from stellwerk.runtime.reconciler import Next, Notice, ReconcileError, Severity

R = TypeVar("R")

PROCESSING = "Processing domain resources"
AGAIN_SECONDS = 60.0
"""How soon to try again what may change without an event: that a quota has room for a network policy, or that an object
of another owner, which no cache shows, has left the name of ours.
"""
_TEMPLATES = "dnsTemplates"

Reported: TypeAlias = frozenset[tuple[DomainEvent, str, str]]
"""What an Event was sent about: its reason, the uid of the application, and the cause."""


class _Compute(Protocol):
    """Returns what pure work on all objects of a domain returns; for a domain with many, computed in a thread."""

    def __call__(self, work: Callable[[], R], /) -> Awaitable[R]: ...


def _computing(snapshot: DomainSnapshot, pace: Pace) -> _Compute:
    subdomains = sum(len(each.status.observed_subdomains) for each in snapshot.references)
    return partial(pace.compute, len(snapshot.live) + subdomains)


@dataclass(slots=True)
class DomainMemo:
    """What is remembered of a domain while it exists."""

    observed: ObservedState = field(default_factory=ObservedState)
    executed: tuple[object, Sequence[Mapping[str, str]]] | None = None
    """The templates and variables that were executed last, and their texts."""
    missing_since: float | None = None
    """When the ingress gateway was not found any more, on the clock's seconds; None while it is found."""
    subdomains: Reported = frozenset()
    """Each with its application."""
    policies: Reported = frozenset()
    """Network policies that were refused: each cause with its application."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainReconciler:
    """Serves the domains of one kind."""

    client: Client
    clock: Clock
    caches: DomainCaches
    writer: DomainWriter
    settings: DomainSettings
    renderer: Renderer
    recorder: EventSink | None = None
    memos: Memos[DomainMemo] = field(default_factory=lambda: Memos(DomainMemo))

    def begin(self, domain: AnyDomain) -> DomainPass:
        """As `Reconciler.begin`."""
        return DomainPass(self, domain)

    async def forget(self, key: ObjectKey) -> None:
        """As `Reconciler.forget`; the controller drops the memo."""


class DomainPass:
    """One pass: what it knows of the domain, and the status that it shows so far."""

    def __init__(self, parts: DomainReconciler, domain: AnyDomain) -> None:
        self._parts = parts
        self._domain = domain
        self._memo = parts.memos.of(domain.key)
        self._draft = domain.status

    async def run(self) -> Next[DomainStatus]:
        """Bring the domain one step closer to its spec. Raises DomainProblem and ApiError."""
        with self._parts.caches.passing(self._domain) as pace:
            return await self._run(pace)

    async def _run(self, pace: Pace) -> Next[DomainStatus]:
        snapshot = await self._parts.caches.snapshot(self._domain, pace)
        step = plan.next_step(snapshot)
        if isinstance(step, plan.Prepare):
            self._domain = await preparation.write(self._parts.client, self._domain, step.lacking)
            snapshot = replace(snapshot, domain=self._domain)
            step = plan.next_step(snapshot)
        match step:
            case plan.Rest():
                return Next.done()
            case plan.Prepare(lacking):
                raise NotWritten(preparation.removed_again(lacking))
            case plan.Begin():
                return Next.now(self._status(DomainState.PROCESSING, DomainReason.Processing, PROCESSING))
            case plan.ReportDuplicates():
                return self._duplicates(snapshot)
            case plan.Maintain():
                return await self._maintain(snapshot, pace)
            case plan.Block() as block:
                return Next.done(self._blocked(block))
            case plan.BeginDeletion():
                return Next.now(self._status(DomainState.DELETING, DomainReason.Deleting, "Deleting domain resources"))
            case plan.Release(objects):
                self._parts.caches.check_complete()
                await self._parts.writer.delete(objects)
                await finalizer.remove(self._parts.client, self._domain, names.DOMAIN_FINALIZER)
                return Next.done()

    def report(self, failure: ReconcileError) -> DomainStatus:
        """The status that reports a failure; a deletion stays one."""
        if self._domain.metadata.is_terminating:
            return self._status(DomainState.DELETING, DomainReason.Deleting, str(failure))
        return self._status(DomainState.ERROR, DomainReason.ProcessingError, str(failure))

    def _duplicates(self, snapshot: DomainSnapshot) -> Next[DomainStatus]:
        before = snapshot.claims.before
        # What another namespace has in use is not observed: it would count as served by this domain.
        if all(hosts.namespace_of(each) == hosts.namespace_of(self._domain) for each in before):
            self._show(observed_domain=self._domain.spec.domain)
        message = hosts.problem_of_claims(self._domain, before)
        status = self._status(DomainState.ERROR, DomainReason.DuplicateDomainHost, message)
        return Next(status, severity=Severity.WARNING)

    def _blocked(self, block: plan.Block) -> DomainStatus:
        """The status of a domain that stays as it is although it is deleted."""
        if block.references:
            named = conditions.first_of([application.ref for application in block.references])
            verb = "refers" if len(block.references) == 1 else "refer"
            message = f"{named} {verb} to {self._domain.ref}: remove it from spec.domainRefs"
        else:
            named = conditions.first_of([f"CAPApplication {key}" for key in block.hidden])
            message = f"{named} cannot be read and may refer to {self._domain.ref}: correct or delete it"
        is_ready = conditions.is_true(self._domain.status.conditions, READY)
        return self._status(DomainState.DELETING, DomainReason.DeletionBlocked, message, stays_ready=is_ready)

    # ---- the objects

    async def _maintain(self, snapshot: DomainSnapshot, pace: Pace) -> Next[DomainStatus]:
        parts = self._parts
        dns.check_host(self._domain)
        if snapshot.refusal:
            raise DomainProblem(snapshot.refusal)
        self._show(observed_domain=self._domain.spec.domain)
        found = await self._ingress()
        if isinstance(found, Next):
            return found
        namespace, target = found
        self._show(dns_target=target)
        compute = _computing(snapshot, pace)
        problems: list[str] = []
        world = World(
            snapshot=snapshot,
            settings=parts.settings,
            ingress_namespace=namespace,
            records=await self._records(snapshot, target, problems, compute),
            namesakes=parts.caches.namesakes(self._domain, namespace),
            unserved=parts.caches.unserved(),
        )
        wanted = await compute(lambda: plan.plan(world))
        await compute(lambda: self._memo.observed.keep_only(wanted.sorted_out.addresses))
        self._show(gateway_name=wanted.gateway_name or self._draft.gateway_name)
        is_changed = await parts.writer.delete(wanted.obsolete)
        written = await parts.writer.apply(self._domain, snapshot.live, wanted.sorted_out, self._memo.observed)
        self._report_policies(snapshot, written.refused_policies)
        problems = [*wanted.problems, *problems]
        if unmet := written.unmet:
            raise NotWritten(conditions.first_of([*problems, *unmet], separator="; "))
        if problems:
            raise DomainProblem(conditions.first_of(problems, separator="; "))
        if is_changed or written.is_changed:
            return Next.now()  # the caches show the writes by then
        if await self._delete_former_entries(snapshot, wanted.resources, compute):
            return Next.now()
        unready = await compute(lambda: plan.unready(snapshot.live, wanted.resources))
        answer = self._assessed(written.waits, unready, hosts.note_of_claims(snapshot.claims.after))
        return replace(answer, delay_seconds=AGAIN_SECONDS) if written.refused_policies or written.waits else answer

    async def _ingress(self) -> tuple[str, str] | Next[DomainStatus]:
        """The namespace of the ingress gateway, and the DNS target; an answer where the domain stays as it is.

        Raises DomainProblem.
        """
        memo, now = self._memo, self._parts.clock.monotonic()
        try:
            found = await self._found_ingress()
        except IngressProblem as problem:
            memo.missing_since = now if memo.missing_since is None else memo.missing_since
            if left := ingress.grace_left(self._domain, now - memo.missing_since):
                return Next.after(left)
            self._send_news(DomainEvent.MissingIngressGatewayInfo, str(problem))
            raise
        memo.missing_since = None
        return found

    async def _found_ingress(self) -> tuple[str, str]:
        domain, settings, caches = self._domain, self._parts.settings, self._parts.caches
        pods = await caches.pods(domain)
        namespace = ingress.namespace(domain, pods, settings.ingress_namespaces)
        if target := ingress.own_target(domain, settings.dns_target):
            return namespace, target
        services, slices = await caches.load_balancers(namespace)
        return namespace, ingress.target(domain, pods, services, slices, settings.target_annotation)

    async def _records(
        self, snapshot: DomainSnapshot, target: str, problems: list[str], compute: _Compute
    ) -> tuple[DnsRecord, ...] | None:
        """The DNS records; None where a template fails, which is added to the problems."""
        domain = self._domain
        if self._parts.settings.dns_manager is not DnsManager.GARDENER:
            return ()
        assigned = await compute(lambda: dns.subdomains(domain.spec.domain, snapshot.references))
        if domain.spec.dns_mode in (DNSMode.SUBDOMAIN, DNSMode.CUSTOM):
            self._report_subdomains(assigned)
        try:
            texts = await compute(lambda: dns.texts(domain, target, assigned.owners))
            if texts is None:
                return await compute(lambda: dns.records(domain, target, assigned))
            executed = await self._executed(texts)
            return await compute(lambda: dns.custom_records(domain, assigned, executed))
        except DomainProblem as problem:
            problems.append(str(problem))
        except Unrenderable as error:
            place = "spec." if str(error).startswith(_TEMPLATES) else f"spec.{_TEMPLATES}: "
            problems.append(f"{place}{error}: correct the template")
        return None

    async def _executed(self, texts: Texts) -> Sequence[Mapping[str, str]]:
        """The texts of templates; executed again only when something in them has changed."""
        key = (texts.templates, texts.rows)
        if self._memo.executed is None or self._memo.executed[0] != key:
            self._memo.executed = (key, await self._parts.renderer.texts(texts))
        return self._memo.executed[1]

    async def _delete_former_entries(
        self, snapshot: DomainSnapshot, wanted: Sequence[DomainResource], compute: _Compute
    ) -> bool:
        """Delete the DNS entries of releases before Domain whose names the domain needs. Returns whether any was there.

        They are looked up only where an entry of a domain that was written into an application has failed: a former one
        may be the cause, and else serves nothing but its own deletion.
        """
        is_migrated = names.MIGRATED_ANNOTATION in self._domain.metadata.annotations
        failed = await compute(lambda: plan.failed_names(snapshot.live, wanted)) if is_migrated else ()
        if not failed:
            return False
        former: list[tuple[Address, Live]] = []
        for namespace in sorted({each.metadata.namespace for each in snapshot.references}):
            listed = (await self._parts.client.list(unstructured(DnsEntry.resource), namespace)).items
            named = [each for each in listed if each.at("spec", "dnsName") in failed]
            found = plan.former_entries(self._domain, snapshot.references, named)
            former += [(Address(DnsEntry.resource, each.key), each) for each in found]
        return await self._parts.writer.delete(former)

    # ---- the status

    def _assessed(self, ending: Sequence[str], unready: Sequence[Readiness], note: str) -> Next[DomainStatus]:
        """The status of a domain whose objects are written, but for those of which a former one is being deleted.

        Raises DomainProblem where one of them has failed.
        """
        failed = [each for each in unready if each.progress is Progress.FAILED]
        if failed:
            raise DomainProblem(conditions.first_of(failed, separator="; "))
        waits = [*ending, *unready]
        if not waits:
            return Next.done(self._status(DomainState.READY, DomainReason.Ready, f"Domain resources are ready{note}"))
        waiting = f"{PROCESSING}: {conditions.first_of(waits)}"
        # They come first where nothing has failed; 20,000 DNS entries may follow.
        certificates = [*takewhile(lambda each: each.ref.gvk.kind == "Certificate", unready)]
        if certificates:
            self._send_news(DomainEvent.CertificateNotReady, conditions.first_of(certificates), waiting)
        return Next.done(self._status(DomainState.PROCESSING, DomainReason.Processing, waiting))

    def _show(self, **fields: str) -> None:
        """Show these fields in the status, whatever the pass comes to."""
        self._draft = msgspec.structs.replace(self._draft, **fields)

    def _status(
        self, state: DomainState, reason: DomainReason, message: str, *, stays_ready: bool = False
    ) -> DomainStatus:
        generation = self._domain.metadata.generation
        ready = condition(self._domain, state is DomainState.READY or stays_ready, reason, message)
        shown = conditions.set_condition(self._draft.conditions, ready, self._parts.clock.now())
        return msgspec.structs.replace(self._draft, state=state, observed_generation=generation, conditions=shown)

    # ---- Events

    def _send(self, obj: Kind, reason: DomainEvent, message: str, related: ObjectRef | None = None) -> None:
        if self._parts.recorder is not None:
            self._parts.recorder.send(obj, Notice(reason, message, Severity.WARNING), related)

    def _send_news(self, reason: DomainEvent, message: str, shown: str = "") -> None:
        """Send an Event about the domain unless the condition shows the same already."""
        current = conditions.find(self._domain.status.conditions, READY)
        if current is None or current.message != conditions.truncated(shown or message):
            self._send(self._domain, reason, message)

    def _report_policies(self, snapshot: DomainSnapshot, refused: Mapping[str, str]) -> None:
        """Send an Event about each application that the ingress gateway may not reach, once for each cause."""
        text = "the ingress gateway may not reach the workloads of the namespace: "
        reports = [
            (DomainEvent.NetworkPolicyRefused, application, why, text + why)
            for application in snapshot.references
            if (why := refused.get(application.metadata.namespace)) is not None
        ]
        self._memo.policies = self._report_once(self._memo.policies, reports)

    def _report_subdomains(self, assigned: Subdomains) -> None:
        """Send an Event about each application with a subdomain that it cannot have, once."""
        host = self._domain.spec.domain
        reports = [
            (reason, application, subdomain, f"the subdomain {subdomain[:63]!r} {why}: it gets no DNS record in {host}")
            for reason, application, subdomain, why in assigned.refused
        ]
        self._memo.subdomains = self._report_once(self._memo.subdomains, reports)

    def _report_once(
        self, reported: Reported, reports: Sequence[tuple[DomainEvent, CAPApplication, str, str]]
    ) -> Reported:
        """Send an Event about each application, unless it is in `reported`. Returns what is then."""
        found = frozenset((reason, application.metadata.uid, cause) for reason, application, cause, _ in reports)
        for reason, application, cause, message in reports:
            if (reason, application.metadata.uid, cause) not in reported:
                self._send(application, reason, message, self._domain.ref)
        return found
