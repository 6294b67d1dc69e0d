"""An identity that may neither list nor watch is enough to deploy: its objects are read one by one until it may."""

from __future__ import annotations

import secrets

import pytest
from tests.cluster import permissions
from tests.cluster.component.cli.conftest import Stellwerk
from tests.cluster.component.given import Given, config_map
from tests.cluster.component.manifests import manifest, policies
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then

from stellwerk.api.core import ConfigMap, Service
from stellwerk.api.rbac import ClusterRole, ClusterRoleBinding
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import JsonObject, JsonValue, metadata_of
from stellwerk.local.cluster import LocalCluster
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.eventually import eventually

PORTS: JsonObject = {"spec": {"ports": [{"port": 80}]}}
SINGLY: list[JsonValue] = ["get", "create", "patch", "update", "delete"]


async def granted(remote: Client, user: str, verbs: list[JsonValue]) -> None:
    """The user may do this with ConfigMaps and Services, anywhere, and get and create namespaces."""
    mark, marked = permissions.mark()
    rules: list[JsonValue] = [
        {"apiGroups": [""], "resources": ["configmaps", "services"], "verbs": verbs},
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "create"]},
        mark,
    ]
    await remote.apply(ClusterRole, {"metadata": {"name": user}, "rules": rules}, force=True)
    group = "rbac.authorization.k8s.io"
    reference: JsonObject = {"apiGroup": group, "kind": "ClusterRole", "name": user}
    subject: JsonObject = {"apiGroup": group, "kind": "User", "name": user}
    body: JsonObject = {"metadata": {"name": user}, "roleRef": reference, "subjects": [subject]}
    await remote.apply(ClusterRoleBinding, body)
    await permissions.count(remote, user, marked)


@pytest.mark.req("R-206")
async def test_an_identity_without_list_and_watch_deploys_upgrades_and_deletes_and_watches_once_it_may(
    given: Given, running: Running, then: Then, remote: Client, remote_cluster: LocalCluster, stellwerk: Stellwerk
) -> None:
    user = f"modest-{secrets.token_hex(4)}"
    await granted(remote, user, SINGLY)
    files = {
        "one.yaml": config_map("one"),
        "front.yaml": manifest("Service", "front", PORTS, annotations=policies(status_hint="conditions=Ready")),
    }
    audit = AuditLog(remote_cluster)
    await given.source(files, revision="r1")
    await given.secret("there", value=remote_cluster.kubeconfig_for(user).read_text())
    await running.start()
    await given.component(kubeConfig={"secretRef": {"name": "there"}}, requeueInterval="1h")
    await then.shows("Processing", "Processing", saying="front")
    missing = f"user {user} is not permitted to list and watch"
    await then.event("ObjectsNotWatched", about="comp", saying=missing)
    told = await stellwerk("why", "comp/comp")
    assert missing in told.stdout, told

    condition: JsonObject = {"type": "Ready", "status": "True", "reason": "Test", "message": ""}
    ready = MergePatch({"status": {"conditions": [{**condition, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}})
    await remote.patch(metadata_of(Service), "front", given.namespace, ready, subresource="status")
    await then.ready()
    await given.annotated(poked="nothing has to be written for it")
    await then.counts(2)
    verbs = ("create", "patch", "update")
    written = audit.entries(lambda one: one.user == user and one.verb in verbs and one.status < 300)
    assert sorted(one.resource for one in written if one.resource != "namespaces") == ["configmaps", "services"], (
        "each object is written once: it is read afterwards"
    )
    await given.source({"one.yaml": config_map("one", a="new"), "front.yaml": files["front.yaml"]}, revision="r2")
    await then.ready(revision="r2")
    found = await remote.get(ConfigMap, "one", given.namespace)
    assert found.data == {"a": "new"}

    opened = (user, "watch", "configmaps", 200)
    await granted(remote, user, [*SINGLY, "list", "watch"])

    def watches() -> bool:
        return bool(audit.entries(lambda one: (one.user, one.verb, one.resource, one.status) == opened))

    async def is_another() -> bool:
        """Whether it came back, which only a watch can have told within the hour."""
        one = await remote.find(ConfigMap, "one", given.namespace)
        return one is not None and one.metadata.uid != found.metadata.uid

    await eventually(watches, within=60, describe="the watch is open")
    await running.rests()
    await remote.delete(metadata_of(ConfigMap), "one", given.namespace)
    await eventually(is_another, within=30, describe="the object is made again")

    await granted(remote, user, SINGLY)
    await given.deleted()
    await then.gone()
    assert await remote.find(metadata_of(ConfigMap), "one", given.namespace) is None
