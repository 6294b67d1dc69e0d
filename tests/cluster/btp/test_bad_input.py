"""Bad input is named with object, cause and next step; nothing is lost; mending it is enough, without a restart."""

from __future__ import annotations

import os
import re

import pytest

from stellwerk.api.apps import Deployment
from stellwerk.api.core import ConfigMap, Namespace, Secret
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.errors import BadRequest, Invalid
from stellwerk.kube.types.model import JsonObject, metadata_of, unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.testing.servers.webhooks import Accept, Reject, ScriptedAdmissionServer, WebhookRule
from tests.cluster.btp.beginnings import RETRY, ready, revoked
from tests.cluster.btp.given import CREDENTIALS, Given, base64_text
from tests.cluster.btp.modules import Module
from tests.cluster.btp.running import Running
from tests.cluster.btp.then import Then

EXTRA = """
apiVersion: v1
kind: ConfigMap
metadata:
  name: extra
data:
  key: value
"""


async def secret_with(given: Given, key: str, value: str) -> None:
    """The required Secret, one of its values changed."""
    await given.required_secret(without=(key,))
    await given.client.patch(
        metadata_of(Secret), "sap-btp-manager", "kyma-system", MergePatch({"data": {key: base64_text(value)}})
    )


async def uids(given: Given) -> set[str]:
    """The identities of the operand and of its credentials: what must survive any bad input."""
    kept = (
        await given.client.get(metadata_of(Deployment), "sap-btp-operator-controller-manager", "kyma-system"),
        await given.client.get(metadata_of(Secret), "sap-btp-service-operator", "kyma-system"),
    )
    return {obj.metadata.uid for obj in kept}


# ---- the required Secret


@pytest.mark.parametrize("key", sorted(CREDENTIALS))
async def test_a_key_that_is_emptied_is_named_and_the_operand_stays_until_it_is_mended(
    running: Running, given: Given, then: Then, key: str
) -> None:
    await ready(running, given, then)
    before = await uids(given)

    await secret_with(given, key, "")
    shown = await then.shows("Error", "InvalidSecret", saying=[f"missing value(s) for {key} key(s)"])

    assert not any(value in shown.message for value in CREDENTIALS.values())
    assert await uids(given) == before

    await given.required_secret()
    await then.shows("Ready", "ReconcileSucceeded")
    assert await uids(given) == before


async def test_a_secret_without_any_data_is_named(running: Running, given: Given, then: Then) -> None:
    await given.required_secret(without=tuple(CREDENTIALS))
    await running.start()
    await given.btp_operator()

    await then.shows("Error", "InvalidSecret", saying=[", ".join(("clientid", "clientsecret", "sm_url", "tokenurl"))])

    await given.required_secret()
    await then.shows("Ready", "ReconcileSucceeded")


async def test_a_value_that_is_no_base64_never_reaches_us(given: Given) -> None:
    await given.required_secret()

    with pytest.raises((BadRequest, Invalid)):
        await given.client.patch(
            metadata_of(Secret), "sap-btp-manager", "kyma-system", MergePatch({"data": {"clientid": "*not base64*"}})
        )


async def test_a_cluster_id_that_is_no_text_is_named(running: Running, given: Given, then: Then) -> None:
    await ready(running, given, then)
    before = await uids(given)

    await given.secret_data("sap-btp-manager", {"cluster_id": b"\xff\xfe\x00\x80"})
    await then.shows("Error", "InvalidSecret", saying=["cluster_id", "not readable as text"])
    assert await uids(given) == before

    await given.required_secret()
    await then.shows("Ready", "ReconcileSucceeded")


@pytest.mark.req("R-209")
@pytest.mark.parametrize(
    ("key", "kind", "name", "carried"),
    [
        pytest.param("clientsecret", Secret, "sap-btp-service-operator", "clientsecret", id="to the Secret"),
        pytest.param("cluster_id", ConfigMap, "sap-btp-operator-config", "CLUSTER_ID", id="to the ConfigMap"),
    ],
)
async def test_a_value_as_large_as_the_api_server_takes_is_passed_on(
    running: Running, given: Given, then: Then, key: str, kind: type[Secret] | type[ConfigMap], name: str, carried: str
) -> None:
    large = os.urandom(500_000).hex()
    await secret_with(given, key, large)
    await running.start()
    await given.btp_operator()

    shown = await then.shows("Ready", "ReconcileSucceeded")

    found = await given.client.get(unstructured(kind.resource), name, "kyma-system")
    assert len(str(found.at("data", carried))) >= len(large)
    assert large[:32] not in shown.message


# ---- the CR


