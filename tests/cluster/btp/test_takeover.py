"""A module that the original operator set up is taken over as it is: nothing is deleted and no pod restarts."""

from __future__ import annotations

import json
from typing import cast

import pytest
import yaml

from stellwerk.api.apps import Deployment
from stellwerk.api.core import Secret
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.identifiers import GroupVersionKind
from stellwerk.kube.types.model import JsonObject, JsonValue, metadata_of, unstructured
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.testing.eventually import eventually
from tests.cluster.btp.given import CREDENTIALS, Given, base64_text
from tests.cluster.btp.modules import Module
from tests.cluster.btp.running import IMAGE, Running
from tests.cluster.btp.then import Then

OPERAND = "sap-btp-operator-controller-manager"
DEPLOYMENTS = unstructured(Deployment.resource)
LABELS = {
    "app.kubernetes.io/managed-by": "btp-manager",
    "chart-version": "v0.11.9",
    "kyma-project.io/module": "btp-operator",
}


def as_the_original_writes_it(document: JsonObject) -> JsonObject:
    """An object of the module, as the original sends it: whole, by create, with its labels and values in it."""
    body = cast(JsonObject, json.loads(json.dumps(document)))
    metadata = cast(JsonObject, body["metadata"])
    metadata["labels"] = {**cast(JsonObject, metadata.get("labels") or {}), **LABELS}
    metadata["namespace"] = "kyma-system"
    name = metadata["name"]
    if name == "sap-btp-operator-config":
        body["data"] = {**cast(JsonObject, body["data"]), **config()}
    if name == "sap-btp-service-operator":
        values: JsonObject = {key: base64_text(CREDENTIALS[key]) for key in CREDENTIALS if key != "cluster_id"}
        body["data"] = {**cast(JsonObject, body.get("data") or {}), **values}
    if body["kind"] == "Deployment":
        template = cast(JsonObject, cast(JsonObject, body["spec"])["template"])
        labels = cast(JsonObject, cast(JsonObject, template["metadata"])["labels"])
        labels["kyma-project.io/module"] = "btp-operator"
        containers = cast("list[JsonObject]", cast(JsonObject, template["spec"])["containers"])
        containers[0]["image"] = IMAGE
    return body


def config() -> JsonObject:
    return {
        "CLUSTER_ID": "cluster-one",
        "RELEASE_NAMESPACE": "kyma-system",
        "MANAGEMENT_NAMESPACE": "kyma-system",
        "ENABLE_LIMITED_CACHE": "true",
    }


async def the_original_was_here(given: Given, module: Module) -> None:
    writer = given.client.with_field_manager("btp-manager")
    documents = [
        document
        for file in sorted((module.folder / "apply").iterdir())
        for document in yaml.safe_load_all(file.read_text())
        if document
    ]
    for document in sorted(documents, key=lambda one: one["kind"] != "CustomResourceDefinition"):
        gvk = GroupVersionKind.parse(document["apiVersion"], document["kind"])
        resource = await given.client.mapper.resource(gvk)
        body = as_the_original_writes_it(document)
        if not resource.namespaced:
            cast("dict[str, JsonValue]", body["metadata"]).pop("namespace")
        await writer.create(unstructured(resource), body)


@pytest.mark.req("R-306")
async def test_a_module_of_the_original_is_taken_over_without_a_restart_or_a_delete(
    running: Running, given: Given, then: Then, module: Module
) -> None:
    await given.required_secret()
    await the_original_was_here(given, module)

    async def the_operand_runs() -> bool:
        return any(pod.is_ready for pod in await given.operand_pods())

    await eventually(the_operand_runs, within=60, describe="the operand that the original started runs")
    deployment = await given.client.get(DEPLOYMENTS, OPERAND, "kyma-system")
    pods = {pod.metadata.uid for pod in await given.operand_pods()}
    secret = await given.client.get(metadata_of(Secret), "sap-btp-service-operator", "kyma-system")

    await running.start()
    await given.btp_operator()
    await then.shows("Ready", "ReconcileSucceeded")

    again = await given.client.get(DEPLOYMENTS, OPERAND, "kyma-system")
    assert again.metadata.uid == deployment.metadata.uid
    assert again.at("spec", "template") == deployment.at("spec", "template")
    assert {pod.metadata.uid for pod in await given.operand_pods()} == pods
    kept = await given.client.get(metadata_of(Secret), "sap-btp-service-operator", "kyma-system")
    assert kept.metadata.uid == secret.metadata.uid
    assert again.metadata.labels["chart-version"] != "v0.11.9"


async def test_after_a_takeover_new_credentials_roll_the_operand(
    running: Running, given: Given, then: Then, module: Module
) -> None:
    await given.required_secret()
    await the_original_was_here(given, module)
    await running.start()
    await given.btp_operator()
    await then.shows("Ready", "ReconcileSucceeded")
    pods = {pod.metadata.uid for pod in await given.operand_pods()}

    await given.required_secret(clientid="client-two")

    await then.operand_pods_are_others_than(pods)


@pytest.mark.req("R-306")
@pytest.mark.parametrize("state", ["Processing", "Error", "Warning"])
async def test_a_btp_operator_that_is_not_ready_at_the_takeover_becomes_ready(
    running: Running, given: Given, then: Then, state: str
) -> None:
    """Its condition has an empty message."""
    await given.required_secret()
    created = await given.btp_operator()
    moment = "2025-11-01T10:00:00Z"
    ready: JsonObject = {"type": "Ready", "status": "False", "reason": "Initialized", "lastTransitionTime": moment}
    status = MergePatch({"status": {"state": state, "conditions": [{**ready, "message": ""}]}})
    await given.client.patch(metadata_of(BtpOperator), "btpoperator", "kyma-system", status, subresource="status")

    await running.start()

    await then.shows("Ready", "ReconcileSucceeded")
    live = await given.client.get(unstructured(BtpOperator.resource), "btpoperator", "kyma-system")
    assert live.metadata.uid == created.metadata.uid
