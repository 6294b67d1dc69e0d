"""As whom a Component acts, and what it may name: the operator's own rights are lent only as far as it is told to."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from tests.cluster import permissions
from tests.cluster.component.given import Given, config_map
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then

from stellwerk.api.core import ConfigMap, ServiceAccount
from stellwerk.api.rbac import RoleBinding
from stellwerk.kube.client import Client
from stellwerk.kube.model import JsonObject
from stellwerk.operators.component.api import Component
from stellwerk.operators.component.settings import Mode
from stellwerk.runtime import conditions

ONE = {"one.yaml": config_map("one")}


@dataclass(frozen=True, slots=True)
class Accounts:
    """ServiceAccounts and what they may do in the test's namespace."""

    client: Client
    namespace: str

    async def exists(self, name: str) -> None:
        """A ServiceAccount that may do nothing."""
        await self.client.apply(ServiceAccount, {"metadata": {"name": name, "namespace": self.namespace}})

    async def may_edit(self, name: str) -> None:
        """What people give to a deployer."""
        subject: JsonObject = {"kind": "ServiceAccount", "name": name, "namespace": self.namespace}
        role: JsonObject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"}
        metadata: JsonObject = {"name": f"{name}-edits", "namespace": self.namespace}
        await self.client.apply(RoleBinding, {"metadata": metadata, "roleRef": role, "subjects": [subject]})
        user = permissions.account(name, self.namespace)
        await permissions.count(self.client, user, permissions.on("configmaps", "update", self.namespace))


@pytest.fixture
def accounts(admin: Client, home: str) -> Accounts:
    return Accounts(admin, home)


def stalled(component: Component) -> str:
    """The reason of the condition Stalled; empty where there is none."""
    found = conditions.find(component.status.conditions, "Stalled")
    return found.reason if found is not None else ""


async def test_a_component_may_do_what_its_service_account_may(
    given: Given, running: Running, then: Then, accounts: Accounts
) -> None:
    await given.source(ONE)
    await accounts.exists("deployer")
    await running.start()
    await given.component(serviceAccountName="deployer")
    failed = await then.shows("Error", "Error", saying=f"system:serviceaccount:{then.namespace}:deployer")
    assert "configmaps" in failed.status.conditions[0].message
    assert not await then.exists(ConfigMap, "one")
    await accounts.may_edit("deployer")
    await running.waits(minutes=20)
    await then.ready()
    assert await then.exists(ConfigMap, "one")
    await given.deleted()
    await then.gone()
    assert not await then.exists(ConfigMap, "one")


async def test_the_operator_may_name_a_service_account_for_those_that_name_none(
    given: Given, running: Running, then: Then, accounts: Accounts
) -> None:
    await given.source(ONE)
    await running.start(default_service_account="deployer")
    await given.component()
    await then.shows("Error", "Error", saying=f"system:serviceaccount:{then.namespace}:deployer")
    await given.component("other", serviceAccountName="other")
    await then.shows("Error", "Error", "other", saying=f"system:serviceaccount:{then.namespace}:other")
    await accounts.may_edit("deployer")
    await running.waits(minutes=20)
    await then.ready()


@pytest.mark.req("R-501")
async def test_a_strict_operator_lends_its_own_rights_to_nobody(
    given: Given, running: Running, then: Then, accounts: Accounts
) -> None:
    await given.source(ONE)
    await accounts.may_edit("deployer")
    await running.start(tenancy=Mode.STRICT)
    await given.component()
    refused = await then.shows("Error", "Error", saying="spec.serviceAccountName is required")
    assert stalled(refused) == "ServiceAccountRequired"
    assert not await then.exists(ConfigMap, "one")
    await given.component(serviceAccountName="deployer")
    await then.ready()


@pytest.mark.req("R-501")
async def test_an_operator_that_is_not_told_otherwise_lends_its_own_rights(
    given: Given, running: Running, then: Then
) -> None:
    there = given.a_namespace_to_be_made()
    await given.source(ONE)
    await running.start()
    await given.component(namespace=there)
    await then.ready()
    assert await then.exists(ConfigMap, "one", there)


@pytest.mark.req("R-502")
async def test_sources_and_dependencies_of_other_namespaces_can_be_refused(
    given: Given, running: Running, then: Then
) -> None:
    elsewhere = await given.a_namespace()
    far = Given(given.client, given.server, elsewhere)
    await far.source(ONE)
    await far.component("base", values={"far": True})
    await given.source(ONE)
    source: JsonObject = {"fluxGitRepository": {"name": "source", "namespace": elsewhere}}
    dependency: list[JsonObject] = [{"name": "base", "namespace": elsewhere}]
    await running.start()
    await given.component(sourceRef=source, dependencies=dependency)
    await then.ready()
    await running.stop()

    await running.start(no_cross_namespace_refs=True)
    await given.annotated(poke="1")
    refused = await then.shows("Error", "Error", saying=f"spec.sourceRef.fluxGitRepository names {elsewhere}/source")
    assert stalled(refused) == "CrossNamespaceReference"
    assert await then.exists(ConfigMap, "one")
    await given.component(dependencies=dependency)
    await then.shows("Error", "Error", saying=f"spec.dependencies[0] names {elsewhere}/base")
    await given.component()
    await then.ready()
