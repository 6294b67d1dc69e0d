"""`stellwerk why` names the true cause of what is broken in an application, and a next step that works as printed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from tests.cluster import breakages
from tests.cluster.breakages import ROOT, Expected, Judge
from tests.cluster.cap import world
from tests.cluster.cap.conftest import Running
from tests.cluster.cap.shop import Shop, job, router
from tests.cluster.program import CommandLine

from stellwerk.api.core import Secret
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, Kind, metadata_of, to_json_object, unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.domain import Domain
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.testing import cluster as clusters


@dataclass(frozen=True, slots=True)
class Row:
    """One breakage: how it is made, and what `why` must say."""

    name: str
    breaks: Callable[[Shop], Awaitable[None]]
    expected: Expected


async def opened(shop: Shop, *workloads: JsonObject, **fields: Any) -> None:
    await shop.open(*workloads, waits=False, host=f"{shop.namespace}.example.com", **fields)


async def released(shop: Shop, *workloads: JsonObject) -> None:
    await shop.bind()
    await shop.apply()
    await shop.release("1", *workloads)


async def provisioned(shop: Shop, *workloads: JsonObject, **fields: Any) -> None:
    await opened(shop, *workloads, **fields)
    await shop.tenant_shows("ProvisioningCompleted")


async def hold(shop: Shop, kind: type[Kind], name: str, *finalizers: str) -> None:
    patch = MergePatch({"metadata": {"finalizers": [*finalizers]}})
    await shop.client.patch(metadata_of(kind), name, shop.namespace, patch)


async def delete(shop: Shop, kind: type[Kind], name: str) -> None:
    await shop.client.delete(metadata_of(kind), name, shop.namespace)


QUOTA = Resource("", "v1", "ResourceQuota", "resourcequotas", namespaced=True)


def made(
    breaks: Callable[..., Awaitable[None]], *arguments: object, **fields: Any
) -> Callable[[Shop], Awaitable[None]]:
    return lambda shop: breaks(shop, *arguments, **fields)


# ---- the breakages


async def foreign_finalizer_of_a_tenant(shop: Shop) -> None:
    await provisioned(shop)
    await hold(shop, CAPTenant, "acme", names.TENANT_FINALIZER, "example.com/backup")
    await delete(shop, CAPTenant, "acme")


async def foreign_finalizer_of_a_version(shop: Shop) -> None:
    await released(shop)
    await shop.version_shows("WorkloadsReady")
    await hold(shop, CAPApplicationVersion, "shop-v1", names.VERSION_FINALIZER, "example.com/audit")
    await delete(shop, CAPApplicationVersion, "shop-v1")


async def no_secret(shop: Shop) -> None:
    await shop.apply()


async def no_domain(shop: Shop) -> None:
    await shop.bind()
    await shop.apply(domainRefs=[{"kind": "Domain", "name": "primary"}])


async def domain_in_error(shop: Shop) -> None:
    await shop.bind()
    await shop.apply(domainRefs=[{"kind": "Domain", "name": "primary"}])
    await stored_domain(shop, "ProcessingError", "no pod of the ingress gateway has the labels istio=gateway")


async def stored_domain(shop: Shop, reason: str, message: str) -> None:
    await shop.serve(f"{shop.namespace}.example.com")
    condition: JsonObject = {
        "type": "Ready",
        "status": "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "observedGeneration": 1,
    }
    patch = MergePatch({"status": {"state": "Error", "conditions": [condition]}})
    await shop.client.patch(metadata_of(Domain), "primary", shop.namespace, patch, subresource="status")


async def no_version(shop: Shop) -> None:
    await shop.bind()
    await shop.apply()


async def upgrade_failed(shop: Shop, **fields: Any) -> None:
    await provisioned(shop, **fields)
    await shop.release("2", job("mtxs", fate="fail"), router())
    await shop.tenant_shows("UpgradeFailed", state="UpgradeError")


async def upgrade_failed_after_long(shop: Shop) -> None:
    """The tenant has been Ready for long, and never was anything else by that condition."""
    await provisioned(shop)
    tenant = await shop.client.get(CAPTenant, "acme", shop.namespace)
    aged = [{**to_json_object(each), "lastTransitionTime": "2020-01-01T00:00:00Z"} for each in tenant.status.conditions]
    patch = MergePatch({"status": {"conditions": [*aged]}})
    await shop.client.patch(metadata_of(CAPTenant), "acme", shop.namespace, patch, subresource="status")
    await shop.release("2", job("mtxs", fate="fail"), router())
    await shop.tenant_shows("UpgradeFailed", state="UpgradeError")


async def superseded_version(shop: Shop) -> None:
    await released(shop, job("load", "Content", fate="fail"), job("mtxs"), router())
    await shop.version_shows("ErrorInWorkloadStatus", state="Error")
    await shop.release("2")


async def twin(shop: Shop) -> None:
    await provisioned(shop)
    await shop.subscribe("twin", follows=True)
    patch = MergePatch({"spec": {"tenantId": "acme-id"}})
    await shop.client.patch(metadata_of(CAPTenant), "twin", shop.namespace, patch)


async def version_gone(shop: Shop) -> None:
    await provisioned(shop)
    await shop.client.patch(
        metadata_of(CAPTenant), "acme", shop.namespace, MergePatch({"spec": {"versionUpgradeStrategy": "never"}})
    )
    await delete(shop, CAPApplicationVersion, "shop-v1")
    await hold(shop, CAPApplicationVersion, "shop-v1")


async def number_unknown(shop: Shop) -> None:
    await opened(shop, tenantUpgrade={"canaryTenants": ["other"]})
    await shop.tenant_shows("ProvisioningCompleted")
    await shop.set_version("9.0.0")


async def no_application(shop: Shop) -> None:
    await shop.release("1")


async def tenant_without_application(shop: Shop) -> None:
    await shop.subscribe()


async def secret_gone_later(shop: Shop) -> None:
    await released(shop)
    await shop.version_shows("WorkloadsReady")
    await hold(shop, Secret, "uaa-secret", "example.com/hold")
    await delete(shop, Secret, "uaa-secret")


async def deprovisioning_fails(shop: Shop) -> None:
    await provisioned(shop)
    await shop.mend(job("mtxs", fate="fail"))
    await delete(shop, CAPTenant, "acme")


async def application_keeps_tenants(shop: Shop) -> None:
    await deprovisioning_fails(shop)
    await delete(shop, CAPApplication, "shop")


async def tenant_still_subscribed(shop: Shop) -> None:
    await provisioned(shop)
    await delete(shop, CAPApplication, "shop")


async def provider_fails(shop: Shop) -> None:
    await shop.bind()
    await shop.apply(
        host=f"{shop.namespace}.example.com", provider={"subDomain": "provider", "tenantId": "provider-id"}
    )
    await shop.release("1", job("mtxs", fate="fail"), router())


async def quota(shop: Shop) -> None:
    spec: JsonObject = {"hard": {"pods": "0"}}
    metadata: JsonObject = {"name": "none", "namespace": shop.namespace}
    await shop.client.apply(unstructured(QUOTA), {"metadata": metadata, "spec": spec})
    await released(shop)


async def paused_wave(shop: Shop) -> None:
    await upgrade_failed(shop, tenantUpgrade={"canaryTenants": ["acme-id"], "maxParallel": 1})


async def operation_without_version(shop: Shop) -> None:
    await shop.operate("upgrade")


async def operation_without_workload(shop: Shop) -> None:
    await provisioned(shop)
    await shop.operate("upgrade", {"name": "absent", "type": "TenantOperation"})


async def crash_after_upgrade(shop: Shop) -> None:
    await released(shop)
    await shop.version_shows("WorkloadsReady")
    await shop.release("2", job("mtxs"), router(fate="crash-loop"))


FAIL, HANG, UNREADY = (job("mtxs", fate=fate) for fate in ("fail", "hang", "unready"))
RUNS = "No user has to act"

ROWS = [
    Row("a Job of a tenant fails", made(opened, FAIL), Expected("cat/acme", ["exit code 1"], "stellwerk cap retry")),
    Row("a Job of a tenant hangs", made(opened, HANG), Expected("cat/acme", ["it runs since"], "kubectl get pods")),
    Row("a Job's pod is not ready", made(opened, UNREADY), Expected("cat/acme", ["not ready"], "kubectl logs")),
    Row(
        "an image does not exist",
        made(released, job("mtxs"), router("pull-error")),
        Expected("ca/shop", ["image app:1 cannot be pulled"], "kubectl describe pod shop-v1-app-"),
    ),
    Row(
        "a container crashes",
        made(released, job("mtxs"), router("crash-loop")),
        Expected("cav/shop-v1", ["crashes again and again", "exit code 1"], "kubectl logs"),
    ),
    Row(
        "a pod never becomes ready",
        made(released, job("mtxs"), router("unready")),
        Expected("cav/shop-v1", ["not ready"], "kubectl logs"),
    ),
    Row(
        "a fate is misspelt",
        made(released, job("mtxs"), router("unredy")),
        Expected("cav/shop-v1", ['"unredy" is not one of'], "kubectl describe pod shop-v1-app-"),
    ),
    Row(
        "a content Job is in back-off",
        made(released, job("c", "Content", "fail", backoffLimit=3), router()),
        Expected("cav/shop-v1", ["exit code 1", "Pod"], "kubectl logs", [RUNS]),
    ),
    Row(
        "a content Job has failed",
        made(released, job("c", "Content", "fail"), router()),
        Expected("cav/shop-v1", ["exit code 1"], "kubectl logs"),
    ),
    Row(
        "a foreign finalizer keeps a tenant",
        foreign_finalizer_of_a_tenant,
        Expected("cat/acme", ["example.com/backup"], "kubectl patch", [RUNS]),
    ),
    Row(
        "a foreign finalizer keeps a version",
        foreign_finalizer_of_a_version,
        Expected("cav/shop-v1", ["example.com/audit"], "kubectl patch", [RUNS]),
    ),
    Row("a Secret does not exist", no_secret, Expected("ca/shop", ["uaa-secret"], "kubectl edit ca shop")),
    Row(
        "a domain does not exist",
        no_domain,
        Expected("ca/shop", ["Domain primary, which does not exist"], "kubectl get domains,clusterdomains"),
    ),
    Row("a domain has failed", domain_in_error, Expected("ca/shop", ["istio=gateway"], "stellwerk tree dom/primary")),
    Row(
        "an application has no version",
        no_version,
        Expected("ca/shop", ["waiting for a CAPApplicationVersion"], "stellwerk get cav", ["tenant"]),
    ),
    Row("an upgrade of a tenant failed", upgrade_failed, Expected("cat/acme", ["exit code 1"], "stellwerk cap retry")),
    Row(
        "an upgrade of a tenant that was Ready for long failed",
        upgrade_failed_after_long,
        Expected(
            "cat/acme",
            ["exit code 1"],
            "stellwerk cap retry",
            [RUNS, "(for 6y)", "(for 7y)"],
            "works as before, but is in state UpgradeError",
        ),
    ),
    Row(
        "a version failed, and a newer one is Ready",
        superseded_version,
        Expected("cav/shop-v1", [], "", ["exit code", ROOT], "is superseded: nothing waits for it"),
    ),
    Row("an upgrade is paused", paused_wave, Expected("ca/shop", ["exit code 1"], "stellwerk cap upgrade")),
    Row(
        "a tenant has the data of another",
        twin,
        Expected("cat/twin", ["acme is older", "tenant id acme-id"], "kubectl delete cat twin"),
    ),
    Row(
        "the version of a tenant is gone",
        version_gone,
        Expected("cat/acme", ["CAPApplicationVersion shop-v1", "does not exist"], "kubectl get ca,cav", [RUNS]),
    ),
    Row(
        "no version has the number of a tenant",
        number_unknown,
        Expected("cat/acme", ["version 9.0.0", "none has this number"], "kubectl get ca,cav", [RUNS]),
    ),
    Row(
        "a version names no application",
        no_application,
        Expected("cav/shop-v1", ["which does not exist"], "kubectl get ca"),
    ),
    Row(
        "a tenant names no application",
        tenant_without_application,
        Expected("cat/acme", ["CAPApplication shop", "does not exist"], "kubectl get ca,cav"),
    ),
    Row("a Secret is being deleted", secret_gone_later, Expected("ca/shop", ["uaa-secret"], "kubectl get secrets")),
    Row("a deprovisioning fails", deprovisioning_fails, Expected("cat/acme", ["exit code 1"], "stellwerk cap retry")),
    Row(
        "an application waits for such a tenant",
        application_keeps_tenants,
        Expected("ca/shop", ["exit code 1"], "stellwerk cap retry"),
    ),
    Row(
        "an application waits for a subscription",
        tenant_still_subscribed,
        Expected("ca/shop", ["waiting for 1 tenant to be deleted"], "kubectl get cat", ["failed"]),
    ),
    Row("the provider's tenant fails", provider_fails, Expected("ca/shop", ["exit code 1"], "stellwerk cap retry")),
    Row(
        "a quota is used up",
        quota,
        Expected("cav/shop-v1", ["ResourceQuota", "is used up"], "kubectl describe deployment shop-v1-app"),
    ),
    Row(
        "an operation names no version",
        operation_without_version,
        Expected(
            "ctop/acme-op", ["capApplicationVersionInstance", "is shop-v1, which does not exist"], "kubectl get ca"
        ),
    ),
    Row(
        "an operation names no workload",
        operation_without_workload,
        Expected("ctop/acme-op", ["names the workload absent, which"], "kubectl get ca", ["no CAPTenant"]),
    ),
    Row("the newest version crashes", crash_after_upgrade, Expected("ca/shop", ["exit code 1"], "kubectl logs")),
    Row(
        "a tenant has no subscription payload",
        made(opened, subscribed=False),
        Expected("cat/acme", ["sme.sap.com/subscription-context-secret"], "kubectl get"),
    ),
]


@pytest.fixture
def places(cap_cluster: LocalCluster) -> Iterator[list[str]]:
    """A namespace for each breakage."""
    made = [clusters.create_namespace(cap_cluster, "broken") for _ in ROWS]
    yield made
    for name in made:
        world.leave_namespace(cap_cluster, name)


async def test_why_names_the_cause_of_each_breakage_and_a_command_that_works(
    running: Running, admin: Client, places: list[str], cap_cluster: LocalCluster, command_line: CommandLine
) -> None:
    judge = Judge(cap_cluster.kubeconfig, command_line)

    async def tried(row: Row, place: str) -> None:
        await row.breaks(Shop(admin, place))
        await judge.judge(place, row.expected)

    await breakages.all_of([(row.name, partial(tried, row, place)) for row, place in zip(ROWS, places, strict=True)])
