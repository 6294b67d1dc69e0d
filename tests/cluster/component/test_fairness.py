"""Tenants whose servers and templates are slow do not delay the Components of other tenants."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest

from stellwerk.api.core import ConfigMap, Secret
from stellwerk.kube.client.client import Client
from stellwerk.kube.http.transport import CALLS
from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.operators.component.api import Blueprint, Component
from stellwerk.testing.eventually import eventually
from stellwerk.testing.servers.artifacts import ArtifactServer, Behaviour, HangingDownload, Redirect, Slow
from tests.cluster.component.given import Given, config_map
from tests.cluster.component.running import Running
from tests.cluster.component.test_remote_clusters import changed
from tests.cluster.component.then import Then
from tests.cluster.silence import deaf, hanging_webhook

VICTIM_SECONDS = 10.0
ATTACKERS = 30
NAMESPACES = 3
SPELLINGS = ("127.0.0.1", "localhost", "LOCALHOST", "127.1", "0x7f.0.0.1", "2130706433", "[::ffff:127.0.0.1]")
FOREVER = "{{ range until 100000 }}{{ range until 100000 }}{{ end }}{{ end }}\n" + config_map("never")


async def attack(given: Given, specs: Mapping[str, JsonObject]) -> None:
    """Components of other tenants, spread over a few namespaces."""
    places = [await given.a_namespace() for _ in range(NAMESPACES)]
    for number, (name, spec) in enumerate(specs.items()):
        metadata: JsonObject = {"name": name, "namespace": places[number % NAMESPACES]}
        await given.client.apply(Component, {"metadata": metadata, "spec": spec})


async def victims_are_served(given: Given, then: Then) -> None:
    """New Components of one more tenant, from a Blueprint and from flux, become Ready in time."""
    await given.source({"one.yaml": config_map("one")})
    metadata: JsonObject = {"name": "print", "namespace": given.namespace}
    files: JsonObject = {"two.yaml": config_map("two")}
    await given.client.apply(Blueprint, {"metadata": metadata, "spec": {"files": files}})
    began = time.monotonic()
    await given.component("flux")
    blueprint: JsonObject = {"sourceRef": {"blueprint": {"name": "print"}}}
    await given.client.apply(
        Component, {"metadata": {"name": "printed", "namespace": given.namespace}, "spec": blueprint}
    )
    await then.ready("flux", within=VICTIM_SECONDS)
    await then.ready("printed", within=VICTIM_SECONDS - (time.monotonic() - began))


@pytest.mark.req("R-507")
@pytest.mark.req("R-511")
@pytest.mark.parametrize(
    "behaviour", [HangingDownload(), Slow(pieces=1_000, pause_seconds=1.0), Redirect(to="/hang-0")]
)
async def test_web_servers_that_hang_drip_or_redirect_for_ever_delay_no_other_tenant(
    given: Given, running: Running, then: Then, artifacts: ArtifactServer, behaviour: Behaviour
) -> None:
    urls = [
        artifacts.publish(f"hang-{n}", {"a.yaml": config_map("a")}, behaviour=behaviour).url for n in range(ATTACKERS)
    ]
    running.grace_seconds = 0.1
    await running.start()
    await attack(given, {f"bad-{n}": {"sourceRef": {"httpRepository": {"url": url}}} for n, url in enumerate(urls)})
    await eventually(lambda: len(artifacts.seen) >= NAMESPACES, on=artifacts.changed)
    await victims_are_served(given, then)
    await running.stop()


@pytest.mark.req("R-210")
@pytest.mark.req("R-511")
@pytest.mark.parametrize("drip", [b"", b"H"])
async def test_api_servers_that_never_answer_delay_no_other_tenant_and_no_other_cluster(
    given: Given, running: Running, then: Then, login: str, remote: Client, drip: bytes
) -> None:
    async with deaf(drip) as (double, port):
        running.grace_seconds = 0.1
        await running.start()
        places = [await given.a_namespace() for _ in range(NAMESPACES)]
        for number in range(ATTACKERS):
            server = f"https://{SPELLINGS[number % len(SPELLINGS)]}:{port}"
            place = places[number % NAMESPACES]
            text: JsonValue = changed(login, cluster={"server": server})
            metadata: JsonObject = {"name": f"bad-{number}", "namespace": place}
            await given.client.apply(Secret, {"metadata": metadata, "stringData": {"value": text}})
            spec: JsonObject = {
                "sourceRef": {"fluxGitRepository": {"name": "source", "namespace": given.namespace}},
                "kubeConfig": {"secretRef": {"name": f"bad-{number}"}},
            }
            await given.client.apply(Component, {"metadata": metadata, "spec": spec})
        await given.source({"one.yaml": config_map("one")})
        await eventually(lambda: double.connections >= NAMESPACES, on=double.changed)
        await victims_are_served(given, then)

        await given.secret("good", value=login)
        await given.component("far", kubeConfig={"secretRef": {"name": "good"}})
        await then.ready("far", within=VICTIM_SECONDS)
        await running.stop()


@pytest.mark.req("R-404")
@pytest.mark.req("R-511")
async def test_slow_templates_delay_no_other_tenant(given: Given, running: Running, then: Then) -> None:
    running.grace_seconds = 0.1
    await running.start()
    places = [await given.a_namespace() for _ in range(NAMESPACES)]
    for number in range(ATTACKERS):
        metadata: JsonObject = {"name": f"bad-{number}", "namespace": places[number % NAMESPACES]}
        files: JsonObject = {"a.yaml": f"# {number}\n{FOREVER}"}
        await given.client.apply(Blueprint, {"metadata": metadata, "spec": {"files": files}})
        spec: JsonObject = {"sourceRef": {"blueprint": {"name": f"bad-{number}"}}}
        await given.client.apply(Component, {"metadata": metadata, "spec": spec})
    controller = running.operator.controller
    await eventually(lambda: controller.queue.running >= 2 * NAMESPACES)
    await victims_are_served(given, then)
    await running.stop()


@pytest.mark.req("R-507")
async def test_an_admission_webhook_that_hangs_delays_no_other_tenant(
    given: Given, running: Running, then: Then
) -> None:
    running.grace_seconds = 0.1
    await running.start()
    place = await given.a_namespace()
    async with deaf() as (double, port), hanging_webhook(given.client, place, port, ConfigMap):
        for number in range(ATTACKERS):
            metadata: JsonObject = {"name": f"bad-{number}", "namespace": place}
            files: JsonObject = {f"{n}.yaml": config_map(f"bad-{number}-{n}") for n in range(16)}
            await given.client.apply(Blueprint, {"metadata": metadata, "spec": {"files": files}})
            spec: JsonObject = {"sourceRef": {"blueprint": {"name": f"bad-{number}"}}}
            await given.client.apply(Component, {"metadata": metadata, "spec": spec})
        await eventually(lambda: double.connections >= CALLS, on=double.changed)
        await victims_are_served(given, then)
        await running.stop()
