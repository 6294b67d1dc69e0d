"""The subscription server on a real control plane, with doubles of token issuers and registries."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import aiohttp
import pytest
from tests.cluster import permissions
from tests.cluster.cap import world
from tests.cluster.cap.subscription.bookshop import SERVER, Bookshop, Serving

from stellwerk.api.core import Secret
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import NotFound
from stellwerk.kube.types.model import metadata_of
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.cap import names
from stellwerk.operators.cap.subscription import rights
from stellwerk.testing import cluster as clusters
from stellwerk.testing.servers.registries import Registries


@pytest.fixture
async def registries() -> AsyncIterator[Registries]:
    async with Registries() as made:
        yield made


@pytest.fixture
async def serving(cap_cluster: LocalCluster, admin: Client, registries: Registries) -> AsyncIterator[Serving]:
    """The server, started, as its own account."""
    await permissions.grant(admin, SERVER, (*rights.GRANTS, *rights.HOME_GRANTS))
    made = Serving(cap_cluster.kubeconfig_for(SERVER), registries)
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
async def shop(
    admin: Client, home: str, registries: Registries, serving: Serving, http: aiohttp.ClientSession
) -> Bookshop:
    """An application that the registry knows."""
    made = Bookshop(admin, home, registries, http, lambda: serving.url)
    await made.open()
    await serving.settled(admin)
    registries.tokens.clear()  # by which it has proved its identity
    registries.asked.clear()
    return made


@pytest.fixture
async def neighbour(
    admin: Client,
    cap_cluster: LocalCluster,
    registries: Registries,
    serving: Serving,
    shop: Bookshop,
    http: aiohttp.ClientSession,
) -> AsyncIterator[Bookshop]:
    """Another application, with a registry of its own."""
    namespace = clusters.create_namespace(cap_cluster)
    made = Bookshop(admin, namespace, registries, http, lambda: serving.url)
    await made.open()
    await serving.settled(admin)
    yield made
    world.leave_namespace(cap_cluster, namespace)


@pytest.fixture(autouse=True)
async def no_promises_of_former_tests(admin: Client) -> None:
    """A server delivers and counts the promises of all namespaces, also of a former test that are not gone yet."""
    view = metadata_of(Secret)
    for secret in (await admin.list(view, labels=f"{names.CALLBACK_LABEL} in (pending,failed)")).items:
        with contextlib.suppress(NotFound):
            await admin.delete(view, secret.metadata.name, secret.metadata.namespace)
