"""What tenants label as if it were ours, in namespaces of their own, neither steers the module nor is touched."""

from __future__ import annotations

import pytest

from stellwerk.api.core import ConfigMap, Pod, Secret, ServiceAccount
from stellwerk.api.rbac import Role
from stellwerk.kube.types.model import JsonObject, JsonValue, Kind, metadata_of, unstructured
from stellwerk.operators.btp.api import BtpOperator
from tests.cluster.btp.beginnings import provisioned, ready
from tests.cluster.btp.given import Given
from tests.cluster.btp.running import Running
from tests.cluster.btp.then import Then

CREDENTIALS, CLUSTER_ID = "sap-btp-service-operator", "sap-btp-operator-clusterid"
LABELS: JsonObject = {"app.kubernetes.io/managed-by": "btp-manager", "kyma-project.io/module": "btp-operator"}
PREVIOUS = "operator.kyma-project.io/previous-"
TENANT = "a-tenant"
"""Sorts before the module's namespace."""
SECRETS = unstructured(Secret.resource)


async def labelled(given: Given, kind: type[Kind], name: str, namespace: str, **metadata: JsonValue) -> str:
    """An object with our labels in a tenant's namespace. Returns its uid."""
    named: JsonObject = {"name": name, "namespace": namespace, "labels": LABELS}
    named.update(metadata)
    body: JsonObject = {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind, "metadata": named}
    return (await given.client.create(metadata_of(kind), body)).metadata.uid


async def decoy(given: Given, namespace: str, cluster_id: str = "cluster-of-the-tenant") -> str:
    """Secrets as the operand would have them there. Returns the uid of the one with credentials."""
    await given.operand_cluster_id(cluster_id, namespace)
    return await labelled(given, Secret, CREDENTIALS, namespace)


async def previous_values(given: Given) -> list[str]:
    """The annotations that the required Secret carries about former values."""
    required = await given.client.get(metadata_of(Secret), "sap-btp-manager", "kyma-system")
    return [key for key in required.metadata.annotations if key.startswith(PREVIOUS)]


@pytest.mark.req("R-505")
@pytest.mark.parametrize("restarted", [False, True])
async def test_a_labelled_credentials_secret_of_a_tenant_moves_nothing(
    running: Running, given: Given, then: Then, restarted: bool
) -> None:
    tenant = await given.a_namespace(TENANT)
    await ready(running, given, then)
    await given.operand_cluster_id("cluster-one")
    pods = {pod.metadata.uid for pod in await given.operand_pods()}
    if restarted:
        await running.stop()

    uid = await decoy(given, tenant)
    if restarted:
        await running.start()
    await running.settled(given.client)
    passes = running.passes
    running.wake()
    await running.has_passed(passes + 1)

    assert then.history.states() == [("Processing", "Initialized"), ("Ready", "ReconcileSucceeded")]
    assert await previous_values(given) == []
    assert {pod.metadata.uid for pod in await given.operand_pods()} == pods
    assert (await given.client.get(metadata_of(Secret), CREDENTIALS, tenant)).metadata.uid == uid
    await then.exists(Secret, CLUSTER_ID, tenant)
    await then.exists(Secret, CLUSTER_ID, "kyma-system")


@pytest.mark.req("R-505")
async def test_a_decoy_that_is_there_first_does_not_lead_a_new_module_astray(
    running: Running, given: Given, then: Then
) -> None:
    tenant = await given.a_namespace(TENANT)
    await decoy(given, tenant)

    await provisioned(running, given, then)

    assert then.history.states() == [("Processing", "Initialized"), ("Ready", "ReconcileSucceeded")]
    assert await previous_values(given) == []
    await then.exists(Secret, CREDENTIALS, tenant)


@pytest.mark.req("R-505")
async def test_a_decoy_in_a_former_namespace_of_the_credentials_brings_nothing_back(
    running: Running, given: Given, then: Then
) -> None:
    former = await given.a_namespace(TENANT)
    await given.required_secret(credentials_namespace=former)
    await running.start()
    await given.btp_operator()
    await then.shows("Ready", "ReconcileSucceeded")
    await given.required_secret()
    await then.disappears(SECRETS, CREDENTIALS, former)
    await then.has_shown(("Processing", "CredentialsNamespaceChanged"), ("Ready", "ReconcileSucceeded"))
    await running.is_idle()
    shown = then.history.states()

    uid = await decoy(given, former)
    passes = running.passes
    running.wake()
    await running.has_passed(passes + 1)

    assert then.history.states() == shown
    assert (await given.client.get(metadata_of(Secret), CREDENTIALS, former)).metadata.uid == uid


@pytest.mark.req("R-505")
async def test_labelled_objects_of_tenants_outlive_the_module_and_do_not_hold_it_up(
    running: Running, given: Given, then: Then
) -> None:
    tenant = await given.a_namespace(TENANT)
    await provisioned(running, given, then)
    await decoy(given, tenant)
    kinds: tuple[type[Kind], ...] = (ConfigMap, ServiceAccount, Role)
    for kind in kinds:
        await labelled(given, kind, "of-the-tenant", tenant, finalizers=["example.com/held"])
    old: JsonObject = {**LABELS, "chart-version": "v0.0.1"}
    await labelled(given, ConfigMap, "old-one", tenant, labels=old)

    await given.client.delete(BtpOperator, "btpoperator", "kyma-system")

    await then.is_gone()
    for kind in kinds:
        survivor = await given.client.get(metadata_of(kind), "of-the-tenant", tenant)
        assert not survivor.metadata.is_terminating
        await given.without_finalizers(kind, "of-the-tenant", tenant)
    for name in (CREDENTIALS, CLUSTER_ID):
        await then.exists(Secret, name, tenant)
    await then.exists(ConfigMap, "old-one", tenant)


@pytest.mark.req("R-411")
async def test_labelled_objects_of_tenants_are_held_in_no_cache(running: Running, given: Given, then: Then) -> None:
    tenant = await given.a_namespace(TENANT)
    for kind in (ConfigMap, ServiceAccount, Role, Secret):
        await labelled(given, kind, "of-the-tenant", tenant)
    await decoy(given, tenant)
    operand: JsonObject = {"app.kubernetes.io/instance": "sap-btp-operator"}
    pod: JsonObject = {"name": "sap-btp-operator-of-the-tenant", "namespace": tenant, "labels": operand}
    spec: JsonObject = {"containers": [{"name": "c", "image": "i"}]}
    await given.client.create(Pod, {"apiVersion": "v1", "kind": "Pod", "metadata": pod, "spec": spec})

    await provisioned(running, given, then)

    assert {key.namespace for key in running.cached_keys()} <= {"", "kyma-system"}
