"""Hooks for the end of a release run where its objects are, and as whom they were made."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from stellwerk.api.batch import Job
from stellwerk.api.core import ConfigMap, Secret, ServiceAccount
from stellwerk.api.rbac import Role, RoleBinding
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.model import JsonObject, metadata_of
from stellwerk.local.cluster import LocalCluster
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.scenarios.writes import Writes
from tests.cluster import permissions
from tests.cluster.component.given import Given
from tests.cluster.component.manifests import config, job, manifest
from tests.cluster.component.rights import ALL
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then

AFAR = "component-operator-from-afar"
CHART = {"Chart.yaml": "apiVersion: v2\nname: app\nversion: 1.0.0\n", "templates/app.yaml": config("app")}
THERE = {"secretRef": {"name": "there"}}
TENANT = "deployer"
SAME_IDENTITY = "grant that identity the rights again"


@dataclass(frozen=True, slots=True)
class Tenant:
    """A ServiceAccount of few rights in the test's namespace."""

    client: Client
    namespace: str

    async def may(self, *resources: str) -> None:
        """Do everything with these resources (`batch/jobs`), and nothing with others."""
        metadata: JsonObject = {"name": TENANT, "namespace": self.namespace}
        await self.client.apply(ServiceAccount, {"metadata": metadata})
        rules = [self._rule(*resource.rpartition("/")) for resource in resources]
        mark, marked = permissions.mark()
        await self.client.apply(Role, {"metadata": metadata, "rules": [*rules, mark]}, force=True)
        reference: JsonObject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": TENANT}
        subject: JsonObject = {"kind": "ServiceAccount", **metadata}
        await self.client.apply(RoleBinding, {"metadata": metadata, "roleRef": reference, "subjects": [subject]})
        user = permissions.account(TENANT, self.namespace)
        await permissions.count(self.client, user, permissions.within(marked, self.namespace))

    def _rule(self, group: str, _: str, resource: str) -> JsonObject:
        return {"apiGroups": [group], "resources": [resource], "verbs": [*ALL]}


@pytest.fixture
def tenant(admin: Client, home: str) -> Tenant:
    return Tenant(admin, home)


def hook(name: str, on: str) -> str:
    """A ConfigMap that is a hook: it has done its work when it is there."""
    return manifest("ConfigMap", name, annotations={"helm.sh/hook": on})


async def test_hooks_run_in_the_cluster_that_the_objects_are_in(
    given: Given, running: Running, then: Then, remote: Client, remote_cluster: LocalCluster, login: str
) -> None:
    hooks = {
        "templates/before.yaml": hook("before", "pre-delete"),
        "templates/after.yaml": hook("after", "post-delete"),
    }
    await given.source(CHART | hooks)
    await given.secret("there", value=login)
    await given.component(kubeConfig=THERE, deleteHooks="Run")
    await running.start()
    await then.ready()
    keeper = metadata_of(Secret)
    assert await remote.find(keeper, "comp.delete-hooks", then.namespace) is not None
    assert not await then.exists(Secret, "comp.delete-hooks")

    await given.secret_deleted("there")
    await then.shows("Pending", "Retrying", saying="there: not found")
    await given.deleted()
    await then.shows("DeletionPending", "DeletionRetrying", saying="there: not found")
    assert await remote.find(metadata_of(ConfigMap), "app", then.namespace) is not None
    there = Writes(AuditLog(remote_cluster), AFAR, then.namespace)
    await given.secret("there", value=login)
    await then.gone()
    assert there.to("configmaps", "secrets") == [
        "create configmaps/before",
        "delete configmaps/before",
        "delete configmaps/app",
        "create configmaps/after",
        "delete configmaps/after",
        "delete secrets/comp.delete-hooks",
    ]
    for kind, name in ((ConfigMap, "before"), (ConfigMap, "after"), (Secret, "comp.delete-hooks")):
        assert await remote.find(metadata_of(kind), name, then.namespace) is None


@pytest.mark.req("R-501")
async def test_hooks_are_kept_and_run_with_the_rights_of_the_tenant_and_no_others(
    given: Given, running: Running, then: Then, tenant: Tenant
) -> None:
    account = f"system:serviceaccount:{then.namespace}:{TENANT}"
    await tenant.may("configmaps")
    await given.source(CHART | {"templates/bye.yaml": job("bye", annotations={"helm.sh/hook": "pre-delete"})})
    await running.start()
    await given.component(serviceAccountName=TENANT, deleteHooks="Run")
    refused = await then.shows("Error", "Error", saying=account)
    assert "comp.delete-hooks" in refused.status.conditions[0].message
    assert not await then.exists(Secret, "comp.delete-hooks")
    await tenant.may("configmaps", "secrets")
    await running.waits(minutes=20)
    await then.ready()

    await given.deleted()
    held = await then.shows("Error", "Error", saying=account)
    assert "jobs" in held.status.conditions[0].message
    assert SAME_IDENTITY in held.status.conditions[0].message
    assert await then.exists(ConfigMap, "app")
    assert not await then.exists(Job, "bye")
    await tenant.may("configmaps", "secrets", "batch/jobs")
    await running.waits(minutes=20)
    await then.gone()
    await then.absent(Job, "bye")
    await then.absent(ConfigMap, "app")
    await then.absent(Secret, "comp.delete-hooks")


@pytest.mark.req("R-112")
async def test_a_tenant_who_may_no_longer_read_what_was_kept_is_told_and_can_go_without_hooks(
    given: Given, running: Running, then: Then, tenant: Tenant, writes: Writes
) -> None:
    await tenant.may("configmaps", "secrets")
    await given.source(CHART | {"templates/bye.yaml": hook("bye", "pre-delete")})
    await given.component(serviceAccountName=TENANT, deleteHooks="Run")
    await running.start()
    await then.ready()
    await tenant.may("configmaps")
    await given.deleted()
    held = await then.shows("Error", "Error", saying="comp.delete-hooks")
    assert "secrets" in held.status.conditions[0].message
    assert SAME_IDENTITY in held.status.conditions[0].message
    assert await then.exists(ConfigMap, "app")

    # A try between rights that are back and a spec that is not yet changed would rightly run the hook.
    await given.component(serviceAccountName=TENANT, deleteHooks="Skip")
    await then.shows("Error", "Error", saying="comp.delete-hooks")
    await tenant.may("configmaps", "secrets")
    await running.waits(minutes=20)
    await then.gone()
    assert "create configmaps/bye" not in writes.to("configmaps")
    await then.absent(ConfigMap, "app")
    await then.absent(Secret, "comp.delete-hooks")
