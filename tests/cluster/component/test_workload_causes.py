"""A Component that waits for a workload names in its condition what the pods lack, as far as it may read them."""

from __future__ import annotations

import pytest

from stellwerk.api.core import Pod, ServiceAccount
from stellwerk.api.rbac import Role, RoleBinding
from stellwerk.delivery.sets.workload_causes import FIRST_SECONDS
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, unstructured
from stellwerk.testing.eventually import eventually
from tests.cluster import permissions
from tests.cluster.component.given import Given
from tests.cluster.component.manifests import deployment
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then

QUOTAS = unstructured(Resource("", "v1", "ResourceQuota", "resourcequotas", True))
LOG = "see its log: kubectl logs"
FOR_EVER = {"timeout": "100h", "requeueInterval": "100h"}
"""So that no pass but those for pods comes with time."""


async def shows_after_looks(running: Running, then: Then, saying: str) -> str:
    """The message that says this; what pods say comes late, and is read again after a pause only."""

    async def says_so() -> None:
        component = await then.shows("Processing", "Processing", saying="Deployment")
        assert saying in component.status.conditions[0].message, component.status.conditions[0].message

    await running.tries_until(says_so, seconds=FIRST_SECONDS)
    return (await then.shows("Processing", "Processing", saying=saying)).status.conditions[0].message


@pytest.mark.parametrize(
    ("fate", "cause", "next_step"),
    [
        (
            "pull-error",
            "image example.com/main:1 cannot be pulled",
            "check the image's name, and the pull secret if the registry asks for one",
        ),
        (
            "crash-loop",
            "container main crashes again and again: it ended with exit code 1",
            "see its log: kubectl logs",
        ),
        ("unready", "its containers run, but are not ready", "see its log: kubectl logs"),
    ],
)
async def test_a_component_names_the_pod_that_does_not_become_ready_its_cause_and_the_next_step(
    given: Given, running: Running, then: Then, fate: str, cause: str, next_step: str
) -> None:
    await given.source({"app.yaml": deployment("app", fate=fate)})
    await running.start()
    await given.component(**FOR_EVER)
    await then.shows("Processing", "Processing", saying="Deployment")
    message = await shows_after_looks(running, then, cause)

    (pod,) = (await given.client.list(Pod, given.namespace)).items
    assert f"0 of 1 replicas available; Pod {pod.key}: {cause}; {next_step}" in message
    if next_step == LOG:
        assert message.endswith(f"kubectl logs {pod.metadata.name} -n {given.namespace}")


async def test_a_component_names_the_quota_that_leaves_no_room_for_its_pods(
    given: Given, running: Running, then: Then
) -> None:
    there = await given.a_namespace()
    await given.client.apply(
        QUOTAS, {"metadata": {"name": "small", "namespace": there}, "spec": {"hard": {"pods": "0"}}}
    )

    async def is_counted() -> bool:
        return "pods" in str((await given.client.get(QUOTAS, "small", there)).body.get("status"))

    await eventually(is_counted, describe="the quota is counted")
    await given.source({"app.yaml": deployment("app")})
    await running.start()
    await given.component(namespace=there, **FOR_EVER)
    await then.shows("Processing", "Processing", saying="Deployment")
    message = await shows_after_looks(running, then, f"ResourceQuota {there}/small is used up")
    assert message.endswith("raise the quota or free some of it")


async def test_without_the_right_to_read_pods_the_message_stays_and_the_component_still_becomes_ready(
    given: Given, running: Running, then: Then
) -> None:
    place = given.namespace
    metadata: JsonObject = {"name": "modest", "namespace": place}
    mark, marked = permissions.mark()
    rule: JsonObject = {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["*"]}
    await given.client.apply(ServiceAccount, {"metadata": metadata})
    await given.client.apply(Role, {"metadata": metadata, "rules": [rule, mark]})
    reference: JsonObject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "modest"}
    subject: JsonObject = {"kind": "ServiceAccount", **metadata}
    await given.client.apply(RoleBinding, {"metadata": metadata, "roleRef": reference, "subjects": [subject]})
    await permissions.count(given.client, permissions.account("modest", place), permissions.within(marked, place))

    await given.source({"app.yaml": deployment("app", fate="pull-error")}, revision="r1")
    await running.start()
    await given.component(serviceAccountName="modest", **FOR_EVER)
    await then.shows("Processing", "Processing", saying="Deployment")
    passes = running.passes
    await running.waits(seconds=FIRST_SECONDS)
    await running.passed(passes)
    await running.settled(given.client)
    shown = await then.shows("Processing", "Processing", saying="0 of 1 replicas available")
    assert "Pod" not in shown.status.conditions[0].message
    await given.source({"app.yaml": deployment("app")}, revision="r2")
    await then.ready(revision="r2")
