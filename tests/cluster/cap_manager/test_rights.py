"""The manager has what it needs and nothing else: every right is used in a life, or its rare occasion is named."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.model import unstructured
from stellwerk.local.build import published_definitions
from stellwerk.operators.cap_manager import rights
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.eventually import eventually
from tests.cluster import rights as audited
from tests.cluster.cap_manager.conftest import OPERATOR, Running
from tests.cluster.cap_manager.scene import Scene
from tests.cluster.component.kinds import established, removed

FURTHER = (
    "certificates.cert-manager.io",
    "issuers.cert-manager.io",
    "servicemonitors.monitoring.coreos.com",
)


@pytest.fixture
async def further(admin: Client) -> AsyncIterator[None]:
    """The kinds of cert-manager and of the Prometheus operator are there for a while."""
    view = unstructured(CustomResourceDefinition.resource)
    for body in published_definitions.definitions(FURTHER):
        await admin.apply(view, body)
    for name in FURTHER:
        await eventually(lambda name=name: established(admin, name))  # type: ignore[misc]
    yield
    for name in FURTHER:
        await removed(admin, name)


def spec(manager: str) -> dict[str, Any]:
    """A CAPOperator with all that it can have, and one manager of certificates."""
    return {
        "subscriptionServer": {
            "subDomain": "cap-op",
            "replicas": 2,
            "certificateManager": manager,
            "certificateConfig": {"additionalCACertificate": "the authorities"},
        },
        "controller": {"replicas": 2, "detailedOperationalMetrics": True},
        "monitoring": {"enabled": True},
        "webhook": {"replicas": 2, "certificateManager": "CertManager" if manager == "CertManager" else "Default"},
    }


@pytest.mark.req("R-504")
@pytest.mark.timeout(300)
async def test_every_right_of_the_manager_is_used_or_its_rare_occasion_is_named(
    further: None, running: Running, scene: Scene, audit: AuditLog, tmp_path: Path
) -> None:
    running.folder, running.image = tmp_path / "absent", "registry.example.com/stellwerk:1.2.3"
    await running.start()
    for manager in ("Gardener", "CertManager"):
        await scene.asks(**spec(manager))
        await scene.shows("Ready", within=120)
    await scene.deletes()
    await scene.is_gone()
    await running.has_sent_events()

    requests = audit.entries(lambda entry: entry.user == OPERATOR)
    unused = audited.unused(rights.GRANTS, requests)
    assert not unused, f"granted and not used: {unused}"
    here = ("", scene.namespace)  # namespaces of other tests are on their way out, and take nothing more
    assert not [entry for entry in requests if entry.status == 403 and entry.namespace in here]
