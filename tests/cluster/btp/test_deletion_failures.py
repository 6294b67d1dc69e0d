"""A deletion that meets failures: it is never half done for long, and what blocks it stays what people read."""

from __future__ import annotations

from pathlib import Path

import pytest

from stellwerk.api.apps import Deployment
from stellwerk.api.btp import ServiceBinding, ServiceInstance
from stellwerk.api.core import Service
from stellwerk.apply.set.model.confirmation import FIGHT_SECONDS
from stellwerk.kube.types.model import Unstructured, metadata_of, unstructured
from stellwerk.operators.btp.api import FINALIZER, BtpOperator
from stellwerk.testing.faults import (
    AnswerInstead,
    CutConnection,
    FaultProxy,
    Hold,
    RecordedRequest,
    RequestFault,
    When,
    always,
    events,
    first,
    requests,
)
from tests.cluster.btp.beginnings import ready
from tests.cluster.btp.given import Given
from tests.cluster.btp.modules import Module
from tests.cluster.btp.running import Running
from tests.cluster.btp.then import Then

OPERAND = "sap-btp-operator-controller-manager"
BINDINGS, INSTANCES = (kind.resource.group_resource for kind in (ServiceBinding, ServiceInstance))
CUT = requests("patch", BINDINGS)
BLOCKED = ("Warning", "ServiceInstancesAndBindingsNotCleaned")
IN_SOFT: When[RecordedRequest] = When(lambda request: b'"SoftDeleting"' in request.body, "with SoftDeleting")
SHOW_SOFT = requests(resource=BtpOperator.resource.group_resource, subresource="status") & IN_SOFT


@pytest.fixture
def login(proxy: FaultProxy) -> Path:
    """The operator is at the end of a bad line."""
    return proxy.kubeconfig


async def test_a_sweep_that_the_api_server_fails_becomes_soft_at_once(
    running: Running, given: Given, then: Then, proxy: FaultProxy
) -> None:
    await ready(running, given, then)
    await given.service_instance("db", "default", "example.com/held")
    await given.service_binding("db-binding", "db", "default", "example.com/held")
    await given.labels_on(BtpOperator, "btpoperator", **{"force-delete": "true"})
    sweep = requests("deletecollection", "servicebindings.services.cloud.sap.com")

    with proxy.on_requests(sweep, AnswerInstead(500), always):
        await given.client.delete(BtpOperator, "btpoperator", "kyma-system")
        await then.is_gone()

    await then.has_shown(("Deleting", "HardDeleting"), ("Deleting", "SoftDeleting"))


async def test_a_sweep_that_is_refused_in_one_namespace_asks_for_all_others_before_it_becomes_soft(
    running: Running, given: Given, then: Then, proxy: FaultProxy
) -> None:
    await ready(running, given, then)
    first, second = await given.a_namespace("sweep-a"), await given.a_namespace("sweep-b")
    for namespace in (first, second):
        await given.service_instance("db", namespace, "example.com/held")
        await given.service_binding("db-binding", "db", namespace, "example.com/held")
    await given.labels_on(BtpOperator, "btpoperator", **{"force-delete": "true"})
    refused = requests("deletecollection", BINDINGS, namespace=first)

    with proxy.on_requests(refused, AnswerInstead(500, message="no sweep here"), always):
        await given.client.delete(BtpOperator, "btpoperator", "kyma-system")
        await then.is_gone()

    await then.has_shown(("Deleting", "HardDeleting"), ("Deleting", "SoftDeleting"))
    await then.event("HardDeletionGivenUp", saying=["no sweep here"])
    for kind, namespace in ((BINDINGS, second), (INSTANCES, first), (INSTANCES, second)):
        assert proxy.history.count(requests("deletecollection", kind, namespace=namespace)) == 1


