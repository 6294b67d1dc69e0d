"""A cluster that shows too much is left alone; all others are as before."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.unit.component.given import component

from stellwerk.apply.set.model.owner import mark
from stellwerk.delivery.watched_objects import Place, TooMuch
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import Unstructured
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.kube.watch.watch_states import Changed, Removed, Synced
from stellwerk.operators.component.api import RECONCILER, Component
from stellwerk.operators.component.errors import ClusterTooLarge, TooManyClusters
from stellwerk.operators.component.references.references import NamedText
from stellwerk.operators.component.settings import Settings
from stellwerk.operators.component.targets.targets import Target, Targets
from stellwerk.runtime.cache.clusters import Cluster
from stellwerk.runtime.cache.remote_clusters import RemoteLimits
from stellwerk.runtime.supervision.tasks import Border
from stellwerk.runtime.telemetry.metrics import Metrics
from stellwerk.testing.clock import FakeClock

CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True)
MOST = 20_000


def kubeconfig(server: str) -> NamedText:
    cluster = {"name": "c", "cluster": {"server": server}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    body = {"clusters": [cluster], "contexts": [context], "users": [{"name": "u", "user": {"token": "t"}}]}
    return NamedText("secret shop/there, key value", json.dumps({**body, "current-context": "c"}).encode())


FAR, OTHER = kubeconfig("https://far.invalid:6443"), kubeconfig("https://other.invalid:6443")


def reaching(name: str) -> Component:
    return component(name, spec={"kubeConfig": {"secretRef": {"name": "there"}}})


def labelled(number: int, version: int = 1, size: int = 5_000) -> Unstructured:
    metadata = ObjectMeta(
        namespace="shop",
        name=f"one-{number}",
        uid=f"{number}",
        resource_version=f"{version}",
        labels={mark(RECONCILER): "anybody"},
    )
    return Unstructured(metadata=metadata, body={"data": {"a": "x" * size}})


@asynccontextmanager
async def targets(
    clock: FakeClock, *, most: int = 2_000, most_of_namespace: int = 500, most_bytes: int = 10**9
) -> AsyncIterator[Targets]:
    async with Client.connect(ClusterConfig(server="https://home.invalid")) as home:
        found = Targets(
            Cluster(home, clock=clock),
            connect=Client.connect,
            wake=lambda label: None,
            clock=clock,
            border=Border(Metrics(), clock),
            settings=Settings(),
            most_owned_bytes=MOST,
            limits=RemoteLimits(clusters=most, clusters_of_namespace=most_of_namespace, bytes=most_bytes),
        )
        running = asyncio.create_task(found.run())
        await asyncio.sleep(0)
        yield found
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def covered(target: Target, *objects: Unstructured) -> None:
    """As a pass does, with a cluster that shows these ConfigMaps."""
    covering = asyncio.create_task(target.owned.cover([Place(CONFIG_MAPS, "")]))
    await asyncio.sleep(0)
    while not covering.done():
        for informer in target.owned.cluster.informers:
            if not informer.has_synced:
                is_ours = informer.view.resource == CONFIG_MAPS
                informer.take(Synced(objects if is_ours else (), "1"))
        await asyncio.sleep(0)
    await covering


@pytest.mark.req("R-210")
@pytest.mark.req("R-411")
async def test_a_cluster_that_shows_too_much_is_left_alone_and_named_and_no_other_is() -> None:
    clock = FakeClock()
    async with targets(clock) as seen:
        far, other = seen.remote(reaching("a"), FAR), seen.remote(reaching("b"), OTHER)
        await covered(other, labelled(1))
        with pytest.raises(TooMuch, match=r"https://far.invalid:6443 shows more than 19 KiB of objects with our label"):
            await covered(far, *(labelled(number) for number in range(5)))

        with pytest.raises(ClusterTooLarge, match=r"far.invalid:6443 shows more than 19 KiB .* remove them"):
            seen.remote(reaching("a"), FAR)
        assert seen.remote(reaching("b"), OTHER) is other

        await clock.advance(601)
        again = seen.remote(reaching("a"), FAR)
        await covered(again, labelled(1))


@pytest.mark.req("R-411")
async def test_what_a_watch_adds_counts_and_what_goes_does_not() -> None:
    async with targets(FakeClock()) as seen:
        far = seen.remote(reaching("a"), FAR)
        await covered(far, labelled(1))
        (informer,) = (one for one in far.owned.cluster.informers if one.view.resource == CONFIG_MAPS)
        for version in range(2, 20):
            informer.take(Changed(labelled(1, version)))
        for number in range(2, 20):
            informer.take(Changed(labelled(number, 20 + number)))
            informer.take(Removed(labelled(number, 20 + number)))
        assert seen.remote(reaching("a"), FAR) is far
        for number in range(2, 6):
            informer.take(Changed(labelled(number, 40 + number)))
        with pytest.raises(ClusterTooLarge):
            seen.remote(reaching("a"), FAR)


def of(namespace: str, name: str) -> Component:
    return component(name, namespace=namespace, spec={"kubeConfig": {"secretRef": {"name": "there"}}})


def numbered(number: int) -> NamedText:
    return kubeconfig(f"https://cluster-{number}.invalid")


@pytest.mark.req("R-411")
async def test_a_namespace_has_so_many_other_clusters_and_costs_no_other_namespace_its_own() -> None:
    async with targets(FakeClock(), most_of_namespace=2) as seen:
        first = seen.remote(of("loud", "a"), numbered(1))
        seen.remote(of("loud", "b"), numbered(2))
        with pytest.raises(
            TooManyClusters, match=r"namespace loud go to 2 other clusters, and --max-remote-clusters-per"
        ):
            seen.remote(of("loud", "c"), numbered(3))
        assert seen.remote(of("loud", "d"), numbered(1)) is first, "a cluster that is used already counts once"
        seen.remote(of("quiet", "a"), numbered(3))
        with pytest.raises(TooManyClusters):
            seen.remote(of("loud", "c"), numbered(3))
        seen.remote(of("loud", "b"), numbered(4))  # renewed: the one that only it used is left
        seen.forget(of("loud", "b").key)
        seen.remote(of("loud", "c"), numbered(3))


@pytest.mark.req("R-411")
async def test_all_together_have_so_many_other_clusters_until_one_is_left() -> None:
    async with targets(FakeClock(), most=3) as seen:
        for number in range(3):
            seen.remote(of(f"shop-{number}", "a"), numbered(number))
        with pytest.raises(
            TooManyClusters, match=r"all components together go to 3 other clusters, .*max-remote-clusters "
        ):
            seen.remote(of("late", "a"), numbered(3))
        seen.forget(of("shop-1", "a").key)
        seen.remote(of("late", "a"), numbered(3))


@pytest.mark.req("R-411")
async def test_the_clusters_of_a_namespace_show_half_of_what_all_may_and_the_largest_is_left_alone() -> None:
    async with targets(FakeClock(), most_bytes=60_000) as seen:
        quiet = seen.remote(of("quiet", "a"), numbered(0))
        await covered(quiet, *(labelled(number) for number in range(3)))
        small, large, third = (seen.remote(of("loud", f"{number}"), numbered(number)) for number in (1, 2, 3))
        await covered(small, *(labelled(number) for number in range(2)))
        await covered(large, *(labelled(number) for number in range(3)))
        assert seen.remote(of("loud", "2"), numbered(2)) is large, "25 of 30 kB"
        await covered(third, *(labelled(number) for number in range(2)))

        with pytest.raises(ClusterTooLarge, match=r"namespace loud .* more than 29 KiB .*cluster-2.invalid shows most"):
            seen.remote(of("loud", "2"), numbered(2))
        assert seen.remote(of("loud", "1"), numbered(1)) is small
        assert seen.remote(of("loud", "3"), numbered(3)) is third
        assert seen.remote(of("quiet", "a"), numbered(0)) is quiet


@pytest.mark.req("R-411")
async def test_where_all_clusters_show_too_much_the_largest_of_the_namespace_with_most_is_left_alone() -> None:
    async with targets(FakeClock(), most_bytes=60_000) as seen:
        found = {}
        for namespace, number, shown in (("a", 1, 3), ("a", 2, 2), ("b", 3, 3), ("c", 4, 3)):
            found[namespace, number] = seen.remote(of(namespace, f"{number}"), numbered(number))
            await covered(found[namespace, number], *(labelled(each) for each in range(shown)))
        late = seen.remote(of("d", "5"), numbered(5))
        await covered(late, labelled(1))

        with pytest.raises(
            ClusterTooLarge, match=r"all namespaces deploy to show more than 58 KiB .*cluster-1.invalid"
        ):
            seen.remote(of("a", "1"), numbered(1))
        del found["a", 1]
        for (namespace, number), target in {**found, ("d", 5): late}.items():
            assert seen.remote(of(namespace, f"{number}"), numbered(number)) is target
