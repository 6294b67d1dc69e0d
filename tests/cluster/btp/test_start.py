"""What the process looks at before it does anything, and what it offers while it runs."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import msgspec
import pytest

from stellwerk.kube.client.client import Client
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.testing.processes.operator_process import OperatorFailed
from tests.cluster import permissions
from tests.cluster.btp.process import operator


async def test_without_the_operands_image_it_exits_with_1_and_names_the_variable(
    btp_cluster: LocalCluster, tmp_path: Path
) -> None:
    async with operator(btp_cluster, tmp_path, environment={}) as running:
        with pytest.raises(OperatorFailed, match="ended with 1 before it was ready"):
            await running.process.start()

        assert running.process.exit_code == 1
        said = running.process.log_text()
        assert "environment variable SAP_BTP_SERVICE_OPERATOR is not set" in said
        assert "Fix:" in said
        assert "Traceback" not in said
        assert not running.proxy.history.count(), "nothing was asked of the cluster"


BINDINGS = unstructured(
    Resource("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False)
)


async def token(client: Client) -> str:
    """A fresh token of an account of nobody's."""
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"
    answer = await client.raw("POST", path, body=b'{"spec":{"expirationSeconds":600}}')
    return str(msgspec.json.decode(answer)["status"]["token"])


async def may_read_metrics(client: Client) -> None:
    """The role that is installed for scrapers, bound to that account."""
    account: JsonObject = {"kind": "ServiceAccount", "name": "default", "namespace": "default"}
    role: JsonObject = {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "btp-manager-metrics-reader",
    }
    await client.apply(BINDINGS, {"metadata": {"name": "scraper"}, "subjects": [account], "roleRef": role})
    await permissions.count(client, permissions.account("default", "default"), permissions.at("/metrics"))


async def scraped(url: str, token: str = "") -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with aiohttp.request("GET", url, headers=headers, ssl=False) as response:
        return response.status, await response.text()


@pytest.mark.req("R-707")
async def test_secure_metrics_are_read_by_those_whom_the_cluster_permits(
    btp_cluster: LocalCluster, client: Client, tmp_path: Path
) -> None:
    await client.delete(BINDINGS, "scraper")
    async with operator(btp_cluster, tmp_path, "--metrics-secure") as running:
        await running.process.start()
        url = running.metrics_url.replace("http://", "https://")
        stranger = await token(client)
        assert (await scraped(url))[0] == 401
        assert (await scraped(url, stranger))[0] == 403

        await may_read_metrics(client)
        status, text = await scraped(url, await token(client))
        assert status == 200
        assert "controller_runtime_reconcile_total" in text
        await client.delete(BINDINGS, "scraper")
