"""The operator's role grants what it uses, and nothing else.

One process lives a whole life under its own account: it leads, provisions, mends, moves credentials, changes version,
probes, is blocked, removes by force. The API server's audit log then says which verbs it has used on what. A right that
is granted and was not used must be one that the operand needs, for nobody can grant what they do not hold, or one whose
rare occasion `rights.py` names beside it. That nothing is missing needs no test of its own: without it the life fails.
What is missing all the same, a process says when it starts.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from stellwerk.api.apps import Deployment
from stellwerk.api.batch import Job
from stellwerk.api.core import ConfigMap
from stellwerk.delivery.grants import Right
from stellwerk.kube.types.identifiers import GroupVersionKind, Resource
from stellwerk.kube.types.model import metadata_of
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.btp import api, rights
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.operators.btp.btpoperator.probe import ProbeSettings, job
from stellwerk.operators.btp.controllers import IMAGE_VARIABLE
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.eventually import eventually
from tests.cluster import probes
from tests.cluster import rights as audited
from tests.cluster.btp.beginnings import revoked
from tests.cluster.btp.given import Given
from tests.cluster.btp.modules import Module
from tests.cluster.btp.operand_rights import bodies, the_operands
from tests.cluster.btp.process import FAST, Operator, operator
from tests.cluster.btp.running import IMAGE
from tests.cluster.btp.then import Then
from tests.cluster.btp.world import ACCOUNT

HELD = "example.com/held"


@pytest.fixture
async def process(btp_cluster: LocalCluster, given: Given, tmp_path: Path) -> AsyncIterator[Operator]:
    """The operator as it runs in a cluster: with a lease and the probe of CA bundles."""
    environment = {IMAGE_VARIABLE: IMAGE, "PROBE_IMAGE": "example.com/probe:test"}
    async with operator(btp_cluster, tmp_path, "--leader-elect", environment=environment) as process:
        yield process


AS_IT_FALLS = {
    ("services.cloud.sap.com", "serviceinstances", "deletecollection"),
    ("operator.kyma-project.io", "btpoperators", "get"),
}
"""Used where an instance outlives its bindings, and where the probe's Job ends in time: for the cluster to say."""


@pytest.mark.req("R-504")
@pytest.mark.timeout(600)
async def test_every_right_is_used_or_its_rare_occasion_is_named(
    process: Operator, given: Given, then: Then, btp_cluster: LocalCluster, tmp_path: Path
) -> None:
    audit = AuditLog(btp_cluster)
    life = Life(process, given, then, Module(tmp_path / "process-module"))
    await life.begin()
    await life.drift()
    await life.other_credentials()
    await life.next_version()
    await life.forced_end()

    entries = audit.entries(lambda entry: entry.user == ACCOUNT)
    assert not [entry for entry in entries if entry.status == 403]
    used = audited.used(entries)
    surplus = granted() - used - the_operands() - set(rights.SELDOM) - AS_IT_FALLS
    assert not surplus, f"granted and not used: {sorted(surplus)}"
    assert not set(rights.SELDOM) - granted(), "an occasion is named for a right that is not granted"
    assert not set(rights.SELDOM) & (used | the_operands()), "an occasion is called rare and is not"


@pytest.mark.req("R-206")
async def test_a_process_that_lacks_a_right_says_so_when_it_starts_and_works_with_what_it_has(
    process: Operator, given: Given, then: Then
) -> None:
    await given.required_secret()
    await given.tunables(**FAST)
    async with revoked(given.client, "jobs"):
        await process.process.start()
        await given.btp_operator()
        await then.shows("Ready", "ReconcileSucceeded", within=60)
        await eventually(lambda: process.process.log_text().count("missing right") >= 4)
        log = process.process.log_text()
        for verb in ("get", "watch", "create", "delete"):
            said = f"missing right: {verb} jobs.batch in all namespaces. Without it the probe of CA bundles cannot run"
            assert said in log
        assert log.count("missing right") == 4
        assert "deploy/rbac/btp-manager.yaml" in log
        async with aiohttp.request("GET", process.metrics_url) as response:
            metrics = await response.text()
        assert 'stellwerk_missing_rights{group="batch",resource="jobs",verb="create"} 1.0' in metrics


@pytest.mark.req("R-206")
async def test_a_process_that_may_not_watch_what_it_needs_itself_is_not_ready_and_names_it(
    process: Operator, given: Given
) -> None:
    async with revoked(given.client, "btpoperators"):
        await process.process.start(awaits_readiness=False)
        refused = "btpoperators.operator.kyma-project.io cannot be watched: "
        await probes.answers(process.process.health_url, 500, "[-]caches failed: ", refused)
    await probes.answers(process.process.health_url, 200, "[+]caches ok")


