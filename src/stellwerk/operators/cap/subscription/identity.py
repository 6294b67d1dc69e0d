"""Which application answers for an identity, of all that claim it, and what is shown of one that does not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.reasons import ApplicationReason
from stellwerk.operators.cap.subscription.callers import client_certificates, tokens
from stellwerk.operators.cap.subscription.callers.bindings import Bindings, Trust
from stellwerk.operators.cap.subscription.callers.client_certificates import ClientCertificate
from stellwerk.operators.cap.subscription.callers.proofs import Proofs, ProofState
from stellwerk.operators.cap.subscription.callers.tokens import Claims
from stellwerk.operators.cap.subscription.directory import Directory
from stellwerk.operators.cap.subscription.plan import Authorization
from stellwerk.operators.cap.subscription.registries import Protocol

CALM = ApplicationReason.Proved, "the binding has got a token from its issuer"
"""Reason and message of the condition of an application that answers again."""
UNPROVED, SHARED = ApplicationReason.IdentityUnproved, ApplicationReason.IdentityShared
"""Reasons of the condition."""

_NOT_YET = (
    "requests of the registry get 503 until then; SERVE_UNPROVED=true of the subscription server has them answered "
    "before, if no other CAPApplication claims this identity"
)
_NEVERTHELESS = "requests of the registry are answered if no other CAPApplication claims this identity (SERVE_UNPROVED)"

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

    def is_known(self, application: CAPApplication) -> bool:
        """Whether each binding of an application was tried well enough to be shown as proved or not."""
        proofs = (self.proofs.of(application, protocol) for protocol in Protocol)
        return all(proof is None or proof.is_judged for proof in proofs)

    def finding(self, application: CAPApplication) -> tuple[str, str] | None:
        """Why an application does not answer for one of its registries: a reason and a message; None if it does."""
        for protocol in Protocol:
            proof = self.proofs.of(application, protocol)
            if proof is None or not proof.is_judged:
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