async def test_unknown_fields_of_the_cr_are_dropped_and_the_module_comes_up(
    running: Running, given: Given, then: Then
) -> None:
    await given.required_secret()
    await running.start()
    body: JsonObject = {
        "apiVersion": "operator.kyma-project.io/v1alpha1",
        "kind": "BtpOperator",
        "metadata": {"name": "btpoperator", "namespace": "kyma-system"},
        "spec": {"surprise": {"deep": [1, 2, 3]}},
        "more": "unknown",
    }
    await given.client.create(unstructured(BtpOperator.resource), body)

    await then.shows("Ready", "ReconcileSucceeded")

    stored = await given.client.get(unstructured(BtpOperator.resource), "btpoperator", "kyma-system")
    assert stored.at("spec", "surprise") is None
    assert stored.at("more") is None


# ---- the module's files


@pytest.mark.req("R-406")
@pytest.mark.parametrize(
    ("text", "saying"),
    [
        pytest.param("kind: [unclosed", ["extra.yml"], id="not YAML"),
        pytest.param(EXTRA.replace("kind: ConfigMap", ""), ["extra.yml", "kind"], id="no kind"),
        pytest.param(EXTRA.replace("ConfigMap", "Gadget"), ["Gadget"], id="unknown kind"),
        pytest.param(f"{EXTRA}---{EXTRA}", ["extra", "twice"], id="duplicate"),
        pytest.param(EXTRA.replace("  name: extra", "  labels: {}"), ["extra.yml", "name"], id="no name"),
        pytest.param("- a\n- list\n", ["extra.yml"], id="no object"),
    ],
)
async def test_a_broken_file_of_the_module_is_named_before_anything_is_written(
    running: Running, given: Given, then: Then, module: Module, text: str, saying: list[str]
) -> None:
    await given.required_secret()
    module.write("extra.yml", text)
    await running.start(**RETRY)
    await given.btp_operator()

    await then.shows("Error", "ProvisioningFailed", saying=saying)
    await then.absent(Deployment, "sap-btp-operator-controller-manager")
    await then.absent(ConfigMap, "sap-btp-operator-config")

    module.write("extra.yml", EXTRA)
    await then.shows("Ready", "ReconcileSucceeded")
    await then.exists(ConfigMap, "extra")


# ---- rights, namespaces, and other people's webhooks


@pytest.mark.req("R-206")
async def test_a_right_that_is_taken_away_is_named_and_the_rest_goes_on(
    running: Running, given: Given, then: Then, btp_cluster: LocalCluster
) -> None:
    await given.required_secret()
    async with revoked(given.client, "services"):
        await running.start(**RETRY)
        await given.btp_operator()
        shown = await then.shows("Error", "ProvisioningFailed", saying=["services", "kyma-system", "grant"])
        assert re.search(r"may not \w+", shown.message), shown.message
        await then.exists(ConfigMap, "sap-btp-operator-config")
    await then.shows("Ready", "ReconcileSucceeded")


@pytest.mark.req("R-208")
async def test_a_credentials_namespace_under_deletion_is_named(running: Running, given: Given, then: Then) -> None:
    await given.a_namespace("btp-ending")
    holder: JsonObject = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "holder", "namespace": "btp-ending", "finalizers": ["test.example.com/hold"]},
    }
    await given.client.create(ConfigMap, holder)
    await given.client.delete(Namespace, "btp-ending")
    try:
        await given.required_secret(credentials_namespace="btp-ending")
        await running.start(**RETRY)
        await given.btp_operator()

        await then.shows("Error", "ProvisioningFailed", saying=["btp-ending", "sap-btp-service-operator"])

        await given.required_secret()
        await then.shows("Ready", "ReconcileSucceeded")
    finally:
        patch = MergePatch({"metadata": {"finalizers": None}})
        await given.client.patch(metadata_of(ConfigMap), "holder", "btp-ending", patch)


@pytest.mark.req("R-208")
async def test_a_webhook_of_others_that_refuses_is_quoted_and_asked_again_without_haste(
    running: Running, given: Given, then: Then, btp_cluster: LocalCluster
) -> None:
    await given.required_secret()
    async with ScriptedAdmissionServer(Reject("services are not allowed here")) as server:
        configuration = server.configuration("policy", [WebhookRule(resource="services")], namespace="kyma-system")
        async with server.registered(btp_cluster.kubeconfig, configuration, "kyma-system"):
            await running.start(**RETRY)
            await given.btp_operator()

            await then.shows("Error", "ProvisioningFailed", saying=["policy.test", "services are not allowed here"])
            await then.exists(ConfigMap, "sap-btp-operator-config")

            server.behaviour = Accept()
            await then.shows("Ready", "ReconcileSucceeded")
            refused = [shown for shown in then.history.of() if shown.state == "Error"]
            assert len(server.reviewed) <= 2 * (len(refused) + 2), "each try asks once for each of two Services"
