"""What others do to the cluster is named, waited out without haste, and over when they undo it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from cryptography import x509

from stellwerk.api.admission import ValidatingWebhookConfiguration
from stellwerk.api.core import ConfigMap, Namespace, Secret, Service
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.http.transport import ATTEMPTS
from stellwerk.kube.types.errors import ApiError
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, Unstructured, dig, metadata_of, unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.eventually import eventually
from tests.cluster.btp import world
from tests.cluster.btp.beginnings import RETRY, ready, revoked
from tests.cluster.btp.given import Given
from tests.cluster.btp.running import Running
from tests.cluster.btp.then import Then
from tests.cluster.btp.world import ACCOUNT

CONFIG, SERVICE = "sap-btp-operator-config", "sap-btp-operator-webhook-service"
CONFIG_MAPS, SERVICES = unstructured(ConfigMap.resource), unstructured(Service.resource)
SECRETS = unstructured(Secret.resource)
CA, LEAF = "ca-server-cert", "webhook-server-cert"
RENEWALS = "btpmanager_certs_regenerations_total"
SERVICES_OF_MODULE = 2
HOOKS = unstructured(ValidatingWebhookConfiguration.resource)
QUOTAS = unstructured(Resource("", "v1", "ResourceQuota", "resourcequotas", namespaced=True))


@pytest.mark.req("R-206")
async def test_a_right_revoked_from_a_ready_module_is_named_and_other_kinds_are_kept_up(
    running: Running, given: Given, then: Then
) -> None:
    await ready(running, given, then)
    async with revoked(given.client, "services"):
        await given.labels_on(Service, SERVICE, edited="yes")
        await then.shows("Error", "ReconcileFailed", saying=["may not", "services", "namespace kyma-system", "grant"])
        await given.data_on(ConfigMap, CONFIG, CLUSTER_ID="edited")
        await then.becomes(
            CONFIG_MAPS,
            CONFIG,
            lambda seen: seen is not None and seen.at("data", "CLUSTER_ID") != "edited",
            "be mended",
        )
    await then.shows("Ready", "ReconcileSucceeded")
    service = await given.client.get(SERVICES, SERVICE, "kyma-system")
    assert "edited" not in service.metadata.labels


def says_edited(config: Unstructured | None) -> bool:
    return config is None or config.at("data", "CLUSTER_ID") == "edited"


@asynccontextmanager
async def used_up(client: Client, resource: str) -> AsyncIterator[None]:
    """A quota that leaves no room for another object of a kind."""
    body: JsonObject = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "small", "namespace": "kyma-system"},
        "spec": {"hard": {f"count/{resource}": "0"}},
    }
    await client.create(QUOTAS, body)

    async def is_in_force() -> bool:
        """It is counted first, and admission hears of that from a watch of its own."""
        return "exceeded quota" in await refusal_of_another_service(client)

    try:
        await eventually(is_in_force, describe="the API server holds to the quota")
        yield
    finally:
        await client.delete(QUOTAS, "small", "kyma-system")


async def refusal_of_another_service(client: Client) -> str:
    """Why the API server would not take one more Service; empty where it would."""
    metadata: JsonObject = {"name": "probe", "namespace": "kyma-system"}
    spec: JsonObject = {"clusterIP": "None", "ports": [{"port": 1}]}
    body: JsonObject = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
    try:
        await client.create(SERVICES, body, dry_run=True)
    except ApiError as error:
        return str(error)
    return ""


def tries_since(began: float) -> int:
    """How often a module in trouble may have been tried: once a second here. Without a pause it never rests."""
    return 2 + int(time.monotonic() - began)


@pytest.mark.req("R-208")
async def test_a_quota_that_is_used_up_is_named_and_asked_again_without_haste(
    running: Running, given: Given, then: Then, btp_cluster: LocalCluster
) -> None:
    await given.required_secret()
    async with used_up(given.client, "services"):
        audit, began = AuditLog(btp_cluster), time.monotonic()
        await running.start(**RETRY)
        await given.btp_operator()

        await then.shows(
            "Error", "ProvisioningFailed", saying=["Service", "ResourceQuota kyma-system/small is used up"]
        )
        await running.is_idle()
        await then.exists(ConfigMap, CONFIG)
        assert refused(audit, "services") <= SERVICES_OF_MODULE * tries_since(began)

    await then.shows("Ready", "ReconcileSucceeded")


@asynccontextmanager
async def webhook_down(client: Client, *others: str) -> AsyncIterator[None]:
    """Somebody's admission webhook for Services, and other kinds, in the module's namespace; nothing answers."""
    webhook: JsonObject = {
        "name": "down.test.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": 1,
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kyma-system"}},
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["services", *others]}
        ],
    }
    await client.apply(HOOKS, {"metadata": {"name": "down"}, "webhooks": [webhook]})

    async def is_asked() -> bool:
        return "down.test.example.com" in await refusal_of_another_service(client)

    try:
        await eventually(is_asked, describe="the API server asks the webhook")
        yield
    finally:
        await client.delete(HOOKS, "down")


@pytest.mark.req("R-208")
async def test_a_webhook_of_others_that_does_not_answer_is_named_and_asked_again_without_haste(
    running: Running, given: Given, then: Then, btp_cluster: LocalCluster
) -> None:
    await given.required_secret()
    async with webhook_down(given.client):
        audit, began = AuditLog(btp_cluster), time.monotonic()
        await running.start(**RETRY)
        await given.btp_operator()

        await then.shows("Error", "ProvisioningFailed", saying=["down.test.example.com does not answer", "repair"])
        await running.is_idle()
        assert refused(audit, "services") <= SERVICES_OF_MODULE * tries_since(began) * ATTEMPTS

    await then.shows("Ready", "ReconcileSucceeded")


async def tried_again(audit: AuditLog, resource: str, *, requests: int) -> None:
    """Two further tries to write an object of a kind were refused; each sends so many requests."""
    before = refused(audit, resource)
    await eventually(lambda: refused(audit, resource) >= before + 2 * requests, within=60, describe="further tries")


@pytest.mark.req("R-208")
async def test_a_ca_that_may_not_be_created_again_leaves_the_webhooks_as_they_are_and_costs_one_renewal(
    running: Running, given: Given, then: Then, btp_cluster: LocalCluster
) -> None:
    await ready(running, given, then)
    before = await given.client.get(SECRETS, LEAF, "kyma-system")

    async with webhook_down(given.client, "secrets"):
        audit, began = AuditLog(btp_cluster), time.monotonic()
        await given.client.delete(Secret, CA, "kyma-system")
        await then.shows("Error", "ProvisioningFailed", saying=[CA, "down.test.example.com does not answer"])
        await tried_again(audit, "secrets", requests=ATTEMPTS)
        assert refused(audit, "secrets") <= tries_since(began) * ATTEMPTS
        after = await given.client.get(SECRETS, LEAF, "kyma-system")
        assert after.metadata.resource_version == before.metadata.resource_version
        assert running.metric(RENEWALS) == 2

    await then.shows("Ready", "ReconcileSucceeded")
    await agrees(given)
    assert running.metric(RENEWALS) == 2
    await then.event("CertificatesRenewed", saying=["ca-server-cert is absent"])


@pytest.mark.req("R-208")
async def test_a_certificate_that_may_not_be_replaced_does_not_renew_the_ca_again_and_again(
    running: Running, given: Given, then: Then, btp_cluster: LocalCluster
) -> None:
    await ready(running, given, then)
    await given.client.patch(SECRETS, LEAF, "kyma-system", MergePatch({"immutable": True}))
    await running.is_idle()
    former = await given.client.get(SECRETS, CA, "kyma-system")

    await given.client.delete(Secret, CA, "kyma-system")
    renewed = await then.becomes(
        SECRETS, CA, lambda seen: seen is not None and seen.metadata.uid != former.metadata.uid, "be another one"
    )
    assert renewed is not None
    audit, began = AuditLog(btp_cluster), time.monotonic()
    await then.shows("Error", "ProvisioningFailed", saying=[LEAF, "immutable"])
    await tried_again(audit, "secrets", requests=1)

    assert refused(audit, "secrets") <= tries_since(began) * ATTEMPTS
    assert running.metric(RENEWALS) == 2
    await given.client.delete(Secret, LEAF, "kyma-system")
    await then.shows("Ready", "ReconcileSucceeded")
    await agrees(given)
    assert running.metric(RENEWALS) == 2
    after = await given.client.get(SECRETS, CA, "kyma-system")
    assert after.metadata.resource_version == renewed.metadata.resource_version


async def agrees(given: Given) -> None:
    """The operand's certificate is signed by the CA, and that is the one which the API server trusts."""
    authority = await given.client.get(Secret, CA, "kyma-system")
    leaf = await given.client.get(Secret, LEAF, "kyma-system")
    issuer = x509.load_pem_x509_certificate(b64decode(authority.data["ca.crt"]))
    x509.load_pem_x509_certificate(b64decode(leaf.data["tls.crt"])).verify_directly_issued_by(issuer)
    hooks = await given.client.get(HOOKS, "sap-btp-operator-validating-webhook-configuration")
    webhooks = hooks.body["webhooks"]
    assert isinstance(webhooks, list)
    assert {dig(hook, "clientConfig", "caBundle") for hook in webhooks} == {authority.data["ca.crt"]}


