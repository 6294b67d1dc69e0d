"""What users of one namespace store costs only them: their objects show why, others go on, and no secret is shown."""

from __future__ import annotations

import base64
import json
import logging

import pytest

from stellwerk.api.core import Namespace, Secret
from stellwerk.api.events import Event
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.errors import StatusError
from stellwerk.kube.types.model import JsonObject, JsonValue, Unstructured, metadata_of, unstructured
from stellwerk.operators.cap.api import DEFINITIONS
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.runtime import conditions
from stellwerk.testing.checks.loop_stalls import LONGEST_STALL_SECONDS, measured_stalls
from stellwerk.testing.checks.secret_leak_scan import Canary
from stellwerk.testing.eventually import eventually
from tests.cluster.cap import security_page
from tests.cluster.cap.conftest import Running
from tests.cluster.cap.shop import Shop, job, router


def hostile(form: str, secret: str) -> bytes:
    """Credentials that are not what they should be, around a secret."""
    match form:
        case "deep":
            return b'{"a":' + b"[" * 5_000 + json.dumps(secret).encode() + b"]" * 5_000 + b"}"
        case "deep, but readable":
            return b'{"a":' + b"[" * 150 + json.dumps(secret).encode() + b"]" * 150 + b"}"
        case "no UTF-8":
            return b'{"password": "\xff\xfe' + secret.encode() + b'"}'
        case "cut":
            return json.dumps({"password": secret}).encode()[:-2]
        case _:
            return json.dumps([secret] * 3).encode()


async def everything_shown(shop: Shop, running: Running) -> dict[str, str]:
    """All that is shown of a namespace but its Secrets."""
    shown = {"metrics": running.exposition()}
    kinds = [version.kind.resource for definition in DEFINITIONS for version in definition.versions]
    for resource in (*kinds, Event.resource):
        if resource.namespaced:
            for obj in (await shop.client.list(unstructured(resource), shop.namespace)).items:
                shown[f"{resource.kind} {obj.metadata.name}"] = _text(obj)
    return shown


def _text(obj: Unstructured) -> str:
    return json.dumps(obj.body)


@pytest.mark.req("R-410")
@pytest.mark.req("R-413")
@pytest.mark.req("R-801")
@pytest.mark.parametrize("form", ["deep", "deep, but readable", "no UTF-8", "cut", "a list"])
async def test_credentials_that_cannot_be_read_are_named_without_a_secret_and_others_go_on(
    running: Running, shop: Shop, neighbour: Shop, form: str, caplog: pytest.LogCaptureFixture
) -> None:
    canary = Canary()
    content = hostile(form, canary.plant("password"))
    caplog.set_level(logging.DEBUG)
    await shop.bind()
    data: JsonObject = {"credentials": base64.b64encode(content).decode()}
    body: JsonObject = {"metadata": {"name": "uaa-secret", "namespace": shop.namespace}, "data": data}
    await shop.client.apply(Secret, body, force=True)
    await shop.apply()
    await shop.release("1")
    version = await shop.version_shows("ErrorInAppRouterDeployment", state="Error")
    shown = conditions.find(version.status.conditions, "Ready")
    assert shown is not None
    assert shown.message.startswith("key credentials of secret uaa-secret is "), shown.message

    await neighbour.open()
    await neighbour.tenant_shows("ProvisioningCompleted")
    await running.has_sent_events()
    canary.assert_unseen({"logs": caplog.text, **await everything_shown(shop, running)})

    await shop.bind()
    await shop.version_shows("WorkloadsReady")


@pytest.mark.req("R-412")
@pytest.mark.timeout(120)
async def test_the_largest_credentials_stall_nothing(running: Running, shop: Shop) -> None:
    credentials = {f"key{number}": "<&>" * 4 for number in range(28_000)}
    data: JsonObject = {"credentials": base64.b64encode(json.dumps(credentials).encode()).decode()}
    body: JsonObject = {"metadata": {"name": "uaa-secret", "namespace": shop.namespace}, "data": data}
    await shop.client.apply(Secret, body)
    await shop.apply()
    await running.settled(shop.client)
    with measured_stalls() as stalls:
        await shop.release("1")
        version = await shop.version_shows("ErrorInAppRouterDeployment", state="Error")
    assert stalls.longest_seconds < LONGEST_STALL_SECONDS, stalls
    shown = conditions.find(version.status.conditions, "Ready")
    assert shown is not None
    assert "more than the 1048576 bytes that a Secret can hold" in shown.message, shown.message


