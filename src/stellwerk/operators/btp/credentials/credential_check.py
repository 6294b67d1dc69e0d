"""Do the credentials still open SAP Service Manager? Asked of its token server now and then; off by default.

A binding of SAP Service Manager that a user deletes in the cockpit leaves credentials behind that look as good as
ever: the module is Ready, and every service instance fails. With `CredentialCheckInterval` a token is asked for at that
interval, at once when the credentials change, and after a minute where no answer came or the Secret could not be read.
The result is reported by Events on the BtpOperator, one when it changes and not one for each question, and by two
metrics. The condition stays as it is: the module works, and Lifecycle Manager acts on its state.

It runs outside of the reconcile workers, so a slow server delays no pass; only the leader asks. The address is the
Secret's, so the rules for addresses that others wrote hold: https alone, no redirects, and never our own loopback or a
cloud's metadata. No text names the address or holds anything else of the Secret. Trusted are the authorities of the
system; `SSL_CERT_FILE` names others, as for every program on OpenSSL.
"""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Protocol

from stellwerk.kube.types.errors import LoginFailed
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.operators.btp.credentials.credentials import BtpCredentials, SecretProblem
from stellwerk.operators.btp.credentials.token_request import CredentialsVerdict, TokenAnswer, TokenRequest, judged
from stellwerk.operators.btp.settings import Settings
from stellwerk.render.errors import EgressRefused, SourceError, Unavailable
from stellwerk.render.sources import http
from stellwerk.render.sources.egress import EgressRules
from stellwerk.runtime.clock import happens_within
from stellwerk.runtime.control.controller import EventSink
from stellwerk.runtime.control.periodic import JITTER
from stellwerk.runtime.reconciler import Notice, Severity
from stellwerk.runtime.supervision.tasks import Border

RETRY_SECONDS = 60.0
"""How soon a question without an answer is asked again."""
PATIENCE_SECONDS = 20.0
_LARGEST_ANSWER_BYTES = 64 * 1024
RULES = EgressRules(private=True)

ACCEPTED, REFUSED, UNANSWERED = "CredentialsAccepted", "CredentialsRefused", "CredentialsNotChecked"
"""The reasons of the Events."""

_log = logging.getLogger(__name__)


class TokenServer:
    """Asks for tokens. `authority` is trusted in the place of the system's; tests need that."""

    def __init__(
        self, *, rules: EgressRules = RULES, authority: bytes = b"", patience_seconds: float = PATIENCE_SECONDS
    ) -> None:
        self._patience_seconds = patience_seconds
        self._rules = rules
        self._authority = authority
        tls = ssl.create_default_context(cadata=authority.decode()) if authority else None
        self._client = http.HttpClient(tls=tls, user_agent="btp-manager", connect_seconds=5, silence_seconds=10)

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()

    async def ask(self, request: TokenRequest) -> TokenAnswer:
        """Whether there is a token for these credentials. Never raises for what a server or a Secret may hold."""
        try:
            async with asyncio.timeout(self._patience_seconds):
                return await self._ask(request)
        except TimeoutError:
            return TokenAnswer(CredentialsVerdict.UNANSWERED, "no answer in time")
        except EgressRefused:
            return TokenAnswer(CredentialsVerdict.UNANSWERED, "the token URL is no https URL that may be called")
        except Unavailable as error:
            return TokenAnswer(CredentialsVerdict.UNANSWERED, error.why)
        except SourceError:
            return TokenAnswer(CredentialsVerdict.UNANSWERED, "the answer is no HTTP")
        except LoginFailed:
            return TokenAnswer(CredentialsVerdict.REFUSED, "tls.crt and tls.key are no certificate and its key")

    async def _ask(self, request: TokenRequest) -> TokenAnswer:
        tls = http.TlsMaterial(self._authority, request.certificate, request.key) if request.certificate else None
        shown = replace(http.OriginCredentials.anonymous(request.url), tls=tls)
        call = replace(http.HttpCall.of("POST", request.url, self._rules, shown), form=request.form)
        async with self._client.hop(call) as response:
            return judged(response.status, await http.bounded_body(response, _LARGEST_ANSWER_BYTES))


class TokenService(Protocol):
    """Checks whether credentials are good; `TokenServer` is one."""

    async def ask(self, request: TokenRequest) -> TokenAnswer: ...
    async def close(self) -> None: ...


