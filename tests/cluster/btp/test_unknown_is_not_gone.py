"""What the API server does not say is not taken for "users have nothing": their services outlive every doubt."""

from __future__ import annotations

from pathlib import Path

import pytest

from stellwerk.api.apps import Deployment
from stellwerk.api.btp import ServiceBinding, ServiceInstance
from stellwerk.api.core import Service
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import Kind, metadata_of, unstructured
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.operators.btp.btpoperator import deprovisioning
from stellwerk.testing.eventually import eventually
from stellwerk.testing.faults import AnswerInstead, FaultProxy, always, requests
from stellwerk.testing.faults.rules import When
from stellwerk.testing.faults.traffic import RecordedRequest
from tests.cluster.btp.beginnings import RETRY, ready
from tests.cluster.btp.given import Given
from tests.cluster.btp.running import Running
from tests.cluster.btp.then import Then

CRD = unstructured(
    Resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)
)
INSTANCES, BINDINGS = "serviceinstances.services.cloud.sap.com", "servicebindings.services.cloud.sap.com"
WEBHOOK_SERVICE = "sap-btp-operator-webhook-service"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
OPERAND = "sap-btp-operator-controller-manager"

PAGE_OF_A_PROXY = AnswerInstead(404, raw=b"<html><body>no such site</body></html>")
UNNAMED = AnswerInstead(404, message="404 page not found")
BROKEN = AnswerInstead(500, message="the API server is not itself")
FORBIDDEN = AnswerInstead(403, message="nobody may do this now")


@pytest.fixture
def login(proxy: FaultProxy) -> Path:
    """The operator is at the end of a bad line."""
    return proxy.kubeconfig


async def delete_and_expect_doubt(running: Running, given: Given, then: Then) -> None:
    """Passes wait some seconds for the first list of a kind, so that a server may start. They are skipped."""
    await given.client.delete(BtpOperator, "btpoperator", "kyma-system")

    async def is_shown() -> bool:
        await running.clock.skip(seconds=1)
        shown = then.history.of("btpoperator", "kyma-system")
        return bool(shown) and (shown[-1].state, shown[-1].reason) == ("Error", "ResourceRemovalFailed")

    await eventually(is_shown, describe="the deletion shows that a kind is unknown")


async def everything_of_users_is_there(given: Given, then: Then, kind: type[Kind]) -> None:
    for name in (INSTANCES, BINDINGS):
        definition = await given.client.get(CRD, name)
        assert not definition.metadata.is_terminating
    found = await given.client.get(metadata_of(kind), "of-a-user", "default")
    assert not found.metadata.is_terminating
    await then.exists(Deployment, OPERAND)
    assert (await given.client.get(BtpOperator, "btpoperator", "kyma-system")).metadata.finalizers


@pytest.mark.req("R-104", "R-112")
@pytest.mark.parametrize("answer", [PAGE_OF_A_PROXY, UNNAMED, BROKEN, FORBIDDEN], ids=["page", "404", "500", "403"])
@pytest.mark.parametrize("kind", [ServiceInstance, ServiceBinding])
async def test_a_kind_of_users_that_cannot_be_listed_keeps_the_module(
    running: Running,
    given: Given,
    then: Then,
    proxy: FaultProxy,
    kind: type[ServiceInstance] | type[ServiceBinding],
    answer: AnswerInstead,
) -> None:
    await ready(running, given, then)
    if kind is ServiceInstance:
        await given.service_instance("of-a-user")
    else:
        await given.service_binding("of-a-user", "db")
    await running.stop()
    of_users = requests(("list", "watch"), kind.resource.group_resource)

    with proxy.on_requests(of_users, answer, always):
        await running.start(**RETRY)
        await delete_and_expect_doubt(running, given, then)
        await everything_of_users_is_there(given, then, kind)

    await running.clock.skip(seconds=60)  # the pause after lists that were refused
    await then.shows("Warning", "ServiceInstancesAndBindingsNotCleaned")
    await given.no_bindings()
    await given.no_instances()
    await then.is_gone()


