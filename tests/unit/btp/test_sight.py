"""What a cache cannot show is not taken for absent."""

from __future__ import annotations

import pytest

from stellwerk.api.core import Service
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import Unreadable, Unstructured, unstructured
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.kube.watch.watch_states import Odd, Synced, WatchSuspended
from stellwerk.operators.btp import watches
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.operators.btp.btpoperator.leading import Leading
from stellwerk.operators.btp.btpoperator.observe import Observer, SecretReader
from stellwerk.operators.btp.errors import StateUnread
from stellwerk.operators.btp.settings import Settings
from stellwerk.runtime.cache.informer import Informer
from stellwerk.runtime.process.manager import Manager
from stellwerk.testing.clock import FakeClock

GADGETS = Resource("example.com", "v1", "Gadget", "gadgets", namespaced=True)


def cache(resource: Resource = Service.resource) -> Informer[Unstructured]:
    """A cache that is fed by hand; nothing is connected."""
    return Informer(Client.connect(ClusterConfig(server="https://127.0.0.1:1")), unstructured(resource))


@pytest.mark.req("R-206")
@pytest.mark.parametrize(
    "cause", [WatchSuspended("no right", is_forbidden=True), WatchSuspended("no CRD", is_not_served=True)]
)
async def test_the_process_is_not_ready_while_it_cannot_watch_what_it_needs_itself(cause: WatchSuspended) -> None:
    manager = Manager(Client.connect(ClusterConfig(server="https://127.0.0.1:1")))
    found = watches.Caches(manager, wake=lambda: None, settings=Settings())
    for informer in manager.home.informers:
        informer.take(Synced((), "1"))
    found.pods.take(cause)
    assert manager.unready() is None, "what the module needs is for its condition to tell"
    for needed in (found.operators, found.tunables):
        needed.take(cause)
        assert manager.unready() == f"{needed.name} cannot be watched: {cause.why}"
        needed.take(Synced((), "2"))


async def test_a_cache_that_is_full_shows_all_there_is() -> None:
    full = cache()
    full.take(Synced((), "1"))

    assert watches.why_blind(full) == ""


@pytest.mark.req("R-112")
async def test_a_cache_that_was_never_filled_shows_nothing() -> None:
    assert "not filled yet" in watches.why_blind(cache())


@pytest.mark.req("R-112")
@pytest.mark.parametrize(
    "parked",
    [WatchSuspended("why"), WatchSuspended("why", is_forbidden=True), WatchSuspended("why", is_not_served=True)],
)
async def test_a_kind_of_kubernetes_that_cannot_be_watched_may_have_objects(parked: WatchSuspended) -> None:
    blind = cache()
    blind.take(parked)

    assert watches.why_blind(blind) == "why"


@pytest.mark.req("R-112")
async def test_only_a_kind_that_a_definition_brings_can_be_gone_with_its_objects() -> None:
    gone, forbidden = cache(GADGETS), cache(GADGETS)
    gone.take(WatchSuspended("why", is_not_served=True))
    forbidden.take(WatchSuspended("why", is_forbidden=True))

    assert watches.why_blind(gone) == ""
    assert watches.why_blind(forbidden) == "why"


@pytest.mark.req("R-112", "R-510")
async def test_an_object_that_cannot_be_read_is_there() -> None:
    odd = cache()
    odd.take(Synced((), "1"))
    odd.take(Odd(Unreadable(Service.resource, ObjectMeta(name="s", namespace="ns", uid="u"), "spec: too deep")))

    assert watches.why_blind(odd) == "Service ns/s cannot be read: spec: too deep"


@pytest.mark.req("R-207")
async def test_the_default_settings_decide_nothing_while_the_tunables_cannot_be_listed() -> None:
    manager = Manager(Client.connect(ClusterConfig(server="https://127.0.0.1:1")))
    found = watches.Caches(manager, wake=lambda: None, settings=Settings())
    leading = Leading(found.operators.store, lambda: False, found.operators.unreadable)
    observer = Observer(found, SecretReader(manager.client), Settings, FakeClock(), leading)
    operator = BtpOperator(metadata=ObjectMeta(name="btpoperator", namespace="kyma-system", uid="u"))
    found.tunables.take(WatchSuspended("cannot list configmaps: the key of the encryption is gone"))
    with pytest.raises(StateUnread, match="the key of the encryption is gone"):
        await observer.snapshot(operator)
    found.tunables.take(Synced((), "1"))
    found.tunables.take(WatchSuspended("cannot list configmaps"))
    assert (await observer.snapshot(operator)).operator is operator, "they were read before"
