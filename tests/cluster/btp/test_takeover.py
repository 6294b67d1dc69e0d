"""What the original operator has set up is taken over as it stands: no pod restarts, no user's object is touched."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cluster.btp.given import CREDENTIALS, Given, base64_text
from tests.cluster.btp.running import IMAGE, Running
from tests.cluster.btp.then import Then

from stellwerk.api.apps import Deployment
from stellwerk.apply import edit
from stellwerk.apply.manifests import read_folder
from stellwerk.kube.client import Client
from stellwerk.kube.model import JsonObject, Unstructured, dig, unstructured
from stellwerk.kube.names import GroupVersionKind

PUBLISHED = Path(__file__).parents[4] / "shared" / "fixtures" / "btp" / "module-resources" / "apply"
OPERAND = "sap-btp-operator-controller-manager"
DEPLOYMENTS = unstructured(Deployment.resource)
LABELS = {
    "app.kubernetes.io/managed-by": "btp-manager",
    "chart-version": "v0.11.10",
    "kyma-project.io/module": "btp-operator",
}

pytestmark = pytest.mark.skipif(not PUBLISHED.exists(), reason="the published manifests are not beside this repository")


def as_the_original_writes(body: JsonObject) -> JsonObject:
    """One published manifest with the values of `given.required_secret`, prepared by the original's rules."""
    body = edit.with_labels(body, LABELS)
    match body["kind"], dig(body, "metadata", "name"):
        case "ConfigMap", "sap-btp-operator-config":
            namespace = "kyma-system"
            values = {"CLUSTER_ID": "cluster-one", "RELEASE_NAMESPACE": namespace, "MANAGEMENT_NAMESPACE": namespace}
            return edit.merged(body, {**values, "ENABLE_LIMITED_CACHE": "true"}, "data")
        case "Secret", "sap-btp-service-operator":
            values = {key: base64_text(value) for key, value in CREDENTIALS.items() if key != "cluster_id"}
            return edit.merged(body, values, "data")
        case "Deployment", _:
            return _deployment(body)
        case _:
            return body


def _deployment(body: JsonObject) -> JsonObject:
    template = ("spec", "template")
    body = edit.merged(body, {"kyma-project.io/module": "btp-operator"}, *template, "metadata", "labels")
    containers = dig(body, *template, "spec", "containers")
    assert isinstance(containers, list)
    assert isinstance(containers[0], dict)
    return edit.with_value(body, [{**containers[0], "image": IMAGE}], *template, "spec", "containers")


async def set_up_by_the_original(client: Client) -> None:
    """Created one by one with a plain POST under the manager's name, webhooks left out: no operand answers here."""
    for document in read_folder(PUBLISHED):
        body = as_the_original_writes(document.body)
        if str(body["kind"]).endswith("WebhookConfiguration"):
            continue
        resource = await client.mapper.resource(GroupVersionKind.parse(str(body["apiVersion"]), str(body["kind"])))
        await client.create(unstructured(resource), body, field_manager="btp-manager")


def is_available(seen: Unstructured | None) -> bool:
    return seen is not None and seen.at("status", "availableReplicas") == 1


async def test_taking_over_an_operand_restarts_no_pod(running: Running, given: Given, then: Then) -> None:
    await given.required_secret()
    await set_up_by_the_original(given.client)
    await then.becomes(DEPLOYMENTS, OPERAND, is_available, "run")
    before = await given.client.get(DEPLOYMENTS, OPERAND, "kyma-system")
    pods = {pod.metadata.uid for pod in await given.operand_pods()}
    await given.service_instance("db")

    await running.start()
    await given.btp_operator()
    await then.shows("Ready", "ReconcileSucceeded")
    await running.is_idle()

    after = await given.client.get(DEPLOYMENTS, OPERAND, "kyma-system")
    assert after.metadata.uid == before.metadata.uid
    assert after.at("spec", "template") == before.at("spec", "template")
    assert {pod.metadata.uid for pod in await given.operand_pods()} == pods
    await then.service_instance_survives("db")


async def test_an_operand_that_was_taken_over_restarts_when_its_credentials_change(
    running: Running, given: Given, then: Then
) -> None:
    await given.required_secret()
    await set_up_by_the_original(given.client)
    await then.becomes(DEPLOYMENTS, OPERAND, is_available, "run")
    pods = {pod.metadata.uid for pod in await given.operand_pods()}
    await running.start()
    await given.btp_operator()
    await then.shows("Ready", "ReconcileSucceeded")

    await given.required_secret(clientsecret="rotated")

    await then.operand_pods_are_others_than(pods)
