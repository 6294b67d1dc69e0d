"""A client for tenants by namespace: writes that hang in one namespace keep no other call waiting."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.kube.scripted import serving

from stellwerk.api.core import Secret
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.http.transport import CALLS
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import JsonObject
from stellwerk.testing.eventually import eventually

FOUND = b'{"apiVersion":"v1","kind":"Secret","metadata":{"name":"one","namespace":"slow","uid":"u"}}'
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(FOUND), FOUND)


@pytest.mark.req("R-507")
async def test_reads_and_statuses_do_not_wait_for_the_writes_of_a_namespace_that_hang() -> None:
    def words(number: int, request: bytes) -> bytes | None:
        return None if request.startswith(b"POST") else ANSWER

    async with serving(words) as (server, _):
        config = ClusterConfig(server=f"http://127.0.0.1:{server.port}")
        async with Client.connect(config) as shared:
            client = shared.for_tenants_by_namespace().with_field_manager("tests")
            body: JsonObject = {"metadata": {"name": "one", "namespace": "slow"}}
            hanging = [asyncio.create_task(client.create(Secret, body)) for _ in range(CALLS)]
            await eventually(lambda: len(server.asked) == CALLS)
            # Less than a second: no write has gone on without its slot meanwhile.
            async with asyncio.timeout(0.5):
                assert await client.get(Secret, "one", "slow") is not None
                await client.patch(Secret, "one", "slow", MergePatch({"status": {}}), subresource="status")
                waiting = asyncio.create_task(client.patch(Secret, "one", "slow", MergePatch({"data": {}})))
                await asyncio.sleep(0)
            assert not waiting.done()
            assert len(server.asked) == CALLS + 2
            for each in (*hanging, waiting):
                each.cancel()
            await asyncio.gather(*hanging, waiting, return_exceptions=True)
