"""Values of Secrets get into Secrets and nowhere else: not into logs at their fullest, Events, status or metrics."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path

import aiohttp
import pytest

from stellwerk.api.core import Event, Secret
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.testing.checks.secret_leak_scan import Canary
from stellwerk.testing.faults import AnswerInstead, requests
from stellwerk.testing.faults.upstream import Upstream
from tests.cluster.btp.given import CREDENTIALS, Given
from tests.cluster.btp.process import FAST, SELECTIONS, Operator, operator
from tests.cluster.btp.then import Then

PLANTED = ("clientid", "clientsecret", "sm_url", "tokenurl", "certificate")
"""The cluster id is none: the operand's ConfigMap has it."""
OPERAND = "sap-btp-operator-controller-manager"
GENERATED = {"ca-server-cert": "ca.key", "webhook-server-cert": "tls.key"}


async def in_the_open(cluster: LocalCluster, running: Operator) -> Mapping[str, str]:
    """All that others may see: every object but a Secret's data, and the metrics."""
    texts: dict[str, str] = {}
    async with Upstream(cluster.kubeconfig) as upstream:
        for resource in (Event.resource, *(selection.resource for selection in SELECTIONS)):
            for found in await upstream.objects(resource):
                shown = {**found, "data": None} if resource == Secret.resource else found
                texts[f"{resource.kind} {found['metadata']}"[:120]] = json.dumps(shown)
    async with aiohttp.ClientSession() as session, session.get(running.metrics_url) as response:
        texts["metrics"] = await response.text()
    return texts


@pytest.mark.req("R-801", "R-804")
async def test_no_value_shows_while_the_module_comes_fails_and_goes(
    btp_cluster: LocalCluster, given: Given, then: Then, tmp_path: Path
) -> None:
    canary = Canary()
    values = {key: canary.plant(key) for key in PLANTED}
    await given.tunables(**FAST)
    async with operator(btp_cluster, tmp_path, "--zap-log-level=9", "--zap-stacktrace-level=info") as running:
        await running.process.start()

        await required_secret(given, {**values, "tokenurl": ""})
        await given.btp_operator()
        await then.shows("Error", "InvalidSecret")
        canary.assert_unseen(await in_the_open(btp_cluster, running), [running.process.log])

        await required_secret(given, values)
        await then.shows("Ready", "ReconcileSucceeded")
        for name, key in GENERATED.items():
            pair = await given.client.get(Secret, name, "kyma-system")
            canary.mark(f"{name} {key}", base64.b64decode(pair.data[key]))

        changed = canary.plant("the changed clientsecret")
        values["clientsecret"] = changed
        for status in (400, 403, 409, 422, 500):
            await refusing(running, then, given, values, status)
        for resource, name in (("configmaps", "sap-btp-operator-config"), ("deployments.apps", OPERAND)):
            await refusing(running, then, given, values, 422, resource, name)
        canary.assert_unseen(await in_the_open(btp_cluster, running), [running.process.log])

        await given.client.delete(BtpOperator, "btpoperator", "kyma-system")
        await then.is_gone()
        canary.assert_unseen(await in_the_open(btp_cluster, running), [running.process.log])
        assert "ReconcileSucceeded" in running.process.log_text(), "the log that was searched tells the story"


async def required_secret(given: Given, values: Mapping[str, str]) -> None:
    """The required Secret with planted values."""
    named = {key: value for key, value in {**CREDENTIALS, **values}.items() if key != "certificate"}
    extra = {key: value for key, value in values.items() if key == "certificate"}
    data = {key: base64.b64encode(value.encode()).decode() for key, value in {**named, **extra}.items()}
    await given.replace(
        Secret,
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": "sap-btp-manager",
                "namespace": "kyma-system",
                "labels": {"app.kubernetes.io/managed-by": "kcp-kyma-environment-broker"},
            },
            "data": {**data},
        },
    )


async def refusing(
    running: Operator,
    then: Then,
    given: Given,
    values: Mapping[str, str],
    status: int,
    resource: str = "secrets",
    name: str = "sap-btp-service-operator",
) -> None:
    """The API server refuses an object, the operand's Secret for one, and quotes secret values, as a webhook may do."""
    secret = values["clientsecret"]
    quoted = f'data[clientsecret]: Invalid value: "{base64.b64encode(secret.encode()).decode()}": or {secret!r}'
    applies = requests("apply", resource, name=name)
    with running.proxy.on_requests(applies, AnswerInstead(status, message=quoted)):
        changed = {"clientid": f"{values['clientid']}-{status}"}
        if resource != "secrets":
            changed["cluster_id"] = f"cluster-{resource}"
        await required_secret(given, {**values, **changed})
        await then.shows("Error", "ReconcileFailed" if resource == "secrets" else "ProvisioningFailed")
    await then.shows("Ready", "ReconcileSucceeded")
