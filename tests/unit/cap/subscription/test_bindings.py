"""When a caller that does not fit is refused for certain, and when the credentials only cannot be read."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Sequence
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
from stellwerk.operators.cap.subscription.callers.bindings import Bindings, Trust, are_decisive, in_turns
from stellwerk.operators.cap.subscription.callers.client_certificates import CertificateRules
from stellwerk.operators.cap.subscription.callers.tokens import TokenRules
from stellwerk.operators.cap.subscription.registries import Protocol
from stellwerk.operators.cap.subscription.services import ServiceReader
from stellwerk.runtime.process.manager import Manager
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


@pytest.mark.req("R-705")
async def test_what_is_not_read_yet_being_read_or_could_not_be_read_is_no_refusal() -> None:
    secrets = Secrets()
    bindings = reading_from(secrets)
    applications = bindings.applications

    def is_known() -> bool:
        return bindings.are_known(first, Protocol.SAAS)

    def are_current() -> bool:
        return bindings.are_current

    first = application("saas-registry", "xsuaa")
    applications.take(Synced((first,), "1"))
    assert not is_known(), "it has not been read"
    await bindings.up_to_date()
    assert is_known()
    assert are_current()

    secrets.may_answer.clear()
    secrets.asked.clear()
    applications.take(Changed(application("xsuaa", "saas-registry", version=2)))
    assert not is_known(), "it has changed"
    reading = asyncio.create_task(bindings.up_to_date())
    await secrets.asked.wait()
    assert not is_known(), "it is being read"
    assert not are_current()
    secrets.problem = ApiError("no answer")
    secrets.may_answer.set()
    await reading
    assert not is_known(), "it could not be read"
    assert not are_current()
    assert bindings.of(first).token == RULES, "what was known goes on"


@pytest.mark.req("R-705")
async def test_a_request_waits_for_what_is_being_read_and_for_what_changed_meanwhile() -> None:
    secrets = Secrets()
    bindings = reading_from(secrets)
    first = application("saas-registry", "xsuaa")
    secrets.may_answer.clear()
    bindings.applications.take(Synced((first,), "1"))
    early = asyncio.create_task(bindings.up_to_date())
    await secrets.asked.wait()
    during = asyncio.create_task(bindings.up_to_date())
    await asyncio.sleep(0)
    assert not during.done(), "the first read goes on"
    bindings.applications.take(Changed(application("xsuaa", "saas-registry", version=2)))
    late = asyncio.create_task(bindings.up_to_date())
    await asyncio.sleep(0)
    secrets.may_answer.set()

    await late
    assert bindings.are_known(first, Protocol.SAAS)
    await asyncio.gather(early, during)


@pytest.mark.req("R-705")
async def test_a_read_that_succeeds_makes_good_one_that_failed() -> None:
    secrets = Secrets()
    bindings = reading_from(secrets)
    first = application("saas-registry", "xsuaa")
    secrets.problem = ApiError("no answer")
    bindings.applications.take(Synced((first,), "1"))
    await bindings.up_to_date()
    secrets.problem = None
    bindings.applications.take(Changed(application("xsuaa", "saas-registry", version=2)))
    await bindings.up_to_date()
    assert bindings.are_known(first, Protocol.SAAS)


@pytest.mark.req("R-705")
async def test_a_request_that_comes_while_a_read_is_being_cancelled_loses_no_application() -> None:
    """The end of a cancelled read may take a turn of the event loop, for example to end the process of a login."""
    secrets = Secrets()
    bindings = reading_from(secrets)
    first = application("saas-registry", "xsuaa")
    secrets.may_answer.clear()
    secrets.lingers = True
    bindings.applications.take(Synced((first,), "1"))
    early = asyncio.create_task(bindings.up_to_date())
    await secrets.asked.wait()
    early.cancel()
    await asyncio.wait([early])
    secrets.may_answer.set()
    await bindings.up_to_date()
    await bindings.up_to_date()
    assert bindings.are_known(first, Protocol.SAAS)


@pytest.mark.req("R-507")
def test_namespaces_take_turns() -> None:
    listed = ["many/1", "many/2", "many/3", "few/1", "few/2", "one/1"]
    keys = [ObjectKey(*each.split("/")) for each in listed]
    assert [str(key) for key in in_turns(keys)] == ["many/1", "few/1", "one/1", "many/2", "few/2", "many/3"]


@pytest.mark.req("R-507", "R-308")
async def test_what_is_read_counts_while_others_are_still_being_read() -> None:
    secrets = Secrets()
    secrets.most = 4
    bindings = reading_from(secrets)
    services = ("saas-registry", "xsuaa")
    many = [application(*services, name=str(number), namespace="many") for number in range(5)]
    alone = application(*services)
    bindings.applications.take(Synced((*many, alone), "1"))
    reading = asyncio.create_task(bindings.up_to_date())
    await eventually(lambda: not secrets.may_answer.is_set())
    assert sorted(secrets.answered) == ["home", "home", "many", "many"]
    assert bindings.are_known(alone, Protocol.SAAS)
    assert bindings.uaa_domains == {"home.example.com", "many.example.com"}
    assert bindings.issuers == {"uaa.home.example.com", "uaa.many.example.com"}
    reading.cancel()
    await asyncio.wait([reading])


@pytest.mark.req("R-308")
async def test_all_are_read_from_the_start_on_whatever_becomes_of_requests() -> None:
    secrets = Secrets()
    secrets.may_answer.clear()
    bindings = reading_from(secrets)
    first = application("saas-registry", "xsuaa")
    running = asyncio.create_task(bindings.run())
    await asyncio.sleep(0)
    bindings.applications.take(Synced((first,), "1"))
    async with asyncio.timeout(1):
        await secrets.asked.wait()
    request = asyncio.create_task(bindings.up_to_date())
    await asyncio.sleep(0)
    request.cancel()
    await asyncio.wait([request])
    assert not bindings.are_current
    secrets.may_answer.set()
    await eventually(lambda: bindings.are_current)
    assert bindings.are_known(first, Protocol.SAAS)
    assert secrets.answered == ["home", "home"], "the read goes on without the request"
    running.cancel()
    await asyncio.wait([running])


async def test_an_issuer_that_no_application_names_any_more_is_forgotten() -> None:
    bindings = reading_from(Secrets())
    first, other = application("saas-registry", "xsuaa"), application("saas-registry", "xsuaa", namespace="other")
    bindings.applications.take(Synced((first, other), "1"))
    await bindings.up_to_date()
    bindings.applications.take(Synced((first,), "2"))
    await bindings.up_to_date()
    assert bindings.uaa_domains == {"home.example.com"}
    assert bindings.issuers == {"uaa.home.example.com"}
