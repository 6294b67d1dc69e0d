"""A CAPOperator is installed, follows its surroundings, and goes with everything that it has brought."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.apps import Deployment
from stellwerk.api.core import ConfigMap, Pod, Secret, Service
from stellwerk.api.events import Event
from stellwerk.api.rbac import ClusterRole, ClusterRoleBinding
from stellwerk.apply.set.model.confirmation import FIGHT_SECONDS
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import JsonObject, metadata_of, unstructured
from stellwerk.local.build import published_definitions
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.cap_manager.api import FINALIZER, OWNER_ID, CAPOperator
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.eventually import eventually
from stellwerk.testing.faults import FaultProxy, RecordedRequest, requests
from stellwerk.testing.faults.reply import Reply
from tests.cluster.cap_manager import charts
from tests.cluster.cap_manager.conftest import OPERATOR, Running
from tests.cluster.cap_manager.scene import APPLICATIONS, NAME, Scene


async def installed(scene: Scene, running: Running) -> None:
    """A CAPOperator as in the original's sample is Ready."""
    await running.start()
    await scene.asks()
    await scene.shows("Ready")


@pytest.mark.req("CAP-56")
async def test_a_capoperator_is_installed_until_ready_with_what_its_surroundings_name(
    scene: Scene, running: Running
) -> None:
    await installed(scene, running)
    found = await scene.shows("Ready", "Ready", "Dependent resources successfully reconciled")
    status = found.status
    assert found.metadata.finalizers == (FINALIZER,)
    assert (status.applied_generation, status.revision) == (found.metadata.generation, 1)
    assert status.processing_digest == status.last_processing_digest != ""
    assert status.processing_since is None
    assert status.last_applied_at is not None
    assert status.last_observed_at is not None
    assert {(item.phase, item.status) for item in status.inventory} == {("Ready", "Current")}
    assert {item.adoption_policy for item in status.inventory} == {"Always"}
    assert await scene.hosts() == ["cap-op.cluster.example.com"]
    assert (await scene.variables("controller"))["DNS_TARGET"] == "x.ingress.example.com"
    assert (await scene.variables("subscription-server"))["DNS_TARGET"] == "x.ingress.example.com"


async def test_a_new_chart_is_applied_after_a_restart_of_the_manager(
    scene: Scene, running: Running, tmp_path: Path
) -> None:
    await installed(scene, running)
    await running.stop()
    charts.write(tmp_path / "chart", version="2")
    await running.start()
    found = await scene.shows("Ready")
    await eventually(lambda: _has_revision(scene, 2))
    containers = (await scene.deployment("controller")).at("spec", "template", "spec", "containers")
    assert "example.com/controller:2" in str(containers)
    assert found.metadata.name == NAME


async def _has_revision(scene: Scene, revision: int) -> bool:
    return (await scene.shows("Ready")).status.revision == revision


async def test_a_changed_ingress_and_a_changed_domain_are_applied_at_once(scene: Scene, running: Running) -> None:
    await installed(scene, running)
    await scene.load_balancer("*.elsewhere.example.com")
    await scene.until(lambda shown: shown["DNS_TARGET"] == "x.elsewhere.example.com")
    await scene.shoot_info("moved.example.com")

    async def moved() -> bool:
        return await scene.hosts() == ["cap-op.moved.example.com"]

    await eventually(moved)
    assert (await scene.shows("Ready")).status.revision == 3


async def test_without_a_gateway_the_wildcard_of_the_cluster_is_the_target_until_it_appears(
    scene: Scene, running: Running
) -> None:
    await scene.load_balancer("*.ingress.example.com", "second")
    await installed(scene, running)
    assert (await scene.variables("controller"))["DNS_TARGET"] == "x.cluster.example.com"
    await scene.client.delete(metadata_of(Service), "second", "istio-system")
    await scene.until(lambda shown: shown["DNS_TARGET"] == "x.ingress.example.com")


