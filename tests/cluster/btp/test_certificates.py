"""The operand's webhooks always have a certificate that the API server trusts."""

from __future__ import annotations

import asyncio
from base64 import b64decode, b64encode

import pytest
from cryptography import x509

from stellwerk.api.admission import MutatingWebhookConfiguration, ValidatingWebhookConfiguration
from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.apps import Deployment
from stellwerk.api.core import ConfigMap, Secret
from stellwerk.kube.client.patch import JsonPatch, replace
from stellwerk.kube.types.model import Unstructured, dig, unstructured
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.runtime.certificates.certs import PrivateKey
from stellwerk.runtime.certificates.key_pool import KeyStock
from stellwerk.testing.eventually import eventually
from tests.cluster.btp.beginnings import provisioned
from tests.cluster.btp.given import Given
from tests.cluster.btp.running import Running
from tests.cluster.btp.then import Then

SECRETS = unstructured(Secret.resource)
CONFIGURATIONS = {
    "sap-btp-operator-mutating-webhook-configuration": unstructured(MutatingWebhookConfiguration.resource),
    "sap-btp-operator-validating-webhook-configuration": unstructured(ValidatingWebhookConfiguration.resource),
}
EXPIRATION = "btpmanager_certificate_expiration_timestamp_seconds"
CA, WEBHOOK = "ca-server-cert", "webhook-server-cert"


async def pem(given: Given, name: str, key: str) -> bytes:
    secret = await given.client.get(SECRETS, name, "kyma-system")
    return b64decode(str(secret.at("data", key)))


def bundles(configuration: Unstructured | None) -> set[bytes]:
    webhooks = configuration.body["webhooks"] if configuration else None
    assert isinstance(webhooks, list)
    return {b64decode(str(dig(webhook, "clientConfig", "caBundle"))) for webhook in webhooks}


async def bundles_become(then: Then, authority: bytes) -> None:
    for name, view in CONFIGURATIONS.items():
        await then.becomes(view, name, lambda seen: bundles(seen) == {authority}, "trust the CA")


async def test_both_certificates_are_made_and_trusted_by_both_configurations(
    running: Running, given: Given, then: Then
) -> None:
    await provisioned(running, given, then)

    authority = await pem(given, CA, "ca.crt")
    leaf = x509.load_pem_x509_certificate(await pem(given, WEBHOOK, "tls.crt"))
    leaf.verify_directly_issued_by(x509.load_pem_x509_certificate(authority))
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [
        "sap-btp-operator-webhook-service.kyma-system.svc",
        "sap-btp-operator-webhook-service.kyma-system",
    ]
    for name, view in CONFIGURATIONS.items():
        assert bundles(await given.client.get(view, name)) == {authority}
    assert running.metric("btpmanager_certs_regenerations_total") == 1


async def test_operators_and_certificates_have_metrics_as_long_as_they_exist(
    running: Running, given: Given, then: Then
) -> None:
    await provisioned(running, given, then)
    operator = {"kind": "BtpOperator", "namespace": "kyma-system", "name": "btpoperator", "suspended": "false"}
    ready = {**operator, "ready": "True", "reason": "ReconcileSucceeded", "status": "Current"}
    await eventually(lambda: running.sample("stellwerk_resource_info", ready) == 1)
    for label, name, key in (("ca", CA, "ca.crt"), ("webhook", WEBHOOK, "tls.crt")):
        ends = x509.load_pem_x509_certificate(await pem(given, name, key)).not_valid_after_utc
        assert running.sample(EXPIRATION, {"certificate": label}) == ends.timestamp()
    await given.client.delete(BtpOperator, "btpoperator", "kyma-system")
    await then.is_gone()
    await eventually(lambda: running.sample(EXPIRATION, {"certificate": "webhook"}) is None)
    await eventually(lambda: "stellwerk_resource_info{" not in running.exposition())