async def test_a_sweep_that_is_refused_asks_for_instances_that_no_watch_shows_yet_before_it_becomes_soft(
    running: Running, given: Given, then: Then, proxy: FaultProxy
) -> None:
    await ready(running, given, then)
    elsewhere, late = await given.a_namespace("sweep-c"), Hold()
    with proxy.on_events(events("ADDED", INSTANCES), late, always):
        await given.service_instance("db", elsewhere, "example.com/held")
        await given.service_binding("db-binding", "db", "default", "example.com/held")
        await given.labels_on(BtpOperator, "btpoperator", **{"force-delete": "true"})

        with proxy.on_requests(requests("deletecollection", BINDINGS), AnswerInstead(500), always):
            await given.client.delete(BtpOperator, "btpoperator", "kyma-system")
            await late.caught()
            await then.has_shown(("Deleting", "HardDeleting"), ("Deleting", "SoftDeleting"))
        late.release()
        await then.is_gone()

    assert proxy.history.count(requests("deletecollection", INSTANCES, namespace=elsewhere)) == 1


async def test_a_sweep_that_is_refused_in_one_namespace_becomes_soft_only_when_all_others_were_answered(
    running: Running, given: Given, then: Then, proxy: FaultProxy
) -> None:
    await ready(running, given, then)
    first, second = await given.a_namespace("sweep-a"), await given.a_namespace("sweep-b")
    for namespace in (first, second):
        await given.service_instance("db", namespace, "example.com/held")
    await given.labels_on(BtpOperator, "btpoperator", **{"force-delete": "true"})
    refused, late = (requests("deletecollection", INSTANCES, namespace=namespace) for namespace in (first, second))

    with proxy.on_requests(refused, AnswerInstead(500, message="no sweep here"), always):
        with proxy.on_requests(late, AnswerInstead(504), always):
            await given.client.delete(BtpOperator, "btpoperator", "kyma-system")
            await proxy.history.write_seen(2, refused)
        assert "SoftDeleting" not in {shown.reason for shown in then.history.of()}
        await then.is_gone()

    sweeps = proxy.history.all(requests("deletecollection", INSTANCES))
    asked = [exchange.request.namespace for exchange in sweeps]
    assert asked[:4] == [first, second, second, first], "what refused comes last"
    await then.event("HardDeletionGivenUp", saying=["no sweep here"])


@pytest.mark.req("R-112")
async def test_what_a_sweep_was_refused_is_sent_once_though_the_soft_deletion_could_not_be_shown_at_first(
    running: Running, given: Given, then: Then, proxy: FaultProxy
) -> None:
    await ready(running, given, then)
    await given.service_instance("db", "default", "example.com/held")
    await given.labels_on(BtpOperator, "btpoperator", **{"force-delete": "true"})
    sweep = requests("deletecollection", INSTANCES)

    with (
        proxy.on_requests(sweep, AnswerInstead(500, message="no sweep here"), always),
        proxy.on_requests(SHOW_SOFT, AnswerInstead(403), first(2)),
    ):
        await given.client.delete(BtpOperator, "btpoperator", "kyma-system")
        await then.is_gone()

    await then.event("HardDeletionGivenUp", saying=["no sweep here", "ServiceInstance default/db"])
    assert len(await then.events("HardDeletionGivenUp")) == 1


@pytest.mark.req("R-101")
async def test_what_was_not_deleted_in_time_is_sent_after_a_restart_that_came_before_the_soft_deletion_was_shown(
    running: Running, given: Given, then: Then, proxy: FaultProxy
) -> None:
    await ready(running, given, then, HardDeleteTimeout="0")
    await given.service_instance("db", "default", "example.com/held")
    await given.labels_on(BtpOperator, "btpoperator", **{"force-delete": "true"})

    with proxy.on_requests(SHOW_SOFT, AnswerInstead(403), always):
        await given.client.delete(BtpOperator, "btpoperator", "kyma-system")
        await proxy.history.write_seen(1, SHOW_SOFT)
        await running.stop()
    assert not await then.events("HardDeletionGivenUp")
    await running.start(HardDeleteTimeout="0")

    await then.is_gone()
    await then.event("HardDeletionGivenUp", saying=["ServiceInstance default/db"])


@pytest.mark.parametrize("slow", [AnswerInstead(504), CutConnection()], ids=["answers late", "does not answer"])
async def test_a_sweep_for_which_the_api_server_is_too_slow_is_tried_again_and_stays_hard(
    running: Running, given: Given, then: Then, proxy: FaultProxy, slow: RequestFault
) -> None:
    await ready(running, given, then)
    await given.service_instance("db")
    await given.labels_on(BtpOperator, "btpoperator", **{"force-delete": "true"})
    sweep = requests("deletecollection", "serviceinstances.services.cloud.sap.com")

    with proxy.on_requests(sweep, slow, always):
        await given.client.delete(BtpOperator, "btpoperator", "kyma-system")
        await then.shows("Deleting", "HardDeleting", saying=["Waiting for 1 instance(s)"])
    await then.is_gone()

    assert "SoftDeleting" not in {shown.reason for shown in then.history.of()}


