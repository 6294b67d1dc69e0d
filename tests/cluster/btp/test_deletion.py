"""Deleting the BtpOperator: blocked while users have instances, forced on request, complete, and never half done."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from stellwerk.api.apps import Deployment
from stellwerk.api.btp import ServiceBinding, ServiceInstance
from stellwerk.api.core import ConfigMap, Namespace, Secret, Service, ServiceAccount
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, metadata_of, unstructured
from stellwerk.operators.btp.api import HARD_DELETE_STARTED_ANNOTATION, BtpOperator
from stellwerk.testing.eventually import eventually
from tests.cluster.btp.beginnings import RETRY, provisioned
from tests.cluster.btp.given import Given
from tests.cluster.btp.running import Running
from tests.cluster.btp.then import Then

OPERAND = "sap-btp-operator-controller-manager"
DEPLOYMENTS = unstructured(Deployment.resource)
CRD = unstructured(
    Resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)
)
INSTANCE_CRD = "serviceinstances.services.cloud.sap.com"
BINDING_CRD = "servicebindings.services.cloud.sap.com"


async def test_deletion_removes_the_module_and_leaves_what_is_not_its_own(
    running: Running, given: Given, then: Then
) -> None:
    await provisioned(running, given, then)
    await given.tunables(RsaKeyBits="2048")

    await given.client.delete(BtpOperator, "btpoperator", "kyma-system")

    await then.is_gone()
    await then.has_shown(("Ready", "ReconcileSucceeded"), ("Deleting", "HardDeleting"))
    await then.absent(CRD, INSTANCE_CRD)
    await then.absent(CRD, BINDING_CRD)
    await then.absent(DEPLOYMENTS, OPERAND)
    for name in ("ca-server-cert", "webhook-server-cert", "sap-btp-service-operator"):
        await then.absent(Secret, name)
    await then.exists(CRD, "btpoperators.operator.kyma-project.io")
    await then.exists(Secret, "sap-btp-manager")
    await then.exists(ConfigMap, "sap-btp-manager")
    await then.exists(Namespace, "kyma-system", "")
    for account in ("btp-manager-controller-manager", "btp-manager-ca-bundle-probe"):
        await then.exists(ServiceAccount, account)


@pytest.mark.req("R-207")
async def test_a_removal_ends_with_one_event_one_log_line_and_no_warning_about_watches(
    running: Running, given: Given, then: Then, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    await provisioned(running, given, then)

    await given.client.delete(BtpOperator, "btpoperator", "kyma-system")

    await then.is_gone()
    await then.event("ModuleRemoved", type_="Normal")
    await eventually(lambda: running.watches_no_users, describe="the watches of what users have are ended")
    await running.stop()
    assert len([record for record in caplog.records if record.getMessage().startswith("ModuleRemoved: ")]) == 1
    assert not [record for record in caplog.records if "watch" in record.getMessage() and record.levelname != "INFO"]


async def test_instances_and_bindings_block_the_deletion_and_are_named(
    running: Running, given: Given, then: Then
) -> None:
    await provisioned(running, given, then)
    await given.service_instance("db")
    await given.service_binding("db-binding", "db")

    await given.client.delete(BtpOperator, "btpoperator", "kyma-system")

    await then.shows(
        "Warning",
        "ServiceInstancesAndBindingsNotCleaned",
        saying=["1 instance(s) and 1 binding(s)", "default/db", "default/db-binding"],
    )
    await then.event("ServiceInstancesAndBindingsNotCleaned", type_="Warning")
    await then.service_instance_survives("db")
    await then.service_binding_survives("db-binding")


async def test_while_blocked_a_deleted_deployment_comes_back(running: Running, given: Given, then: Then) -> None:
    await provisioned(running, given, then)
    await given.service_instance("db")
    await given.client.delete(BtpOperator, "btpoperator", "kyma-system")
    await then.shows("Warning", "ServiceInstancesAndBindingsNotCleaned")
    old = await given.client.get(DEPLOYMENTS, OPERAND, "kyma-system")

    await given.client.delete(DEPLOYMENTS, OPERAND, "kyma-system")

    await then.becomes(
        DEPLOYMENTS, OPERAND, lambda seen: seen is not None and seen.metadata.uid != old.metadata.uid, "be made again"
    )


async def test_when_the_last_instance_and_binding_go_the_deletion_goes_on_at_once(
    running: Running, given: Given, then: Then
) -> None:
    await provisioned(running, given, then)
    await given.service_instance("db")
    await given.service_binding("db-binding", "db")
    await given.client.delete(BtpOperator, "btpoperator", "kyma-system")
    await then.shows("Warning", "ServiceInstancesAndBindingsNotCleaned")

    await given.no_bindings()
    await then.shows("Warning", "ServiceInstancesAndBindingsNotCleaned", saying=["1 instance(s) and 0 binding(s)"])
    await given.no_instances()

    await then.is_gone()
    await then.has_shown(("Warning", "ServiceInstancesAndBindingsNotCleaned"), ("Deleting", "HardDeleting"))
    await then.absent(CRD, INSTANCE_CRD)
    await then.absent(DEPLOYMENTS, OPERAND)


async def test_the_force_label_deletes_everything(running: Running, given: Given, then: Then) -> None:
    await provisioned(running, given, then)
    await given.service_instance("db")
    await given.service_binding("db-binding", "db")
    await given.client.delete(BtpOperator, "btpoperator", "kyma-system")
    await then.shows("Warning", "ServiceInstancesAndBindingsNotCleaned")

    await given.labels_on(BtpOperator, "btpoperator", **{"force-delete": "true"})

    await then.is_gone()
    await then.has_shown(("Warning", "ServiceInstancesAndBindingsNotCleaned"), ("Deleting", "HardDeleting"))
    await then.absent(CRD, INSTANCE_CRD)
    await then.absent(CRD, BINDING_CRD)


@pytest.mark.req("R-505")
async def test_an_event_says_what_of_users_was_deleted_and_by_which_label(
    running: Running, given: Given, then: Then
) -> None:
    await provisioned(running, given, then)
    await given.service_instance("db-of-a-user")
    await given.labels_on(BtpOperator, "btpoperator", **{"force-delete": "true"})

    await given.client.delete(BtpOperator, "btpoperator", "kyma-system")

    await then.is_gone()
    await then.event(
        "ForcedDeletion",
        saying=["force-delete", "1 instance(s)", "default/db-of-a-user", "after 20m (HardDeleteTimeout)"],
    )


async def test_only_the_exact_value_true_forces(running: Running, given: Given, then: Then) -> None:
    await provisioned(running, given, then)
    await given.service_instance("db")
    await given.labels_on(BtpOperator, "btpoperator", **{"force-delete": "True"})

    await given.client.delete(BtpOperator, "btpoperator", "kyma-system")

    await then.shows("Warning", "ServiceInstancesAndBindingsNotCleaned")
    await then.service_instance_survives("db")


async def test_a_sweep_that_is_called_off_leaves_no_clock_running(running: Running, given: Given, then: Then) -> None:
    await provisioned(running, given, then)
    await given.service_instance("db", "default", "example.com/held")
    await given.labels_on(BtpOperator, "btpoperator", **{"force-delete": "true"})
    await given.client.delete(BtpOperator, "btpoperator", "kyma-system")
    started = "operator.kyma-project.io/hard-delete-started-at"
    operators = unstructured(BtpOperator.resource)
    await then.becomes(
        operators, "btpoperator", lambda cr: cr is not None and started in cr.metadata.annotations, "note the start"
    )

    soft = "operator.kyma-project.io/soft-delete-started-at"
    called_off: JsonObject = {"labels": {"force-delete": "no"}, "annotations": {soft: datetime.now(UTC).isoformat()}}
    await given.client.patch(operators, "btpoperator", "kyma-system", MergePatch({"metadata": called_off}))

    await then.shows("Warning", "ServiceInstancesAndBindingsNotCleaned")
    await then.becomes(
        operators,
        "btpoperator",
        lambda cr: cr is not None and not {started, soft} & cr.metadata.annotations.keys(),
        "forget both",
    )


async def test_foreign_finalizers_are_cut_when_hard_deletion_takes_too_long(
    running: Running, given: Given, then: Then
) -> None:
    await provisioned(running, given, then, HardDeleteTimeout="1s")
    await given.service_instance("db", "default", "example.com/held")
    await given.service_binding("db-binding", "db", "default", "example.com/held")
    await given.says(ServiceBinding, "db-binding", "the broker is on strike")
    await given.labels_on(BtpOperator, "btpoperator", **{"force-delete": "true"})

    await given.client.delete(BtpOperator, "btpoperator", "kyma-system")

    await then.is_gone()
    await then.has_shown(("Deleting", "HardDeleting"), ("Deleting", "SoftDeleting"))
    await then.absent(CRD, INSTANCE_CRD)
    await then.event("HardDeletionGivenUp", saying=["ServiceBinding default/db-binding: the broker is on strike"])


async def test_what_a_forced_deletion_waits_for_is_counted_and_named(
    running: Running, given: Given, then: Then
) -> None:
    await provisioned(running, given, then)
    await given.service_instance("db", "default", "example.com/held")
    await given.service_binding("db-binding", "db", "default", "example.com/held")
    await given.labels_on(BtpOperator, "btpoperator", **{"force-delete": "true"})

    await given.client.delete(BtpOperator, "btpoperator", "kyma-system")

    waits = "BtpOperator is to be deleted. Waiting for 1 instance(s) and {} binding(s) to go: "
    soft = "soft deletion removes their finalizers from 20"
    await then.shows("Deleting", "HardDeleting", saying=[waits.format(1), soft, "ServiceBinding default/db-binding"])
    await given.without_finalizers(ServiceBinding, "db-binding")
    await then.shows("Deleting", "HardDeleting", saying=[waits.format(0), "ServiceInstance default/db"])
    await given.without_finalizers(ServiceInstance, "db")
    await then.is_gone()


async def test_a_binding_that_does_not_go_keeps_no_instance_from_a_clean_deletion(
    running: Running, given: Given, then: Then
) -> None:
    await provisioned(running, given, then, HardDeleteTimeout="6m")
    await given.service_instance("db")
    await given.service_binding("stuck", "other-db", "default", "example.com/held")
    half_used = datetime.now(UTC) - timedelta(minutes=4)
    await given.annotations_on(BtpOperator, "btpoperator", **{HARD_DELETE_STARTED_ANNOTATION: half_used.isoformat()})

    await forced_deletion(given)

    await then.disappears(unstructured(ServiceInstance.resource), "db", "default")
    await then.exists(ServiceBinding, "stuck", "default")
    await given.without_finalizers(ServiceBinding, "stuck")
    await then.is_gone()
    assert "SoftDeleting" not in {shown.reason for shown in then.history.of()}


async def test_what_a_removal_waits_for_is_counted_and_whoever_holds_it_is_named(
    running: Running, given: Given, then: Then
) -> None:
    await provisioned(running, given, then)
    held = MergePatch({"metadata": {"finalizers": ["example.com/held"]}})
    await given.client.patch(metadata_of(Service), "sap-btp-operator-webhook-service", "kyma-system", held)

    await given.client.delete(BtpOperator, "btpoperator", "kyma-system")

    held_by = "; Service kyma-system/sap-btp-operator-webhook-service is held by example.com/held"
    saying = ["Waiting for the module to go: ", ", 1 Service", held_by]
    await then.shows("Deleting", "HardDeleting", saying=saying)
    await given.without_finalizers(Service, "sap-btp-operator-webhook-service", "kyma-system")
    await then.is_gone()


async def forced_deletion(given: Given) -> None:
    """The user deletes the CR, and everything with it."""
    await given.labels_on(BtpOperator, "btpoperator", **{"force-delete": "true"})
    await given.client.delete(BtpOperator, "btpoperator", "kyma-system")


async def test_soft_deletion_takes_the_secret_that_a_binding_wrote(running: Running, given: Given, then: Then) -> None:
    await provisioned(running, given, then, HardDeleteTimeout="1s")
    await given.service_instance("db")
    await given.service_binding("db-binding", "db", "default", "example.com/held", secret_name="db-credentials")
    await given.secret_of_binding("db-credentials", "db-binding")

    await forced_deletion(given)

    await then.is_gone()
    await then.absent(Secret, "db-credentials", "default")


@pytest.mark.req("R-505")
async def test_soft_deletion_leaves_a_secret_that_a_binding_names_and_does_not_own(
    running: Running, given: Given, then: Then
) -> None:
    await provisioned(running, given, then, HardDeleteTimeout="1s")
    await given.secret("of-somebody-else")
    await given.service_instance("db")
    await given.service_binding("db-binding", "db", "default", "example.com/held", secret_name="of-somebody-else")
    await given.service_binding("another", "db", "default", "example.com/held", secret_name="of-another")
    await given.secret_of_binding("of-another", "db-binding", controller=False)

    await forced_deletion(given)

    await then.is_gone()
    await then.exists(Secret, "of-somebody-else", "default")
    await then.exists(Secret, "of-another", "default")
    await then.event("SecretKept", saying=["default/of-somebody-else", "ServiceBinding default/db-binding"])


@pytest.mark.req("R-408", "R-505")
async def test_a_binding_that_names_no_possible_secret_holds_up_nobodys_deletion(
    running: Running, given: Given, then: Then
) -> None:
    await provisioned(running, given, then, HardDeleteTimeout="1s")
    await given.service_instance("db")
    for number, name in enumerate(("../configmaps/kube-root-ca.crt", "a/b", "..", "x%2fy", "a" * 300)):
        await given.service_binding(f"binding-{number}", "db", "default", "example.com/held", secret_name=name)

    await forced_deletion(given)

    await then.is_gone()
    await then.exists(ConfigMap, "kube-root-ca.crt", "default")
    await then.event("SecretKept", saying=["'../configmaps/kube-root-ca.crt'", "no Secret can be called"])


@pytest.mark.req("R-112")
async def test_a_binding_that_resists_does_not_keep_the_finalizers_of_others(
    running: Running, given: Given, then: Then
) -> None:
    await provisioned(running, given, then, HardDeleteTimeout="0", **RETRY)
    await given.service_instance("db")
    await given.service_binding("a-binding", "db", "default", "example.com/held")
    await given.service_binding("z-binding", "db", "default", "example.com/held")

    async with given.changes_are_refused(ServiceBinding.resource, "a-binding", "default"):
        await forced_deletion(given)
        await then.shows("Error", "ResourceRemovalFailed", saying=["a-binding"])
        await then.disappears(unstructured(ServiceBinding.resource), "z-binding", "default")
        await then.service_instance_survives("db")

    await then.is_gone()


async def test_deletion_succeeds_without_the_required_secret(running: Running, given: Given, then: Then) -> None:
    await provisioned(running, given, then)
    await given.client.delete(Secret, "sap-btp-manager", "kyma-system")
    await then.shows("Warning", "MissingSecret")

    await given.client.delete(BtpOperator, "btpoperator", "kyma-system")

    await then.is_gone()
    await then.absent(DEPLOYMENTS, OPERAND)


async def test_the_credentials_in_a_namespace_of_the_users_choice_are_removed_too(
    running: Running, given: Given, then: Then
) -> None:
    namespace = await given.a_namespace("btp-credentials")
    await given.required_secret(credentials_namespace=namespace)
    await running.start()
    await given.btp_operator()
    await then.shows("Ready", "ReconcileSucceeded")
    await then.exists(Secret, "sap-btp-service-operator", namespace)

    await given.client.delete(BtpOperator, "btpoperator", "kyma-system")

    await then.is_gone()
    await then.absent(Secret, "sap-btp-service-operator", namespace)
