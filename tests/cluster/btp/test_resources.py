"""Module resources stay as the manifests say, whoever touches them, and old ones go."""

from __future__ import annotations

from pathlib import Path

import pytest

from stellwerk.api.admission import ValidatingWebhookConfiguration
from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.apps import Deployment
from stellwerk.api.core import ConfigMap, Secret, Service
from stellwerk.api.networking import NetworkPolicy
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import JsonObject, Unstructured, unstructured
from stellwerk.operators.btp.api import VERSIONS_NAME, BtpOperator
from stellwerk.operators.btp.module import version_record
from tests.cluster.btp import priority_class
from tests.cluster.btp.beginnings import provisioned
from tests.cluster.btp.given import Given
from tests.cluster.btp.modules import Module
from tests.cluster.btp.running import Running
from tests.cluster.btp.then import Then

WEBHOOK_SERVICE = "sap-btp-operator-webhook-service"
OPERAND = "sap-btp-operator-controller-manager"
DEPLOYMENTS = unstructured(Deployment.resource)
SERVICES = unstructured(Service.resource)
POLICIES = unstructured(NetworkPolicy.resource)
CONFIG_MAPS = unstructured(ConfigMap.resource)
INSTANCE_CRD = "serviceinstances.services.cloud.sap.com"
OPT_OUT = "operator.kyma-project.io/btp-operator-disable-network-policies"


async def test_foreign_labels_are_removed(running: Running, given: Given, then: Then) -> None:
    await provisioned(running, given, then)

    await given.labels_on(Service, WEBHOOK_SERVICE, **{"reconciler.kyma-project.io/by": "x"})

    await then.becomes(
        SERVICES,
        WEBHOOK_SERVICE,
        lambda seen: seen is not None and "reconciler.kyma-project.io/by" not in seen.metadata.labels,
        "lose the foreign label",
    )
    await then.event("Restored", saying=["Service kyma-system/sap-btp-operator-webhook-service"])


async def test_a_foreign_finalizer_is_left_where_it_is(running: Running, given: Given, then: Then) -> None:
    await provisioned(running, given, then)
    metadata: JsonObject = {"finalizers": ["example.com/held"], "labels": {"example.com/by": "x"}}

    await given.client.patch(SERVICES, WEBHOOK_SERVICE, "kyma-system", MergePatch({"metadata": metadata}))
    await then.becomes(
        SERVICES,
        WEBHOOK_SERVICE,
        lambda seen: seen is not None and "example.com/by" not in seen.metadata.labels,
        "lose the foreign label",
    )
    await given.client.patch(
        SERVICES,
        WEBHOOK_SERVICE,
        "kyma-system",
        MergePatch({"metadata": {"finalizers": ["example.com/held", "b.c/d"]}}),
    )
    await given.labels_on(Service, WEBHOOK_SERVICE, **{"example.com/by": "y"})
    seen = await then.becomes(
        SERVICES,
        WEBHOOK_SERVICE,
        lambda seen: seen is not None and "example.com/by" not in seen.metadata.labels,
        "lose the foreign label again",
    )
    assert seen is not None
    assert seen.metadata.finalizers == ("example.com/held", "b.c/d")
    await given.without_finalizers(Service, WEBHOOK_SERVICE, "kyma-system")


async def test_a_scaled_deployment_is_scaled_back(running: Running, given: Given, then: Then) -> None:
    await provisioned(running, given, then)

    await given.client.patch(DEPLOYMENTS, OPERAND, "kyma-system", MergePatch({"spec": {"replicas": 3}}))

    await then.becomes(
        DEPLOYMENTS, OPERAND, lambda seen: seen is not None and seen.at("spec", "replicas") == 1, "be scaled back"
    )


async def test_a_deleted_deployment_is_made_again_at_once(running: Running, given: Given, then: Then) -> None:
    await provisioned(running, given, then)
    old = await given.client.get(DEPLOYMENTS, OPERAND, "kyma-system")

    await given.client.delete(DEPLOYMENTS, OPERAND, "kyma-system")

    await then.becomes(
        DEPLOYMENTS, OPERAND, lambda seen: seen is not None and seen.metadata.uid != old.metadata.uid, "be made again"
    )
    await then.shows("Ready", "ReconcileSucceeded")


async def test_a_deleted_service_is_made_again_without_waiting_for_a_full_pass(
    running: Running, given: Given, then: Then
) -> None:
    await provisioned(running, given, then)
    old = await given.client.get(SERVICES, WEBHOOK_SERVICE, "kyma-system")

    await given.client.delete(SERVICES, WEBHOOK_SERVICE, "kyma-system")

    await then.becomes(
        SERVICES,
        WEBHOOK_SERVICE,
        lambda seen: seen is not None and seen.metadata.uid != old.metadata.uid,
        "be made again",
    )


