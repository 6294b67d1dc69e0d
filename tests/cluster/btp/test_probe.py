"""The CA-bundle probe: a Job looks, and what it writes on the CR has its consequences once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from stellwerk.api.batch import Job
from stellwerk.api.core import Pod
from stellwerk.api.rbac import Role, RoleBinding
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.model import JsonObject, metadata_of, unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.operators.btp.btpoperator.probe import JOB_NAME, STEP_SECONDS, Probe, ProbeSettings
from stellwerk.operators.btp.settings import Settings
from stellwerk.runtime.supervision.tasks import Border
from stellwerk.runtime.telemetry.metrics import Metrics
from stellwerk.testing.clock import FakeClock
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.eventually import eventually
from tests.cluster import permissions
from tests.cluster.btp.given import Given
from tests.cluster.btp.running import Running
from tests.cluster.btp.then import Then

NAMESPACE = "kyma-system"
OPERAND = "sap-btp-operator-of-a-test"


@pytest.fixture(autouse=True)
async def afterwards(client: Client) -> AsyncIterator[None]:
    """No pod of ours afterwards; what the Job leaves is cleared away before each test."""
    yield
    await client.delete(Pod, OPERAND, NAMESPACE)


async def operand_pod(client: Client, namespace: str = NAMESPACE) -> None:
    labels: JsonObject = {"app.kubernetes.io/instance": "sap-btp-operator"}
    metadata: JsonObject = {"name": OPERAND, "namespace": namespace, "labels": labels}
    container: JsonObject = {"name": "manager", "image": "operand:1"}
    await client.create(
        Pod, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
    )


async def cycle(
    given: Given, found: dict[str, str], *, last_hash: str = "", client: Client | None = None
) -> list[bool]:
    """One cycle in which the Job writes `found` on the CR; what was reported."""
    operator = await given.btp_operator(annotations={"tls-probe-last-hash": last_hash} if last_hash else {})
    await given.annotations_on(BtpOperator, "btpoperator", **found)
    reports: list[bool] = []
    clock = FakeClock()
    probe = Probe(
        client or given.client,
        ProbeSettings("probe:1"),
        lambda: Settings(probe_interval=timedelta(hours=1)),
        Border(Metrics(), clock),
        leader=lambda: operator,
        report=reports.append,
    )
    async with ticking(clock):
        await probe.cycle()
    return reports


@asynccontextmanager
async def ticking(clock: FakeClock) -> AsyncIterator[None]:
    """Time passes whenever somebody waits for it."""

    async def tick() -> None:
        while True:
            await clock.until_sleeping(within=60)
            await clock.advance(STEP_SECONDS)

    task = asyncio.create_task(tick(), name="clock")
    try:
        yield
    finally:
        task.cancel()


async def last_hash(given: Given) -> str | None:
    return (await given.client.get(BtpOperator, "btpoperator", NAMESPACE)).metadata.annotations.get(
        "tls-probe-last-hash"
    )


FOUND = {"tls-probe-updated-at": "2026-01-01T00:00:00Z", "tls-probe-hash": "new"}


async def test_a_first_good_finding_is_remembered_and_restarts_nothing(given: Given) -> None:
    await operand_pod(given.client)

    assert await cycle(given, {**FOUND, "tls-probe-status": "ok"}) == [False]

    assert await last_hash(given) == "new"
    assert (await given.client.get(Job, JOB_NAME, NAMESPACE)).has_ended
    assert not (await given.client.get(Pod, OPERAND, NAMESPACE)).metadata.is_terminating


async def test_a_new_good_bundle_restarts_the_operand_and_is_remembered(given: Given, then: Then) -> None:
    await operand_pod(given.client)

    assert await cycle(given, {**FOUND, "tls-probe-status": "ok"}, last_hash="old") == [False]

    await then.disappears(unstructured(Pod.resource), OPERAND)
    assert await last_hash(given) == "new"


@pytest.mark.req("R-505")
async def test_a_pod_of_others_with_the_operands_label_is_not_restarted(given: Given, then: Then) -> None:
    tenant = await given.a_namespace("a-tenant-with-pods")
    await operand_pod(given.client, tenant)
    await operand_pod(given.client)

    await cycle(given, {**FOUND, "tls-probe-status": "ok"}, last_hash="old")

    await then.disappears(unstructured(Pod.resource), OPERAND)
    assert not (await given.client.get(Pod, OPERAND, tenant)).metadata.is_terminating


async def test_a_bundle_that_does_not_verify_alerts_and_restarts_nothing(given: Given) -> None:
    await operand_pod(given.client)

    assert await cycle(given, {**FOUND, "tls-probe-status": "alert"}, last_hash="old") == [True]

    assert not (await given.client.get(Pod, OPERAND, NAMESPACE)).metadata.is_terminating
    assert await last_hash(given) == "new"


async def test_a_probe_that_wrote_nothing_changes_nothing(given: Given) -> None:
    assert await cycle(given, {}, last_hash="old") == []

    assert await last_hash(given) == "old"


async def test_a_job_of_a_former_cycle_makes_room_for_the_next(given: Given) -> None:
    await cycle(given, {})
    former = await given.client.get(metadata_of(Job), JOB_NAME, NAMESPACE)
    await given.client.delete(BtpOperator, "btpoperator", NAMESPACE)

    await cycle(given, {})

    assert (await given.client.get(metadata_of(Job), JOB_NAME, NAMESPACE)).metadata.uid != former.metadata.uid


async def test_a_cycle_watches_its_job_and_reads_it_once(given: Given, btp_cluster: LocalCluster) -> None:
    audit = AuditLog(btp_cluster)
    await cycle(given, FOUND)
    assert requests_for_jobs(audit) == ["get", "create", "watch"]
    await given.client.delete(BtpOperator, "btpoperator", NAMESPACE)

    audit.mark()
    await cycle(given, FOUND)
    assert [verb for verb in requests_for_jobs(audit) if verb != "watch"] == ["get", "delete", "create"]
    assert audit.count(verb="watch", resource="jobs") == 2


async def test_with_a_role_that_has_no_watch_the_job_is_read_until_it_ends(
    given: Given, btp_cluster: LocalCluster
) -> None:
    user = "role-without-watch"
    rules: list[JsonObject] = [
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "create", "delete"]},
        {"apiGroups": ["operator.kyma-project.io"], "resources": ["btpoperators"], "verbs": ["get", "patch"]},
    ]
    subject: JsonObject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}
    role_ref: JsonObject = {"kind": "Role", "apiGroup": "rbac.authorization.k8s.io", "name": user}
    await given.client.apply(Role, {"metadata": {"name": user, "namespace": NAMESPACE}, "rules": [*rules]})
    await given.client.apply(
        RoleBinding, {"metadata": {"name": user, "namespace": NAMESPACE}, "roleRef": role_ref, "subjects": [subject]}
    )
    right = permissions.on("jobs", "create", NAMESPACE, group="batch")
    await permissions.count(given.client, user, right)
    audit = AuditLog(btp_cluster)
    try:
        assert await cycle(given, {**FOUND, "tls-probe-status": "ok"}, client=given.client.acting_as(user)) == [False]
    finally:
        await given.client.delete(RoleBinding, user, NAMESPACE)
        await given.client.delete(Role, user, NAMESPACE)

    assert audit.entries(lambda entry: entry.verb == "watch" and entry.resource == "jobs" and entry.status == 403)
    assert await last_hash(given) == "new"


def requests_for_jobs(audit: AuditLog) -> list[str]:
    """The verbs of the requests for Jobs; the log leaves out the components of the cluster."""
    return [entry.verb for entry in audit.entries(lambda entry: entry.resource == "jobs")]


async def test_an_interval_of_zero_switches_the_probe_off(given: Given) -> None:
    operator = await given.btp_operator()
    probe = Probe(
        given.client,
        ProbeSettings("probe:1"),
        lambda: Settings(probe_interval=timedelta()),
        Border(Metrics(), FakeClock()),
        leader=lambda: operator,
        report=lambda alerts: None,
    )

    async with asyncio.timeout(10):
        await probe.run()

    assert await given.client.find(Job, JOB_NAME, NAMESPACE) is None


async def test_the_interval_of_the_config_map_outranks_the_flag(running: Running, given: Given) -> None:
    running.environment["PROBE_IMAGE"] = "probe:1"
    await given.tunables(ProbeInterval="1h", RsaKeyBits="2048")
    await given.btp_operator()

    await running.start(ProbeInterval="0")

    async def is_probed() -> bool:
        return await given.client.find(Job, JOB_NAME, NAMESPACE) is not None

    await eventually(is_probed, describe="the probe's Job is there")
