"""Which process does not answer, since when, and the command that shows its pods and logs."""

from __future__ import annotations

import asyncio
import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from stellwerk import assembly
from stellwerk.cli.objects import check_rules, operator_liveness, webhook_calls
from stellwerk.cli.objects.check_rules import Found
from stellwerk.cli.objects.webhook_calls import Address
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import JsonObject, JsonValue, Unstructured
from stellwerk.local.cluster import LocalCluster, ProcessStatus
from stellwerk.local.host.ports import HOST, free_port
from stellwerk.runtime.certificates import certs
from stellwerk.runtime.insight.diagnosis import Diagnosis, Finding, root_causes

NOW = datetime.now(UTC)
BTP = assembly.OPERATORS["btp"]
LOOK = "kubectl get pods -n n -l app=it && kubectl logs deployment/it -n n --all-containers"


def a_deployment(replicas: int, available: int) -> Unstructured:
    pod: JsonObject = {"containers": [{"command": ["stellwerk", "run", "btp"]}]}
    return Unstructured.of(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "it", "namespace": "n"},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": "it"}},
                "template": {"spec": pod},
            },
            "status": {"availableReplicas": available},
        }
    )


def a_lease(minutes_ago: int) -> Unstructured:
    renewed = (NOW - timedelta(minutes=minutes_ago)).isoformat()
    spec: JsonObject = {"holderIdentity": "one", "renewTime": renewed, "leaseDurationSeconds": 15}
    return Unstructured.of({"metadata": {"name": "l", "namespace": "n"}, "spec": spec})


def judged(leases: list[Unstructured], *among: Unstructured, cause: str = "") -> Found:
    deployments = check_rules.deployments_of("btp", "", among)
    return operator_liveness.of_cluster(BTP, leases, deployments, {each.key: cause for each in among}, NOW)


def test_a_deployment_without_available_pods_is_named_with_its_cause_and_how_long_nobody_renews_its_lease() -> None:
    found = judged([a_lease(5)], a_deployment(2, 0), cause="Pod n/it-1: OOMKilled")
    assert found.verdict == "bad"
    assert found.detail == (
        "no answer from the BTP Manager: one has not renewed the Lease n/l for 5m; "
        "Deployment n/it: 0 of 2 replicas available; Pod n/it-1: OOMKilled"
    )
    assert found.fix == LOOK


def test_pods_that_are_available_and_do_not_renew_their_lease_are_named_too() -> None:
    found = judged([a_lease(5)], a_deployment(1, 1))
    assert (found.verdict, found.fix) == ("bad", LOOK)
    assert "has not renewed the Lease n/l for 5m" in found.detail


def test_a_deployment_that_was_scaled_to_zero_is_to_be_scaled_up() -> None:
    found = judged([], a_deployment(0, 0))
    assert (found.verdict, found.fix) == ("bad", "kubectl scale deployment it -n n --replicas=1")


def test_a_lease_without_a_deployment_leads_to_the_pods_of_its_namespace() -> None:
    found = judged([a_lease(5)])
    assert (found.verdict, found.fix) == ("bad", "kubectl get pods -n n (then: stellwerk logs)")


def test_without_leader_election_available_pods_are_enough() -> None:
    assert judged([], a_deployment(1, 1)).verdict == "good"


def test_where_nothing_shows_an_operator_it_may_run_elsewhere() -> None:
    assert judged([]).verdict == "unsure"


@pytest.mark.parametrize(
    ("pid", "arguments", "verdict", "words"),
    [
        (None, (), "bad", "process operator-btp of the local system does not run, its log ends 10m ago"),
        (7, (f"--health-probe-bind-address={HOST}:1",), "bad", "the readiness probe of process 7 fails"),
        (7, (), "good", "process 7"),
    ],
)
def test_a_process_of_the_local_system_is_judged_by_whether_it_runs_and_is_ready(
    tmp_path: Path, pid: int | None, arguments: tuple[str, ...], verdict: str, words: str
) -> None:
    log, system = tmp_path / "operator-btp.log", LocalCluster(tmp_path / "mine")
    log.write_text("the end")
    now = datetime.fromtimestamp(log.stat().st_mtime, UTC) + timedelta(minutes=10)
    found = operator_liveness.of_local(BTP, ProcessStatus("operator-btp", pid, log, arguments), system, now)
    assert found.verdict == verdict
    assert words in found.detail
    assert ("stellwerk up --name mine" in found.fix) == (pid is None)
    assert (f"tail -n 50 {log}" in found.fix) == (verdict == "bad")


