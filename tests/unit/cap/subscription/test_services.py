"""What is read of services at a time."""

from __future__ import annotations

import asyncio
import base64
import tracemalloc
from functools import partial
from typing import cast

import msgspec
import pytest
from tests.unit.cap import given

from stellwerk.api.core import Secret
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.model import JsonObject
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.cap.subscription import dependencies
from stellwerk.operators.cap.subscription.services import ServiceReader

SERVICE = msgspec.structs.replace(given.application().spec.btp.services[0], subscription_dependency="Always")


class Secrets:
    """Returns one Secret for all names, and counts reads at the same time."""

    def __init__(self, credentials: JsonObject) -> None:
        encoded = base64.b64encode(msgspec.json.encode(credentials)).decode()
        self.secret = Secret(metadata=ObjectMeta(name="s", namespace="shop"), data={"credentials": encoded})
        self.under_way = self.most = 0

    async def find(self, *_: object) -> Secret:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        return self.secret


@pytest.mark.req("R-411")
async def test_one_service_is_read_at_a_time() -> None:
    secrets = Secrets({"clientid": "id"})
    reader = ServiceReader(cast("Client", secrets))
    entries = await asyncio.gather(*(reader.read(SERVICE, "shop", lambda entry: entry["label"]) for _ in range(5)))
    assert entries == ["xsuaa"] * 5
    assert secrets.most == 1


@pytest.mark.req("R-411")
async def test_services_with_one_large_secret_take_the_memory_of_one() -> None:
    """Each service alone takes some megabytes: allocations of Python are counted, not the memory of the process."""
    secrets = Secrets({"xsappname": "a!b1", "list": [{"a": [1]} for _ in range(20_000)]})
    reader = ServiceReader(cast("Client", secrets))

    async def peak_bytes(services: int) -> int:
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        take = partial(dependencies.of_service, SERVICE)
        found = await asyncio.gather(*(reader.read(SERVICE, "shop", take) for _ in range(services)))
        assert found == [[{"xsappname": "a!b1"}]] * services
        return tracemalloc.get_traced_memory()[1] - before

    tracemalloc.start()
    try:
        await peak_bytes(1)
        one, ten = await peak_bytes(1), await peak_bytes(10)
    finally:
        tracemalloc.stop()
    assert 2_000_000 < one < ten + 100_000 < 2 * one
