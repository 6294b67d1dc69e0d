"""A person asks the operator to look now."""

from __future__ import annotations

from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.operators.btp.insight import actions
from stellwerk.testing.eventually import eventually
from tests.cluster.btp.given import Given
from tests.cluster.btp.running import Running
from tests.cluster.btp.then import Then

NAMESPACE, NAME = "kyma-system", "btpoperator"


async def asked(client: Client, moment: str) -> None:
    """Ask, and return when the answer shows."""
    await client.patch(BtpOperator, NAME, NAMESPACE, MergePatch(actions.RECONCILE.request(moment)))
    await eventually(lambda: is_handled(client, moment), describe=f"the request {moment} is shown as handled")


async def is_handled(client: Client, moment: str) -> bool:
    found = await client.get(BtpOperator, NAME, NAMESPACE)
    return found.status is not None and found.status.last_handled_reconcile_at == moment


async def test_a_request_is_acted_on_and_shown_in_whatever_state_the_module_is(
    client: Client, given: Given, running: Running, then: Then
) -> None:
    await running.start()
    await given.btp_operator()
    await then.shows("Warning", "MissingSecret")
    await asked(client, "first")

    await given.required_secret()
    await then.shows("Ready", "ReconcileSucceeded")
    assert await is_handled(client, "first")
    await asked(client, "second")
    await then.shows("Ready", "ReconcileSucceeded")
    await running.is_idle()
