"""A process that lacks what it needs itself is not ready, so that a rollout with broken rights does not succeed."""

from __future__ import annotations

from pathlib import Path

import pytest

from stellwerk.api.rbac import ClusterRole
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.model import JsonObject, to_json_object
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.component import rights
from tests.cluster import probes
from tests.cluster.component.process import operator
from tests.cluster.component.rights import Rights


@pytest.mark.req("R-206")
async def test_readyz_names_the_watch_and_the_lease_that_the_rights_do_not_allow_until_they_are_granted(
    component_cluster: LocalCluster, admin: Client, may: Rights, tmp_path: Path
) -> None:
    login = component_cluster.kubeconfig_for(may.user)
    async with operator(component_cluster, tmp_path, "--leader-elect", login=login) as started:
        await started.process.start(awaits_readiness=False)
        caches, lease = "components.core.cs.sap.com cannot be watched: ", "[-]lease failed: lease "
        await probes.answers(started.process.health_url, 500, caches)
        await may.are()
        refused = await probes.answers(started.process.health_url, 500, lease)
        assert may.user in refused
        leases: list[JsonObject] = [to_json_object(one.rule) for one in rights.LEASES]
        own: list[JsonObject] = [to_json_object(one.rule) for one in rights.GRANTS]
        await admin.apply(ClusterRole, {"metadata": {"name": may.user}, "rules": [*own, *leases]}, force=True)
        await probes.answers(started.process.health_url, 200, "[+]lease ok")
