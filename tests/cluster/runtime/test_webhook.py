"""Webhooks as the real API server calls them, with certificates of their own."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import secrets
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from stellwerk.api.admission import ValidatingWebhookConfiguration
from stellwerk.api.core import ConfigMap, Secret
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import JsonPatch, MergePatch, add, replace
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import ApiError, StatusCause, StatusError
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, dig, unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.runtime.certificates import certs
from stellwerk.runtime.certificates.store import Profile, Registration, ServingCertificates, trust
from stellwerk.runtime.serving.http import ListenAddress
from stellwerk.runtime.serving.webhook import (
    Admission,
    AdmissionServer,
    Allowed,
    Decision,
    Denied,
    Patched,
    Webhook,
)
from stellwerk.runtime.telemetry.metrics import Metrics
from stellwerk.testing.clock import FakeClock
from stellwerk.testing.eventually import eventually

PROFILE = Profile(names=("127.0.0.1", "localhost"))
SECRET = "webhook-tls"


def judge(admission: Admission[ConfigMap]) -> Decision:
    """What a ConfigMap's data asks for."""
    data = admission.new.data if admission.new else {}
    match data.get("wish"):
        case "denied":
            cause = StatusCause(reason="FieldValueInvalid", message="may not be denied", field="data.wish")
            return Denied("data.wish may not be denied: choose allowed", 422, (cause,))
        case "warned":
            return Allowed(("data.wish is old",))
        case "bug":
            raise ZeroDivisionError
        case _:
            return Allowed()


def complete(admission: Admission[ConfigMap]) -> Decision:
    """A default."""
    if admission.new is not None and "colour" not in admission.new.data and admission.new.data:
        return Patched(JsonPatch([add("/data/colour", "blue")]))
    return Allowed()


WEBHOOKS = [Webhook("/validate", ConfigMap, judge), Webhook("/mutate", ConfigMap, complete)]


class Replica:
    """One process that serves the webhooks."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        registrations: Sequence[Registration],
        clock: FakeClock,
        *,
        secret: str = SECRET,
        profile: Profile = PROFILE,
    ) -> None:
        self.metrics = Metrics()
        self.certificates = ServingCertificates(
            client,
            ObjectKey(namespace, secret),
            profile,
            former=ObjectKey(namespace, SECRET) if secret != SECRET else None,
            registrations=registrations,
            clock=clock,
            metrics=self.metrics,
        )
        self.server = AdmissionServer(ListenAddress("127.0.0.1", 0), WEBHOOKS, self.certificates, metrics=self.metrics)
        self.task = asyncio.create_task(self.server.run())

    async def until_listening(self) -> None:
        def listens() -> bool:
            with contextlib.suppress(RuntimeError):
                return self.server.port > 0
            if self.task.done():
                self.task.result()
            return False

        await eventually(listens)

    async def stop(self) -> None:
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task


class Scene:
    """Replicas, and registrations of their webhooks for one namespace."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client = client
        self.namespace = namespace
        self.clock = FakeClock(datetime.now(UTC))  # the API server's own clock judges the certificates
        self.name = f"test-{secrets.token_hex(4)}"
        self.registrations = (Registration.validating(self.name), Registration.mutating(self.name))
        self.replicas: list[Replica] = []

    async def replica(self, secret: str = SECRET, profile: Profile = PROFILE) -> Replica:
        made = Replica(self.client, self.namespace, self.registrations, self.clock, secret=secret, profile=profile)
        self.replicas.append(made)
        await self.replicas[-1].until_listening()
        return self.replicas[-1]

    async def register(self, replica: Replica) -> None:
        """Register by address; the caBundle is filled in by the replica."""
        for registration, path in zip(self.registrations, ("/validate", "/mutate"), strict=True):
            kind = registration.view.resource.kind
            webhook: JsonObject = {
                "name": f"{self.name}.stellwerk.test",
                "clientConfig": {"url": f"https://127.0.0.1:{replica.server.port}{path}"},
                "rules": [
                    {
                        "operations": ["CREATE", "UPDATE"],
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "resources": ["configmaps"],
                    }
                ],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}},
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "timeoutSeconds": 30,
                "failurePolicy": "Fail",
            }
            api_version = registration.view.resource.api_version
            body: JsonObject = {
                "apiVersion": api_version,
                "kind": kind,
                "metadata": {"name": self.name},
                "webhooks": [webhook],
            }
            await self.client.create(registration.view, body)
        await replica.certificates.check()

    async def write(self, name: str, **data: str) -> ConfigMap:
        body: JsonObject = {"metadata": {"name": name, "namespace": self.namespace}, "data": {**data}}
        return await self.client.create(ConfigMap, body, self.namespace)

    async def until_asked(self) -> None:
        """The API server learns of each registration, and of its trust, within a moment; of which first is chance."""

        async def asked() -> bool:
            try:
                completed = await self.write(f"probe-{secrets.token_hex(4)}", wish="allowed")
                if "colour" in completed.data:
                    await self.write(f"probe-{secrets.token_hex(4)}", wish="denied")
            except StatusError as error:
                return error.code == 422
            return False

        await eventually(asked)

    async def bundles(self) -> set[bytes]:
        """The authorities that each registration trusts; while they are being changed, the registrations differ."""
        seen = set()
        for registration in self.registrations:
            found = await self.client.get(registration.view, self.name)
            webhooks = found.body["webhooks"]
            assert isinstance(webhooks, list)
            seen |= {str(dig(webhook, "clientConfig", "caBundle")) for webhook in webhooks}
        return {base64.b64decode(text) for text in seen}

    async def secret(self, name: str = SECRET) -> dict[str, bytes]:
        return (await self.client.get(Secret, name, self.namespace)).decoded()

    async def clear(self) -> None:
        for registration in self.registrations:
            await self.client.delete(registration.view, self.name)
        for replica in self.replicas:
            await replica.stop()


