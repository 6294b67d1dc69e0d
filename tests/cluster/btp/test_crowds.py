"""Tens of thousands of service instances, and Secrets of a MiB, do not block the event loop of the BTP Manager."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from stellwerk.api.btp import ServiceBinding, ServiceInstance
from stellwerk.kube.types.identifiers import Resource
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.testing.checks.loop_stalls import LONGEST_STALL_SECONDS, measured_stalls
from stellwerk.testing.eventually import eventually
from stellwerk.testing.faults import FaultProxy, RecordedRequest, requests
from stellwerk.testing.faults.on_requests import Proceed
from stellwerk.testing.faults.reply import Reply
from tests.cluster.btp.beginnings import ready
from tests.cluster.btp.given import Given
from tests.cluster.btp.running import Running
from tests.cluster.btp.then import Then

COUNT = 20_000


@dataclass
class Crowd:
    """The cluster lists these objects besides its own, page by page. To create them would take minutes."""

    items: list[bytes]
    _version: str = field(default="", init=False)

    @classmethod
    def of(cls, resource: Resource, count: int) -> Crowd:
        return cls([cls._item(resource, number) for number in range(count)])

    @staticmethod
    def _item(resource: Resource, number: int) -> bytes:
        name = f"{resource.kind.lower()}-{number:05}"
        metadata = {
            "name": name,
            "namespace": f"tenant-{number % 50}",
            "uid": f"{resource.kind}-{number}",
            "resourceVersion": f"{number + 1}",
            "generation": 1,
            "finalizers": ["services.cloud.sap.com/sap-btp-finalizer"],
            "managedFields": [{"manager": "kubectl", "operation": "Apply", "fieldsV1": {"f:spec": {"f:a": {}}}}],
        }
        return json.dumps({"kind": "PartialObjectMetadata", "metadata": metadata}).encode()

    async def meet(self, request: RecordedRequest, proceed: Proceed) -> Reply:
        begin = int(request.query.get("continue", "0"))
        if not begin:
            reply = await proceed(request)
            self._version = str(reply.json()["metadata"]["resourceVersion"])  # type: ignore[index,call-overload]
        end = begin + int(request.query.get("limit", "0") or COUNT)
        token = str(end) if end < len(self.items) else ""
        head = {"resourceVersion": self._version, "continue": token}
        items = b",".join(self.items[begin:end])
        body = b'{"kind":"PartialObjectMetadataList","metadata":%b,"items":[%b]}' % (json.dumps(head).encode(), items)
        answer = Reply(200, body=body)
        answer.headers["Content-Type"] = "application/json"
        return answer

    def __str__(self) -> str:
        return f"{len(self.items)} objects more"


@pytest.fixture
def login(proxy: FaultProxy) -> Path:
    """The operator reaches its API server through the proxy."""
    return proxy.kubeconfig


@pytest.mark.req("R-412")
async def test_a_module_with_40000_users_does_not_block_the_event_loop(
    running: Running, proxy: FaultProxy, given: Given, then: Then
) -> None:
    await ready(running, given, then)
    await running.stop()
    for kind in (ServiceInstance, ServiceBinding):
        proxy.on_requests(requests("list", kind.resource.group_resource), Crowd.of(kind.resource, COUNT))

    with measured_stalls() as stalls:
        await running.start()
        await eventually(lambda: running.users == 2 * COUNT, within=60, describe="the caches hold all users")
        await running.is_idle()
        await given.client.delete(BtpOperator, "btpoperator", "kyma-system")
        await then.shows(
            "Warning",
            "ServiceInstancesAndBindingsNotCleaned",
            saying=["20000 instance(s) and 20000 binding(s)", "tenant-0/serviceinstance-00000"],
        )
        await running.is_idle()
    assert stalls.longest_seconds < LONGEST_STALL_SECONDS


@pytest.mark.req("R-412")
async def test_credentials_and_tunables_of_a_mib_do_not_block_the_event_loop(
    running: Running, given: Given, then: Then
) -> None:
    lines = "".join(f"line-{number:06}\n" for number in range(50_000))
    with measured_stalls() as stalls:
        await ready(running, given, then)
        await given.required_secret(notes=lines)
        await given.tunables(Notes=lines)
        await running.settled(given.client)
        await running.is_idle()
        await then.shows("Ready", "ReconcileSucceeded")
    assert stalls.longest_seconds < LONGEST_STALL_SECONDS