@pytest.mark.req("R-112")
async def test_a_module_that_cannot_be_removed_is_brought_back_until_it_can(
    running: Running, given: Given, then: Then, proxy: FaultProxy
) -> None:
    await ready(running, given, then)
    removal = requests("delete", "services")

    with proxy.on_requests(removal, AnswerInstead(403, message="not this one"), always):
        await given.client.delete(BtpOperator, "btpoperator", "kyma-system")
        await then.shows("Error", "ResourceRemovalFailed", saying=["Unable to remove installed resources", "Service"])
        held = await given.client.get(BtpOperator, "btpoperator", "kyma-system")
        assert FINALIZER in held.metadata.finalizers
        await then.becomes(
            unstructured(Deployment.resource),
            OPERAND,
            lambda seen: seen is not None and not seen.metadata.is_terminating,
            "be there",
        )

    await then.is_gone()
    assert await given.client.find(metadata_of(Deployment), OPERAND, "kyma-system") is None


@pytest.mark.req("R-112")
async def test_a_soft_deletion_that_fails_again_and_again_brings_the_module_back_between_its_tries(
    running: Running, given: Given, then: Then, proxy: FaultProxy
) -> None:
    await ready(running, given, then, HardDeleteTimeout="0")
    await given.service_instance("db")
    await given.service_binding("db-binding", "db", "default", "example.com/held")
    await given.labels_on(BtpOperator, "btpoperator", **{"force-delete": "true"})
    before = await given.client.get(metadata_of(Deployment), OPERAND, "kyma-system")
    cut = requests("patch", "servicebindings.services.cloud.sap.com")

    with proxy.on_requests(cut, AnswerInstead(403, message="not this one"), always):
        await given.client.delete(BtpOperator, "btpoperator", "kyma-system")
        await then.shows("Error", "ResourceRemovalFailed", saying=["not this one"])
        await then.becomes(
            unstructured(Deployment.resource),
            OPERAND,
            lambda seen: seen is not None and seen.metadata.uid != before.metadata.uid,
            "be there anew",
        )

    await then.is_gone()
    await then.absent(Deployment, OPERAND)


ASKED = "reconcile.fluxcd.io/requestedAt"
RARELY = {"ProcessingStateRequeueInterval": "5m"}


async def cut_failed_twice(running: Running, given: Given, then: Then, proxy: FaultProxy) -> Unstructured:
    """A soft deletion has failed for a binding and was asked for again. Returns the operand that was brought back."""
    await ready(running, given, then, HardDeleteTimeout="0", **RARELY)
    await given.service_instance("db", "default", "example.com/held")
    await given.service_binding("db-binding", "db", "default", "example.com/held")
    await given.labels_on(BtpOperator, "btpoperator", "kyma-system", **{"force-delete": "true"})
    before = await given.client.get(metadata_of(Deployment), OPERAND, "kyma-system")
    await given.client.delete(BtpOperator, "btpoperator", "kyma-system")
    await then.shows("Error", "ResourceRemovalFailed", saying=["not this one"])
    await then.disappears(unstructured(Deployment.resource), OPERAND)
    await running.is_idle()
    assert proxy.history.count(CUT) == 1, "what the first try took away did not wake a second one"

    await given.annotations_on(BtpOperator, "btpoperator", "kyma-system", **{ASKED: "now"})
    back = await then.becomes(
        unstructured(Deployment.resource),
        OPERAND,
        lambda seen: seen is not None and seen.metadata.uid != before.metadata.uid,
        "be there anew",
    )
    assert back is not None
    await proxy.history.seen(2, CUT)  # the operand is there before the second try, which waits for it
    await running.is_idle()
    return back