FORGOTTEN = AnswerInstead(200, raw=b'{"kind":"APIGroupDiscoveryList","items":[]}')
DISCOVERY: When[RecordedRequest] = When(lambda request: request.path_and_query == "/apis", "discovery")


@pytest.mark.req("R-104", "R-112")
async def test_a_kind_of_users_that_is_defined_and_not_served_keeps_the_module(
    running: Running, given: Given, then: Then, proxy: FaultProxy
) -> None:
    await ready(running, given, then)
    await given.service_instance("of-a-user")
    await running.stop()
    of_users = requests(("list", "watch"), ServiceInstance.resource.group_resource)

    with proxy.on_requests(of_users, UNNAMED, always), proxy.on_requests(DISCOVERY, FORGOTTEN, always):
        await running.start(**RETRY)
        await delete_and_expect_doubt(running, given, then)
        await everything_of_users_is_there(given, then, ServiceInstance)

    await running.clock.skip(seconds=60)
    await then.shows("Warning", "ServiceInstancesAndBindingsNotCleaned")


@pytest.mark.req("R-104", "R-106")
async def test_a_kind_that_is_gone_is_gone_although_discovery_lists_it_still(
    running: Running, given: Given, then: Then, proxy: FaultProxy
) -> None:
    await ready(running, given, then)
    held = MergePatch({"metadata": {"finalizers": ["example.com/held"]}})
    await given.client.patch(metadata_of(Service), WEBHOOK_SERVICE, "kyma-system", held)
    before = AnswerInstead(200, raw=await given.client.raw("GET", "/apis", accept=AGGREGATED))
    of_users = requests(("list", "watch"), INSTANCES) | requests(("list", "watch"), BINDINGS)
    await given.client.delete(BtpOperator, "btpoperator", "kyma-system")
    for name in (INSTANCES, BINDINGS):
        await then.disappears(CRD, name)

    # Neither has to be asked: the definitions are gone, and that is proof enough.
    with (
        proxy.on_requests(of_users, UNNAMED, always, required=False),
        proxy.on_requests(DISCOVERY, before, always, required=False),
    ):
        await given.without_finalizers(Service, WEBHOOK_SERVICE, "kyma-system")
        await then.is_gone()

    assert "Error" not in {state for state, _ in then.history.states()}


@pytest.mark.req("R-104", "R-505")
async def test_users_objects_are_swept_only_for_the_cr_that_the_api_server_has(given: Given) -> None:
    forced = {"force-delete": "true"}
    held = await given.btp_operator(labels=forced)
    finalizers = MergePatch({"metadata": {"finalizers": ["example.com/held"]}})
    await given.client.patch(BtpOperator, "btpoperator", "kyma-system", finalizers)
    assert not await deprovisioning.is_forced_still(given.client, held), "it is not being deleted"

    await given.client.delete(BtpOperator, "btpoperator", "kyma-system")
    going = await given.client.get(BtpOperator, "btpoperator", "kyma-system")
    assert await deprovisioning.is_forced_still(given.client, going)

    await given.labels_on(BtpOperator, "btpoperator", **{"force-delete": "no"})
    assert not await deprovisioning.is_forced_still(given.client, going), "the user has thought better of it"

    await given.without_finalizers(BtpOperator, "btpoperator", "kyma-system")
    assert not await deprovisioning.is_forced_still(given.client, going), "it is gone"
    another = await given.btp_operator(labels=forced)
    await given.client.patch(BtpOperator, "btpoperator", "kyma-system", finalizers)
    await given.client.delete(BtpOperator, "btpoperator", "kyma-system")
    assert not await deprovisioning.is_forced_still(given.client, going), "another one has its name"
    assert await deprovisioning.is_forced_still(given.client, another)
    await given.without_finalizers(BtpOperator, "btpoperator", "kyma-system")
