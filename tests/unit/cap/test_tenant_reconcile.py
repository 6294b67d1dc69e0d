"""When a tenant is looked at again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.cap import given

from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import JsonObject, owner_reference
from stellwerk.kube.watch.watch_states import Synced
from stellwerk.operators.cap import preparation
from stellwerk.operators.cap.tenant import plan
from stellwerk.operators.cap.tenant.networking import TenantNetworking
from stellwerk.operators.cap.tenant.reconcile import TenantReconciler
from stellwerk.operators.cap.watches import Caches
from stellwerk.runtime.process.manager import Manager
from stellwerk.testing.clock import FakeClock

NOTHING: Any = None


@pytest.mark.parametrize(("wanted", "delay"), [("1.0.0", None), ("2.0.0", 0.0)])
async def test_a_success_is_recorded_with_another_pass_only_where_the_tenant_should_have_another_version(
    wanted: str, delay: float | None
) -> None:
    bare = given.tenant()
    lacking = plan.absent(bare, given.application())
    assert lacking is not None
    tenant = preparation.prepared(bare, lacking)
    tenant = msgspec.structs.replace(tenant, spec=msgspec.structs.replace(bare.spec, version=wanted))
    owner = msgspec.to_builtins(owner_reference(tenant))
    status: JsonObject = {"state": "Completed", "conditions": [{"type": "Ready", "status": "True", "reason": "R"}]}
    done = given.operation(metadata=given.metadata("acme-op", ownerReferences=[owner]), status=status)
    caches = Caches(Manager(Client.connect(ClusterConfig(server="https://127.0.0.1:1"))))
    caches.applications.take(Synced((given.application(),), "1"))
    caches.versions.take(Synced((given.version(),), "1"))
    caches.operations.take(Synced((done,), "1"))

    networking = TenantNetworking(caches=caches, objects=NOTHING, operator_namespace="cap-system")
    reconciler = TenantReconciler(client=NOTHING, caches=caches, networking=networking, clock=FakeClock())

    answer = await reconciler.reconcile(tenant)

    assert answer.status is not None
    assert answer.status.current_version == "bookshop-v1"
    assert answer.delay_seconds == delay