@pytest.mark.req("R-112")
async def test_an_operand_that_is_brought_back_between_the_tries_of_a_soft_deletion_stays_until_the_next_one(
    running: Running, given: Given, then: Then, proxy: FaultProxy, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "stellwerk.operators.btp")  # what begins each try
    with proxy.on_requests(CUT, AnswerInstead(403, message="not this one"), always):
        back = await cut_failed_twice(running, given, then, proxy)
        await given.without_finalizers(ServiceBinding, "db-binding")
        await given.client.delete(Service, "sap-btp-operator-webhook-service", "kyma-system")
        await then.becomes(
            unstructured(Service.resource),
            "sap-btp-operator-webhook-service",
            lambda seen: seen is not None and not seen.metadata.is_terminating,
            "be put back",
        )
        await running.is_idle()
        kept = await given.client.get(metadata_of(Deployment), OPERAND, "kyma-system")

        assert kept.metadata.uid == back.metadata.uid
        assert proxy.history.count(CUT) == 2, "one for each try"
        assert len(await then.events("HardDeletionGivenUp")) == 1
        await given.without_finalizers(ServiceInstance, "db")
        await given.no_instances()
        await then.is_gone()

    await then.absent(Deployment, OPERAND)


@pytest.mark.req("R-112")
async def test_an_instance_that_no_watch_shows_yet_does_not_end_the_pause_between_two_tries(
    running: Running, given: Given, then: Then, proxy: FaultProxy
) -> None:
    late = Hold()
    with (
        proxy.on_requests(CUT, AnswerInstead(403, message="not this one"), always),
        proxy.on_events(events("ADDED", INSTANCES), late, always),
    ):
        back = await cut_failed_twice(running, given, then, proxy)
        await late.caught()
        asked = proxy.history.count(requests("list", INSTANCES))
        await given.without_finalizers(ServiceBinding, "db-binding")
        await proxy.history.seen(asked + 1, requests("list", INSTANCES))
        await running.is_idle()
        kept = await given.client.get(metadata_of(Deployment), OPERAND, "kyma-system")
        assert kept.metadata.uid == back.metadata.uid
        await then.shows("Error", "ResourceRemovalFailed", saying=["not this one"])

        late.release()
        await given.without_finalizers(ServiceInstance, "db")
        await given.no_instances()
        await then.is_gone()


@pytest.mark.req("R-112")
async def test_a_soft_deletion_cuts_no_instance_before_a_binding_that_the_watch_does_not_show_yet(
    running: Running, given: Given, then: Then, proxy: FaultProxy
) -> None:
    await ready(running, given, then, HardDeleteTimeout="0", **RARELY)
    late, cut = Hold(), requests("patch", INSTANCES)

    with proxy.on_events(events("ADDED", BINDINGS), late, always):
        await given.service_instance("db", "default", "example.com/held")
        await given.service_binding("db-binding", "db", "default", "example.com/held")
        await given.labels_on(BtpOperator, "btpoperator", "kyma-system", **{"force-delete": "true"})
        await given.client.delete(BtpOperator, "btpoperator", "kyma-system")
        await late.caught()
        await then.shows("Deleting", "SoftDeleting")
        await running.is_idle()
        assert not proxy.history.count(cut)
        late.release()
    await then.is_gone()

    cuts = [exchange.request.group_resource for exchange in proxy.history.all(CUT | cut)]
    assert cuts == [BINDINGS, INSTANCES]


@pytest.mark.req("R-112")
async def test_a_module_that_cannot_be_put_back_between_the_tries_of_a_removal_is_named_beside_its_failure(
    running: Running, given: Given, then: Then, proxy: FaultProxy, module: Module
) -> None:
    with proxy.on_requests(CUT, AnswerInstead(403, message="not this one"), always):
        await cut_failed_twice(running, given, then, proxy)
        module.write("extra.yml", "kind: [unclosed")
        await given.client.delete(Service, "sap-btp-operator-webhook-service", "kyma-system")
        not_back = "the module is not put back: cannot read the module resources"
        await then.shows("Error", "ResourceRemovalFailed", saying=["not this one", not_back, "extra.yml"])

        module.write("extra.yml", "")
        running.wake()
        await then.becomes(
            unstructured(Service.resource),
            "sap-btp-operator-webhook-service",
            lambda seen: seen is not None,
            "be put back",
        )

    running.manager.try_again()
    await then.is_gone(within=30)


