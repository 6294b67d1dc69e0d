"""A server that keeps its callers waiting keeps few Components of a tenant, and none of another tenant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field

import pytest

from stellwerk.delivery.server_addresses import LIFE_SECONDS, Addresses
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.runtime.control.server_concurrency import ClusterBusy, ServerConcurrency
from stellwerk.testing.clock import FakeClock


class NoAnswer(Exception):
    """A server that is silent."""


class OtherFailure(Exception):
    """A failure that tells nothing about a server."""


def key(name: str, namespace: str = "shop") -> ObjectKey:
    return ObjectKey(namespace, name)


@dataclass
class Depot:
    """ServerConcurrency, and the Components that were woken."""

    servers: ServerConcurrency
    woken: list[str]
    passes: dict[str, ExitStack] = field(default_factory=dict)

    def enter(self, name: str, *servers: str, namespace: str = "shop") -> None:
        """Begin a pass that goes on."""
        with ExitStack() as stack:
            stack.enter_context(self.servers.passing(key(name, namespace)))
            for server in servers:
                self.servers.enter(key(name, namespace), [server], silence=(NoAnswer,))
            self.passes[name] = stack.pop_all()

    def leave(self, name: str) -> None:
        self.passes.pop(name).close()

    def fail(self, name: str, server: str, failure: type[Exception] = NoAnswer) -> None:
        """A whole pass, in which the server does not answer."""
        with suppress(failure), self.servers.passing(key(name)):
            self.servers.enter(key(name), [server], silence=(NoAnswer,))
            raise failure

    def is_full(self, name: str, *servers: str, namespace: str = "shop") -> bool:
        try:
            self.enter(name, *servers, namespace=namespace)
        except ClusterBusy:
            return True
        return False

    @contextmanager
    def inside(self, name: str, *servers: str) -> Iterator[None]:
        self.enter(name, *servers)
        yield
        self.leave(name)


def depot(workers: int = 1) -> Depot:
    woken: list[str] = []

    def wake(keys: Iterable[ObjectKey]) -> None:
        woken.extend(one.name for one in keys)

    return Depot(ServerConcurrency(workers=workers, wake=wake), woken)


def test_one_server_gets_two_passes_of_a_tenant_for_each_worker() -> None:
    seen = depot(workers=2)
    assert [seen.is_full(name, "far") for name in "abcde"] == [False] * 4 + [True]
    assert not seen.is_full("f", "other")


@pytest.mark.req("R-511")
def test_all_servers_together_leave_passes_for_components_that_call_none() -> None:
    seen = depot(workers=2)
    assert [seen.is_full(f"c{number}", f"server-{number}") for number in range(7)] == [False] * 6 + [True]


@pytest.mark.req("R-507")
@pytest.mark.req("R-511")
def test_the_servers_of_one_tenant_take_no_room_from_another() -> None:
    seen = depot(workers=1)
    seen.fail("a", "far")
    for number in range(3):
        seen.is_full(f"c{number}", f"server-{number}")
    assert seen.is_full("d", "far")
    for name in "ef":
        assert not seen.is_full(name, "far", namespace="other"), "what one tenant found out binds no other"


def test_a_component_without_room_is_woken_when_there_is_in_the_order_of_arrival() -> None:
    seen = depot()
    seen.enter("a", "far")
    seen.enter("b", "far")
    assert [seen.is_full(name, "far") for name in "cd"] == [True, True]
    seen.leave("a")
    assert seen.woken == ["c"]
    with seen.inside("c", "far"):
        pass
    assert seen.woken == ["c", "d"]


def test_as_many_are_woken_as_there_is_room_for() -> None:
    seen = depot()
    for name, server in (("a", "one"), ("b", "one"), ("c", "two")):
        seen.enter(name, server)
    for name, server in (("d", "one"), ("e", "one"), ("f", "two"), ("g", "three")):
        assert seen.is_full(name, server)
    seen.leave("a")
    assert seen.woken == ["d"]
    seen.leave("c")
    assert seen.woken == ["d", "f"]


def test_a_component_that_was_woken_and_needs_no_server_any_more_passes_its_turn_on() -> None:
    seen = depot()
    seen.enter("a", "far")
    seen.enter("b", "far")
    assert [seen.is_full(name, "far") for name in "cde"] == [True] * 3
    seen.leave("a")
    with seen.inside("c"):
        pass
    assert seen.woken == ["c", "d"]
    seen.servers.forget(key("d"))
    assert seen.woken == ["c", "d", "e"]


@pytest.mark.req("R-511")
def test_a_server_that_did_not_answer_gets_one_pass_until_it_does() -> None:
    seen = depot(workers=5)
    seen.fail("a", "far")
    seen.enter("a", "far")
    assert seen.is_full("b", "far")
    seen.leave("a")
    seen.enter("a", "far")
    assert not seen.is_full("b", "far")


def test_a_failure_of_something_else_makes_no_server_a_silent_one() -> None:
    seen = depot()
    seen.fail("a", "far", OtherFailure)
    assert [seen.is_full(name, "far") for name in "ab"] == [False, False]


def test_a_pass_that_finds_no_room_at_its_second_server_says_nothing_about_its_first() -> None:
    seen = depot()
    seen.fail("a", "far")
    seen.enter("b", "near")
    seen.enter("c", "near")
    assert seen.is_full("d", "far", "near")
    seen.enter("e", "far")
    assert seen.is_full("f", "far"), "it is silent as before"


def test_a_pass_at_two_servers_counts_once_for_its_tenant_and_leaves_both() -> None:
    seen = depot()
    seen.enter("a", "one", "two")
    seen.enter("b", "one", "two")
    assert seen.is_full("c", "two")
    seen.leave("a")
    seen.leave("b")
    assert [seen.is_full(name, "two") for name in "cd"] == [False, False]


def test_a_pass_that_calls_no_server_has_no_bound_and_wakes_no_other() -> None:
    seen = depot()
    seen.enter("a", "far")
    seen.enter("b", "far")
    assert seen.is_full("c", "far")
    for name in "defgh":
        with seen.inside(name):
            pass
    assert seen.woken == []


def test_a_component_that_is_gone_is_not_woken() -> None:
    seen = depot()
    seen.enter("a", "far")
    seen.enter("b", "far")
    assert seen.is_full("c", "far")
    seen.servers.forget(key("c"))
    seen.leave("a")
    assert seen.woken == []


def test_a_component_that_passes_before_it_is_woken_waits_no_more() -> None:
    seen = depot()
    seen.enter("a", "far")
    seen.enter("b", "far")
    assert seen.is_full("c", "far")
    with seen.inside("c", "other"):
        pass
    seen.leave("a")
    assert seen.woken == []


# ---- the addresses that are counted

NAMES = {"api.example.com": ["10.0.0.1", "10.0.0.2"], "alias.example.org": ["10.0.0.2", "10.0.0.1"]}


def addresses(clock: FakeClock | None = None, asked: list[str] | None = None) -> Addresses:
    def look_up(host: str, port: int) -> list[str]:
        if asked is not None:
            asked.append(host)
        if host not in NAMES:
            raise OSError("not known")
        return NAMES[host]

    return Addresses(clock or FakeClock(), look_up)


SPELLINGS = [
    *("https://api.example.com", "https://API.Example.COM/", "https://api.example.com.", "https://api.example.com:443"),
    *("https://user:secret@api.example.com/x?y#z", "https://alias.example.org/other"),
]


@pytest.mark.req("R-511")
async def test_a_server_is_counted_by_its_addresses_however_it_is_written() -> None:
    found = addresses()
    for spelling in SPELLINGS:
        assert await found.of(spelling) == {"10.0.0.1:443", "10.0.0.2:443"}, spelling
    assert await found.of("https://api.example.com:6443") == {"10.0.0.1:6443", "10.0.0.2:6443"}


@pytest.mark.req("R-511")
@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.1", "0x7f.1", "2130706433", "0177.0.0.1", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]"]
)
async def test_an_address_is_one_server_in_each_of_its_forms(host: str) -> None:
    assert await Addresses(FakeClock()).of(f"https://{host}:6443") == {"127.0.0.1:6443"}


@pytest.mark.parametrize(
    ("url", "counted"),
    [("https://Unknown.example.com./", "unknown.example.com:443"), ("https://xn--/", "a malformed URL")],
)
async def test_a_name_without_addresses_stands_for_itself(url: str, counted: str) -> None:
    assert await addresses().of(url) == {counted}


async def test_a_name_is_looked_up_once_a_minute() -> None:
    clock, asked = FakeClock(), list[str]()
    found = addresses(clock, asked)
    for _ in range(3):
        await found.of("https://api.example.com")
    assert asked == ["api.example.com"]
    await clock.advance(LIFE_SECONDS + 1)
    await found.of("https://api.example.com")
    assert len(asked) == 2