async def test_a_kind_that_is_defined_later_is_seen_by_the_chart(scene: Scene, running: Running) -> None:
    await installed(scene, running)
    assert "CERT_MANAGER" not in await scene.variables("controller")
    (body,) = published_definitions.definitions(("certificates.cert-manager.io",))
    await scene.client.apply(unstructured(CustomResourceDefinition.resource), body)
    try:
        await scene.until(lambda shown: shown.get("CERT_MANAGER") == "cert-manager.io")
    finally:
        await scene.client.delete(metadata_of(CustomResourceDefinition), "certificates.cert-manager.io")


async def test_an_object_that_another_client_changes_or_deletes_is_restored(scene: Scene, running: Running) -> None:
    await installed(scene, running)
    before = await scene.deployment("controller")
    await scene.client.patch(
        unstructured(Deployment.resource),
        before.metadata.name,
        scene.namespace,
        MergePatch({"spec": {"replicas": 0}}),
    )

    async def restored() -> bool:
        return (await scene.deployment("controller")).at("spec", "replicas") == 1

    await eventually(restored)
    await scene.client.delete(metadata_of(Deployment), f"{NAME}-controller", scene.namespace)

    async def back() -> bool:
        found = await scene.client.find(metadata_of(Deployment), f"{NAME}-controller", scene.namespace)
        return found is not None and found.metadata.uid != before.metadata.uid

    await eventually(lambda: running.sample("stellwerk_drift_throttled_total", {}), describe="the pause has begun")
    await running.clock.skip(seconds=FIGHT_SECONDS)
    await eventually(back)
    await scene.shows("Ready")


async def test_two_capoperators_leave_the_older_one_alone_and_the_younger_one_follows_it(
    scene: Scene, running: Running
) -> None:
    await installed(scene, running)
    await scene.asks("second")
    await scene.shows(
        "Error", "Error", f"exactly one CAPOperator in the cluster, and {scene.namespace}/{NAME}", name="second"
    )
    await scene.shows("Ready")
    await scene.deletes()
    await scene.is_gone()
    await scene.shows("Ready", name="second")


async def test_a_deletion_waits_while_cap_objects_exist_and_names_them(scene: Scene, running: Running) -> None:
    await installed(scene, running)
    await scene.application()
    await scene.deletes()
    await scene.shows("DeletionPending", "DeletionBlocked", f"CAPApplication {scene.namespace}/shop")
    assert (await scene.deployment("controller")).metadata.deletion_timestamp is None
    await scene.client.delete(metadata_of(APPLICATIONS), "shop", scene.namespace)
    await scene.is_gone()


@dataclass
class Meanwhile:
    """Something happens while the request is on its way, the first time."""

    happens: Callable[[], Awaitable[None]] | None

    async def meet(self, request: RecordedRequest, proceed: Callable[[RecordedRequest], Awaitable[Reply]]) -> Reply:
        happens, self.happens = self.happens, None
        if happens is not None:
            await happens()
        return await proceed(request)


@pytest.mark.req("R-112")
async def test_a_cap_object_that_is_created_while_the_deletion_begins_keeps_the_whole_installation(
    manager_cluster: LocalCluster, scene: Scene, running: Running
) -> None:
    await installed(scene, running)
    await running.stop()
    await scene.deletes()
    async with FaultProxy(manager_cluster.kubeconfig_for(OPERATOR)) as proxy:
        # The caches of a new process are filled between the check for CAP objects and the deletion.
        proxy.on_requests(requests({"list", "watch"}, "deployments.apps"), Meanwhile(scene.application))
        running.kubeconfig = proxy.kubeconfig
        await running.start()
        await scene.shows("DeletionPending", "DeletionBlocked", f"CAPApplication {scene.namespace}/shop")
        assert (await scene.deployment("controller")).metadata.deletion_timestamp is None
        for name in charts.BROUGHT:
            definition = await scene.client.get(metadata_of(CustomResourceDefinition), name)
            assert not definition.metadata.is_terminating
        await scene.client.delete(metadata_of(APPLICATIONS), "shop", scene.namespace)
        await scene.is_gone()
        await running.stop()