def test_what_runs_in_another_container_is_not_called_dead(tmp_path: Path) -> None:
    status = ProcessStatus("operator-btp", None, tmp_path / "it.log", runs_elsewhere=True)
    assert operator_liveness.of_local(BTP, status, LocalCluster(tmp_path), NOW).verdict == "unsure"


DEAD = Found("it", "bad", "no answer from the operator", "kubectl get pods -n n")


@pytest.mark.parametrize("reason", operator_liveness.UNSEEN)
def test_an_operator_that_does_not_answer_is_the_root_cause_of_what_it_has_not_looked_at(reason: str) -> None:
    seen = Diagnosis((Finding("not looked at", reason, is_root_cause=True),), "check that it runs")
    told = operator_liveness.with_silence(seen, reason, "", DEAD)
    assert [root.text for root in root_causes(told.findings)] == ["no answer from the operator"]
    assert told.next_step == DEAD.fix
    assert (
        operator_liveness.with_silence(Diagnosis(), reason, "not looked at", DEAD).findings[0].text == "not looked at"
    )


def test_elsewhere_an_operator_that_does_not_answer_is_a_remark() -> None:
    seen = Diagnosis((Finding("no Secret", "MissingSecret", is_root_cause=True),), "create it")
    told = operator_liveness.with_silence(seen, "MissingSecret", "", DEAD)
    assert (told.findings, told.next_step) == (seen.findings, seen.next_step)
    assert told.remarks == ("no answer from the operator, so that what is shown may be old. kubectl get pods -n n",)


@pytest.mark.parametrize("verdict", ["good", "unsure"])
def test_an_operator_that_may_run_changes_no_diagnosis_of_what_it_has_looked_at(verdict: check_rules.Verdict) -> None:
    seen = Diagnosis((Finding("no Secret", "MissingSecret", is_root_cause=True),))
    assert operator_liveness.with_silence(seen, "MissingSecret", "", Found("it", verdict)) == seen


# ---- webhooks


def configuration(*ways: JsonObject) -> Unstructured:
    webhooks: list[JsonValue] = [{"name": "w", "clientConfig": way} for way in ways]
    kind = "ValidatingWebhookConfiguration"
    return Unstructured.of({"apiVersion": "v1", "kind": kind, "metadata": {"name": "c"}, "webhooks": webhooks})


def test_each_server_of_a_configuration_is_asked_once() -> None:
    service: JsonObject = {"service": {"namespace": "n", "name": "s", "path": "/validate", "port": 8443}}
    ways: tuple[JsonObject, ...] = (
        {"url": "https://a/validate", "caBundle": "x"},
        {"url": "https://a/mutate"},
        service,
        service,
        {},
    )
    assert [*webhook_calls.addresses(configuration(*ways))] == [
        Address(url="https://a/validate", bundle="x"),
        Address(namespace="n", service="s", port=8443, path="/validate"),
    ]


def an_authority() -> certs.KeyPair:
    return certs.new_authority(certs.Wish(common_name="ca", names=[HOST], lifetime=timedelta(days=9), now=NOW))


async def told_by(url: str, bundle: bytes) -> str:
    asked = configuration({"url": url, "caBundle": base64.b64encode(bundle).decode()})
    async with Client.connect(ClusterConfig(server="http://127.0.0.1:9")) as client:
        return await webhook_calls.silence(client, asked)


async def test_a_webhook_that_answers_anything_is_well_and_others_are_named_with_the_cause() -> None:
    authority = an_authority()
    pair = certs.issue(authority, certs.Wish(common_name=HOST, names=[HOST], lifetime=timedelta(days=9), now=NOW))
    context = certs.server_context()
    certs.load_into(context, pair)

    async def refuses(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(refuses, HOST, 0, ssl=context) as server:
        url = f"https://{HOST}:{server.sockets[0].getsockname()[1]}/validate"
        assert await told_by(url, authority.certificate) == ""
        assert "its certificate is not trusted" in await told_by(url, an_authority().certificate)
    closed = f"https://{HOST}:{free_port()}/validate"
    expected = f"ValidatingWebhookConfiguration c: {closed} does not answer: Connection refused"
    assert await told_by(closed, authority.certificate) == expected