@pytest.mark.req("R-206")
async def test_a_right_that_is_taken_away_while_it_runs_is_told_at_the_first_refusal(
    process: Operator, given: Given, then: Then
) -> None:
    await given.required_secret()
    await given.tunables(**FAST)
    await process.process.start()
    await given.btp_operator()
    await then.shows("Ready", "ReconcileSucceeded", within=60)
    await process.proxy.history.settled()
    assert "missing right" not in process.process.log_text()

    async with revoked(given.client, "deployments"):
        await given.client.delete(Deployment, "sap-btp-operator-controller-manager", "kyma-system")
        await then.shows("Error", "ReconcileFailed")
        said = (
            "Without it the operand is not started, or runs on when the module goes. Grant it: apply deploy/rbac/btp-"
        )
        await eventually(lambda: said in process.process.log_text(), describe="the missing right is told")
    await then.shows("Ready", "ReconcileSucceeded")


class Life:
    """What may happen to a module between its first day and its last."""

    def __init__(self, operator: Operator, given: Given, then: Then, module: Module) -> None:
        self.operator, self.given, self.then, self.module = operator, given, then, module
        self.client = given.client

    async def begin(self) -> None:
        await self.given.required_secret()
        await self.given.tunables(**FAST, HardDeleteTimeout="1s")
        # As an earlier process left it. Whether the probe runs again after a restart depends on which CR leads then.
        await self.client.create(Job, job(ProbeSettings("example.com/probe:test"), api.STANDARD_NAMESPACE))
        await self.operator.process.start()
        await self.given.btp_operator()
        await self.ready()

    async def ready(self) -> None:
        await self.then.shows("Ready", "ReconcileSucceeded", within=60)
        await self.operator.proxy.history.settled()

    async def drift(self) -> None:
        """Somebody edits every object of the module."""
        for resource in await self.module_resources():
            target = metadata_of(resource)
            for obj in (await self.client.list(target, labels=f"{api.MANAGED_SELECTOR},{api.VERSION_LABEL}")).items:
                metadata = {"name": obj.metadata.name, "namespace": obj.metadata.namespace, "labels": {"edited": "yes"}}
                await self.client.apply(target, {"metadata": metadata}, field_manager="somebody")  # type: ignore[dict-item]

                async def mended(resource: Resource = resource, name: str = obj.metadata.name) -> bool:
                    found = await self.client.find(metadata_of(resource), name, "kyma-system")
                    return found is not None and "edited" not in found.metadata.labels

                await eventually(mended, describe=f"{resource.kind} {obj.metadata.name} is mended")
        await self.ready()

    async def other_credentials(self) -> None:
        """Other credentials, in another namespace, for another cluster id."""
        await self.given.operand_cluster_id("cluster-one")
        namespace = await self.given.a_namespace("btp-elsewhere")
        await self.given.required_secret(cluster_id="cluster-two", credentials_namespace=namespace)
        await self.then.has_shown(("Processing", "CredentialsNamespaceChanged"), ("Ready", "ReconcileSucceeded"))
        await self.given.operand_cluster_id("cluster-one", namespace)
        await self.then.has_shown(("Processing", "ClusterIdChanged"), ("Ready", "ReconcileSucceeded"))
        await self.ready()

    async def next_version(self) -> None:
        """A release in which an object has another name, and which lists another for deletion."""
        self.module.set_version("9.9.9")
        self.module.rename(ConfigMap.resource, "sap-btp-operator-config", into="sap-btp-operator-config")
        self.module.list_for_deletion("v1", "ConfigMap", "left-behind")
        left: dict[str, object] = {"name": "left-behind", "namespace": "kyma-system"}
        await self.client.apply(ConfigMap, {"metadata": left})  # type: ignore[dict-item]
        await self.operator.process.restart()
        await eventually(self.left_is_gone)
        await self.ready()

    async def left_is_gone(self) -> bool:
        return await self.client.find(ConfigMap, "left-behind", "kyma-system") is None

    async def forced_end(self) -> None:
        """Blocked by users' objects, then forced, first with patience and then without."""
        await self.given.service_instance("db", "default", HELD)
        await self.given.service_binding("db-binding", "db")
        await self.client.delete(BtpOperator, "btpoperator", "kyma-system")
        await self.then.shows("Warning", "ServiceInstancesAndBindingsNotCleaned")
        await self.given.labels_on(BtpOperator, "btpoperator", **{"force-delete": "true"})
        await self.then.is_gone(within=60)
        await self.operator.process.terminate()

    async def module_resources(self) -> list[Resource]:
        """The kinds of which the module has objects."""
        kinds = {(str(body["apiVersion"]), str(body["kind"])) for body in bodies()}
        return [await self.client.mapper.resource(GroupVersionKind.parse(*kind)) for kind in sorted(kinds)]


def granted() -> set[Right]:
    """What the role grants."""
    return audited.spelled_out(rights.RULES)