@pytest.mark.req("R-408")
async def test_a_tenant_that_cannot_have_its_labels_or_its_host_shows_why_and_others_go_on(
    running: Running, shop: Shop
) -> None:
    await shop.open(host="shop.example.com")
    wildcard: JsonObject = {"capApplicationInstance": "shop", "subDomain": "*", "tenantId": "wildcard-id"}
    blank: JsonObject = {"capApplicationInstance": "shop", "subDomain": "blank", "tenantId": "an id/with blanks"}
    for name, spec in (("wildcard", wildcard), ("blank", blank)):
        marks: JsonObject = {
            "labels": {"sme.sap.com/tenant-type": "consumer"},
            "annotations": {"sme.sap.com/subscription-context-secret": "acme-context", "noise": "x" * 200_000},
        }
        metadata: JsonObject = {"name": name, "namespace": shop.namespace, **marks}
        await shop.client.apply(CAPTenant, {"metadata": metadata, "spec": spec})

    async def shows(name: str, words: str) -> bool:
        tenant = await shop.client.get(CAPTenant, name, shop.namespace)
        shown = conditions.find(tenant.status.conditions, "Ready")
        assert shown is not None
        assert words in shown.message, shown.message
        return True

    await eventually(lambda: shows("wildcard", "the subdomain '*' of CAPTenant"), within=30)
    await eventually(lambda: shows("blank", "metadata.labels"), within=30)
    await shop.tenant_shows("ProvisioningCompleted")


@pytest.mark.req("R-408")
async def test_a_provider_that_cannot_have_a_tenant_puts_only_its_application_into_error(
    running: Running, shop: Shop
) -> None:
    await shop.bind()
    await shop.apply(provider={"subDomain": "provider", "tenantId": "no label at all!"})
    await shop.release("1")
    application = await shop.shows_application("ProviderTenantError", state="Error")
    shown = conditions.find(application.status.conditions, "Ready")
    assert shown is not None
    assert "metadata.labels" in shown.message


@pytest.mark.req("R-413")
async def test_workloads_with_names_that_nothing_can_have_are_named(running: Running, shop: Shop) -> None:
    await shop.bind()
    await shop.apply()
    await shop.release("1", job("Not_A_Name!"), router())
    await shop.subscribe()
    await shop.version_shows("WorkloadsReady")

    async def is_named() -> bool:
        operations = await shop.operations()
        assert operations, "there is no operation yet"
        shown = conditions.find(operations[0].status.conditions, "Ready")
        assert shown is not None
        assert shown.reason == "StepProcessingError"
        assert "not_a_name!" in shown.message
        return True

    await eventually(is_named, within=30)


async def test_the_policy_of_the_security_page_keeps_namespaces_from_cluster_domains(admin: Client, shop: Shop) -> None:
    shared: list[JsonValue] = [{"kind": "ClusterDomain", "name": "shared"}]
    await shop.apply(domainRefs=shared)
    target = metadata_of(CAPApplication)

    async def change(**spec: JsonValue) -> None:
        await admin.patch(target, "shop", shop.namespace, MergePatch({"spec": {**spec}}), dry_run=True)

    async def is_refused(**spec: JsonValue) -> bool:
        try:
            await change(**spec)
        except StatusError as error:
            return "may refer to its own Domains only" in str(error)
        return False

    async with security_page.policies(admin, shop.namespace):
        await eventually(lambda: is_refused(btpAppName="other"), describe="the policy is in force")
        assert await is_refused(domainRefs=[], domains={"primary": "a.example.com"})
        await change(domainRefs=[{"kind": "Domain", "name": "primary"}])
        await change(domainRefs=None)
        finalizers = MergePatch({"metadata": {"finalizers": None}})
        await admin.patch(target, "shop", shop.namespace, finalizers, dry_run=True)
        label = MergePatch({"metadata": {"labels": {"example.com/shares-cluster-domains": "true"}}})
        await admin.patch(metadata_of(Namespace), shop.namespace, "", label)

        async def is_allowed() -> bool:
            return not await is_refused(btpAppName="other")

        await eventually(is_allowed, describe="the label of the namespace counts")
