"""What a process of the lifecycle manager does once, on a real API server."""

from __future__ import annotations

import pytest
from tests.cluster.kyma.conftest import login_of_operator

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.kyma.process import StoredVersions
from stellwerk.operators.kyma.settings import Settings, StoredVersion
from stellwerk.runtime.clock import SystemClock
from stellwerk.testing.cluster import AuditLog

KYMAS, WATCHERS = "kymas.operator.kyma-project.io", "watchers.operator.kyma-project.io"


@pytest.mark.req("R-504")
async def test_former_stored_versions_are_dropped_once_and_the_stored_one_stays(
    home_cluster: LocalCluster, home_client: Client
) -> None:
    """Also with the rights of the process alone; a definition that is as it should be is not written."""
    former = MergePatch({"status": {"storedVersions": ["v1beta1", "v1beta2"]}})
    await home_client.patch(CustomResourceDefinition, KYMAS, "", former, subresource="status")
    audit = AuditLog(home_cluster)
    dropped = (*Settings().drop_crd_stored_version_map, StoredVersion("Watcher", "v1beta2"), StoredVersion("No", "v1"))
    async with Client.connect(ClusterConfig.load(login_of_operator(home_cluster)), user_agent="klm") as ours:
        await StoredVersions(ours, SystemClock(), dropped).run()

    for name in (KYMAS, WATCHERS):
        found = await home_client.get(CustomResourceDefinition, name)
        assert found.status.stored_versions == ("v1beta2",)
    written = audit.entries(lambda entry: entry.agent.startswith("klm") and entry.verb != "get")
    assert [(entry.verb, entry.name, entry.status) for entry in written] == [("patch", KYMAS, 200)]