@pytest.mark.req("R-206")
async def test_a_right_that_is_granted_ends_the_pause_between_the_tries_of_a_removal(
    running: Running, given: Given, then: Then, proxy: FaultProxy
) -> None:
    with proxy.on_requests(CUT, AnswerInstead(403, message="not this one"), always):
        await cut_failed_twice(running, given, then, proxy)

    running.manager.try_again()

    await then.is_gone(within=30)


@pytest.mark.req("R-112")
async def test_a_module_that_is_brought_back_after_a_failed_removal_stays_until_the_next_try(
    running: Running, given: Given, then: Then, proxy: FaultProxy
) -> None:
    await ready(running, given, then, **RARELY)
    removal = requests("delete", "services")

    with proxy.on_requests(removal, AnswerInstead(403, message="not this one"), always):
        await given.client.delete(BtpOperator, "btpoperator", "kyma-system")
        await then.shows("Error", "ResourceRemovalFailed", saying=["may not delete services"])
        await given.annotations_on(BtpOperator, "btpoperator", "kyma-system", **{ASKED: "now"})
        await then.has_shown(*[("Error", "ResourceRemovalFailed")] * 2)
        await running.clock.skip(seconds=FIGHT_SECONDS)
        back = await then.becomes(
            unstructured(Deployment.resource),
            OPERAND,
            lambda seen: seen is not None and not seen.metadata.is_terminating,
            "be there",
        )
        await running.is_idle()
        tried = proxy.history.count(removal)
        running.wake()
        await running.has_passed(running.passes + 1)
        kept = await given.client.get(metadata_of(Deployment), OPERAND, "kyma-system")

        assert back is not None
        assert kept.metadata.uid == back.metadata.uid
        assert proxy.history.count(removal) == tried

    await given.annotations_on(BtpOperator, "btpoperator", "kyma-system", **{ASKED: "later"})
    await then.is_gone()


@pytest.mark.req("R-101")
async def test_a_soft_deletion_that_failed_is_tried_again_at_once_by_a_process_that_starts(
    running: Running, given: Given, then: Then, proxy: FaultProxy
) -> None:
    with proxy.on_requests(CUT, AnswerInstead(403, message="not this one"), always):
        await cut_failed_twice(running, given, then, proxy)
        await running.stop()

    await running.start(HardDeleteTimeout="0", **RARELY)

    await then.is_gone()
    await then.absent(Deployment, OPERAND)


@pytest.mark.req("R-112")
async def test_a_soft_deletion_that_began_early_and_failed_is_soft_again(
    running: Running, given: Given, then: Then, proxy: FaultProxy
) -> None:
    await ready(running, given, then)
    await given.service_instance("db", "default", "example.com/held")
    await given.labels_on(BtpOperator, "btpoperator", **{"force-delete": "true"})
    instances = "serviceinstances.services.cloud.sap.com"
    sweep, cut = requests("deletecollection", instances), requests("patch", instances)

    with proxy.on_requests(cut, AnswerInstead(403, message="not this one"), always):
        with proxy.on_requests(sweep, AnswerInstead(500), always):
            await given.client.delete(BtpOperator, "btpoperator", "kyma-system")
            await then.shows("Error", "ResourceRemovalFailed", saying=["not this one"])
        await then.has_shown(("Error", "ResourceRemovalFailed"), ("Deleting", "SoftDeleting"))

    await then.is_gone()


@pytest.mark.req("R-112")
async def test_a_module_that_fails_while_users_block_its_removal_hides_not_what_blocks(
    running: Running, given: Given, then: Then, module: Module
) -> None:
    await ready(running, given, then)
    await given.service_instance("db")
    await given.client.delete(BtpOperator, "btpoperator", "kyma-system")
    await then.shows(*BLOCKED)
    await running.is_idle()

    module.write("extra.yml", "kind: [unclosed")
    passes = running.passes
    running.wake()
    await then.event("ModuleNotKeptUp", saying=["extra.yml"])
    await running.has_passed(passes + 2)
    shown = [(one.state, one.reason) for one in then.history.of()]
    assert shown[shown.index(BLOCKED) :] == [BLOCKED]

    module.write("extra.yml", "")
    await given.client.delete(Service, "sap-btp-operator-webhook-service", "kyma-system")
    await then.becomes(
        unstructured(Service.resource), "sap-btp-operator-webhook-service", lambda seen: seen is not None, "come back"
    )
