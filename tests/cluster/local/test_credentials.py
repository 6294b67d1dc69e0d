"""Whoever gets a kubeconfig may what RBAC grants, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cluster.local.conftest import wait_until
from tests.kubectl import kubectl, tried

from stellwerk.local.cluster import LocalCluster


def who_am_i(kubeconfig: Path) -> tuple[str, set[str]]:
    answer = json.loads(kubectl(kubeconfig, "auth", "whoami", "-o", "json"))
    user = answer["status"]["userInfo"]
    return user["username"], set(user["groups"])


def test_the_administrators_kubeconfig_works_with_kubectl(cluster: LocalCluster) -> None:
    assert who_am_i(cluster.kubeconfig) == ("stellwerk:admin", {"system:masters", "system:authenticated"})


@pytest.mark.req("R-901")
def test_an_issued_kubeconfig_is_that_user_without_any_right(cluster: LocalCluster, namespace: str) -> None:
    user = f"system:serviceaccount:{namespace}:operator"
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    issued = cluster.kubeconfig_for(user, groups)
    assert who_am_i(issued) == (user, {*groups, "system:authenticated"})
    refused = tried(issued, "get", "secrets", "-n", namespace)
    assert refused.returncode != 0
    assert "Forbidden" in refused.stderr


def test_an_issued_kubeconfig_gains_what_is_granted(cluster: LocalCluster, namespace: str) -> None:
    issued = cluster.kubeconfig_for(f"jane of {namespace}")
    rights = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings"
    binding = {
        "metadata": {"name": "jane"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": f"jane of {namespace}"}],
    }
    granted = cluster.wire().ask("POST", rights, binding)
    assert granted is not None
    assert granted.status == 201, granted.body

    def sees_what_every_namespace_has() -> bool:
        """The API server takes up the right, and a controller makes the ConfigMap, in a moment of their own."""
        seen = tried(issued, "get", "configmaps", "-n", namespace, "-o", "name")
        return seen.stdout.strip() == "configmap/kube-root-ca.crt"

    wait_until(sees_what_every_namespace_has)
