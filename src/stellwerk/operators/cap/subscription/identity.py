"""Which application answers for an identity, of all that claim it, and how that is shown.

The server writes the condition `IdentityProved` of a CAPApplication that does not answer, or did not: by the replica
that sends callbacks. An application that has always answered gets none.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import msgspec

from stellwerk.kube.types.errors import ApiError
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.cap.kinds import status
from stellwerk.operators.cap.kinds.application import IDENTITY_PROVED, CAPApplication
from stellwerk.operators.cap.reasons import ApplicationReason
from stellwerk.operators.cap.subscription.callers import client_certificates, tokens
from stellwerk.operators.cap.subscription.callers.bindings import Bindings, Trust
from stellwerk.operators.cap.subscription.callers.client_certificates import ClientCertificate
from stellwerk.operators.cap.subscription.callers.proofs import Proofs, ProofState
from stellwerk.operators.cap.subscription.callers.tokens import Claims
from stellwerk.operators.cap.subscription.directory import Directory
from stellwerk.operators.cap.subscription.metrics import RequestMetrics
from stellwerk.operators.cap.subscription.plan import Authorization
from stellwerk.operators.cap.subscription.registries import Protocol
from stellwerk.runtime import conditions
from stellwerk.runtime.clock import Clock
from stellwerk.runtime.control.controller import EventSink
from stellwerk.runtime.control.status_writer import StatusWriter
from stellwerk.runtime.reconciler import Notice, Severity

PROVED = ApplicationReason.Proved
UNPROVED, SHARED = ApplicationReason.IdentityUnproved, ApplicationReason.IdentityShared
"""Reasons of the condition."""
CHECK_SECONDS = 5.0

_NOT_YET = (
    "requests of the registry get 503 until then; SERVE_UNPROVED=true of the subscription server has them answered "
    "before, if no other CAPApplication claims this identity"
)
_NEVERTHELESS = "requests of the registry are answered if no other CAPApplication claims this identity (SERVE_UNPROVED)"

_log = logging.getLogger(__name__)

Caller: TypeAlias = Claims | ClientCertificate


def protocol_of(caller: Caller) -> Protocol:
    """By which registry a caller is sent."""
    return Protocol.SAAS if isinstance(caller, Claims) else Protocol.SMS


def accepts(trust: Trust, caller: Caller) -> bool:
    """Whether a caller shows what it has to show (pure)."""
    if isinstance(caller, Claims):
        return trust.token is not None and tokens.is_for(caller, trust.token)
    return trust.certificate is not None and client_certificates.is_for(caller, trust.certificate)


def have_one_caller(one: Trust, other: Trust, protocol: Protocol) -> bool:
    """Whether a caller of one application may be one of the other (pure)."""
    if protocol is Protocol.SMS:
        return one.certificate is not None and one.certificate == other.certificate
    if one.token is None or other.token is None:
        return False
    are_counted = one.token.counts_app_name and other.token.counts_app_name
    return one.token.client_id == other.token.client_id or (are_counted and one.token.app_name == other.token.app_name)


@dataclass(frozen=True, slots=True)
class Identities:
    """Decides which applications answer."""

    directory: Directory
    bindings: Bindings
    proofs: Proofs
    serves_unproved: bool = False

    def authorization(self, caller: Caller, application: CAPApplication) -> Authorization:
        """Whether a caller may act for an application.

        An application that is not proved refuses the caller of one that is. While none is proved, or two are, no one
        answers. One whose binding cannot be read any more is waited for: it may be that of the caller.
        """
        protocol = protocol_of(caller)
        accepted = self._accepted(caller, application)
        if accepted is Authorization.REFUSED:
            return accepted
        rivals = self.directory.rivals(application)
        proved = (self.proofs.last_proved(each, protocol) for each in rivals)
        is_contested = any(trust is not None and accepts(trust, caller) for trust in proved)
        own = self.proofs.proved(application, protocol)
        if own is not None and accepts(own, caller):
            return Authorization.UNKNOWN if is_contested else accepted
        if is_contested:
            is_absent = accepted is Authorization.UNKNOWN and self.proofs.last_proved(application, protocol) is not None
            return Authorization.UNKNOWN if is_absent else Authorization.REFUSED
        is_sole = all(self._accepted(caller, each) is Authorization.REFUSED for each in rivals)
        return accepted if self.serves_unproved and is_sole else Authorization.UNKNOWN

    def _accepted(self, caller: Caller, application: CAPApplication) -> Authorization:
        if accepts(self.bindings.of(application), caller):
            return Authorization.GRANTED
        is_known = self.bindings.are_known(application, protocol_of(caller))
        return Authorization.REFUSED if is_known else Authorization.UNKNOWN

    async def settled(self, applications: Iterable[CAPApplication]) -> None:
        """Wait a moment until it is known which of these answer."""
        listed = [*applications]
        listed += [rival for each in listed for rival in self.directory.rivals(each)]
        await self.bindings.read_of(listed)
        await self.proofs.tried(listed)

    def finding(self, application: CAPApplication) -> tuple[str, str] | None:
        """Why an application does not answer for one of its registries: a reason and a message; None if it does."""
        for protocol in Protocol:
            proof = self.proofs.of(application, protocol)
            if proof is None or proof.state is ProofState.UNTRIED:
                continue
            key, name = application.key, proof.service.name
            own = self.proofs.proved(application, protocol) or self.bindings.of(application)
            rivals = [
                str(each.key)
                for each in self.directory.rivals(application)
                if (proved := self.proofs.last_proved(each, protocol)) and have_one_caller(own, proved, protocol)
            ]
            if proof.state is ProofState.PROVED and rivals:
                return SHARED, (
                    f"service {name}: CAPApplication {', '.join(rivals)} has proved the same identity, so requests of "
                    f"the registry are answered by neither; next: delete one of them"
                )
            if proof.state is not ProofState.PROVED:
                outdone = f"; CAPApplication {', '.join(rivals)} has proved this identity" if rivals else ""
                answers = _NEVERTHELESS if self.serves_unproved else _NOT_YET
                return UNPROVED, (
                    f"the binding of service {name} has got no token yet: {proof.problem}{outdone}; {answers}; "
                    f"next: kubectl get secret {proof.service.secret} -n {key.namespace} -o yaml"
                )
        return None


@dataclass(slots=True, eq=False)
class IdentityReport:
    """Shows which applications do not answer."""

    identities: Identities
    writer: StatusWriter
    clock: Clock
    leads: Callable[[], bool]
    """Whether this replica writes."""
    recorder: EventSink | None = None
    _due: set[ObjectKey] = field(default_factory=set)
    _wrong: dict[ObjectKey, str] = field(default_factory=dict)

    def count_in(self, metrics: RequestMetrics) -> None:
        """Count the applications that do not answer, by reason."""
        for reason in (UNPROVED, SHARED):
            metrics.count_silent(reason, partial(self._count, reason))

    def _count(self, reason: str) -> int:
        return sum(each == reason for each in self._wrong.values())

    def changed(self, key: ObjectKey) -> None:
        """Look at an application, and at those that have its identity, with the next check."""
        self._due.add(key)
        self._due.update(self._wrong)

    async def run(self) -> None:
        """Write what has changed until cancelled."""
        while True:
            await self.clock.sleep(CHECK_SECONDS)
            for key in [*self._due]:
                await self._show(key)
                await asyncio.sleep(0)

    async def _show(self, key: ObjectKey) -> None:
        identities = self.identities
        application = identities.directory.applications.store.get(key)
        finding = identities.finding(application) if application is not None else None
        self._due.discard(key)
        self._wrong.pop(key, None)
        if application is None:
            return
        if finding is not None:
            self._wrong[key] = finding[0]
            self._due.update(
                each.key for each in identities.directory.rivals(application) if each.key not in self._wrong
            )
        if not self.leads():
            self._due.add(key)
            return
        shown = conditions.find(application.status.conditions, IDENTITY_PROVED)
        if finding is None and (shown is None or shown.is_true):
            return
        reason, message = finding or (PROVED, "the binding has got a token from its issuer")
        condition = status.condition(application, finding is None, reason, message, type=IDENTITY_PROVED)
        if shown is not None and (shown.reason, shown.message) == (reason, message):
            return
        settled = conditions.set_condition(application.status.conditions, condition, self.clock.now())
        try:
            await self.writer.write_in_place(
                application, msgspec.structs.replace(application.status, conditions=settled)
            )
        except ApiError as error:
            _log.warning("the condition %s of CAPApplication %s is not written yet: %s", IDENTITY_PROVED, key, error)
            self._due.add(key)
            return
        if finding is not None and self.recorder is not None:
            self.recorder.send(application, Notice(reason, message, Severity.WARNING, action="Prove"))
