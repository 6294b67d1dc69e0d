"""When a caller that does not fit is refused for certain, and when the credentials only cannot be read."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import cast

import pytest

from stellwerk.api.core import Secret
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import ApiError
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import metadata_of
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.kube.watch.watch_states import Changed, Synced
from stellwerk.operators.cap.kinds.application import ApplicationSpec, BtpServices, CAPApplication, ServiceInfo
from stellwerk.operators.cap.subscription.callers.bindings import Bindings, Trust, Turns, are_decisive
from stellwerk.operators.cap.subscription.callers.client_certificates import CertificateRules
from stellwerk.operators.cap.subscription.callers.keys import Origin
from stellwerk.operators.cap.subscription.callers.tokens import TokenRules
from stellwerk.operators.cap.subscription.registries import Protocol
from stellwerk.operators.cap.subscription.services import ServiceReader
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.supervision.tasks import background
from stellwerk.testing.eventually import eventually

RULES = TokenRules(uaa_domain="home.example.com", client_id="sb-shop", app_name="shop!t1")
NAMES = json.dumps({"CN": "registry"})


def application(*classes: str, version: int = 1, name: str = "shop", namespace: str = "home") -> CAPApplication:
    services = tuple(ServiceInfo(name=each, class_name=each, secret=f"{each}-binding") for each in classes)
    spec = ApplicationSpec(btp_app_name="shop", btp=BtpServices(services=services))
    return CAPApplication(
        metadata=ObjectMeta(name=name, namespace=namespace, uid=f"{namespace}/{name}", resource_version=str(version)),
        spec=spec,
    )


@pytest.mark.req("R-705")
@pytest.mark.parametrize(
    ("classes", "trust", "expected"),
    [
        (("saas-registry", "xsuaa"), Trust(token=RULES), True),
        (("saas-registry", "xsuaa"), Trust(), False),
        (("saas-registry", "xsuaa"), Trust(token=replace(RULES, app_name="")), False),
        (("xsuaa",), Trust(), True),
        (("saas-registry",), Trust(), True),
    ],
)
def test_a_token_is_refused_for_certain_by_rules_or_without_the_services(
    classes: Sequence[str], trust: Trust, expected: bool
) -> None:
    assert are_decisive(application(*classes), Protocol.SAAS, trust) is expected


@pytest.mark.req("R-705")
@pytest.mark.parametrize(
    ("classes", "trust", "expected"),
    [
        (("subscription-manager",), Trust(certificate=CertificateRules(NAMES, NAMES)), True),
        (("subscription-manager",), Trust(), False),
        (("subscription-manager",), Trust(certificate=CertificateRules(NAMES, "")), False),
        (("subscription-manager",), Trust(certificate=CertificateRules("{", NAMES)), False),
        (("saas-registry", "xsuaa"), Trust(), True),
    ],
)
def test_a_certificate_is_refused_for_certain_by_rules_or_without_the_service(
    classes: Sequence[str], trust: Trust, expected: bool
) -> None:
    assert are_decisive(application(*classes), Protocol.SMS, trust) is expected


class Secrets:
    """Answers the reads of Secrets, at once or when it is let."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.asked = asyncio.Event()
        self.answered: list[str] = []
        """The namespaces of those read."""
        self.most: int | None = None
        """How many are read; the others wait for the test."""
        self.problem: ApiError | None = None
        self.lingers = False
        """Whether a read that is cancelled needs some turns of the event loop to end."""

    async def find(self, kind: type[Secret], name: str, namespace: str) -> Secret:
        if len(self.answered) == self.most:
            self.may_answer.clear()
        self.asked.set()
        try:
            await self.may_answer.wait()
        finally:
            for _ in range(3 if self.lingers else 0):
                await asyncio.sleep(0)
        if self.problem is not None:
            raise self.problem
        self.answered.append(namespace)
        domain = f"{namespace}.example.com"
        credentials = {
            "uaadomain": domain,
            "clientid": "sb-shop",
            "xsappname": "shop!t1",
            "url": f"https://uaa.{domain}",
        }
        data = {"credentials": base64.b64encode(json.dumps(credentials).encode()).decode()}
        return Secret(metadata=ObjectMeta(name=name, namespace=namespace), data=data)


def reading_from(secrets: Secrets) -> Bindings:
    manager = Manager(Client.connect(ClusterConfig(server="http://nowhere.invalid")))
    return Bindings(
        services=ServiceReader(cast("Client", secrets)),
        clock=manager.clock,
        applications=manager.informer(CAPApplication),
        secrets=lambda namespace: manager.informer(metadata_of(Secret), namespace=namespace),
        release=manager.release,
    )