IN_NAMESPACE = 16
"""Objects of the module in its namespace. They are taken one after the other, and each may be put back once more when
the next one goes; that is the bound, and mostly it is a tenth of that."""


@pytest.fixture
async def mortal_namespace(btp_cluster: LocalCluster, client: Client, given: Given) -> AsyncIterator[None]:
    """The module's namespace, which the test may end; it is there again afterwards, with what belongs in it."""
    yield

    with contextlib.suppress(ApiError):  # the kind has gone with the module, as it should
        await given.no_instances()  # a test that failed half way would keep the namespace from all others

    async def is_gone() -> bool:
        found = await client.find(Namespace, "kyma-system")
        return found is None or not found.metadata.is_terminating

    await eventually(is_gone, within=120, describe="the namespace has ended")
    await asyncio.to_thread(asyncio.run, world.prepare(btp_cluster))


@pytest.mark.req("R-208")
@pytest.mark.req("R-112")
@pytest.mark.timeout(600)
async def test_a_namespace_that_is_deleted_with_the_module_waits_for_users_and_then_goes(
    running: Running, given: Given, then: Then, btp_cluster: LocalCluster, mortal_namespace: None
) -> None:
    await ready(running, given, then)
    await given.service_instance("db")
    audit = AuditLog(btp_cluster)

    await given.client.delete(Namespace, "kyma-system")

    await then.shows("Warning", "ServiceInstancesAndBindingsNotCleaned", saying=["default/db"])
    await running.is_idle()
    await then.service_instance_survives("db")
    vain = audit.entries(lambda entry: entry.user == ACCOUNT and entry.status == 403 and entry.resource != "events")
    assert len(vain) <= IN_NAMESPACE * (IN_NAMESPACE + 1) // 2, f"{len(vain)} writes into a namespace that ends"

    await given.no_instances()
    await then.is_gone()

    async def namespace_is_gone() -> bool:
        return await given.client.find(metadata_of(Namespace), "kyma-system") is None

    await eventually(namespace_is_gone, within=120, describe="the namespace has ended")
    assert await given.client.find(BtpOperator, "btpoperator", "kyma-system") is None