async def test_a_deletion_leaves_nothing(scene: Scene, running: Running, admin: Client) -> None:
    await installed(scene, running)
    await scene.deletes()
    await scene.is_gone()
    for kind in (Deployment, Secret, ClusterRole, ClusterRoleBinding, CustomResourceDefinition):
        labelled = (await admin.list(metadata_of(kind), labels=OWNER_ID)).items
        left = [obj.key for obj in labelled if f"/{scene.namespace}/" in obj.metadata.annotations[OWNER_ID]]
        assert not left


@pytest.mark.parametrize("early", [True, False])
async def test_objects_of_a_capoperator_that_retains_them_stay(
    scene: Scene, running: Running, admin: Client, early: bool
) -> None:
    """Also where the annotation comes in the moment before the deletion."""
    await installed(scene, running)
    await scene.application()
    await scene.annotates(retain_resources="true")
    if early:
        await running.settled(admin)
        labelled = await scene.deployment("controller")
        assert labelled.metadata.annotations["cap-operator.sme.sap.com/delete-policy"] == "orphan"
    await scene.deletes()
    await scene.is_gone()
    assert (await scene.deployment("controller")).metadata.deletion_timestamp is None
    assert await admin.find(metadata_of(APPLICATIONS), "shop", scene.namespace) is not None
    definition = await admin.get(metadata_of(CustomResourceDefinition), APPLICATIONS.group_resource)
    assert FINALIZER not in definition.metadata.finalizers


async def test_an_annotation_that_is_removed_again_lets_objects_go(
    scene: Scene, running: Running, admin: Client
) -> None:
    await running.start()
    await scene.asks(annotations={"operator.sme.sap.com/retain-resources": "true"})
    await scene.shows("Ready")
    await scene.annotates(retain_resources="false")
    await running.settled(admin)
    await scene.deletes()
    await scene.is_gone()
    assert await admin.find(metadata_of(Deployment), f"{NAME}-controller", scene.namespace) is None


@pytest.mark.req("R-108")
async def test_a_ready_capoperator_that_is_looked_at_again_costs_nothing(
    scene: Scene, running: Running, admin: Client, audit: AuditLog
) -> None:
    await installed(scene, running)
    await running.settled(admin)
    audit.mark()
    running.parts.watches.wake_all()
    await running.has_sent_events()
    asked = audit.entries(lambda entry: entry.user == OPERATOR and entry.verb != "watch")
    assert asked == [], "\n".join(f"{entry.verb} {entry.path}" for entry in asked)


async def test_an_installation_costs_a_request_for_each_object_and_few_more(
    scene: Scene, running: Running, admin: Client, audit: AuditLog
) -> None:
    await running.start()
    await scene.asks()
    found = await scene.shows("Ready")
    await running.settled(admin)
    asked = audit.entries(lambda entry: entry.user == OPERATOR and entry.is_write)
    objects = [entry for entry in asked if entry.resource not in ("events", "capoperators")]
    assert len(objects) == len(found.status.inventory), "\n".join(f"{entry.verb} {entry.path}" for entry in objects)
    assert sum(entry.resource == "capoperators" for entry in asked) <= 10


async def test_without_the_domain_of_the_cluster_the_message_names_the_configmap(
    scene: Scene, running: Running
) -> None:
    await scene.client.delete(metadata_of(ConfigMap), "shoot-info", "kube-system")
    await running.start()
    await scene.asks()
    await scene.shows("Error", "Error", "kubectl create configmap shoot-info -n kube-system")
    await scene.shoot_info()
    await scene.shows("Ready")


async def test_a_domain_of_more_than_64_characters_is_refused_before_anything_is_written(
    scene: Scene, running: Running, admin: Client
) -> None:
    await scene.shoot_info("a" * 50 + ".example.com")
    await running.start()
    await scene.asks()
    await scene.shows("Error", "Error", "is longer than 64 characters; use a smaller subDomain")
    assert await admin.find(metadata_of(Deployment), f"{NAME}-controller", scene.namespace) is None


