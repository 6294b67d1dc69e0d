"""A new BtpOperator becomes Ready, or says what stands in its way."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from stellwerk.api.admission import MutatingWebhookConfiguration, ValidatingWebhookConfiguration
from stellwerk.api.apps import Deployment
from stellwerk.api.core import ConfigMap, Secret, Service, ServiceAccount
from stellwerk.api.networking import NetworkPolicy
from stellwerk.apply.set.model.confirmation import FIGHT_SECONDS
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, Kind, Unstructured, metadata_of, unstructured
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.testing.eventually import eventually
from tests.cluster.btp.beginnings import ready
from tests.cluster.btp.given import Given
from tests.cluster.btp.running import Running
from tests.cluster.btp.then import Then

CRD = unstructured(
    Resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)
)
CLUSTER_ROLE = unstructured(
    Resource("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False)
)
OPERAND = "sap-btp-operator-controller-manager"
OPERATORS = unstructured(BtpOperator.resource)
READY_OF_THE_FORMER_FORM: JsonObject = {
    "type": "Ready",
    "status": "False",
    "reason": "MissingSecret",
    "message": "sap-btp-manager Secret in kyma-system namespace not found",
    "lastTransitionTime": "2026-01-31T09:30:00Z",
}
LABELS = {"app.kubernetes.io/managed-by": "btp-manager", "kyma-project.io/module": "btp-operator"}


async def test_a_new_cr_becomes_ready_with_all_resources_and_labels(running: Running, given: Given, then: Then) -> None:
    await given.required_secret()
    await running.start()
    await given.btp_operator()

    await then.shows("Ready", "ReconcileSucceeded")

    assert then.history.states() == [("Processing", "Initialized"), ("Ready", "ReconcileSucceeded")]
    expected: list[tuple[type[Kind], str]] = [
        (ConfigMap, "sap-btp-operator-config"),
        (Secret, "sap-btp-service-operator"),
        (Deployment, OPERAND),
        (Service, "sap-btp-operator-webhook-service"),
        (Service, "sap-btp-operator-controller-manager-metrics-service"),
        (ServiceAccount, "sap-btp-operator"),
        (MutatingWebhookConfiguration, "sap-btp-operator-mutating-webhook-configuration"),
        (ValidatingWebhookConfiguration, "sap-btp-operator-validating-webhook-configuration"),
        (NetworkPolicy, "kyma-project.io--btp-operator-allow-to-apiserver"),
        (NetworkPolicy, "kyma-project.io--btp-operator-to-dns"),
        (NetworkPolicy, "kyma-project.io--allow-btp-operator-metrics"),
        (NetworkPolicy, "kyma-project.io--allow-btp-operator-webhook"),
    ]
    for kind, name in expected:
        seen = await given.client.get(metadata_of(kind), name, "kyma-system")
        assert LABELS.items() <= seen.metadata.labels.items(), name
        assert seen.metadata.labels["chart-version"], name
    for name in ("serviceinstances.services.cloud.sap.com", "servicebindings.services.cloud.sap.com"):
        assert LABELS.items() <= (await given.client.get(CRD, name)).metadata.labels.items()
    for name in ("ca-server-cert", "webhook-server-cert"):
        certificate = await given.client.get(Secret, name, "kyma-system")
        assert certificate.metadata.labels == {"app.kubernetes.io/managed-by": "btp-manager"}
    await then.exists(CLUSTER_ROLE, "sap-btp-operator-manager-role")


async def test_a_ready_cr_says_which_spec_it_is_ready_for(running: Running, given: Given, then: Then) -> None:
    await given.required_secret()
    await running.start()
    await given.btp_operator()
    await then.shows("Ready", "ReconcileSucceeded")

    changed = await given.client.patch(BtpOperator, "btpoperator", "kyma-system", MergePatch({"spec": {}}))
    assert changed.metadata.generation == 2

    await then.becomes(
        unstructured(BtpOperator.resource),
        "btpoperator",
        lambda seen: '"observedGeneration": 2' in json.dumps(seen.body if seen else {}),
        "be ready for its second spec",
    )


async def test_a_status_of_the_form_before_is_completed_at_the_next_pass(
    running: Running, given: Given, then: Then
) -> None:
    await running.start()
    await given.btp_operator()
    await then.becomes(OPERATORS, "btpoperator", is_shown_for_generic_tools("Ready", "Stalled"), "be stalled")

    await running.stop()
    former = MergePatch({"status": {"observedGeneration": None, "conditions": [READY_OF_THE_FORMER_FORM]}})
    await given.client.patch(BtpOperator, "btpoperator", "kyma-system", former, subresource="status")
    await running.start()

    await then.becomes(OPERATORS, "btpoperator", is_shown_for_generic_tools("Ready", "Stalled"), "be stalled")
    await given.required_secret()
    await then.shows("Ready", "ReconcileSucceeded")
    await then.becomes(OPERATORS, "btpoperator", is_shown_for_generic_tools("Ready"), "be ready")


def is_shown_for_generic_tools(*types: str) -> Callable[[Unstructured | None], bool]:
    """Whether a CR shows these conditions, in this order, for its newest generation."""

    def check(seen: Unstructured | None) -> bool:
        listed = seen.at("status", "conditions") if seen is not None else None
        if seen is None or not isinstance(listed, list):
            return False
        is_current = seen.at("status", "observedGeneration") == seen.metadata.generation
        return is_current and [one["type"] for one in listed if isinstance(one, dict)] == [*types]

    return check


async def test_without_the_required_secret_the_cr_warns_and_goes_on_by_itself_when_it_appears(
    running: Running, given: Given, then: Then
) -> None:
    await running.start()
    await given.btp_operator()
    await then.shows("Warning", "MissingSecret", saying=["kyma-system", "sap-btp-manager"])

    await given.required_secret()

    await then.shows("Ready", "ReconcileSucceeded")
    await then.has_shown(("Warning", "MissingSecret"), ("Processing", "Updated"), ("Ready", "ReconcileSucceeded"))


async def test_missing_keys_are_named_in_order_and_no_value_leaks(running: Running, given: Given, then: Then) -> None:
    await given.required_secret(without=("cluster_id", "clientsecret"))
    await running.start()
    await given.btp_operator()

    shown = await then.shows("Error", "InvalidSecret", saying=["key(s) clientsecret, cluster_id not found"])

    assert "client-one" not in shown.message


async def test_empty_values_are_named(running: Running, given: Given, then: Then) -> None:
    await given.required_secret(cluster_id="", clientsecret="")
    await running.start()
    await given.btp_operator()

    await then.shows("Error", "InvalidSecret", saying=["missing value(s) for clientsecret, cluster_id key(s)"])


async def test_a_corrected_secret_leads_to_ready(running: Running, given: Given, then: Then) -> None:
    await given.required_secret(clientid="")
    await running.start()
    await given.btp_operator()
    await then.shows("Error", "InvalidSecret")

    await given.required_secret()

    await then.shows("Ready", "ReconcileSucceeded")
    await then.has_shown(("Error", "InvalidSecret"), ("Processing", "Updated"), ("Ready", "ReconcileSucceeded"))


async def test_an_unlabelled_secret_counts_as_missing(running: Running, given: Given, then: Then) -> None:
    await given.required_secret(labelled=False)
    await running.start()
    await given.btp_operator()

    await then.shows("Warning", "MissingSecret")


async def test_the_operand_runs_the_image_of_the_environment(running: Running, given: Given, then: Then) -> None:
    await given.required_secret()
    await running.start(image="registry.example.com/operand:9")
    await given.btp_operator()
    await then.shows("Ready", "ReconcileSucceeded")

    operand = await given.client.get(unstructured(Deployment.resource), OPERAND, "kyma-system")
    assert '"image": "registry.example.com/operand:9"' in str(operand.body).replace("'", '"')


async def test_an_empty_image_is_a_provisioning_failure(running: Running, given: Given, then: Then) -> None:
    await given.required_secret()
    await running.start(image="")
    await given.btp_operator()

    await then.shows("Error", "ProvisioningFailed", saying=[OPERAND, "image"])


@pytest.mark.req("R-105")
async def test_what_happened_to_the_module_of_a_former_btp_operator_delays_no_new_one(
    running: Running, given: Given, then: Then
) -> None:
    """Another client has wiped both, so nothing tells the operator that the former module has ended."""
    await ready(running, given, then)
    deployments = metadata_of(Deployment)
    await given.client.delete(deployments, OPERAND, "kyma-system")

    async def is_restored() -> bool:
        return await given.client.find(deployments, OPERAND, "kyma-system") is not None

    await eventually(is_restored, describe="the Deployment is restored")
    await running.is_idle()
    free = MergePatch({"metadata": {"finalizers": None}})
    await given.client.patch(metadata_of(BtpOperator), "btpoperator", "kyma-system", free)
    await given.client.delete(metadata_of(BtpOperator), "btpoperator", "kyma-system")
    await then.is_gone()
    await given.client.delete(deployments, OPERAND, "kyma-system")

    await given.btp_operator()
    await eventually(is_restored, within=FIGHT_SECONDS / 2, describe="the module of the new one is complete")
    await then.shows("Ready", "ReconcileSucceeded")