@pytest.fixture
async def client(cluster: LocalCluster) -> AsyncIterator[Client]:
    async with Client.connect(ClusterConfig.load(cluster.kubeconfig)) as client:
        yield client


@pytest.fixture
async def scene(client: Client, namespace: str) -> AsyncIterator[Scene]:
    scene = Scene(client, namespace)
    yield scene
    await scene.clear()


async def test_the_api_server_obeys_what_is_decided(scene: Scene) -> None:
    replica = await scene.replica()
    await scene.register(replica)
    await scene.until_asked()
    assert (await scene.write("allowed", wish="allowed")).data == {"wish": "allowed", "colour": "blue"}
    assert (await scene.write("warned", wish="warned", colour="red")).data["colour"] == "red"
    with pytest.raises(StatusError, match=r"data\.wish may not be denied: choose allowed") as denied:
        await scene.write("denied", wish="denied")
    assert denied.value.code == 422
    assert denied.value.status.details.causes[0].field == "data.wish"
    requests = replica.metrics.registry.get_sample_value(
        "controller_runtime_webhook_requests_total", {"webhook": "/validate", "code": "200"}
    )
    assert requests is not None
    assert requests >= 3


async def test_a_bug_of_ours_is_left_to_the_failure_policy(scene: Scene) -> None:
    replica = await scene.replica()
    await scene.register(replica)
    await scene.until_asked()
    with pytest.raises(ApiError, match="failed calling webhook"):
        await scene.write("bug", wish="bug")
    view = unstructured(ValidatingWebhookConfiguration.resource)
    await scene.client.patch(view, scene.name, "", JsonPatch([replace("/webhooks/0/failurePolicy", "Ignore")]))

    async def passes() -> bool:
        with contextlib.suppress(ApiError):
            await scene.write(f"bug-{secrets.token_hex(4)}", wish="bug")
            return True
        return False

    await eventually(passes)


@pytest.mark.req("R-706")
async def test_replicas_that_start_together_share_one_certificate(scene: Scene) -> None:
    await asyncio.gather(scene.replica(), scene.replica(), scene.replica())
    stored = await scene.secret()
    for replica in scene.replicas:
        assert await _shown_by(replica, stored["ca.crt"]) == certs.split(stored["tls.crt"])[0]


@pytest.mark.req("R-706")
async def test_a_secret_of_another_name_begins_with_the_authority_of_the_former_one(scene: Scene) -> None:
    """Replicas with either Secret run for a while, and must not replace each other's caBundle."""
    replica = await scene.replica()
    await scene.register(replica)
    before = await scene.secret()
    other = await scene.replica("renamed-tls", Profile(names=("renamed.here.svc", "127.0.0.1", "localhost")))
    made = await scene.secret("renamed-tls")
    assert (made["ca.crt"], made["ca.key"]) == (before["ca.crt"], before["ca.key"])
    assert await _shown_by(other, before["ca.crt"]) == certs.split(made["tls.crt"])[0]
    assert made["tls.crt"] != before["tls.crt"]
    assert await scene.bundles() == {before["ca.crt"]}
    assert await scene.secret() == before


@pytest.mark.req("R-706")
async def test_without_a_former_secret_one_of_another_name_begins_with_an_authority_of_its_own(scene: Scene) -> None:
    await scene.replica("renamed-tls")
    assert (await scene.secret("renamed-tls"))["ca.crt"]