@pytest.mark.req("R-108")
async def test_a_restart_of_the_manager_changes_nothing(
    scene: Scene, running: Running, admin: Client, audit: AuditLog
) -> None:
    """The chart makes a certificate, and finds it again by a look-up. The content of Secrets is not held in memory, so
    a new process applies them once, to be sure of it."""
    await installed(scene, running)
    await running.settled(admin)
    name = f"{NAME}-webhook-tls"
    before = await admin.get(metadata_of(Secret), name, scene.namespace)
    await running.stop()
    audit.mark()
    await running.start()
    await running.settled(admin)
    asked = audit.entries(lambda entry: entry.user == OPERATOR and entry.is_write)
    assert {(entry.resource, entry.name) for entry in asked} <= {("secrets", name), ("capoperators", NAME)}
    after = await admin.get(metadata_of(Secret), name, scene.namespace)
    assert after.metadata.resource_version == before.metadata.resource_version


async def test_rights_that_the_manager_does_not_have_are_not_granted_and_the_message_says_why(
    scene: Scene, running: Running, tmp_path: Path
) -> None:
    charts.write(tmp_path / "chart", grants="{apiGroups: [''], resources: [nodes], verbs: [delete]}")
    await running.start()
    await scene.asks()
    await scene.shows("Error", "Error", "stellwerk explain manager-rights")


async def test_a_finalizer_of_another_controller_delays_the_deletion(scene: Scene, running: Running) -> None:
    await installed(scene, running)
    both: JsonObject = {"metadata": {"finalizers": [FINALIZER, "example.com/backup"]}}
    await scene.client.patch(metadata_of(CAPOperator), NAME, scene.namespace, MergePatch(both))
    await scene.deletes()
    await scene.shows("DeletionPending", "DeletionBlocked", "example.com/backup")
    assert (await scene.deployment("controller")).metadata.deletion_timestamp is None
    own: JsonObject = {"metadata": {"finalizers": [FINALIZER]}}
    await scene.client.patch(metadata_of(CAPOperator), NAME, scene.namespace, MergePatch(own))
    await scene.is_gone()


async def test_a_fallback_of_the_dns_target_is_reported_once(scene: Scene, running: Running, admin: Client) -> None:
    await scene.load_balancer("")
    await installed(scene, running)
    running.parts.watches.wake_all()
    await running.has_sent_events()
    events = [
        each for each in (await admin.list(Event, scene.namespace)).items if each.reason == "IngressGatewayNotFound"
    ]
    assert [each.type for each in events] == ["Warning"]
    assert "has no annotation dns.gardener.cloud/dnsnames" in events[0].note


async def test_objects_that_stay_unready_are_an_error_after_ten_minutes_until_they_are_ready(
    scene: Scene, running: Running, admin: Client, tmp_path: Path
) -> None:
    charts.write(tmp_path / "chart", fate="unready")
    await running.start()
    await scene.asks()
    await scene.shows("Processing", "Processing", "Waiting for dependent resources: Deployment")
    await running.settled(admin)
    await running.clock.skip(minutes=9)
    await running.settled(admin)
    await scene.shows("Processing", "Processing")
    await running.clock.skip(minutes=2)
    found = await scene.shows("Error", "Timeout", "Timed out waiting for dependent resources: Deployment")
    assert found.status.processing_since is not None
    for pod in (await admin.list(metadata_of(Pod), scene.namespace)).items:
        lifted: JsonObject = {"metadata": {"annotations": {"stellwerk.local/fate": None}}}
        await admin.patch(metadata_of(Pod), pod.metadata.name, scene.namespace, MergePatch(lifted))
    assert (await scene.shows("Ready")).status.processing_since is None


async def test_a_rendering_is_repeated_after_an_hour_and_changes_nothing(
    scene: Scene, running: Running, admin: Client, audit: AuditLog
) -> None:
    await installed(scene, running)
    await running.settled(admin)
    audit.mark()
    await running.clock.skip(minutes=61)
    await running.settled(admin)
    asked = audit.entries(lambda entry: entry.user == OPERATOR)
    assert sum((entry.verb, entry.resource) == ("get", "secrets") for entry in asked) == 1
    assert not [entry for entry in asked if entry.is_write and entry.resource != "capoperators"]
