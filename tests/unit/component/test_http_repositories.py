"""Web servers are asked now and then, each address once, and wake those who have taken something else."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from ipaddress import ip_network
from itertools import pairwise

import msgspec
import pytest
from tests.unit.component.given import component

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonValue
from stellwerk.operators.component.api import Component
from stellwerk.operators.component.api_spec import HttpRepository
from stellwerk.operators.component.api_status import Artifact
from stellwerk.operators.component.references.references import LoginSecret
from stellwerk.operators.component.sources import http_repositories
from stellwerk.operators.component.sources.http_repositories import Poller
from stellwerk.operators.component.sources.web import WebServer
from stellwerk.render.errors import Unavailable
from stellwerk.render.sources.downloads import Downloads
from stellwerk.render.sources.egress import EgressRules
from stellwerk.runtime.cache.store import Store
from stellwerk.runtime.supervision.tasks import Border
from stellwerk.runtime.telemetry.metrics import Metrics
from stellwerk.testing.clock import FakeClock
from stellwerk.testing.eventually import Signal, eventually
from stellwerk.testing.servers.artifacts import ArtifactServer, HangingDownload, Refuse

RULES = EgressRules(http=True, private=True, networks=(ip_network("127.0.0.0/8"),))


def using(name: str, url: str, namespace: str = "shop", **fields: JsonValue) -> Component:
    return component(name, namespace, spec={"sourceRef": {"httpRepository": {"url": url}}, **fields})


def no_login(_: Component) -> None:
    """What a server is shown that lets everybody in."""


def taken(one: Component, digest: str) -> Component:
    repository = one.spec.source_ref.http_repository
    assert repository is not None
    status: dict[str, JsonValue] = {"lastAttemptedDigest": digest, "lastAttemptedRevision": digest}
    return component(one.key.name, spec={"sourceRef": {"httpRepository": {"url": repository.url}}}, status=status)


class CountedStore(Store[Component]):
    """Counts how often all Components are looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.walks = 0

    def all(self) -> tuple[Component, ...]:
        self.walks += 1
        return super().all()


@dataclass
class Round:
    """A poller whose rounds the test starts."""

    server: ArtifactServer
    clock: FakeClock
    components: CountedStore = field(default_factory=CountedStore)
    woken: list[str] = field(default_factory=list)
    rung: Signal = field(default_factory=Signal)
    login: Callable[[Component], LoginSecret | None] = no_login
    metrics: Metrics = field(default_factory=Metrics)
    answers_wait_for: asyncio.Event | None = None

    @property
    def surprises(self) -> float:
        """How many unexpected exceptions were counted."""
        kind = {"kind": "http repository"}
        return self.metrics.registry.get_sample_value("stellwerk_task_failures_total", kind) or 0.0

    def wake(self, key: ObjectKey) -> None:
        self.woken.append(key.name)
        self.rung.ring()

    async def woke(self, *names: str) -> None:
        await eventually(lambda: self.woken == [*names], on=self.rung)

    async def turn(self) -> None:
        await self.clock.until_sleeping()
        await self.clock.advance(32)


@pytest.fixture
async def round_() -> AsyncIterator[Round]:
    async with ArtifactServer() as server, Downloads() as downloads:
        found = Round(server, FakeClock())

        async def poll(one: Component, repository: HttpRepository) -> Artifact:
            login, tenant = found.login(one), one.metadata.namespace
            artifact = await WebServer(downloads, repository, login, RULES, tenant).head(is_poll=True)
            if found.answers_wait_for is not None:
                await found.answers_wait_for.wait()
            return artifact

        poller = Poller(
            components=found.components,
            poll=poll,
            wake=found.wake,
            interval_seconds=30,
            border=Border(found.metrics, found.clock),
        )
        running = asyncio.create_task(poller.run())
        yield found
        poller.stop()
        async with asyncio.timeout(20):
            with contextlib.suppress(asyncio.CancelledError):
                await running