@pytest.mark.req("R-706")
async def test_certificates_are_replaced_without_a_refused_call(scene: Scene) -> None:
    """An authority and its leaf are replaced while the API server calls all the time."""
    replica = await scene.replica()
    await scene.register(replica)
    await scene.until_asked()
    before = await scene.secret()
    refused: list[Exception] = []
    calls = 0
    ended = asyncio.Event()

    async def call_all_the_time() -> None:
        nonlocal calls
        while not ended.is_set():
            try:
                await scene.write(f"call-{calls}", wish="allowed")
                # The API server keeps its connection; another one of it would meet whatever is presented now.
                for bundle in await scene.bundles():
                    await _shown_by(replica, bundle)
            except (ApiError, OSError) as error:
                refused.append(error)
            calls += 1

    caller = asyncio.create_task(call_all_the_time())
    # A broken authority key forces a new authority without waiting for years.
    await scene.client.patch(Secret, SECRET, scene.namespace, MergePatch({"data": {"ca.key": "anVuaw=="}}))
    await replica.certificates.check()
    joined = await scene.secret()
    assert joined["tls.crt"] == before["tls.crt"], "the new authority is made known before it signs"
    assert await scene.bundles() == {joined["ca.crt"]}
    assert len(certs.split(joined["ca.crt"])) == 2
    await _calls_go_on(lambda: calls)
    await scene.clock.advance(61)
    await replica.certificates.check()
    swapped = await scene.secret()
    assert swapped["tls.crt"] != before["tls.crt"]
    assert await _shown_by(replica, swapped["ca.crt"]) == certs.split(swapped["tls.crt"])[0]
    await _calls_go_on(lambda: calls)
    ended.set()
    await caller
    assert not refused
    assert calls > 20


@pytest.mark.req("R-706")
async def test_a_new_authority_settles_again_where_another_client_had_replaced_the_trust_in_it(scene: Scene) -> None:
    replica = await scene.replica()
    await scene.register(replica)
    before = await scene.secret()
    await scene.client.patch(Secret, SECRET, scene.namespace, MergePatch({"data": {"ca.key": "anVuaw=="}}))
    await replica.certificates.check()
    for registration in scene.registrations:
        found = await scene.client.get(registration.view, scene.name)
        former = JsonPatch(trust(found.body, before["ca.crt"]))
        await scene.client.patch(registration.view, scene.name, "", former)

    await scene.clock.advance(61)
    await replica.certificates.check()
    restored = await scene.secret()
    assert await scene.bundles() == {restored["ca.crt"]} != {before["ca.crt"]}
    assert restored["tls.crt"] == before["tls.crt"], "not all API servers may know the new authority"

    await scene.clock.advance(61)
    await replica.certificates.check()
    assert (await scene.secret())["tls.crt"] != before["tls.crt"]


@pytest.mark.req("R-706")
async def test_a_leaf_near_its_end_is_replaced_by_the_replica_itself(scene: Scene) -> None:
    replica = await scene.replica()
    before = await scene.secret()
    # Nobody wakes: half a year of looks, one every half minute, is long where each is over before the next is due.
    scene.clock.jump(timedelta(days=365 * 0.61).total_seconds())

    async def renewed() -> bool:
        await scene.clock.advance(30)  # its next look
        return (await scene.secret())["tls.crt"] != before["tls.crt"]

    await eventually(renewed)
    after = await scene.secret()
    assert after["ca.crt"] == before["ca.crt"]
    left = replica.metrics.registry.get_sample_value(
        "stellwerk_certificate_expiry_seconds", {"name": f"{scene.namespace}/{SECRET}"}
    )
    assert left is not None


async def test_a_deleted_secret_comes_back_with_the_same_certificate(scene: Scene) -> None:
    replica = await scene.replica()
    before = await scene.secret()
    await scene.client.delete(Secret, SECRET, scene.namespace)
    await replica.certificates.check()
    assert await scene.secret() == before


async def test_a_calm_look_writes_nothing(scene: Scene) -> None:
    replica = await scene.replica()
    await scene.register(replica)
    versions = [(await scene.client.get(one.view, scene.name)).metadata.resource_version for one in scene.registrations]
    await replica.certificates.check()
    after = [(await scene.client.get(one.view, scene.name)).metadata.resource_version for one in scene.registrations]
    assert after == versions


async def _calls_go_on(calls: Callable[[], int]) -> None:
    start = calls()
    await eventually(lambda: calls() > start + 10)


async def _shown_by(replica: Replica, authority: bytes) -> bytes:
    """The certificate that a caller who trusts this bundle is shown, as PEM."""
    trust = ssl.create_default_context(cadata=authority.decode())
    _, writer = await asyncio.open_connection("127.0.0.1", replica.server.port, ssl=trust)
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return certs.split(ssl.DER_cert_to_PEM_cert(shown).encode())[0]