class Withheld(KeyStock):
    """Keys that take as long as the test wants."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.released = asyncio.Event(), asyncio.Event()

    async def take(self, bits: int) -> PrivateKey:
        self.asked.set()
        await self.released.wait()
        return await super().take(bits)


async def test_everything_else_is_applied_while_the_keys_are_being_made(
    running: Running, given: Given, then: Then
) -> None:
    running.keys = keys = Withheld()
    await given.required_secret()
    await running.start()
    await given.btp_operator()

    async with asyncio.timeout(30):
        await keys.asked.wait()
    await then.exists(ConfigMap, "sap-btp-operator-config")
    await then.exists(CustomResourceDefinition, "serviceinstances.services.cloud.sap.com")
    await then.absent(Deployment, "sap-btp-operator-controller-manager")

    keys.released.set()
    await then.shows("Ready", "ReconcileSucceeded")
    await eventually(lambda: keys.ready == 2, describe="the keys of the next installation are there")


@pytest.mark.req("R-303")
async def test_a_pass_that_waits_for_keys_when_the_operator_is_asked_to_end_still_ends_well(
    running: Running, given: Given, then: Then
) -> None:
    running.keys = keys = Withheld()
    await given.required_secret()
    await running.start()
    await given.btp_operator()
    async with asyncio.timeout(30):
        await keys.asked.wait()

    ending = asyncio.create_task(running.stop())
    for _ in range(20):
        await asyncio.sleep(0)  # until every part has been told
    keys.released.set()
    await ending

    await then.exists(Deployment, "sap-btp-operator-controller-manager")


async def test_keys_are_made_before_there_is_anything_to_install(running: Running) -> None:
    await running.start()
    await eventually(lambda: running.keys.ready == 2)


async def test_an_operator_that_finds_good_certificates_makes_no_key(
    running: Running, given: Given, then: Then
) -> None:
    await provisioned(running, given, then)
    await running.stop()

    await running.start()
    await running.is_quiet()
    await running.is_idle()
    assert running.keys.begun == 0


async def test_a_deleted_webhook_certificate_is_made_again_by_the_same_authority(
    running: Running, given: Given, then: Then
) -> None:
    await provisioned(running, given, then)
    authority = await pem(given, CA, "ca.crt")

    await given.client.delete(Secret, WEBHOOK, "kyma-system")

    await then.becomes(SECRETS, WEBHOOK, lambda seen: seen is not None, "be made again")
    assert await pem(given, CA, "ca.crt") == authority


async def test_a_deleted_authority_is_made_again_and_trusted_everywhere(
    running: Running, given: Given, then: Then
) -> None:
    await provisioned(running, given, then)
    old = await pem(given, CA, "ca.crt")

    await given.client.delete(Secret, CA, "kyma-system")

    await then.becomes(SECRETS, CA, lambda seen: seen is not None, "be made again")
    authority = await pem(given, CA, "ca.crt")
    assert authority != old
    await bundles_become(then, authority)


async def test_a_foreign_authority_is_replaced_together_with_the_certificate(
    running: Running, given: Given, then: Then
) -> None:
    await provisioned(running, given, then)
    foreign = await given.another_authority()
    leaf = await pem(given, WEBHOOK, "tls.crt")

    await given.secret_data(CA, {"ca.crt": foreign.certificate, "ca.key": foreign.key})

    await then.becomes(
        SECRETS, WEBHOOK, lambda seen: seen is None or b64decode(str(seen.at("data", "tls.crt"))) != leaf, "be renewed"
    )
    await then.becomes(
        SECRETS,
        CA,
        lambda seen: seen is not None and b64decode(str(seen.at("data", "ca.crt"))) != foreign.certificate,
        "be replaced",
    )
    await bundles_become(then, await pem(given, CA, "ca.crt"))


async def test_a_webhook_certificate_of_a_foreign_authority_renews_both(
    running: Running, given: Given, then: Then
) -> None:
    await provisioned(running, given, then)
    old = await pem(given, CA, "ca.crt")
    foreign = await given.another_authority()

    await given.secret_data(WEBHOOK, {"tls.crt": foreign.certificate, "tls.key": foreign.key})

    await then.becomes(
        SECRETS, CA, lambda seen: seen is not None and b64decode(str(seen.at("data", "ca.crt"))) != old, "be renewed"
    )
    await bundles_become(then, await pem(given, CA, "ca.crt"))


async def test_junk_in_a_certificate_secret_is_replaced(running: Running, given: Given, then: Then) -> None:
    await provisioned(running, given, then)
    old = await pem(given, CA, "ca.crt")

    await given.secret_data(WEBHOOK, {"tls.crt": b"junk", "tls.key": b"junk"})

    await then.becomes(
        SECRETS,
        WEBHOOK,
        lambda seen: seen is not None and b"BEGIN" in b64decode(str(seen.at("data", "tls.crt"))),
        "be mended",
    )
    assert await pem(given, CA, "ca.crt") == old
    await then.event("CertificatesRenewed", saying=["webhook-server-cert holds no readable certificate"])


async def test_an_overwritten_ca_bundle_is_put_back_without_new_certificates(
    running: Running, given: Given, then: Then
) -> None:
    await provisioned(running, given, then)
    authority = await pem(given, CA, "ca.crt")
    foreign = await given.another_authority()
    name, view = next(iter(CONFIGURATIONS.items()))

    bundle = b64encode(foreign.certificate).decode()
    await given.client.patch(view, name, "", JsonPatch([replace("/webhooks/0/clientConfig/caBundle", bundle)]))

    await bundles_become(then, authority)
    assert running.metric("btpmanager_certs_regenerations_total") == 1


async def test_a_certificate_near_its_end_is_renewed_alone(running: Running, given: Given, then: Then) -> None:
    await provisioned(running, given, then, WebhookCertificateExpiration="2h", ExpirationBoundary="-1h")
    authority, leaf = await pem(given, CA, "ca.crt"), await pem(given, WEBHOOK, "tls.crt")

    await given.tunables(ExpirationBoundary="-3h", WebhookCertificateExpiration="8760h", RsaKeyBits="2048")

    await then.becomes(
        SECRETS,
        WEBHOOK,
        lambda seen: seen is not None and b64decode(str(seen.at("data", "tls.crt"))) != leaf,
        "be renewed",
    )
    assert await pem(given, CA, "ca.crt") == authority


async def test_an_authority_near_its_end_renews_both(running: Running, given: Given, then: Then) -> None:
    await provisioned(running, given, then, CaCertificateExpiration="2h", ExpirationBoundary="-1h")
    old = await pem(given, CA, "ca.crt")

    await given.tunables(ExpirationBoundary="-3h", CaCertificateExpiration="87600h", RsaKeyBits="2048")

    await then.becomes(
        SECRETS, CA, lambda seen: seen is not None and b64decode(str(seen.at("data", "ca.crt"))) != old, "be renewed"
    )
    await bundles_become(then, await pem(given, CA, "ca.crt"))
