"""Whatever code raises, and wherever, the BTP Manager goes on, and recovers when the fault ends (R-512)."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from stellwerk.delivery.reconcile_request import REQUESTED_AT_ANNOTATION
from stellwerk.kube.types.errors import NotFound
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.operators.btp.credentials.token_request import CredentialsVerdict, TokenAnswer, TokenRequest
from stellwerk.testing.checks.surprises import SURPRISES
from stellwerk.testing.eventually import eventually
from tests.cluster.btp.given import Given
from tests.cluster.btp.running import Running
from tests.cluster.btp.then import Then

pytestmark = pytest.mark.req("R-512")

ON_THE_WAY_UP = {
    *(f"{verb} {kind}" for verb in ("list", "watch") for kind in ("btpoperators", "secrets", "configmaps", "pods")),
    *(f"{verb} {kind}" for verb in ("list", "watch") for kind in ("deployments", "serviceinstances", "services")),
    *(f"apply {kind}" for kind in ("deployments", "secrets", "customresourcedefinitions", "roles")),
    *("get secrets", "get configmaps", "update btpoperators", "patch btpoperators", "create events"),
}
"""Some of the requests that are sent until a module is ready: informers of our kinds, of the module's objects and of
the settings, the module itself, its certificates, the status, Events."""
ON_THE_WAY_DOWN = {
    *("delete deployments", "delete secrets", "delete customresourcedefinitions"),
    *("delete mutatingwebhookconfigurations", "delete clusterroles"),
}


@asynccontextmanager
async def poked(given: Given) -> AsyncIterator[None]:
    """The CR changes all the time, so that a pass that failed is tried again at once."""

    async def poke() -> None:
        turns = 0
        while True:
            turns += 1
            try:
                await given.annotations_on(BtpOperator, "btpoperator", turn=str(turns))
            except NotFound:
                return
            await asyncio.sleep(0.2)

    async with asyncio.TaskGroup() as tasks:
        poking = tasks.create_task(poke())
        yield
        poking.cancel()


def is_read(place: str) -> bool:
    """Whether an informer sends such requests."""
    return place.startswith(("list ", "watch "))


def unexpected(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The lines of the log that report an unexpected exception, with its stack."""
    return [record.getMessage() for record in caplog.records if "unexpected" in record.msg and record.exc_info]


@pytest.mark.parametrize("surprise", ["KeyError", "Panic", "CancelledError", "BaseExceptionGroup", "SystemExit"])
async def test_every_request_may_raise_anything_once_while_a_module_comes_and_goes(
    running: Running, given: Given, then: Then, surprise: str, caplog: pytest.LogCaptureFixture
) -> None:
    saboteur = running.saboteur
    await given.required_secret()
    saboteur.arm_everywhere(surprise)
    await running.start()
    await given.btp_operator()
    async with poked(given):
        await then.shows("Ready", "ReconcileSucceeded", within=120)
        await eventually(
            lambda: ON_THE_WAY_UP.issubset(saboteur.raised),  # users' kinds are watched once they are served
            within=60,
            describe=f"all of {sorted(ON_THE_WAY_UP)} were sent",
        )
        up = {*saboteur.raised}
        await given.client.delete(BtpOperator, "btpoperator", "kyma-system")
        await then.is_gone(within=120)
    down = {*saboteur.raised} - up
    assert not running.ended
    assert down >= ON_THE_WAY_DOWN
    await then.has_shown(("Error", "ProvisioningFailed"), ("Processing", "Updated"), ("Ready", "ReconcileSucceeded"))
    said = [shown.message for shown in then.history.of() if shown.reason == "ProvisioningFailed"]
    assert any("the operator could not finish its work on this object: unexpected" in each for each in said)

    counted = {kind: running.failures(kind) for kind in ("informer", "pass", "event")}
    assert counted["informer"] + counted["pass"] >= sum(is_read(place) for place in saboteur.raised)
    assert counted["pass"] >= len(ON_THE_WAY_DOWN)
    assert counted["event"] >= 1
    assert len(unexpected(caplog)) >= sum(counted.values())
    saboteur.disarm()
    await running.is_quiet()


@pytest.mark.parametrize("place", ["update btpoperators", "get secrets", "list configmaps"])
async def test_whatever_a_request_raises_the_module_becomes_ready_afterwards(
    running: Running, given: Given, then: Then, place: str
) -> None:
    await given.required_secret()
    running.saboteur.arm(place)
    await running.start()
    await given.btp_operator()
    turns = itertools.count()

    async def request() -> None:
        """A request is looked at at once, and each has the status written: what failed is tried later and later."""
        await given.annotations_on(BtpOperator, "btpoperator", **{REQUESTED_AT_ANNOTATION: f"turn {next(turns)}"})

    async def enough_was_raised() -> bool:
        await request()
        return running.saboteur.fired >= len(SURPRISES) // 2

    await eventually(enough_was_raised, within=120, describe=f"half of all is raised at {place}")
    assert not running.ended
    running.saboteur.disarm()
    await request()
    await then.shows("Ready", "ReconcileSucceeded", within=120)


@dataclass
class Surprising:
    """A token server that raises each of SURPRISES once, and accepts every credential afterwards."""

    surprises: list[Callable[[], BaseException]] = field(default_factory=lambda: [*SURPRISES.values()])
    accepted: int = 0

    async def ask(self, request: TokenRequest) -> TokenAnswer:
        if self.surprises:
            raise self.surprises.pop()()
        self.accepted += 1
        return TokenAnswer(CredentialsVerdict.ACCEPTED)

    async def close(self) -> None:
        """As a token server has it."""


async def test_a_credential_check_that_raises_anything_is_tried_again_and_the_module_is_ready(
    running: Running, given: Given, then: Then, caplog: pytest.LogCaptureFixture
) -> None:
    running.token_server = server = Surprising()
    await given.required_secret()
    await running.start(CredentialCheckInterval="1h")
    await given.btp_operator()
    async with poked(given):
        await then.shows("Ready", "ReconcileSucceeded")
        await eventually(lambda: server.accepted, within=60)
    assert running.failures("credential-check") == len(SURPRISES)
    assert len(unexpected(caplog)) == len(SURPRISES)
    assert not running.ended