async def test_a_deployment_that_never_becomes_available_ends_in_an_error_that_names_it(
    running: Running, given: Given, then: Then
) -> None:
    await given.required_secret()
    await priority_class.is_missing(given.client)
    await running.start(ReadyTimeout="1s")
    await given.btp_operator()

    await then.shows("Error", "ProvisioningFailed", saying=["timed out", OPERAND])


async def test_without_any_time_to_become_ready_the_module_is_ready_once_its_deployment_is(
    running: Running, given: Given, then: Then
) -> None:
    await provisioned(running, given, then, ReadyTimeout="0")


async def test_a_stuck_deployment_is_explained_while_it_is_waited_for(
    running: Running, given: Given, then: Then
) -> None:
    await given.required_secret()
    await priority_class.is_missing(given.client)
    await running.start()
    await given.btp_operator()

    await then.shows("Processing", "Initialized", saying=[OPERAND, "btp-manager-kyma-priority"])

    await priority_class.exists(given.client)
    # Kubernetes tries to make pods again when as much time has passed as it has tried in vain.
    await then.shows("Ready", "ReconcileSucceeded", within=90)


async def test_objects_that_the_manifests_list_for_deletion_go(
    running: Running, given: Given, then: Then, module: Module
) -> None:
    await provisioned(running, given, then)
    await running.stop()
    namesake = "sap-btp-operator-config"
    for name, namespace in (("left-behind", "kyma-system"), (namesake, "default")):
        module.list_for_deletion("v1", "ConfigMap", name, namespace)
        await given.replace(
            ConfigMap, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}}
        )
    # What the release applies stays, although a list for another release names it.
    module.list_for_deletion("v1", "ConfigMap", namesake)
    module.list_for_deletion("apiextensions.k8s.io/v1", "CustomResourceDefinition", INSTANCE_CRD)
    applied = await given.client.get(CONFIG_MAPS, namesake, "kyma-system")

    await running.start()

    await then.disappears(CONFIG_MAPS, "left-behind")
    await then.event("OutdatedDeleted", saying=["ConfigMap kyma-system/left-behind"])
    await then.disappears(CONFIG_MAPS, namesake, "default")
    assert (await given.client.get(CONFIG_MAPS, namesake, "kyma-system")).metadata.uid == applied.metadata.uid
    assert not (await given.client.get(CustomResourceDefinition, INSTANCE_CRD)).metadata.is_terminating


@pytest.mark.parametrize("because", ["interval", "version"])
async def test_an_object_of_a_former_release_that_comes_back_is_looked_for_again(
    running: Running, given: Given, then: Then, module: Module, because: str
) -> None:
    module.list_for_deletion("v1", "ConfigMap", "left-behind")
    await given.required_secret()
    await priority_class.exists(given.client)
    await running.start(ReadyStateRequeueInterval="2s" if because == "interval" else "1h")
    await given.btp_operator()
    await then.shows("Ready", "ReconcileSucceeded")
    await running.is_idle()

    metadata: JsonObject = {"name": "left-behind", "namespace": "kyma-system"}
    await given.replace(ConfigMap, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    if because == "version":
        passes = running.passes
        running.wake()
        await running.has_passed(passes + 1)
        assert await given.client.find(ConfigMap, "left-behind", "kyma-system") is not None
        module.set_version("v99.0.0")
        running.wake()

    await then.disappears(CONFIG_MAPS, "left-behind")


async def test_a_new_version_with_renamed_objects_leaves_none_of_the_old(
    running: Running, given: Given, then: Then, module: Module
) -> None:
    await provisioned(running, given, then)
    await running.stop()
    module.rename(
        Service.resource, "sap-btp-operator-controller-manager-metrics-service", into="sap-btp-operator-metrics"
    )
    module.set_version("v99.0.0")

    await running.start()

    await then.disappears(SERVICES, "sap-btp-operator-controller-manager-metrics-service")
    await then.exists(SERVICES, "sap-btp-operator-metrics")
    await then.becomes(
        DEPLOYMENTS,
        OPERAND,
        lambda seen: seen is not None and seen.metadata.labels.get("chart-version") == "v99.0.0",
        "carry the new version",
    )
    record = await then.becomes(
        CONFIG_MAPS,
        "btp-manager-versions",
        lambda seen: seen is not None and seen.at("data", "currentChartVersion") == "v99.0.0",
        "record the new version",
    )
    assert isinstance(record, Unstructured)


async def test_a_list_of_deletions_takes_no_definition_that_users_have_objects_of(
    running: Running, given: Given, then: Then, module: Module
) -> None:
    await provisioned(running, given, then)
    await given.service_instance("db")
    await running.stop()
    await given.client.create(ConfigMap, {"metadata": {"name": "former", "namespace": "kyma-system"}})
    module.remove(CustomResourceDefinition.resource, INSTANCE_CRD)
    module.list_for_deletion("apiextensions.k8s.io/v1", "CustomResourceDefinition", INSTANCE_CRD)
    module.list_for_deletion("v1", "ConfigMap", "former")

    await running.start(ReadyStateRequeueInterval="1s")

    await then.disappears(CONFIG_MAPS, "former")
    definition = await given.client.get(CustomResourceDefinition, INSTANCE_CRD)
    assert not definition.metadata.is_terminating
    await then.service_instance_survives("db")
    await given.no_instances()
    await then.disappears(unstructured(CustomResourceDefinition.resource), INSTANCE_CRD, "")


async def test_a_damaged_record_of_versions_stops_neither_the_module_nor_its_removal(
    running: Running, given: Given, then: Then
) -> None:
    damaged: JsonObject = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": VERSIONS_NAME, "namespace": "kyma-system"},
        "data": {"currentChartVersion": "v1", "currentGvks": "a: [", "oldChartVersion": "v0", "oldGvks": "text"},
    }
    await given.replace(ConfigMap, damaged)

    await provisioned(running, given, then)

    written = await given.client.get(ConfigMap, VERSIONS_NAME, "kyma-system")
    assert version_record.parse(written.data).current_version != "v1"
    await running.stop()
    await given.data_on(ConfigMap, VERSIONS_NAME, currentGvks="a: [")
    await given.client.delete(Secret, "sap-btp-manager", "kyma-system")  # nothing but the removal reads the record
    await given.client.delete(BtpOperator, "btpoperator", "kyma-system")
    await running.start()
    await then.is_gone()


