"""The required Secret changes: the operand follows, and nothing of the former values is left behind."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable

import pytest

from stellwerk.api.core import ConfigMap, Pod, Secret
from stellwerk.kube.types.model import JsonObject, Unstructured, metadata_of, unstructured
from stellwerk.operators.btp.btpoperator.observe import SecretReader
from stellwerk.runtime.telemetry import logs
from stellwerk.runtime.telemetry.logs import Redactor
from tests.cluster.btp import priority_class
from tests.cluster.btp.beginnings import provisioned
from tests.cluster.btp.given import Given
from tests.cluster.btp.running import Running
from tests.cluster.btp.then import Then

CREDENTIALS = "sap-btp-service-operator"
CLUSTER_ID = "sap-btp-operator-clusterid"
CONFIG = "sap-btp-operator-config"
SECRETS = unstructured(Secret.resource)
CONFIG_MAPS = unstructured(ConfigMap.resource)
PODS = unstructured(Pod.resource)


def holds(key: str, value: str) -> Callable[[Unstructured | None], bool]:
    """Whether a Secret's data has this value."""

    def check(seen: Unstructured | None) -> bool:
        text = seen.at("data", key) if seen else None
        return isinstance(text, str) and b64decode(text).decode() == value

    return check


def says(key: str, value: str) -> Callable[[Unstructured | None], bool]:
    """Whether a ConfigMap's data has this value."""

    def check(seen: Unstructured | None) -> bool:
        return seen is not None and seen.at("data", key) == value

    return check


async def test_the_credentials_live_in_the_namespace_that_the_secret_names(
    running: Running, given: Given, then: Then
) -> None:
    namespace = await given.a_namespace("btp-credentials")
    await given.required_secret(credentials_namespace=namespace)
    await running.start()
    await given.btp_operator()
    await then.shows("Ready", "ReconcileSucceeded")

    await then.exists(Secret, CREDENTIALS, namespace)
    await then.absent(Secret, CREDENTIALS)
    config = await given.client.get(ConfigMap, CONFIG, "kyma-system")
    assert (config.data["RELEASE_NAMESPACE"], config.data["MANAGEMENT_NAMESPACE"]) == (namespace, namespace)


async def test_a_credentials_namespace_that_does_not_exist_is_named(running: Running, given: Given, then: Then) -> None:
    await given.required_secret(credentials_namespace="nowhere")
    await running.start()
    await given.btp_operator()

    await then.shows("Error", "ProvisioningFailed", saying=["nowhere"])


async def test_a_changed_client_id_reaches_the_operand_without_leaving_ready(
    running: Running, given: Given, then: Then
) -> None:
    await provisioned(running, given, then)
    await running.is_idle()
    assert await then.events("OperandRestarted") == [], "its first pods replace none"

    await given.required_secret(clientid="client-two")

    await then.becomes(SECRETS, CREDENTIALS, holds("clientid", "client-two"), "hold the new client id")
    await running.is_idle()
    named = ["Deployment kyma-system/sap-btp-operator-controller-manager", "Secret kyma-system/sap-btp-manager"]
    await then.event("OperandRestarted", saying=named, type_="Normal")
    assert then.history.states() == [("Processing", "Initialized"), ("Ready", "ReconcileSucceeded")]


async def test_a_changed_cluster_id_and_namespace_move_everything_and_clean_up(
    running: Running, given: Given, then: Then
) -> None:
    namespace = await given.a_namespace("btp-credentials")
    await provisioned(running, given, then)
    await given.operand_cluster_id("cluster-one")
    before = {pod.metadata.uid for pod in (await given.operand_pods())}

    await given.required_secret(credentials_namespace=namespace, cluster_id="cluster-two", clientid="client-two")

    await then.has_shown(
        ("Ready", "ReconcileSucceeded"),
        ("Processing", "CredentialsNamespaceChanged"),
        ("Ready", "ReconcileSucceeded"),
    )
    await then.disappears(SECRETS, CREDENTIALS)
    await then.disappears(SECRETS, CLUSTER_ID)
    await then.becomes(SECRETS, CREDENTIALS, holds("clientid", "client-two"), "hold the new client id", namespace)
    await then.becomes(CONFIG_MAPS, CONFIG, says("CLUSTER_ID", "cluster-two"), "name the new cluster")
    required = await given.client.get(Secret, "sap-btp-manager", "kyma-system")
    assert required.metadata.annotations["operator.kyma-project.io/previous-credentials-namespace"] == "kyma-system"
    assert required.metadata.annotations["operator.kyma-project.io/previous-cluster-id"] == "cluster-one"
    await then.operand_pods_are_others_than(before)


async def test_a_second_move_before_the_first_has_ended_leaves_no_credentials_behind(
    running: Running, given: Given, then: Then
) -> None:
    overtaken, last = await given.a_namespace("btp-overtaken"), await given.a_namespace("btp-last")
    await provisioned(running, given, then)
    await priority_class.is_missing(given.client)
    await given.required_secret(credentials_namespace=overtaken)
    await then.becomes(CONFIG_MAPS, CONFIG, says("RELEASE_NAMESPACE", overtaken), "name the first namespace")
    await then.becomes(SECRETS, CREDENTIALS, holds("clientid", "client-one"), "be in the first namespace", overtaken)

    await given.required_secret(credentials_namespace=last)
    await then.becomes(CONFIG_MAPS, CONFIG, says("RELEASE_NAMESPACE", last), "name the second namespace")
    await priority_class.exists(given.client)

    await then.shows("Ready", "ReconcileSucceeded", within=90)
    await then.exists(Secret, CREDENTIALS, last)
    await then.disappears(SECRETS, CREDENTIALS, overtaken)
    await then.disappears(SECRETS, CREDENTIALS)