def refused(audit: AuditLog, resource: str) -> int:
    """How often the operator wanted to write an object of a kind and could not."""
    entries = audit.entries(
        lambda entry: entry.user == ACCOUNT and entry.resource == resource and entry.is_write and entry.status >= 400
    )
    return len(entries)


OF_SECRETS = "GettingDefaultCredentialsSecretFailed"
OF_CONFIG_MAPS = "GettingSapBtpServiceOperatorConfigMapFailed"


@pytest.mark.req("R-206")
@pytest.mark.parametrize(("resource", "reason"), [("secrets", OF_SECRETS), ("configmaps", OF_CONFIG_MAPS)])
async def test_what_may_not_be_looked_at_is_not_taken_for_absent(
    running: Running, given: Given, then: Then, resource: str, reason: str
) -> None:
    await ready(running, given, then)
    await running.stop()
    before = await given.client.get(unstructured(Secret.resource), "ca-server-cert", "kyma-system")

    async with revoked(given.client, resource):
        await running.start(**RETRY)
        await then.shows("Error", reason, saying=["not permitted to list and watch", resource, "grant"])

    await then.shows("Ready", "ReconcileSucceeded")
    after = await given.client.get(unstructured(Secret.resource), "ca-server-cert", "kyma-system")
    assert after.metadata.resource_version == before.metadata.resource_version


@pytest.mark.req("R-206")
async def test_a_module_of_which_a_part_may_not_be_looked_at_is_not_taken_for_removed(
    running: Running, given: Given, then: Then
) -> None:
    await ready(running, given, then)
    await running.stop()

    async with revoked(given.client, "services"):
        await running.start(**RETRY)
        await given.client.delete(BtpOperator, "btpoperator", "kyma-system")
        await then.shows("Error", "ResourceRemovalFailed", saying=["not permitted to list and watch", "services"])
        assert (await given.client.get(BtpOperator, "btpoperator", "kyma-system")).metadata.finalizers

    await then.is_gone()
    assert await given.client.find(metadata_of(Service), SERVICE, "kyma-system") is None