async def test_manifests_that_lack_a_required_resource_are_named(
    running: Running, given: Given, then: Then, module: Module
) -> None:
    module.remove(ConfigMap.resource, "sap-btp-operator-config")
    await given.required_secret()
    await running.start()
    await given.btp_operator()

    await then.shows("Error", "ProvisioningFailed", saying=["required module resources not found", "configMap"])


async def test_network_policies_can_be_switched_off_and_on(running: Running, given: Given, then: Then) -> None:
    await provisioned(running, given, then)
    policy = "kyma-project.io--btp-operator-to-dns"
    await given.replace(
        NetworkPolicy,
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": "of-a-user", "namespace": "kyma-system"},
            "spec": {"podSelector": {}},
        },
    )

    await given.annotations_on(BtpOperator, "btpoperator", **{OPT_OUT: "TRUE"})
    await then.disappears(POLICIES, policy)
    await then.exists(POLICIES, "of-a-user")

    await given.no_annotation_on(BtpOperator, "btpoperator", OPT_OUT)
    await then.becomes(POLICIES, policy, lambda seen: seen is not None, "come back")


async def test_the_network_policy_of_a_former_version_is_removed(running: Running, given: Given, then: Then) -> None:
    labels = {"app.kubernetes.io/managed-by": "btp-manager", "kyma-project.io/module": "btp-operator"}
    await given.replace(
        NetworkPolicy,
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {
                "name": "kyma-project.io--btp-operator-allow-to-webhook",
                "namespace": "kyma-system",
                "labels": dict(labels),
            },
            "spec": {"podSelector": {}},
        },
    )
    await provisioned(running, given, then)

    await then.disappears(POLICIES, "kyma-project.io--btp-operator-allow-to-webhook")


async def test_a_module_upgrade_reaches_the_operand_while_the_deletion_is_blocked(
    running: Running, given: Given, then: Then, module: Module
) -> None:
    await provisioned(running, given, then)
    await given.service_instance("db")
    await given.client.delete(BtpOperator, "btpoperator", "kyma-system")
    await then.shows("Warning", "ServiceInstancesAndBindingsNotCleaned")
    await running.stop()
    module.set_version("v99.0.0")

    await running.start()

    await then.becomes(
        DEPLOYMENTS,
        OPERAND,
        lambda seen: seen is not None and seen.metadata.labels.get("chart-version") == "v99.0.0",
        "carry the new version",
    )
    await then.shows("Warning", "ServiceInstancesAndBindingsNotCleaned")


async def test_an_operator_that_starts_again_on_a_ready_module_writes_nothing_to_it(
    running: Running, given: Given, then: Then
) -> None:
    await provisioned(running, given, then)
    webhook = await given.client.get(
        unstructured(ValidatingWebhookConfiguration.resource), "sap-btp-operator-validating-webhook-configuration"
    )
    operand = await then.operand_has_rolled()
    await running.stop()

    await running.start()
    await running.is_idle()

    again = await given.client.get(DEPLOYMENTS, OPERAND, "kyma-system")
    assert again.metadata.generation == operand.metadata.generation
    assert again.metadata.resource_version == operand.metadata.resource_version
    assert (
        webhook.metadata.resource_version
        == (
            await given.client.get(unstructured(ValidatingWebhookConfiguration.resource), webhook.metadata.name)
        ).metadata.resource_version
    )


def test_the_shipped_folder_is_what_the_tests_run_on(module: Module) -> None:
    assert Path(module.folder, "apply").is_dir()
