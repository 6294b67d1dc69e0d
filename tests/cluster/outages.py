"""What goes wrong between a client and a control plane, and the outages of one of a test's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from stellwerk.local.cluster import LocalCluster
from stellwerk.local.components import API_SERVER, ETCD
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.eventually import eventually
from stellwerk.testing.faults import (
    ANYTHING,
    WRITES,
    AnswerInstead,
    CutConnection,
    FaultProxy,
    FaultRule,
    RecordedRequest,
    RequestFault,
    chance,
)

_REFUSALS: tuple[RequestFault, ...] = (
    AnswerInstead(429, retry_after_seconds=1),
    AnswerInstead(500),
    AnswerInstead(503),
    AnswerInstead(504, after_forwarding=True),
    CutConnection(after_forwarding=True),
)
BACK_WITHIN_SECONDS = 60.0
"""How long a control plane may take to fail or to come back, and an operator to go on with its work."""


@asynccontextmanager
async def without_etcd(cluster: LocalCluster) -> AsyncIterator[None]:
    """etcd is killed; the block begins when the API server reports it. After the block, both work again."""
    cluster.process(ETCD).kill()
    await eventually(lambda: _is_out_of_order(cluster), within=BACK_WITHIN_SECONDS)
    try:
        yield
    finally:
        await asyncio.to_thread(cluster.start, ETCD)
        await asyncio.to_thread(cluster.wait_until_ready)


async def _is_out_of_order(cluster: LocalCluster) -> bool:
    answer = await asyncio.to_thread(cluster.wire().ask, "GET", "/readyz")
    return answer is None or answer.status >= 500


def failing_calls(proxy: FaultProxy) -> list[FaultRule[RecordedRequest]]:
    """About a third of the calls fail from now on, each in one of six ways. Returns a rule for each way."""
    rules = [proxy.on_requests(ANYTHING, fault, chance(0.055, seed=seed)) for seed, fault in enumerate(_REFUSALS)]
    return [*rules, proxy.on_requests(WRITES, AnswerInstead(409), chance(0.055, seed=9))]


async def restart_with_another_certificate(cluster: LocalCluster) -> None:
    """Restart the API server, which proves itself by a certificate that no client has seen before."""
    cluster.renew_serving_certificate()
    await asyncio.to_thread(cluster.restart, API_SERVER)


def deletions(audit: AuditLog, user: str, namespace: str) -> list[str]:
    """What a user has deleted in a namespace, as `configmaps/one`."""
    entries = audit.entries(lambda entry: entry.user == user and entry.verb.startswith("delete"))
    return [
        f"{entry.resource}/{entry.name}" for entry in entries if entry.namespace == namespace and entry.status < 300
    ]
