"""One BtpOperator leads; the others say so, and take over without anybody's help."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stellwerk.api.apps import Deployment
from stellwerk.api.networking import NetworkPolicy
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.btp.api import FINALIZER, OPERAND_DEPLOYMENT_NAME, BtpOperator
from tests.cluster.btp.given import Given
from tests.cluster.btp.running import Running
from tests.cluster.btp.then import Then


async def test_in_fixed_mode_a_cr_in_another_namespace_warns_and_can_be_deleted_at_once(
    running: Running, given: Given, then: Then
) -> None:
    await given.required_secret()
    await running.start(CrSelection="fixed")
    await given.btp_operator(namespace="default")

    await then.shows("Warning", "WrongNamespaceOrName", namespace="default", saying=["kyma-system", "btpoperator"])
    await then.event("WrongNamespaceOrName", namespace="default", type_="Warning")

    assert (await given.client.get(BtpOperator, "btpoperator", "default")).metadata.finalizers == ()
    await given.client.delete(BtpOperator, "btpoperator", "default")
    await then.is_gone(namespace="default")


async def test_in_fixed_mode_a_cr_with_another_name_warns(running: Running, given: Given, then: Then) -> None:
    await given.required_secret()
    await running.start(CrSelection="fixed")
    await given.btp_operator("wrong")

    await then.shows("Warning", "WrongNamespaceOrName", name="wrong")


async def test_the_oldest_cr_leads_and_the_others_name_it(running: Running, given: Given, then: Then) -> None:
    await given.required_secret()
    await running.start()
    await given.btp_operator("btpoperator")
    await given.btp_operator("second", "default")
    await given.btp_operator("third", "default")

    await then.shows("Ready", "ReconcileSucceeded")
    for name in ("second", "third"):
        advice = f"kubectl delete btpoperators {name} -n default"
        await then.shows("Warning", "OlderCRExists", name, "default", saying=["btpoperator", "kyma-system", advice])
        await then.event("OlderCRExists", saying=[advice], namespace="default", type_="Warning")
        assert (await given.client.get(BtpOperator, name, "default")).metadata.finalizers == ()


async def test_when_the_leader_is_deleted_the_next_one_takes_over(running: Running, given: Given, then: Then) -> None:
    await given.required_secret()
    await running.start()
    await given.btp_operator("btpoperator")
    await then.shows("Ready", "ReconcileSucceeded")
    # Creation times have whole seconds and ties fall to namespace and name: `second` is before `third` either way.
    await given.btp_operator("second", "default")
    await given.btp_operator("third", "default")
    for name in ("second", "third"):
        await then.shows("Warning", "OlderCRExists", name, "default")

    await given.client.delete(BtpOperator, "btpoperator", "kyma-system")

    await then.is_gone()
    await then.shows("Ready", "ReconcileSucceeded", "second", "default")
    await then.has_shown(
        ("Warning", "OlderCRExists"),
        ("Processing", "Processing"),
        ("Ready", "ReconcileSucceeded"),
        name="second",
        namespace="default",
    )
    await then.shows("Warning", "OlderCRExists", "third", "default", saying=["second"])


async def test_a_former_leader_that_others_keep_leads_no_more_after_a_restart(
    running: Running, given: Given, then: Then
) -> None:
    await given.required_secret()
    await running.start()
    await given.btp_operator("btpoperator")
    await then.shows("Ready", "ReconcileSucceeded")
    held = MergePatch({"metadata": {"finalizers": ["example.com/held", FINALIZER]}})
    await given.client.patch(BtpOperator, "btpoperator", "kyma-system", held)
    await given.btp_operator("second", "default")
    await given.client.delete(BtpOperator, "btpoperator", "kyma-system")
    await then.shows("Ready", "ReconcileSucceeded", "second", "default")
    await running.stop()

    await running.start()
    await running.leads()
    await given.client.delete(BtpOperator, "second", "default")

    await then.is_gone("second", "default")
    await then.absent(Deployment, OPERAND_DEPLOYMENT_NAME)
    await given.without_finalizers(BtpOperator, "btpoperator", "kyma-system")
    await then.is_gone()


async def test_a_blocked_leader_freed_by_hand_hands_over_and_the_instances_survive(
    running: Running, given: Given, then: Then
) -> None:
    await given.required_secret()
    await running.start()
    await given.btp_operator("btpoperator")
    await then.shows("Ready", "ReconcileSucceeded")
    await given.btp_operator("second", "default")
    await given.service_instance("db")
    await given.client.delete(BtpOperator, "btpoperator", "kyma-system")
    await then.shows("Warning", "ServiceInstancesAndBindingsNotCleaned")

    await given.client.patch(BtpOperator, "btpoperator", "kyma-system", MergePatch({"metadata": {"finalizers": None}}))

    await then.is_gone()
    await then.shows("Ready", "ReconcileSucceeded", "second", "default")
    await then.service_instance_survives("db")


async def test_a_redundant_cr_under_deletion_loses_a_finalizer_that_an_older_version_left(
    running: Running, given: Given, then: Then
) -> None:
    await given.required_secret()
    await running.start()
    await given.btp_operator("btpoperator")
    await then.shows("Ready", "ReconcileSucceeded")
    await given.btp_operator("second", "default")
    await then.shows("Warning", "OlderCRExists", "second", "default")
    finalizers: JsonObject = {"metadata": {"finalizers": ["operator.kyma-project.io/btp-manager"]}}
    await given.client.patch(BtpOperator, "second", "default", MergePatch(finalizers))

    await given.client.delete(BtpOperator, "second", "default")

    await then.is_gone("second", "default")
    await then.shows("Ready", "ReconcileSucceeded")


@pytest.mark.req("R-505")
async def test_the_force_label_on_a_cr_of_a_tenant_deletes_nothing_of_others(
    running: Running, given: Given, then: Then
) -> None:
    tenant = await given.a_namespace("a-tenant-that-leads")
    await given.required_secret()
    await running.start(HardDeleteTimeout="0s")
    await given.btp_operator(namespace=tenant, labels={"force-delete": "true"})
    await then.shows("Ready", "ReconcileSucceeded", namespace=tenant)
    await given.service_instance("db")

    await given.client.delete(BtpOperator, "btpoperator", tenant)

    await then.shows(
        "Warning",
        "ServiceInstancesAndBindingsNotCleaned",
        namespace=tenant,
        saying=["1 instance(s)", "counts only on a BtpOperator in the namespace kyma-system"],
    )
    await running.is_idle()
    await then.service_instance_survives("db")
    await given.no_instances()
    await then.is_gone(namespace=tenant)


@pytest.mark.req("R-505")
async def test_a_cr_of_a_tenant_does_not_switch_off_the_network_policies_of_the_module(
    running: Running, given: Given, then: Then
) -> None:
    tenant = await given.a_namespace("a-tenant-that-leads")
    await given.required_secret()
    await running.start()
    opt_out = {"operator.kyma-project.io/btp-operator-disable-network-policies": "true"}
    await given.btp_operator(namespace=tenant, annotations=opt_out)

    await then.shows("Ready", "ReconcileSucceeded", namespace=tenant)

    await then.exists(NetworkPolicy, "kyma-project.io--btp-operator-allow-to-apiserver")


@pytest.mark.req("R-505")
async def test_in_fixed_mode_the_cr_that_leads_decides_for_all_although_the_module_is_elsewhere(
    running: Running, given: Given, then: Then
) -> None:
    module = await given.a_namespace("module-elsewhere")
    await replace(given, namespace=module).required_secret()
    await running.start(CrSelection="fixed", ChartNamespace=module)
    opt_out = {"operator.kyma-project.io/btp-operator-disable-network-policies": "true"}
    await given.btp_operator(labels={"force-delete": "true"}, annotations=opt_out)
    await then.shows("Ready", "ReconcileSucceeded")
    assert (await given.client.list(NetworkPolicy, module)).items == []
    await given.service_instance("db")

    await given.client.delete(BtpOperator, "btpoperator", "kyma-system")

    await then.is_gone()
    await then.event("ForcedDeletion")
