"""Whatever the BTP Manager was given before, what it is given last decides; in between it names what is wrong.

The spec of a BtpOperator is empty, so what can be asked of it lies around it: the required Secret, the tunables, the
CR's annotations.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from stellwerk.api.core import Secret
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import Unstructured, unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.btp.api import DISABLE_NETWORK_POLICIES_ANNOTATION, BtpOperator
from stellwerk.testing.eventually import eventually
from tests.cluster.btp.given import CREDENTIALS, Given, base64_text
from tests.cluster.btp.process import HISTORY, end_state, same_end
from tests.cluster.btp.running import Running
from tests.cluster.btp.then import Then

STEPS = 8
OPERATORS, SECRETS = unstructured(BtpOperator.resource), unstructured(Secret.resource)
READY, INVALID = ("Ready", "ReconcileSucceeded"), ("Error", "InvalidSecret")


@dataclass(slots=True)
class Walk:
    """Draws one wish after the other and makes it true."""

    given: Given
    elsewhere: str
    chance: random.Random
    secret: dict[str, str] = field(default_factory=dict)
    """What the required Secret has beside or in the place of its usual values."""

    async def step(self) -> None:
        """One wish."""
        await self.chance.choice((self._value, self._value, self._damage, self._tunables, self._policies, self._spec))()

    async def _value(self) -> None:
        """Another value that is fine."""
        key = self.chance.choice(("clientid", "clientsecret", "cluster_id", "extra", "credentials_namespace"))
        good = (self.elsewhere, "kyma-system", "") if key == "credentials_namespace" else ("one", "two", "three")
        await self.mended(**{key: self.chance.choice(good)})

    async def _damage(self) -> None:
        """A value that is not."""
        key = self.chance.choice((*sorted(CREDENTIALS), "credentials_namespace"))
        self.secret[key] = "kube-system" if key == "credentials_namespace" else ""
        await self.given.required_secret(labelled=True, without=(), **self.secret)

    async def mended(self, **values: str) -> None:
        """The Secret complete, with these values."""
        self.secret = {key: value for key, value in self.secret.items() if value not in ("", "kube-system")} | values
        await self.given.required_secret(labelled=True, without=(), **self.secret)

    async def _tunables(self) -> None:
        wishes = ({"EnableLimitedCache": "false"}, {"EnableLimitedCache": "junk"}, {"ReadyTimeout": "7m"}, {"Odd": "1"})
        await self.given.tunables(RsaKeyBits="2048", **self.chance.choice(wishes))

    async def _policies(self) -> None:
        await self._patched({"metadata": {"annotations": {DISABLE_NETWORK_POLICIES_ANNOTATION: self._word()}}})

    async def _spec(self) -> None:
        await self._patched({"spec": self.chance.choice((None, {}, {"surprise": [1, {"deep": True}]}))})

    def _word(self) -> str | None:
        return self.chance.choice(("TRUE", "false", "random", None))

    async def _patched(self, body: dict[str, object]) -> None:
        patch = MergePatch(body)  # type: ignore[arg-type]  # it is JSON
        await self.given.client.patch(OPERATORS, "btpoperator", "kyma-system", patch)

    @property
    def namespace(self) -> str:
        """Where the operand's credentials belong."""
        return self.secret.get("credentials_namespace") or "kyma-system"

    @property
    def is_good(self) -> bool:
        """Whether the Secret can be used."""
        return all(self.secret.get(key, "x") for key in CREDENTIALS) and (
            self.secret.get("credentials_namespace") != "kube-system"
        )


def says_last(seen: Unstructured | None) -> bool:
    return seen is not None and seen.at("data", "extra") == base64_text("last")


def at_rest(running: Running, then: Then, *, expected: tuple[str, str]) -> Callable[[], bool]:
    """Whether the CR shows this, and nothing more is done about it."""

    def check() -> bool:
        page = then.history.of()
        return bool(page) and (page[-1].state, page[-1].reason) == expected and not running.is_busy

    return check


@pytest.mark.req("R-109")
@pytest.mark.parametrize("seed", [1, 2])
async def test_a_walk_through_wishes_ends_where_a_fresh_module_begins(
    running: Running, btp_cluster: LocalCluster, given: Given, then: Then, seed: int
) -> None:
    walk = Walk(given, await given.a_namespace("btp-credentials"), random.Random(seed))
    await given.required_secret()
    await running.start(ReadyStateRequeueInterval="1h")
    await given.btp_operator()
    for number in range(STEPS):
        await walk.step()
        await running.settled(given.client)
        expected = READY if walk.is_good else INVALID
        await eventually(
            at_rest(running, then, expected=expected), within=60, describe=f"{expected} after step {number}"
        )
    await given.client.patch(OPERATORS, "btpoperator", "kyma-system", MergePatch({"spec": None}))
    await walk.mended(extra="last")
    await then.becomes(SECRETS, "sap-btp-service-operator", says_last, "carry the last value", walk.namespace)
    await eventually(at_rest(running, then, expected=READY), within=60, describe="Ready at the end")
    await then.operand_has_rolled()
    walked = await end_state(btp_cluster, masks=HISTORY)

    present = await given.client.get(BtpOperator, "btpoperator", "kyma-system")
    await given.client.delete(BtpOperator, "btpoperator", "kyma-system")
    await then.is_gone()
    await given.btp_operator(annotations=present.metadata.annotations)
    await eventually(lambda: same_end(btp_cluster, walked, HISTORY), within=60, describe="a fresh module is the same")