class CredentialCheck:
    """Asks at the interval in force, and reports changes. A `manager.Worker`."""

    name = "credential-check"

    def __init__(
        self,
        server: TokenService,
        *,
        settings: Callable[[], Settings],
        leader: Callable[[], BtpOperator | None],
        credentials: Callable[[], Awaitable[BtpCredentials | SecretProblem]],
        report: Callable[[CredentialsVerdict | None], None],
        recorder: EventSink,
        border: Border,
    ) -> None:
        """`report` receives the result of each question; None: none is asked."""
        self._server = server
        self._settings = settings
        self._leader = leader
        self._credentials = credentials
        self._report = report
        self._recorder = recorder
        self._border = border
        self._clock = border.clock
        self._asked: TokenRequest | None = None
        self._due: float | None = None
        self._known: CredentialsVerdict | None = None
        self._silences = 0
        self._woken = asyncio.Event()
        self._stopping = False

    def wake(self) -> None:
        """Something has changed that may matter: the Secret, the interval, who leads."""
        self._woken.set()

    def stop(self) -> None:
        """Ask no further question."""
        self._stopping = True
        self._woken.set()

    async def run(self) -> None:
        """Ask until stopped or cancelled."""
        try:
            while not self._stopping:
                self._woken.clear()
                await self._look()
                await self._until_due()
        finally:
            await self._server.close()

    async def _look(self) -> None:
        if not await self._border.once(self.name, "the credential check", self.round):
            self._due = self._clock.monotonic() + RETRY_SECONDS

    async def round(self) -> None:
        """Ask, where that is due or the credentials are others than before. Nothing happens without a leading CR."""
        if self._settings().credential_check_interval <= timedelta():
            self._forget()
            return
        operator = self._leader()
        found = await self._credentials() if operator is not None and not operator.metadata.is_terminating else None
        if isinstance(found, SecretProblem) and found.may_pass:
            self._due = self._clock.monotonic() + self._pause_seconds(silent=True)
            return
        if operator is None or not isinstance(found, BtpCredentials):
            self._asked = self._due = None
            return
        request = TokenRequest.of(found.operand_data)
        now = self._clock.monotonic()
        if request == self._asked and self._due is not None and now < self._due:
            self._due = min(self._due, now + self._pause_seconds(silent=False))  # the interval may be shorter now
            return
        answer = await self._server.ask(request)
        others, self._asked = request != self._asked, request
        self._take(operator, answer, others=others)

    def _forget(self) -> None:
        self._asked = self._due = self._known = None
        self._silences = 0
        self._report(None)

    def _take(self, operator: BtpOperator, answer: TokenAnswer, *, others: bool) -> None:
        """`others`: these are not the credentials of the question before."""
        silent = answer.verdict is CredentialsVerdict.UNANSWERED
        self._silences = self._silences + 1 if silent else 0
        self._due = self._clock.monotonic() + self._pause_seconds(silent=silent)
        self._report(answer.verdict)
        refused_too = others and answer.verdict is CredentialsVerdict.REFUSED
        if (answer.verdict is self._known and not refused_too) or self._silences == 1:
            return  # nothing new; or a server that may be back in a minute
        notice = self._notice(answer)
        self._known = answer.verdict
        if notice is not None:
            _log.info("%s: %s: %s", operator.ref, notice.reason, notice.message)
            self._recorder.send(operator, notice)

    def _notice(self, answer: TokenAnswer) -> Notice | None:
        settings = self._settings()
        what = f"credentials in the Secret {settings.chart_namespace}/{settings.secret_name}"
        match answer.verdict:
            case CredentialsVerdict.REFUSED:
                text = (
                    f"SAP Service Manager refuses the {what} ({answer.why}): services can neither be made nor removed. "
                    "Have them issued again: is their service binding in the SAP BTP cockpit still there?"
                )
                return Notice(REFUSED, text, Severity.WARNING, action="Check")
            case CredentialsVerdict.UNANSWERED:
                text = f"whether the {what} are good could not be found out ({answer.why}); asked again within a minute"
                return Notice(UNANSWERED, text, Severity.WARNING, action="Check")
            case CredentialsVerdict.ACCEPTED if self._known is not None:
                return Notice(ACCEPTED, f"SAP Service Manager accepts the {what}", action="Check")
            case _:
                return None

    def _pause_seconds(self, *, silent: bool) -> float:
        interval = self._settings().credential_check_interval.total_seconds()
        return (min(interval, RETRY_SECONDS) if silent else interval) * (1.0 + random.uniform(-JITTER, JITTER))

    async def _until_due(self) -> None:
        if self._due is None:
            await self._woken.wait()
        else:
            await happens_within(self._clock, max(0.0, self._due - self._clock.monotonic()), self._woken)