async def test_a_new_content_wakes_those_who_have_taken_another_one(round_: Round) -> None:
    artifact = round_.server.publish("app.tar.gz", {"a": "1"})
    behind, current = using("behind", artifact.url), taken(using("current", artifact.url), artifact.etag)
    round_.components.replace([behind, current])

    await round_.turn()
    await round_.woke("behind")


async def test_an_address_is_asked_once_for_all_that_name_it(round_: Round) -> None:
    artifact = round_.server.publish("app.tar.gz", {"a": "1"})
    round_.components.replace([using(name, artifact.url) for name in "abc"])

    await round_.turn()
    await round_.woke("a", "b", "c")

    assert round_.server.count("app.tar.gz", "HEAD") == 1


@pytest.mark.req("R-412", "R-507")
async def test_an_answer_looks_at_those_that_name_its_address_and_at_no_others(round_: Round) -> None:
    artifacts = [round_.server.publish(f"{number}.tar.gz", {"a": "1"}) for number in range(20)]
    round_.components.replace([using(f"c{number}", one.url) for number, one in enumerate(artifacts)])
    await round_.clock.until_sleeping()
    round_.components.walks = 0

    await round_.turn()
    await eventually(lambda: len(round_.woken) == 20, on=round_.rung)

    assert sorted(round_.woken) == sorted(f"c{number}" for number in range(20))
    assert round_.components.walks == 1  # that of the round


async def test_a_slow_answer_wakes_those_that_name_the_address_by_then(round_: Round) -> None:
    artifact = round_.server.publish("app.tar.gz", {"a": "1"})
    round_.answers_wait_for = asyncio.Event()
    round_.components.replace([using("before", artifact.url), using("stays", artifact.url)])

    await round_.turn()
    await round_.server.asked("app.tar.gz", method="HEAD")
    round_.components.replace(
        [using("stays", artifact.url), using("new", artifact.url), using("rests", artifact.url, suspend=True)]
    )
    round_.answers_wait_for.set()

    await round_.woke("stays", "new")


@pytest.mark.req("R-602")
async def test_a_server_that_hangs_or_refuses_delays_nobody_else(round_: Round) -> None:
    good = round_.server.publish("good.tar.gz", {"a": "1"})
    hanging = round_.server.publish("hanging.tar.gz", {"a": "1"})
    refusing = round_.server.publish("refusing.tar.gz", {"a": "1"})
    round_.server.behave("hanging.tar.gz", HangingDownload())
    round_.server.behave("refusing.tar.gz", Refuse())
    round_.components.replace([using("h", hanging.url), using("r", refusing.url), using("g", good.url)])

    await round_.turn()
    await round_.woke("g")
    await round_.turn()
    await round_.woke("g", "g")

    assert round_.server.count("hanging.tar.gz", "HEAD") == 1


@pytest.mark.req("R-507", "R-511")
async def test_a_namespace_with_silent_servers_delays_no_other_that_names_its_address(round_: Round) -> None:
    hanging = [round_.server.publish(f"hang-{n}.tar.gz", {"a": "1"}, behaviour=HangingDownload()) for n in range(20)]
    shared = round_.server.publish("shared.tar.gz", {"a": "1"})
    silent = [using(f"silent-{number}", one.url, "crowded") for number, one in enumerate(hanging)]
    round_.components.replace([*silent, using("waits", shared.url, "crowded"), using("victim", shared.url, "calm")])

    await round_.turn()
    await round_.woke("victim")


async def test_an_address_of_several_namespaces_is_one_call(round_: Round) -> None:
    artifact = round_.server.publish("app.tar.gz", {"a": "1"})
    round_.components.replace([using(namespace, artifact.url, namespace) for namespace in "abc"])

    await round_.turn()
    await eventually(lambda: sorted(round_.woken) == ["a", "b", "c"], on=round_.rung)

    assert round_.server.count("app.tar.gz", "HEAD") == 1


