"""What identifies a cluster is the best that the login may read, and always the same thing as before."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from tests.unit.kube.scripted import Server, serving

from stellwerk.kube.client.client import Client
from stellwerk.kube.login.auth import Material
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.runtime.cache.clusters import Cluster
from stellwerk.testing.clock import FakeClock

pytestmark = pytest.mark.req("R-210")


@dataclass
class Namespaces:
    """An API server whose login may read some namespaces: their uids by name; an empty one does not exist."""

    readable: dict[str, str] = field(default_factory=dict)

    def __call__(self, number: int, request: bytes) -> bytes:
        name = request.split(b" ", 2)[1].rpartition(b"/")[2].decode()
        if uid := self.readable.get(name):
            return said(200, {"metadata": {"name": name, "uid": uid}})
        details = {"name": name, "kind": "namespaces"}
        if name in self.readable:
            return said(404, {"kind": "Status", "reason": "NotFound", "details": details})
        return said(403, {"kind": "Status", "reason": "Forbidden", "details": details})


def said(code: int, body: object) -> bytes:
    text = json.dumps(body).encode()
    return b"HTTP/1.1 %d Said\r\nContent-Length: %d\r\n\r\n%s" % (code, len(text), text)


@dataclass
class Asked:
    cluster: Cluster
    server: Server
    clock: FakeClock


@asynccontextmanager
async def cluster(namespaces: Namespaces, authority: bytes = b"") -> AsyncIterator[Asked]:
    async with serving(namespaces) as (server, _):
        config = ClusterConfig(server=f"http://127.0.0.1:{server.port}", authority=Material(data=authority))
        async with Client.connect(config) as client:
            clock = FakeClock()
            yield Asked(Cluster(client, clock=clock), server, clock)


async def test_the_uid_of_kube_system_is_taken_where_it_may_be_read() -> None:
    async with cluster(Namespaces({"kube-system": "K", "default": "D"}), b"authority") as asked:
        assert await asked.cluster.fingerprint.read("", "shop") == "K"
        assert len(asked.server.asked) == 1


async def test_another_namespace_identifies_the_cluster_where_kube_system_may_not_be_read() -> None:
    async with cluster(Namespaces({"default": "D", "shop": "S"})) as asked:
        assert await asked.cluster.fingerprint.read("", "shop") == "default/D"
    async with cluster(Namespaces({"shop": "S"})) as asked:
        assert await asked.cluster.fingerprint.read("", "shop") == "shop/S"


async def test_the_authority_identifies_the_cluster_where_no_namespace_may_be_read() -> None:
    identities = set()
    for authority in (b"one", b"one", b"another"):
        async with cluster(Namespaces({"shop": ""}), authority) as asked:
            identities.add(await asked.cluster.fingerprint.read("", "shop"))
    assert len(identities) == 2
    assert all(identity.startswith("ca:") for identity in identities)
    async with cluster(Namespaces()) as asked:
        assert await asked.cluster.fingerprint.read("", "shop") == ""


@pytest.mark.parametrize(
    ("former", "found"),
    [("default/D", "default/D"), ("shop/X", "shop/S"), ("K", "K"), ("Q", "K")],
)
async def test_what_identified_the_cluster_before_is_compared_again(former: str, found: str) -> None:
    """More rights must not make another cluster of it."""
    readable = {"kube-system": "K", "default": "D", "shop": "S"}
    async with cluster(Namespaces(readable), b"authority") as asked:
        assert await asked.cluster.fingerprint.read(former, "shop") == found
        if former.startswith("default"):
            authority = await asked.cluster.fingerprint.read("ca:of-former-days", "shop")
            assert authority.startswith("ca:")


async def test_what_can_no_longer_be_read_is_not_taken_for_unchanged() -> None:
    async with cluster(Namespaces({"default": "D"})) as asked:
        assert await asked.cluster.fingerprint.read("K", "shop") == "default/D"
        assert await asked.cluster.fingerprint.read("gone/G", "shop") == "default/D"


async def test_each_namespace_is_asked_for_once_a_minute() -> None:
    namespaces = Namespaces({"default": "D"})
    async with cluster(namespaces) as asked:
        for _ in range(3):
            await asked.cluster.fingerprint.read("", "shop")
        assert len(asked.server.asked) == 2
        namespaces.readable["kube-system"] = "K"
        await asked.clock.advance(61)
        assert await asked.cluster.fingerprint.read("", "shop") == "K"