async def test_a_changed_cluster_id_alone_keeps_the_credentials(running: Running, given: Given, then: Then) -> None:
    await provisioned(running, given, then)
    await given.operand_cluster_id("cluster-one")
    credentials = await given.client.get(Secret, CREDENTIALS, "kyma-system")
    before = {pod.metadata.uid for pod in (await given.operand_pods())}

    await given.required_secret(cluster_id="cluster-two")

    await then.has_shown(("Processing", "ClusterIdChanged"), ("Ready", "ReconcileSucceeded"))
    await then.disappears(SECRETS, CLUSTER_ID)
    await then.operand_pods_are_others_than(before)
    assert (await given.client.get(Secret, CREDENTIALS, "kyma-system")).metadata.uid == credentials.metadata.uid


async def test_a_wrong_initial_cluster_id_is_removed_while_provisioning(
    running: Running, given: Given, then: Then
) -> None:
    await given.required_secret()
    await given.operand_cluster_id("cluster-of-a-former-life")
    await running.start()
    await given.btp_operator()
    await then.shows("Ready", "ReconcileSucceeded")

    await then.disappears(SECRETS, CLUSTER_ID)


async def test_pods_that_run_with_a_former_cluster_id_are_deleted_and_named(
    running: Running, given: Given, then: Then
) -> None:
    await provisioned(running, given, then)
    await then.operand_has_rolled()
    (pod,) = await given.operand_pods()

    await given.operand_cluster_id("cluster-of-a-former-life")

    await then.operand_pods_are_others_than({pod.metadata.uid})
    await then.event("OperandRestarted", saying=["former cluster ID", f"Pod kyma-system/{pod.metadata.name}"])


async def test_a_move_that_was_interrupted_is_finished(running: Running, given: Given, then: Then) -> None:
    namespace = await given.a_namespace("btp-credentials")
    await provisioned(running, given, then)
    await running.stop()
    # Both Secrets exist and the annotation remembers the old place: the manager stopped half way.
    old = await given.client.get(SECRETS, CREDENTIALS, "kyma-system")
    copy: JsonObject = {"apiVersion": "v1", "kind": "Secret", "data": old.body["data"]}
    metadata: JsonObject = {"name": CREDENTIALS, "namespace": namespace, "labels": dict(old.metadata.labels)}
    await given.client.create(SECRETS, {**copy, "metadata": metadata})
    await given.required_secret(credentials_namespace=namespace)
    await given.annotations_on(
        Secret, "sap-btp-manager", **{"operator.kyma-project.io/previous-credentials-namespace": "kyma-system"}
    )

    await running.start()

    await then.disappears(SECRETS, CREDENTIALS)
    await then.shows("Ready", "ReconcileSucceeded")
    await then.exists(Secret, CREDENTIALS, namespace)


async def test_a_deleted_required_secret_warns_and_its_return_leads_back_to_ready(
    running: Running, given: Given, then: Then
) -> None:
    await provisioned(running, given, then)

    await given.client.delete(Secret, "sap-btp-manager", "kyma-system")
    await then.shows("Warning", "MissingSecret")
    await given.required_secret()

    await then.shows("Ready", "ReconcileSucceeded")


async def test_an_edited_cluster_id_of_the_operand_is_put_back(running: Running, given: Given, then: Then) -> None:
    await provisioned(running, given, then)

    await given.data_on(ConfigMap, CONFIG, CLUSTER_ID="somebody-elses")

    await then.has_shown(("Ready", "ReconcileSucceeded"), ("Processing", "ClusterIdChanged"))
    await then.shows("Ready", "ReconcileSucceeded")
    assert (await given.client.get(ConfigMap, CONFIG, "kyma-system")).data["CLUSTER_ID"] == "cluster-one"


@pytest.mark.req("R-801")
async def test_what_is_read_from_a_secret_is_masked_in_every_later_log_line(given: Given) -> None:
    redactor = Redactor()
    await given.required_secret(clientsecret="canary-in-the-log")
    secrets = SecretReader(given.client, hide=redactor.hide)

    await secrets.read(await given.client.get(metadata_of(Secret), "sap-btp-manager", "kyma-system"))

    assert redactor.redacted("it said canary-in-the-log") == "it said ***"
    assert redactor.redacted("from cluster-one to cluster-two") == "from cluster-one to cluster-two", "ids are named"


async def test_the_operator_gives_what_it_reads_to_the_log_of_the_process(
    running: Running, given: Given, then: Then
) -> None:
    await given.required_secret(clientsecret="canary-in-the-process-log")
    await running.start()
    await given.btp_operator()
    await then.shows("Ready", "ReconcileSucceeded")

    assert logs.redacted("canary-in-the-process-log") == "***"
    key = (await given.client.get(Secret, "ca-server-cert", "kyma-system")).data["ca.key"]
    assert logs.redacted(key) == "***"
