"""As whom a Component acts, and what it may name: the operator's own rights are lent only as far as it is told to."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from stellwerk.api.core import ConfigMap, ServiceAccount
from stellwerk.api.rbac import RoleBinding
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.component.api import Blueprint, Component
from stellwerk.operators.component.settings import Mode
from stellwerk.runtime import conditions
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.scenarios.writes import Writes
from tests.cluster import permissions
from tests.cluster.component.given import Given, config_map
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then

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


@pytest.mark.req("R-509")
async def test_a_strict_operator_deletes_nothing_as_itself_and_names_the_way_out(
    given: Given, running: Running, then: Then, accounts: Accounts, writes: Writes
) -> None:
    await given.source(ONE)
    await accounts.may_edit("deployer")
    await given.component()
    await running.start()
    await then.ready()
    await running.stop()

    await given.component(serviceAccountName=" ")
    await given.deleted()
    await running.start(tenancy=Mode.STRICT)
    refused = await then.shows("Error", "Error", saying="spec.serviceAccountName is required")
    assert stalled(refused) == "ServiceAccountRequired"
    assert f"kubectl -n {then.namespace} patch component comp --type merge" in refused.status.conditions[0].message
    await then.event("Error", about="comp", saying="kubectl -n")
    assert writes.to("configmaps") == ["apply configmaps/one"]

    await given.component(serviceAccountName="deployer")
    await then.gone()
    assert await then.exists(ConfigMap, "one") is False


@pytest.mark.req("R-509")
async def test_a_component_without_objects_goes_without_an_account(
    given: Given, running: Running, then: Then, accounts: Accounts
) -> None:
    await given.source({"none.yaml": ""})
    await running.start()
    await given.component()
    await then.ready()
    await running.stop()
    await given.deleted()
    await running.start(tenancy=Mode.STRICT)
    await then.gone()


@pytest.mark.req("R-502")
async def test_a_refused_dependency_of_another_namespace_delays_no_deletion(
    given: Given, running: Running, then: Then
) -> None:
    elsewhere = await given.a_namespace()
    far = Given(given.client, given.server, elsewhere)
    await given.source(ONE)
    await running.start(no_cross_namespace_refs=True)
    await given.component()
    await then.ready()
    listed: list[JsonObject] = [{"name": "comp", "namespace": then.namespace}]
    await running.has_seen(await far.component("hostile", dependencies=listed))
    await given.deleted()
    await then.gone()


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


@pytest.mark.req("R-601")
async def test_a_strict_operator_calls_no_private_server_of_a_kubeconfig_and_sends_nothing_there(
    given: Given, running: Running, then: Then, accounts: Accounts, remote_cluster: LocalCluster
) -> None:
    user = f"afar-{given.namespace}"
    login = remote_cluster.kubeconfig_for(user, ["system:masters"]).read_text()
    await accounts.may_edit("deployer")
    files: JsonObject = {"one.yaml": config_map("one")}
    metadata: JsonObject = {"name": "print", "namespace": given.namespace}
    await given.client.apply(Blueprint, {"metadata": metadata, "spec": {"files": files}})
    audit = AuditLog(remote_cluster)
    await running.start(tenancy=Mode.STRICT, egress_allow_networks=())
    for name, host in (
        ("ip", "127.0.0.1"),
        ("name", "localhost"),
        ("mapped", "[::ffff:127.0.0.1]"),
        ("number", "127.1"),
    ):
        await given.secret(name, value=login.replace("127.0.0.1", host))
        spec: dict[str, JsonValue] = {"sourceRef": {"blueprint": {"name": "print"}}, "serviceAccountName": "deployer"}
        await given.component(name, **spec, kubeConfig={"secretRef": {"name": name}})
        await then.shows("Error", "Error", name, saying="none of its addresses may be called")
    assert not audit.entries(lambda entry: entry.user == user)


@pytest.mark.req("R-601")
async def test_a_strict_operator_calls_a_server_of_a_kubeconfig_in_a_network_that_is_allowed(
    given: Given, running: Running, then: Then, accounts: Accounts, remote: Client, login: str
) -> None:
    await accounts.may_edit("deployer")
    await given.source(ONE)
    await given.secret("there", value=login)
    await given.component(serviceAccountName="deployer", kubeConfig={"secretRef": {"name": "there"}})
    await running.start(tenancy=Mode.STRICT)
    await then.ready()
    assert await remote.find(ConfigMap, "one", then.namespace) is not None
    await running.stop()
    await running.start(tenancy=Mode.STRICT, egress_allow_ports=(443,))
    await given.annotated(poke="1")
    refused = await then.shows("Error", "Error", saying="its port is not among the allowed ones")
    assert stalled(refused) == "InvalidKubeConfig"


@pytest.mark.req("R-502")
async def test_what_a_refused_source_offers_is_not_applied_and_holds_no_deletion_back(
    given: Given, running: Running, then: Then, writes: Writes
) -> None:
    far = Given(given.client, given.server, await given.a_namespace())
    await far.source(ONE, revision="r1")
    source: JsonObject = {"fluxGitRepository": {"name": "source", "namespace": far.namespace}}
    await running.start()
    await given.component(sourceRef=source, suspend=False)
    await then.ready(revision="r1")
    await running.stop()

    await running.start(no_cross_namespace_refs=True)
    await far.source({"two.yaml": config_map("two")}, revision="r2")
    for is_suspended, shown in ((False, "Error"), (True, "Pending"), (False, "Error")):
        await given.component(sourceRef=source, suspend=is_suspended)
        await then.shows(shown)
    await running.rests()
    assert writes.to("configmaps") == ["apply configmaps/one"]
    await given.deleted()
    await then.gone()
    assert writes.to("configmaps") == ["apply configmaps/one", "delete configmaps/one"]
