"""Which applications have proved their identity, and which of several answers."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, cast

import msgspec
import pytest
from tests.unit.cap.subscription.test_plan import NOW

from stellwerk.api.core import Secret
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import metadata_of
from stellwerk.kube.types.object_meta import Condition, ObjectMeta
from stellwerk.kube.watch.watch_states import Changed, Synced
from stellwerk.operators.cap.kinds.application import (
    IDENTITY_PROVED,
    ApplicationSpec,
    ApplicationStatus,
    BtpServices,
    CAPApplication,
    ServiceInfo,
)
from stellwerk.operators.cap.subscription import identity
from stellwerk.operators.cap.subscription.callers import proofs as identity_proofs
from stellwerk.operators.cap.subscription.callers.bindings import Bindings
from stellwerk.operators.cap.subscription.callers.proofs import Proofs, ProofState, is_issuer
from stellwerk.operators.cap.subscription.callers.tokens import Claims
from stellwerk.operators.cap.subscription.condition_report import CHECK_SECONDS, ConditionReport
from stellwerk.operators.cap.subscription.directory import Directory
from stellwerk.operators.cap.subscription.identity import SHARED, UNPROVED, Identities
from stellwerk.operators.cap.subscription.outgoing import HttpAnswer, NoAnswer, Outgoing
from stellwerk.operators.cap.subscription.plan import Authorization
from stellwerk.operators.cap.subscription.registries import Protocol
from stellwerk.operators.cap.subscription.services import ServiceReader
from stellwerk.runtime.control.status_writer import StatusWriter
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.supervision.tasks import background
from stellwerk.testing.clock import FakeClock
from stellwerk.testing.eventually import eventually

DOMAIN = "authentication.eu10.example.com"
ISSUER = f"https://provider.{DOMAIN}"
CALLER = Claims(
    issuer=f"registry.{DOMAIN}",
    audiences=frozenset({"sb-shop"}),
    scopes=frozenset({"shop!t1.Callback"}),
    client_id="sb-registry",
    issued_at=0.0,
)
GRANTED, REFUSED, UNKNOWN = Authorization.GRANTED, Authorization.REFUSED, Authorization.UNKNOWN


@dataclass
class Issuers:
    """Give a token to who has the secret, or fail; and remember who asked."""

    good: str = "secret"
    hanging: set[str] = field(default_factory=set)
    problem: NoAnswer | None = None
    asked: list[str] = field(default_factory=list)

    async def call(self, method: str, url: str, credentials: Any = None, *, form: Any = None) -> HttpAnswer:
        self.asked.append(url)
        if any(host in url for host in self.hanging):
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(0)
        if self.problem is not None:
            raise self.problem
        secret = base64.b64decode(credentials.header.partition(" ")[2]).decode().partition(":")[2]
        return HttpAnswer(200, b'{"access_token": "token"}') if secret == self.good else HttpAnswer(401, b"{}")


@dataclass
class World:
    """Applications of several namespaces, each with a binding Secret."""

    issuers: Issuers
    clock: FakeClock
    secrets: dict[str, dict[str, str]] = field(default_factory=dict)
    uaa: dict[str, dict[str, str]] = field(default_factory=dict)
    applications: dict[str, CAPApplication] = field(default_factory=dict)
    version: int = 0

    def __post_init__(self) -> None:
        manager = Manager(Client.connect(ClusterConfig(server="http://nowhere.invalid")), clock=self.clock)
        self.directory = Directory.opened(manager)
        self.bindings = Bindings(
            services=ServiceReader(cast("Client", self)),
            clock=self.clock,
            applications=self.directory.applications,
            secrets=lambda namespace: manager.informer(metadata_of(Secret), namespace=namespace),
            release=manager.release,
        )
        outgoing = cast("Outgoing", self.issuers)
        self.proofs = Proofs(self.bindings, outgoing, self.clock, self.directory.applications)
        self.identities = Identities(self.directory, self.bindings, self.proofs)

    async def find(self, kind: type[Secret], name: str, namespace: str) -> Secret | None:
        await asyncio.sleep(0)
        if namespace not in self.secrets:
            return None
        content = self.uaa[namespace] if name == "xsuaa" else self.secrets[namespace]
        data = {"credentials": base64.b64encode(json.dumps(content).encode()).decode()}
        return Secret(metadata=ObjectMeta(name=name, namespace=namespace), data=data)

    async def has(
        self, namespace: str, age: int = 0, *, uaa: dict[str, str] | None = None, **credentials: str
    ) -> CAPApplication:
        """The application of a namespace with a binding of these credentials."""
        common = {"clientid": "sb-shop", "clientsecret": "secret", "url": ISSUER, "uaadomain": DOMAIN}
        self.secrets[namespace] = {**common, **credentials}
        self.uaa[namespace] = uaa or {"xsappname": "shop!t1"}
        return await self.changed(namespace, age)

    async def changed(self, namespace: str, age: int = 0) -> CAPApplication:
        """The application as it is seen after its Secret has changed."""
        self.version += 1
        services = tuple(ServiceInfo(name=each, class_name=each, secret=each) for each in ("saas-registry", "xsuaa"))
        made = CAPApplication(
            metadata=ObjectMeta(
                name="shop",
                namespace=namespace,
                uid=namespace,
                resource_version=str(self.version),
                creation_timestamp=NOW - timedelta(days=age),
                annotations={"version": str(self.version)},
            ),
            spec=ApplicationSpec(
                btp_app_name="shop", provider_subaccount_id="provider", btp=BtpServices(services=services)
            ),
        )
        self.applications[namespace] = made
        self.directory.applications.take(Changed(made))
        await eventually(lambda: not self.proofs.is_busy or bool(self.issuers.hanging))
        return made

    def gone(self, namespace: str) -> None:
        """The application of a namespace was deleted."""
        del self.applications[namespace]
        self.version += 1
        self.directory.applications.take(Synced(tuple(self.applications.values()), str(self.version)))

    def answers(self, *applications: CAPApplication) -> list[Authorization]:
        """Whether each answers the registry."""
        return [self.identities.authorization(CALLER, each) for each in applications]

    def reasons(self, *applications: CAPApplication) -> list[str]:
        """Why each does not; empty if it does."""
        return [(self.identities.finding(each) or ("", ""))[0] for each in applications]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def issuers() -> Issuers:
    return Issuers()


@pytest.fixture
async def world(issuers: Issuers, clock: FakeClock) -> AsyncIterator[World]:
    made = World(issuers, clock)
    made.directory.applications.take(Synced((), "0"))
    async with background() as tasks:
        tasks.start(made.bindings.run(), "bindings")
        tasks.start(made.proofs.run(), "proofs")
        yield made


@pytest.mark.req("R-916")
async def test_an_application_answers_when_its_binding_has_got_a_token(world: World, issuers: Issuers) -> None:
    shop = await world.has("home", clientsecret="wrong")
    assert world.answers(shop) == [UNKNOWN]
    assert world.reasons(shop) == [UNPROVED]
    _, message = world.identities.finding(shop) or ("", "")
    assert "its issuer refuses the credentials: HTTP 401" in message
    assert "SERVE_UNPROVED" in message
    assert "kubectl get secret saas-registry -n home" in message
    assert "wrong" not in message
    shop = await world.has("home")
    assert world.answers(shop) == [GRANTED]
    assert world.reasons(shop) == [""]


@pytest.mark.req("R-916")
async def test_a_proof_is_kept_for_a_version_of_the_credentials(world: World, issuers: Issuers) -> None:
    shop = await world.has("home")
    await world.changed("home")
    assert len(issuers.asked) == 1, "the credentials are the same"
    issuers.problem = NoAnswer("no answer in time")
    shop = await world.has("home", clientsecret="next")
    assert world.answers(shop) == [UNKNOWN], "another version is another proof"


@pytest.mark.req("R-916")
@pytest.mark.parametrize("age", [1, 9])
async def test_of_two_with_one_identity_the_proved_one_answers_whichever_is_older(world: World, age: int) -> None:
    victim = await world.has("home", age=5)
    thief = await world.has("evil", age=age, clientsecret="guessed")
    assert world.answers(victim, thief) == [GRANTED, REFUSED]
    assert world.reasons(victim, thief) == ["", UNPROVED]
    assert "home/shop has proved this identity" in (world.identities.finding(thief) or ("", ""))[1]


@pytest.mark.req("R-916")
async def test_of_two_that_are_proved_none_answers_until_one_is_gone(world: World) -> None:
    one, two = await world.has("one"), await world.has("two")
    assert world.answers(one, two) == [UNKNOWN, UNKNOWN]
    assert world.reasons(one, two) == [SHARED, SHARED]
    assert "two/shop" in (world.identities.finding(one) or ("", ""))[1]
    assert "one/shop" in (world.identities.finding(two) or ("", ""))[1]
    world.gone("one")
    assert world.answers(two) == [GRANTED]
    assert world.reasons(two) == [""]


@pytest.mark.req("R-916")
async def test_one_that_has_never_proved_anything_keeps_none_from_answering(world: World) -> None:
    unreadable = await world.changed("evil", age=9)
    victim = await world.has("home")
    assert world.answers(unreadable, victim) == [REFUSED, GRANTED]


@pytest.mark.req("R-916", "R-705")
async def test_while_the_secret_of_a_proved_one_is_absent_no_other_gets_its_requests(world: World) -> None:
    await world.has("home", age=9)
    del world.secrets["home"]
    older = await world.changed("home", age=9)
    younger = await world.has("other")
    assert world.answers(older, younger) == [UNKNOWN, UNKNOWN]


@pytest.mark.req("R-916")
async def test_credentials_of_another_client_do_not_claim_an_identity(world: World) -> None:
    own = await world.has("home")
    other = await world.has("other", clientid="sb-other", uaa={"xsappname": "other!t2"})
    assert world.answers(own, other) == [GRANTED, REFUSED]
    assert world.reasons(own, other) == ["", ""]


@pytest.mark.req("R-916")
async def test_a_setting_lets_the_only_one_answer_without_a_proof(world: World) -> None:
    world.identities = Identities(world.directory, world.bindings, world.proofs, serves_unproved=True)
    only = await world.has("home", clientsecret="wrong")
    assert world.answers(only) == [GRANTED]
    other = await world.has("other", clientsecret="wrong")
    assert world.answers(only, other) == [UNKNOWN, UNKNOWN]
    other = await world.has("other")
    assert world.answers(only, other) == [REFUSED, GRANTED]


@pytest.mark.req("R-916")
async def test_an_issuer_that_gave_no_token_is_asked_again_with_growing_pauses(
    world: World, issuers: Issuers, clock: FakeClock
) -> None:
    issuers.problem = NoAnswer("no answer in time")
    shop = await world.has("home")
    assert world.proofs.of(shop, Protocol.SAAS) is not None
    for _ in range(60):
        await clock.advance(identity_proofs.CHECK_SECONDS)
        await eventually(lambda: not world.proofs.is_busy)
    assert 4 <= len(issuers.asked) <= 8
    issuers.problem, before = None, len(issuers.asked)
    await clock.advance(identity_proofs.ASKED_AGAIN_SECONDS)
    await world.identities.settled([shop])
    await eventually(lambda: not world.proofs.is_busy)
    assert len(issuers.asked) == before + 1, "a request that waits has it asked before that"
    assert world.answers(shop) == [GRANTED]


@pytest.mark.req("R-916")
async def test_an_issuer_that_did_not_answer_once_is_asked_again_before_anything_is_shown(
    world: World, issuers: Issuers, clock: FakeClock
) -> None:
    issuers.problem = NoAnswer("no connection")
    shop = await world.has("home")
    assert (world.answers(shop), world.reasons(shop), world.identities.is_known(shop)) == ([UNKNOWN], [""], False)
    for _ in range(2):
        await clock.advance(identity_proofs.CHECK_SECONDS)
        await eventually(lambda: not world.proofs.is_busy)
    assert (world.reasons(shop), world.identities.is_known(shop)) == ([UNPROVED], True)


@pytest.mark.req("R-916")
@pytest.mark.parametrize(("is_known", "reason"), [(False, UNPROVED), (True, "Proved")])
async def test_a_condition_stays_as_it_is_while_it_is_not_known_whether_it_is_true(
    world: World, clock: FakeClock, is_known: bool, reason: str
) -> None:
    shop = await world.has("home")
    former = Condition(type=IDENTITY_PROVED, status="False", reason=UNPROVED, message="no token")
    metadata = msgspec.structs.replace(shop.metadata, resource_version="9")
    status = msgspec.structs.replace(shop.status, conditions=(former,))
    shown = msgspec.structs.replace(shop, metadata=metadata, status=status)
    world.directory.applications.take(Changed(shown))
    written: list[ApplicationStatus] = []
    looked: list[bool] = []

    def leads() -> bool:
        looked.append(True)
        return True

    class Filled:
        applications, is_filled = world.directory.applications, True

    class Writer:
        async def write_in_place(self, _: CAPApplication, status: ApplicationStatus) -> None:
            written.append(status)

    report = ConditionReport(
        type=IDENTITY_PROVED,
        calm=identity.CALM,
        find=lambda _: None,
        is_known=lambda _: is_known,
        directory=cast("Directory", Filled()),
        writer=cast("StatusWriter", Writer()),
        clock=clock,
        leads=leads,
    )
    report.changed(shop.key)
    async with background() as tasks:
        tasks.start(report.run(), "report")
        for _ in range(2):
            await clock.advance(CHECK_SECONDS)
    assert looked == [True], "an attempt that ends has it looked at again"
    latest = written[-1] if written else shown.status
    assert [each.reason for each in latest.conditions] == [reason]


@pytest.mark.req("R-916", "R-922")
async def test_issuers_of_one_namespace_that_hang_keep_no_other_from_its_proof(world: World, issuers: Issuers) -> None:
    issuers.hanging = {"evil."}
    for number in range(30):
        service = ServiceInfo(name="saas-registry", class_name="saas-registry", secret="binding")
        world.secrets["evil"] = {"url": f"https://evil.{DOMAIN}", "uaadomain": DOMAIN, "clientid": f"{number}"}
        made = CAPApplication(
            metadata=ObjectMeta(name=f"app-{number}", namespace="evil", uid=str(number), resource_version="1"),
            spec=ApplicationSpec(btp_app_name=f"app-{number}", btp=BtpServices(services=(service,))),
        )
        world.directory.applications.take(Changed(made))
    shop = await world.has("home")
    await world.identities.settled([shop])
    assert world.answers(shop) == [GRANTED]
    assert sum("evil" in each for each in issuers.asked) == 1


@pytest.mark.req("R-916", "R-801")
async def test_an_attempt_that_begins_again_after_an_end_loses_no_application(
    issuers: Issuers, clock: FakeClock
) -> None:
    world = World(issuers, clock)
    world.directory.applications.take(Synced((), "0"))
    issuers.hanging = {"provider."}
    async with background() as tasks:
        tasks.start(world.bindings.run(), "bindings")
        running = asyncio.create_task(world.proofs.run())
        shop = await world.has("home")
        await eventually(lambda: issuers.asked)
        running.cancel()
        await asyncio.wait([running])
        issuers.hanging = set()
        tasks.start(world.proofs.run(), "proofs")
        await eventually(lambda: not world.proofs.is_busy)
        assert world.answers(shop) == [GRANTED]


def for_audience(*names: str) -> Claims:
    """The caller, with a token that names these audiences."""
    return replace(CALLER, audiences=frozenset(names))


@pytest.mark.req("R-916")
async def test_credentials_of_its_own_prove_no_name_of_another_application(world: World) -> None:
    """The thief has good credentials for its own registry and its own XSUAA, and writes the name of the victim."""
    own = {"clientid": "sb-own!t9", "clientsecret": "secret", "url": ISSUER}
    victim = await world.has("home")
    thief = await world.has("evil", age=9, clientid="sb-own", uaa={**own, "xsappname": "shop!t1"})
    for caller in (for_audience("sb-shop"), for_audience("sb-shop", "shop!t1")):
        assert world.identities.authorization(caller, victim) is GRANTED
        assert world.identities.authorization(caller, thief) is REFUSED
    world.gone("home")
    assert world.identities.authorization(for_audience("shop!t1"), thief) is UNKNOWN


@pytest.mark.req("R-916")
@pytest.mark.parametrize("client", ["sb-shop!t1", "sb-1234!b5|shop!t1"])
async def test_a_name_counts_as_an_audience_if_its_own_binding_has_got_a_token(world: World, client: str) -> None:
    caller, uaa = for_audience("shop!t1"), {"clientid": client, "url": ISSUER, "xsappname": "shop!t1"}
    shop = await world.has("home", uaa={**uaa, "clientsecret": "guessed"})
    assert world.identities.authorization(caller, shop) is UNKNOWN
    shop = await world.has("home", uaa={**uaa, "clientsecret": "secret"})
    assert world.identities.authorization(caller, shop) is GRANTED


@pytest.mark.req("R-916")
@pytest.mark.parametrize(
    ("host", "is_good"),
    [
        (f"provider.{DOMAIN}", True),
        (DOMAIN, True),
        (f"provider.cert.{DOMAIN}", True),
        ("provider.authentication.cert.eu10.example.com", True),
        (f"app.users.{DOMAIN}", False),
        ("provider.authentication.eu11.example.com", False),
        (f"evil{DOMAIN}", False),
        ("provider.authentication.eu10.cert.example.com", False),
    ],
)
def test_a_uaa_domain_stands_for_its_own_issuers_only(host: str, is_good: bool) -> None:
    assert is_issuer(f"https://{host}", DOMAIN) is is_good


@pytest.mark.req("R-916")
@pytest.mark.parametrize("url", ["", "https://", "http://provider.example.com", "https://a@provider.example.com", "x"])
def test_what_is_no_url_is_no_issuer(url: str) -> None:
    assert not is_issuer(url, "example.com")
    assert not is_issuer(url, "")


@pytest.mark.req("R-916")
def test_a_short_domain_does_not_stand_for_the_certificates_of_another_owner() -> None:
    assert not is_issuer("https://a.ondemand.cert.com", "ondemand.com")


@pytest.mark.req("R-916")
async def test_a_binding_that_names_a_server_of_a_user_is_not_proved_by_it(world: World, issuers: Issuers) -> None:
    shop = await world.has("home", uaadomain="example.com", url=f"https://app.users.{DOMAIN}")
    proof = world.proofs.of(shop, Protocol.SAAS)
    assert proof is not None
    assert proof.state is ProofState.UNPROVABLE
    assert not issuers.asked
