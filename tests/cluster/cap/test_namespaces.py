"""The CAP Operator in some namespaces: with the chart's rights there, it works there, and asks for nothing else."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from stellwerk.api.core import Secret
from stellwerk.delivery import deployed_process, limited_grants
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.model import JsonObject, Unstructured, dig, metadata_of
from stellwerk.local.cluster import LocalCluster
from stellwerk.local.host.ports import HOST, free_port
from stellwerk.operators.cap.domain.naming import AnyDomain
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.operators.cap.webhooks import registration
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.eventually import eventually
from stellwerk.testing.processes.operator_process import OperatorProcess
from tests.cluster import permissions
from tests.cluster.cap.domain.scenario import Given, Then, with_gateway
from tests.cluster.cap.shop import Shop, job, router, server
from tests.cluster.cap.webhooks.test_process import Away, register, unregister
from tests.cluster.cap.webhooks.test_webhooks import in_force, refused, view_of
from tests.unit.operators import helm_charts

RIGHTS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
PROCESSES = ("cap", "cap-server", "cap-webhooks")
OF_CLUSTER = (*limited_grants.OF_CLUSTER, "selfsubjectaccessreviews")


class Limited:
    """The three processes as the chart starts them, with the accounts that it creates."""

    def __init__(self, place: str, processes: Sequence[OperatorProcess], users: Sequence[str], webhooks: Away) -> None:
        self.place = place
        self.processes = processes
        self.users = users
        self.webhooks = webhooks


@asynccontextmanager
async def limited(cluster: LocalCluster, admin: Client, given: Given, folder: Path) -> AsyncIterator[Limited]:
    """All three, ready. They watch the test's own namespace and one that does not exist; their own is another."""
    place, gone = await given.a_namespace("operator"), f"{given.namespace}-gone"
    controller: JsonObject = {
        "ingressNamespaces": given.ingress,
        "certManager": "cert-manager.io",
        "dnsManager": "kubernetes",
        "dnsTarget": "lb.example.com",
    }
    values: JsonObject = {
        "watchNamespaces": [given.namespace, gone],
        "capOperator": {
            "enabled": True,
            "fullnameOverride": place,
            "controller": controller,
            "subscriptionServer": {"istioSystemNamespace": given.ingress},
        },
    }
    async with helm_charts.chart() as chart:
        bodies = await chart.bodies(values, place)
    for body in bodies:
        if body["kind"] in RIGHTS and dig(body, "metadata", "namespace") != gone:
            await admin.apply(await view_of(admin, body), body)
    probes, serving = {name: free_port() for name in PROCESSES}, free_port()
    local = {
        "cap": ["--leader-elect=false"],
        "cap-server": ["--leader-elect=false", f"--host={HOST}", f"--port={free_port()}"],
        "cap-webhooks": [f"--webhook-host={HOST}", f"--webhook-port={serving}"],
    }
    async with AsyncExitStack() as stack:
        processes, users = [], []
        for body in bodies:
            if body["kind"] != "Deployment":
                continue
            (deployed,) = deployed_process.of_deployment(Unstructured.of(body))
            name, account = deployed.words[2], str(dig(body, "spec", "template", "spec", "serviceAccountName"))
            command = [
                *(sys.executable, "-m", "stellwerk.cli.main", *deployed.words[1:]),
                *(f"--kubeconfig={cluster.kubeconfig_of_account(place, account)}", f"--pod-namespace={place}"),
                *("--metrics-bind-address=0", f"--health-probe-bind-address={HOST}:{probes[name]}", *local[name]),
            ]
            process = OperatorProcess(
                command,
                log=folder / f"{name}.log",
                environment=deployed.variables,
                health_url=f"http://{HOST}:{probes[name]}/readyz",
            )
            processes.append(await stack.enter_async_context(process))
            users.append(permissions.account(account, place))
        for user in users:
            right = permissions.on("captenants", "list", given.namespace, group="sme.sap.com")
            await permissions.count(admin, user, right)
        await asyncio.gather(*(each.start() for each in processes))
        webhooks = next(each for each in processes if "cap-webhooks" in each.arguments)
        yield Limited(place, processes, users, Away(place, webhooks, serving))
        for process in processes:
            process.assert_clean_log()


@pytest.fixture
async def given(admin: Client, home: str) -> AsyncIterator[Given]:
    """The namespaces around the test's own, which go with it; an ingress gateway runs."""
    async with with_gateway(admin, home) as given:
        yield given


@pytest.mark.req("R-961")
@pytest.mark.timeout(240)
async def test_limited_to_a_namespace_all_processes_work_with_rights_that_end_there(
    cap_cluster: LocalCluster,
    admin: Client,
    given: Given,
    shop: Shop,
    neighbour: Shop,
    audit: AuditLog,
    tmp_path: Path,
) -> None:
    async with limited(cap_cluster, admin, given, tmp_path) as running:
        secret = await admin.get(Secret, registration.secret_of(f"{running.place}-webhook"), running.place)
        await register(admin, running.webhooks, shop.namespace, secret.data["ca.crt"])
        await eventually(lambda: in_force(admin, shop.namespace), describe="the API server asks the webhooks")

        await neighbour.bind()
        await neighbour.apply()
        await neighbour.subscribe()
        await shop.bind()
        domains = (
            await given.a_domain(f"{shop.namespace}.example.com"),
            await given.a_cluster_domain(f"c-{shop.namespace}.example.com"),
        )
        for domain in domains:
            await eventually(partial(issued, given, domain), within=30, describe=f"{domain.ref} is Ready")
        await shop.apply(domainRefs=[{"kind": each.resource.kind, "name": each.metadata.name} for each in domains])
        assert "of type CAP" in await refused(shop.release("1"))
        await shop.release("1", server("srv"), router(), job("mtxs"))
        await shop.version_shows("WorkloadsReady")
        await shop.subscribe()
        await shop.has_version("shop-v1")
        await shop.shows_application("VersionExists", state="Consistent")

        alone = await admin.get(CAPApplication, "shop", neighbour.namespace)
        left = await admin.get(CAPTenant, "acme", neighbour.namespace)
        assert (alone.metadata.finalizers, alone.status.state, left.metadata.finalizers) == ((), "", ())
        await unregister(admin, running.webhooks)

        await admin.delete(metadata_of(CAPTenant), "acme", shop.namespace)
        await shop.is_gone(CAPTenant, "acme")
        await admin.delete(metadata_of(CAPApplication), "shop", shop.namespace)
        await shop.is_gone(CAPApplication, "shop")
        for domain in domains:
            await given.deleted(domain)
            await Then(admin).gone(domain)

        entries = audit.entries(lambda entry: entry.user in running.users)
        assert {entry.user for entry in entries} == {*running.users}
        assert not [entry for entry in entries if entry.status == 403]
        assert {entry.resource for entry in entries if not entry.namespace} <= {*OF_CLUSTER, ""}, "asked of all"
        assert {entry.namespace for entry in entries} <= {
            *("", shop.namespace, given.ingress, running.place),
            "default",  # Events about the ClusterDomain
        }
        for process in running.processes:
            assert "missing right" not in process.log_text()


async def issued(given: Given, domain: AnyDomain) -> bool:
    """Have cert-manager report the certificate of a domain, and return whether the domain is Ready."""
    await given.issued(domain)
    return bool((await Then(given.client).domain(domain)).status.state == "Ready")
