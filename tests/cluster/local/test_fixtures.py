"""What every cluster test relies on."""

from __future__ import annotations

import secrets

from stellwerk.local.cluster import LocalCluster
from stellwerk.testing.cluster import AuditLog


def test_a_namespace_takes_pods_at_once(cluster: LocalCluster, namespace: str) -> None:
    pod = {"metadata": {"name": "first"}, "spec": {"containers": [{"name": "main", "image": "example.com/main"}]}}
    answer = cluster.wire().ask("POST", f"/api/v1/namespaces/{namespace}/pods", pod)
    assert answer is not None
    assert answer.status == 201, answer.body


def test_the_audit_log_counts_requests_since_the_mark(cluster: LocalCluster, namespace: str, audit: AuditLog) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    cluster.wire().ask("POST", path, {"metadata": {"name": "before"}})
    audit.mark()
    name = secrets.token_hex(4)
    cluster.wire().ask("POST", path, {"metadata": {"name": name}})
    cluster.wire().ask("DELETE", f"{path}/{name}")
    mine = audit.entries(lambda entry: entry.namespace == namespace and entry.user == "stellwerk:admin")
    assert [(entry.verb, entry.resource, entry.name, entry.status) for entry in mine] == [
        ("create", "configmaps", name, 201),
        ("delete", "configmaps", name, 200),
    ]