@pytest.fixture
def secrets() -> Secrets:
    return Secrets()


@pytest.fixture
async def bindings(secrets: Secrets) -> AsyncIterator[Bindings]:
    """Those of no application, being read."""
    made = reading_from(secrets)
    made.applications.take(Synced((), "0"))
    async with background() as tasks:
        tasks.start(made.run(), "bindings")
        await eventually(lambda: made.unready() is None)
        yield made


SERVICES = ("saas-registry", "xsuaa")


@pytest.mark.req("R-705")
async def test_what_is_not_read_yet_being_read_or_could_not_be_read_is_no_refusal(
    secrets: Secrets, bindings: Bindings
) -> None:
    def is_known() -> bool:
        return bindings.are_known(first, Protocol.SAAS)

    def are_current() -> bool:
        return bindings.are_current

    first = application(*SERVICES)
    bindings.applications.take(Synced((first,), "1"))
    assert not is_known(), "it has not been read"
    await bindings.all_read()
    assert is_known()
    assert are_current()

    secrets.may_answer.clear()
    secrets.asked.clear()
    bindings.applications.take(Changed(application("xsuaa", "saas-registry", version=2)))
    assert not is_known(), "it has changed"
    await secrets.asked.wait()
    assert not is_known(), "it is being read"
    assert not are_current()
    secrets.problem = ApiError("no answer")
    secrets.may_answer.set()
    await bindings.all_read()
    assert not is_known(), "it could not be read"
    assert not are_current()
    assert bindings.of(first).token == RULES, "what was known goes on"


@pytest.mark.req("R-705")
async def test_a_request_waits_for_what_is_being_read_and_for_what_changed_meanwhile(
    secrets: Secrets, bindings: Bindings
) -> None:
    first = application(*SERVICES)
    secrets.may_answer.clear()
    bindings.applications.take(Synced((first,), "1"))
    await secrets.asked.wait()
    early = asyncio.create_task(bindings.read_of([first]))
    await asyncio.sleep(0)
    assert not early.done(), "the first read goes on"
    bindings.applications.take(Changed(application("xsuaa", "saas-registry", version=2)))
    late = asyncio.create_task(bindings.read_of([first]))
    await asyncio.sleep(0)
    secrets.may_answer.set()

    await late
    assert bindings.are_known(first, Protocol.SAAS)
    await early


@pytest.mark.req("R-705")
async def test_a_read_that_succeeds_makes_good_one_that_failed(secrets: Secrets, bindings: Bindings) -> None:
    first = application(*SERVICES)
    secrets.problem = ApiError("no answer")
    bindings.applications.take(Synced((first,), "1"))
    await bindings.all_read()
    secrets.problem = None
    bindings.applications.take(Changed(application("xsuaa", "saas-registry", version=2)))
    await bindings.all_read()
    assert bindings.are_known(first, Protocol.SAAS)


@pytest.mark.req("R-507", "R-922")
def test_namespaces_take_turns() -> None:
    turns = Turns()
    for each in ("many/1", "many/2", "many/3", "many/4", "few/1", "few/2", "one/1", "many/1"):
        turns.put(ObjectKey(*each.split("/")))
    turns.prefer(ObjectKey("many", "4"))
    turns.prefer(ObjectKey("absent", "1"))
    assert len(turns) == 7
    found = [str(turns.take()) for _ in range(len(turns))]
    assert found == ["many/4", "few/1", "one/1", "many/1", "few/2", "many/2", "many/3"]


@pytest.mark.req("R-507", "R-308", "R-923")
async def test_what_is_read_counts_while_others_are_still_being_read(secrets: Secrets, bindings: Bindings) -> None:
    secrets.most = 4
    many = [application(*SERVICES, name=str(number), namespace="many") for number in range(5)]
    alone = application(*SERVICES)
    bindings.applications.take(Synced((*many, alone), "1"))
    await eventually(lambda: not secrets.may_answer.is_set())
    assert sorted(secrets.answered) == ["home", "home", "many", "many"]
    assert bindings.are_known(alone, Protocol.SAAS)
    assert set(bindings.uaa_domains) == {"home.example.com", "many.example.com"}
    assert bindings.origin("uaa.home.example.com") == Origin({"home"}, is_named=True)
    assert bindings.origin("other.home.example.com") == Origin({"home"})


