"""Credentials that open nothing any more are told, once, without holding up anything and without a word of the Secret.

The token server is a real one, on loopback and by HTTPS, that answers as a test asks.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path

import pytest
from aiohttp import web

from stellwerk.kube.types.identifiers import ObjectKey, ObjectRef
from stellwerk.kube.types.model import HasMetadata
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.local import certs
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.operators.btp.credentials import credentials
from stellwerk.operators.btp.credentials.credential_check import CredentialCheck, TokenServer
from stellwerk.operators.btp.credentials.credentials import BtpCredentials, SecretProblem
from stellwerk.operators.btp.credentials.token_request import CredentialsVerdict, TokenAnswer, TokenRequest
from stellwerk.operators.btp.settings import Settings
from stellwerk.render.sources.egress import EgressRules
from stellwerk.runtime.reconciler import Notice, Severity
from stellwerk.runtime.supervision.tasks import Border
from stellwerk.runtime.telemetry.metrics import Metrics
from stellwerk.testing.clock import FakeClock
from stellwerk.testing.eventually import eventually
from stellwerk.testing.scenarios.skipping_clock import let_others_run
from stellwerk.testing.servers.tls_server import Handler, TlsServer

LOOPBACK = EgressRules(networks=(ip_network("127.0.0.0/8"),))
TOKEN = json.dumps({"access_token": "a-token-that-nobody-may-see"}).encode()
REFUSAL = json.dumps({"error": "invalid_client", "error_description": "canary-clientsecret is wrong"}).encode()
UNREAD = credentials.unreadable(ObjectKey("kyma-system", "sap-btp-manager"), "the API server is away")


class Asking(TlsServer):
    """A server that also asks who calls. It knows one caller."""

    def __init__(self, handler: Handler) -> None:
        authority = certs.unkept_authority()
        super().__init__(handler, authority=authority)
        self.caller = authority.client("service-manager-client")

    def _identity(self, folder: Path) -> ssl.SSLContext:
        context = super()._identity(folder)
        context.load_verify_locations(cadata=self.authority)
        context.verify_mode = ssl.CERT_OPTIONAL
        return context


@dataclass
class Double:
    """A token server: how it answers, and what it was asked."""

    status: int = 200
    body: bytes = TOKEN
    headers: Mapping[str, str] = field(default_factory=dict)
    asked: list[Mapping[str, str]] = field(default_factory=list)
    callers: list[str] = field(default_factory=list)
    hangs: bool = False
    pieces: int = 1
    """In how many pieces the body is sent."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        assert (request.method, request.path) == ("POST", "/oauth/token")
        self.asked.append({key: str(value) for key, value in (await request.post()).items()})
        peer = request.transport.get_extra_info("peercert") if request.transport else None
        self.callers.append(str(peer.get("subject")) if peer else "")
        if self.hangs:
            await asyncio.get_running_loop().create_future()
        response = web.StreamResponse(status=self.status, headers=self.headers)
        await response.prepare(request)
        size = -(-len(self.body) // self.pieces)
        for begin in range(0, len(self.body), size or 1):
            await response.write(self.body[begin : begin + size])
            await let_others_run()
        return response


@dataclass
class World:
    """A check under way, and everything around it."""

    double: Double
    url: str
    server: TokenServer
    clock: FakeClock = field(default_factory=FakeClock)
    interval: timedelta = timedelta(minutes=10)
    secret: dict[str, str] = field(default_factory=dict)
    problem: SecretProblem | None = None
    operator: BtpOperator | None = field(
        default_factory=lambda: BtpOperator(metadata=ObjectMeta(name="btpoperator", namespace="kyma-system"))
    )
    reports: list[CredentialsVerdict | None] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.secret = {
            "clientid": "client-one",
            "clientsecret": "canary-clientsecret",
            "sm_url": "https://sm.example.com",
            "tokenurl": self.url,
            "cluster_id": "cluster-one",
        }
        self.check = CredentialCheck(
            self.server,
            settings=lambda: Settings(credential_check_interval=self.interval),
            leader=lambda: self.operator,
            credentials=self.credentials,
            report=self.reports.append,
            recorder=self,
            border=Border(Metrics(), self.clock),
        )

    async def credentials(self) -> BtpCredentials | SecretProblem:
        data = {key: base64.b64encode(value.encode()).decode() for key, value in self.secret.items()}
        return self.problem or credentials.read(data, {}, default_namespace="kyma-system")

    def send(self, obj: HasMetadata, notice: Notice, related: ObjectRef | None = None) -> None:
        assert obj is self.operator
        self.notices.append(notice)

    @property
    def reasons(self) -> list[str]:
        return [notice.reason for notice in self.notices]

    async def passes(self, **time: float) -> None:
        """So much time passes, after which the next question, if it is due, is answered."""
        await self.clock.advance(timedelta(**time).total_seconds())
        await self.check.round()


@asynccontextmanager
async def server(double: Double) -> AsyncIterator[tuple[str, TokenServer]]:
    async with TlsServer(double.answer) as listening:
        tokens = TokenServer(rules=LOOPBACK, authority=listening.authority.encode())
        try:
            yield listening.url, tokens
        finally:
            await tokens.close()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    double = Double()
    async with server(double) as (url, tokens):
        yield World(double, url, tokens)


async def test_good_credentials_are_asked_about_at_the_interval_and_nobody_is_told(world: World) -> None:
    await world.passes(seconds=0)
    await world.passes(minutes=9)
    assert world.reports == [CredentialsVerdict.ACCEPTED]
    await world.passes(minutes=2)
    assert world.reports == [CredentialsVerdict.ACCEPTED] * 2
    assert not world.notices
    asked = {"grant_type": "client_credentials", "client_id": "client-one", "client_secret": "canary-clientsecret"}
    assert world.double.asked == [asked] * 2


async def test_an_interval_that_gets_shorter_is_in_force_at_once_and_a_longer_one_after_the_next_question(
    world: World,
) -> None:
    world.interval = timedelta(days=1)
    await world.passes(seconds=0)
    world.interval = timedelta(minutes=10)
    await world.passes(seconds=0)
    await world.passes(minutes=9)
    assert len(world.reports) == 1
    await world.passes(minutes=2)
    assert len(world.reports) == 2
    world.interval = timedelta(days=1)
    await world.passes(minutes=11)
    assert len(world.reports) == 3
    await world.passes(hours=22)
    assert len(world.reports) == 3


@pytest.mark.req("R-801")
async def test_credentials_that_are_refused_are_told_once_and_so_is_the_end_of_it(world: World) -> None:
    await world.passes(seconds=0)
    world.double.status, world.double.body = 401, REFUSAL
    await world.passes(minutes=11)
    await world.passes(minutes=11)
    assert world.reports[1:] == [CredentialsVerdict.REFUSED] * 2
    assert world.reasons == ["CredentialsRefused"]
    refused = world.notices[0]
    assert refused.severity is Severity.WARNING
    assert refused.message == (
        "SAP Service Manager refuses the credentials in the Secret kyma-system/sap-btp-manager (invalid_client): "
        "services can neither be made nor removed. Have them issued again: is their service binding in the SAP BTP "
        "cockpit still there?"
    )

    world.double.status, world.double.body = 200, TOKEN
    await world.passes(minutes=11)
    assert world.reasons == ["CredentialsRefused", "CredentialsAccepted"]
    assert world.notices[1].severity is Severity.NORMAL


async def test_other_credentials_are_asked_about_at_once_and_told_of_though_they_are_no_better(world: World) -> None:
    world.double.status, world.double.body = 401, REFUSAL
    await world.passes(seconds=0)
    world.secret["clientsecret"] = "another"
    await world.passes(seconds=1)
    assert [one["client_secret"] for one in world.double.asked] == ["canary-clientsecret", "another"]
    assert world.reasons == ["CredentialsRefused", "CredentialsRefused"]


async def test_a_server_that_is_out_for_a_moment_is_nobodys_news_and_one_that_stays_out_is(world: World) -> None:
    world.double.status, world.double.body = 503, b"canary-clientsecret"
    await world.passes(seconds=0)
    assert not world.notices
    await world.passes(seconds=64)
    await world.passes(seconds=64)
    assert world.reports == [CredentialsVerdict.UNANSWERED] * 3
    assert world.reasons == ["CredentialsNotChecked"]
    assert "(HTTP 503)" in world.notices[0].message
    world.double.status, world.double.body = 200, TOKEN
    await world.passes(seconds=64)
    assert world.reasons == ["CredentialsNotChecked", "CredentialsAccepted"]


async def test_without_an_interval_a_cr_or_a_complete_secret_nothing_is_asked(world: World) -> None:
    operator, world.operator = world.operator, None
    await world.passes(seconds=0)
    world.operator = operator
    world.problem = credentials.missing(ObjectKey("kyma-system", "sap-btp-manager"))
    await world.passes(seconds=0)
    world.problem, world.interval = None, timedelta()
    await world.passes(seconds=0)
    assert not world.double.asked
    assert world.reports == [None]


async def test_a_secret_that_could_not_be_read_is_read_again_after_a_minute_without_a_change(world: World) -> None:
    world.problem = UNREAD
    running = asyncio.create_task(world.check.run())
    await world.clock.until_sleeping(within=10)
    world.problem = None
    await world.clock.advance(64)
    await eventually(lambda: bool(world.reports), describe="it asks")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_secret_that_could_not_be_read_for_a_moment_is_nobodys_news(world: World) -> None:
    world.double.status, world.double.body = 401, REFUSAL
    await world.passes(seconds=0)
    world.problem = UNREAD
    await world.passes(seconds=1)
    world.problem = None
    await world.passes(seconds=64)
    assert world.reports == [CredentialsVerdict.REFUSED] * 2
    assert world.reasons == ["CredentialsRefused"]


async def test_it_asks_when_it_is_switched_on_and_a_server_that_hangs_holds_up_no_stop(world: World) -> None:
    world.interval = timedelta()
    running = asyncio.create_task(world.check.run())
    await asyncio.sleep(0)
    world.double.hangs, world.interval = True, timedelta(hours=1)
    world.check.wake()
    await eventually(lambda: bool(world.double.asked), describe="it asks")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def answer_of(url: str, tokens: TokenServer, **more: str) -> TokenAnswer:
    data = {"clientid": "me", "clientsecret": "canary", "tokenurl": url, **more}
    return await tokens.ask(TokenRequest.of({key: base64.b64encode(it.encode()).decode() for key, it in data.items()}))


@pytest.mark.req("R-601")
async def test_only_https_is_spoken_and_neither_a_redirect_nor_our_own_host_is_called() -> None:
    double = Double(302, b"", {"Location": "https://elsewhere.example.com"})
    async with server(double) as (url, tokens):
        assert await answer_of(url, tokens) == TokenAnswer(CredentialsVerdict.UNANSWERED, "HTTP 302")
        no_url = TokenAnswer(CredentialsVerdict.UNANSWERED, "the token URL is no https URL that may be called")
        for other in (url.replace("https", "http"), "nonsense", "https://[", "ftp://127.0.0.1"):
            assert await answer_of(other, tokens) == no_url
        standard = TokenServer()
        assert await answer_of(url, standard) == no_url
        await standard.close()
    assert len(double.asked) == 1


async def test_a_server_whom_the_system_does_not_trust_gets_nothing() -> None:
    double = Double()
    async with server(double) as (url, _):
        stranger = TokenServer(rules=LOOPBACK)
        answer = await answer_of(url, stranger)
        await stranger.close()
    assert answer == TokenAnswer(CredentialsVerdict.UNANSWERED, "no connection: its certificate is not trusted")
    assert not double.asked


async def test_a_server_that_never_answers_is_waited_for_so_long_and_no_longer() -> None:
    double = Double(hangs=True)
    async with TlsServer(double.answer) as listening:
        tokens = TokenServer(rules=LOOPBACK, authority=listening.authority.encode(), patience_seconds=0.2)
        assert await answer_of(listening.url, tokens) == TokenAnswer(CredentialsVerdict.UNANSWERED, "no answer in time")
        await tokens.close()


async def test_an_answer_that_comes_in_pieces_is_read_to_its_end() -> None:
    async with server(Double(pieces=3)) as (url, tokens):
        assert await answer_of(url, tokens) == TokenAnswer(CredentialsVerdict.ACCEPTED)


async def test_an_answer_that_is_too_large_is_none() -> None:
    async with server(Double(body=TOKEN + b" " * 65_536)) as (url, tokens):
        too_large = TokenAnswer(CredentialsVerdict.UNANSWERED, "the answer has more than 64 KiB")
        assert await answer_of(url, tokens) == too_large


async def test_a_certificate_is_shown_where_the_secret_has_one() -> None:
    double = Double()
    async with (listening := Asking(double.answer)):
        tokens = TokenServer(rules=LOOPBACK, authority=listening.authority.encode())
        pair = {"tls.crt": listening.caller.certificate.decode(), "tls.key": listening.caller.key.decode()}
        answer = await answer_of("https://unused.example.com", tokens, certurl=listening.url, **pair)
        await tokens.close()
    assert answer == TokenAnswer(CredentialsVerdict.ACCEPTED)
    assert double.asked == [{"grant_type": "client_credentials", "client_id": "me"}]
    assert "service-manager-client" in double.callers[0]


async def test_a_certificate_that_is_none_is_as_good_as_refused() -> None:
    broken = {"tls.crt": "no PEM", "tls.key": "canary"}
    tokens = TokenServer(rules=LOOPBACK)
    answer = await answer_of("https://127.0.0.1:1", tokens, **broken)
    await tokens.close()
    assert answer == TokenAnswer(CredentialsVerdict.REFUSED, "tls.crt and tls.key are no certificate and its key")


URLS = [
    "https://:443",
    "https://xn--/",
    "https://x:99999",
    "https://x:-1",
    "https://[::1",
    "https://[fe80::1%25eth0]/",
    "http://plain.example.com",
    "",
    "\0",
    "https://" + "a" * 70_000 + ".example",
    "https://user:canary-in-the-url@127.0.0.1/",
    "https://169.254.169.254",
    "https://0x7f.1",
    "https://localhost:1",
    "javascript:canary",
]


@pytest.mark.req("R-413", "R-601")
@pytest.mark.parametrize("url", URLS, ids=lambda url: repr(url[:40]))
async def test_a_url_that_nobody_can_call_is_an_answer_of_its_own(url: str) -> None:
    server = TokenServer()
    try:
        answer = await server.ask(TokenRequest(url=url, client_id="client-one", client_secret="canary"))
    finally:
        await server.close()

    assert answer == TokenAnswer(CredentialsVerdict.UNANSWERED, "the token URL is no https URL that may be called")


@pytest.mark.req("R-413")
@pytest.mark.parametrize(
    "noise", [b"noise", b"\0" * 1000, b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"]
)
async def test_a_client_certificate_that_is_none_is_refused_before_anything_is_sent(noise: bytes) -> None:
    server = TokenServer()
    try:
        request = TokenRequest(url="https://token.invalid/", client_id="c", certificate=noise, key=noise)
        answer = await server.ask(request)
    finally:
        await server.close()

    assert answer.verdict is CredentialsVerdict.REFUSED
    assert answer.why == "tls.crt and tls.key are no certificate and its key"