@pytest.mark.req("R-507")
async def test_a_server_that_does_not_answer_is_asked_less_often_until_it_does(round_: Round) -> None:
    artifact = round_.server.publish("app.tar.gz", {"a": "1"})
    asked: list[float] = []

    def login(_: Component) -> None:
        asked.append(round_.clock.monotonic())
        if len(asked) < 6:
            raise Unavailable("no answer in time")

    round_.login = login
    round_.components.replace([using("a", artifact.url)])
    while len(asked) < 7:
        await round_.turn()
        await eventually(lambda: len(round_.woken) >= len(asked) - 5, on=round_.rung)

    pauses = [later - earlier for earlier, later in pairwise(asked)]
    assert pauses[0] < 60 < 150 < pauses[4]
    assert pauses[5] < 100  # a round may pass while the answer arrives
    assert round_.surprises == 0


def test_who_is_suspended_or_deleted_does_not_want_to_know() -> None:
    url = "https://example.com/a.tar.gz"
    spec: dict[str, JsonValue] = {"sourceRef": {"httpRepository": {"url": url}}}
    found = http_repositories.by_address(
        [using("s", url, suspend=True), component("d", spec=spec, deleting=True), component("flux"), using("a", url)]
    )

    assert {address: [one.key.name for one in users] for address, users in found.items()} == {
        ("shop", url, "etag", "etag", None): ["a"]
    }


@pytest.mark.req("R-603")
async def test_each_secret_is_shown_for_those_who_name_it_and_a_bad_one_stops_nobody_else(round_: Round) -> None:
    artifact = round_.server.publish("app.tar.gz", {"a": "1"})

    def login(one: Component) -> LoginSecret | None:
        key = "bearer-token" if one.key.name == "bad" else "bearerToken"
        return LoginSecret("secret shop/login", {key: one.key.name.encode()}) if one.key.name != "open" else None

    round_.login = login
    source: JsonValue = {"httpRepository": {"url": artifact.url, "secretRef": {"name": "shared"}}}
    other: JsonValue = {"httpRepository": {"url": artifact.url, "secretRef": {"name": "bad"}}}
    round_.components.replace(
        [
            component("bad", spec={"sourceRef": other}),
            component("one", spec={"sourceRef": source}),
            component("two", spec={"sourceRef": source}),
            using("open", artifact.url),
        ]
    )

    await round_.turn()
    await eventually(lambda: sorted(round_.woken) == ["one", "open", "two"], on=round_.rung)

    assert sorted(seen.headers.get("authorization", "") for seen in round_.server.seen) == ["", "Bearer one"]


@pytest.mark.req("R-512")
async def test_an_address_that_raises_anything_is_counted_and_stops_no_other(round_: Round) -> None:
    artifact = round_.server.publish("app.tar.gz", {"a": "1"})

    def login(one: Component) -> None:
        if one.key.name == "odd":
            raise RuntimeError("not foreseen")

    round_.login = login
    round_.components.replace([using("odd", "https://odd.example.com/"), using("a", artifact.url)])

    await round_.turn()
    await round_.woke("a")
    await round_.turn()
    await round_.woke("a", "a")

    assert round_.surprises == 2


@pytest.mark.req("R-413")
@pytest.mark.req("R-512")
@pytest.mark.parametrize("url", ["https://xn--/", "https://\udcff/", "https://a:99999/", "https://:443", "\x00"])
async def test_a_url_that_is_none_ends_no_round(round_: Round, url: str) -> None:
    artifact = round_.server.publish("app.tar.gz", {"a": "1"})
    bad = using("bad", "https://stand-in.example.com/")
    named = msgspec.structs.replace(bad.spec.source_ref, http_repository=HttpRepository(url=url))
    spec = msgspec.structs.replace(bad.spec, source_ref=named)
    round_.components.replace([msgspec.structs.replace(bad, spec=spec), using("a", artifact.url)])

    await round_.turn()
    await round_.woke("a")
    assert round_.surprises == 0