@pytest.mark.req("R-923")
async def test_a_request_waits_for_the_application_that_it_may_mean_and_for_no_other(
    secrets: Secrets, bindings: Bindings
) -> None:
    many = [application(*SERVICES, name=f"{number:03}", namespace="many") for number in range(500)]
    alone = application(*SERVICES)
    bindings.applications.take(Synced((*many, alone), "1"))
    async with asyncio.timeout(0.9):  # a request that waits for all gives up after two seconds
        await bindings.read_of([alone])
        assert bindings.are_known(alone, Protocol.SAAS)
        assert len(secrets.answered) <= 6, "its turn came before those of the other namespace"
        last = many[-1]
        await bindings.read_of([last])
        assert bindings.are_known(last, Protocol.SAAS)
        assert len(secrets.answered) <= 12, "a request that waits for it puts it before the others"
        secrets.may_answer.clear()
        await bindings.read_of([alone])
        await bindings.all_read(lambda: "home.example.com" in bindings.uaa_domains)


@pytest.mark.req("R-923", "R-308")
async def test_until_the_bindings_of_a_start_were_tried_once_the_process_is_not_ready(secrets: Secrets) -> None:
    bindings = reading_from(secrets)
    secrets.problem = ApiError("no answer")
    secrets.may_answer.clear()
    assert bindings.unready()
    async with background() as tasks:
        tasks.start(bindings.run(), "bindings")
        bindings.applications.take(Synced((application(*SERVICES),), "1"))
        await secrets.asked.wait()
        assert "1 CAPApplications" in (bindings.unready() or "")
        secrets.may_answer.set()
        await eventually(lambda: bindings.unready() is None)
        secrets.may_answer.clear()
        bindings.applications.take(Changed(application("xsuaa", "saas-registry", version=2)))
        assert bindings.unready() is None, "later changes make requests wait, not the process"


@pytest.mark.req("R-923", "R-308")
async def test_a_caller_is_told_to_come_again_when_the_bindings_are_likely_to_be_read(
    secrets: Secrets, bindings: Bindings
) -> None:
    secrets.may_answer.clear()
    assert bindings.retry_seconds == 1.0
    many = [application(*SERVICES, name=str(number), namespace="many") for number in range(500)]
    bindings.applications.take(Synced((*many,), "1"))
    assert 5.0 < bindings.retry_seconds <= 60.0


@pytest.mark.req("R-308")
async def test_all_are_read_whatever_becomes_of_requests(secrets: Secrets, bindings: Bindings) -> None:
    secrets.may_answer.clear()
    first = application(*SERVICES)
    bindings.applications.take(Synced((first,), "1"))
    async with asyncio.timeout(1):
        await secrets.asked.wait()
    request = asyncio.create_task(bindings.read_of([first]))
    await asyncio.sleep(0)
    request.cancel()
    await asyncio.wait([request])
    assert not bindings.are_current
    secrets.may_answer.set()
    await eventually(lambda: bindings.are_current)
    assert bindings.are_known(first, Protocol.SAAS)
    assert secrets.answered == ["home", "home"], "the read goes on without the request"


@pytest.mark.req("R-308")
async def test_a_reading_that_begins_again_loses_no_application(secrets: Secrets) -> None:
    """The end of a cancelled read may take a turn of the event loop, for example to end the process of a login."""
    bindings = reading_from(secrets)
    first = application(*SERVICES)
    bindings.applications.take(Synced((first,), "1"))
    secrets.may_answer.clear()
    secrets.lingers = True
    running = asyncio.create_task(bindings.run())
    await secrets.asked.wait()
    running.cancel()
    await asyncio.wait([running])
    secrets.may_answer.set()
    async with background() as tasks:
        tasks.start(bindings.run(), "bindings")
        await bindings.read_of([first])
        assert bindings.are_known(first, Protocol.SAAS)


async def test_an_issuer_that_no_application_names_any_more_is_forgotten(bindings: Bindings) -> None:
    first, other = application(*SERVICES), application(*SERVICES, namespace="other")
    bindings.applications.take(Synced((first, other), "1"))
    await bindings.all_read()
    bindings.applications.take(Synced((first,), "2"))
    await bindings.all_read()
    assert set(bindings.uaa_domains) == {"home.example.com"}
    assert not bindings.origin("uaa.other.example.com").namespaces
    assert set(bindings.origin("uaa.home.example.com").namespaces) == {"home"}
