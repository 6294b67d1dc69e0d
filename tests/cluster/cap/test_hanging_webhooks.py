"""An admission webhook that hangs for the Jobs of one namespace delays the applications of no other one."""

from __future__ import annotations

import time

import pytest

from stellwerk.api.batch import Job
from stellwerk.kube.http.transport import CALLS
from stellwerk.testing.eventually import eventually
from tests.cluster.cap.conftest import Running
from tests.cluster.cap.shop import Shop, job, router
from tests.cluster.silence import deaf, hanging_webhook

VICTIM_SECONDS = 10.0
OPERATIONS = CALLS + 8


@pytest.mark.req("R-507")
async def test_jobs_whose_webhook_hangs_delay_no_other_namespace(running: Running, shop: Shop, neighbour: Shop) -> None:
    await shop.open(job("mtxs"), router(), follows=False)
    async with deaf() as (double, port), hanging_webhook(shop.client, shop.namespace, port, Job):
        for number in range(OPERATIONS):
            await shop.operate("upgrade", name=f"acme-op-{number}")
        await eventually(lambda: double.connections >= CALLS, on=double.changed)
        began = time.monotonic()
        await neighbour.open(job("mtxs"), router())
        await neighbour.tenant_shows("ProvisioningCompleted")
        assert time.monotonic() - began < VICTIM_SECONDS
        await running.stop()
