"""An API service that does not answer delays a deletion only for as long as it may come back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from time import process_time
from typing import cast

import pytest
from tests.unit.apply.set.given import US

from stellwerk.api.apiregistration import APIService, APIServiceStatus
from stellwerk.apply.set.checks.crd_usage import CrdUsage, will_not_answer
from stellwerk.apply.set.model.inventory import Inventory
from stellwerk.apply.set.model.policy import TypePattern, TypePatterns
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import Forbidden, Status, Undiscovered
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import HasMetadata, Listing, PartialObjectMetadata, View
from stellwerk.kube.types.object_meta import Condition

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def _service(status: str, reason: str, minutes: float | None) -> APIService:
    since = None if minutes is None else NOW - timedelta(minutes=minutes)
    condition = Condition(type="Available", status=status, reason=reason, last_transition_time=since)
    return APIService(status=APIServiceStatus(conditions=(condition,)))


@pytest.mark.req("R-112")
@pytest.mark.parametrize("reason", ["ServiceNotFound", "MissingEndpoints", "EndpointsNotFound", "ServicePortError"])
def test_an_api_service_without_a_server_is_in_use_by_no_client(reason: str) -> None:
    assert will_not_answer(_service("False", reason, minutes=0), NOW)


@pytest.mark.req("R-112")
@pytest.mark.parametrize(("minutes", "answer"), [(0, False), (9.9, False), (10, True), (600, True), (None, False)])
def test_a_server_that_fails_may_come_back_for_ten_minutes(minutes: float | None, answer: bool) -> None:
    assert will_not_answer(_service("False", "FailedDiscoveryCheck", minutes), NOW) is answer


@pytest.mark.parametrize("status", ["True", "Unknown"])
def test_an_available_api_service_may_be_in_use(status: str) -> None:
    assert not will_not_answer(_service(status, "MissingEndpoints", minutes=600), NOW)


def test_an_api_service_that_was_never_looked_at_may_be_in_use() -> None:
    assert not will_not_answer(APIService(), NOW)


@dataclass
class Server:
    """A client and its mapper: what is served, of which kinds others have instances, and what it was asked."""

    served: list[Resource]
    used: tuple[str, ...] = ()
    silent: list[tuple[str, str]] = field(default_factory=list)
    refused: tuple[str, ...] = ()
    asked: list[str] = field(default_factory=list)

    @property
    def mapper(self) -> Server:
        return self

    async def all(self) -> list[Resource]:
        return self.served

    def undiscovered(self) -> list[tuple[str, str]]:
        return self.silent

    async def pages(self, view: View[HasMetadata], **_: object) -> AsyncIterator[Listing[PartialObjectMetadata]]:
        self.asked.append(view.resource.kind)
        if view.resource.kind in self.refused:
            raise Forbidden(Status(code=403))
        yield Listing([PartialObjectMetadata()] if view.resource.kind in self.used else [], "1")


def kind(name: str, group: str = "a.example.com") -> Resource:
    return Resource(group, "v1", name, f"{name.lower()}s", namespaced=True)


async def obstacle(server: Server, *patterns: TypePattern) -> str:
    return await CrdUsage(cast(Client, server), US, NOW).obstacle(Inventory(), TypePatterns(patterns))


@pytest.mark.req("R-112")
async def test_a_type_that_others_use_is_named_as_the_first_pattern_that_means_it_is_written() -> None:
    server = Server([kind("One"), kind("Two"), kind("Three", "b.org")], used=("Two", "Three"))
    patterns = (TypePattern("*.org", "One"), TypePattern("*.example.com", "*"), TypePattern("b.org", "*"))
    assert await obstacle(server, *patterns) == "type *.*.example.com is still in use (instances exist)"
    assert sorted(server.asked) == ["One", "Two"]
    assert await obstacle(Server(server.served), *patterns) == ""


@pytest.mark.req("R-112")
async def test_a_kind_that_cannot_be_listed_hides_no_use_of_an_earlier_pattern() -> None:
    kinds = [kind("Two"), kind("One")]
    patterns = (TypePattern("a.example.com", "One"), TypePattern("a.example.com", "Two"))
    used = await obstacle(Server(kinds, used=("One",), refused=("Two",)), *patterns)
    assert used == "type One.a.example.com is still in use (instances exist)"
    with pytest.raises(Forbidden):
        await obstacle(Server(kinds, refused=("Two",)), *patterns)


async def test_kinds_of_a_silent_api_service_that_a_pattern_may_mean_are_not_taken_for_unused() -> None:
    pattern = TypePattern("metrics.org", "Pods")
    with pytest.raises(Undiscovered, match=r"type Pods\.metrics\.org is still in use"):
        await obstacle(Server([], silent=[("metrics.org", "v1")]), pattern)
    assert await obstacle(Server([], silent=[("other.org", "v1")]), pattern) == ""


@pytest.mark.req("R-412")
async def test_tens_of_thousands_of_patterns_cost_one_request_for_each_kind_that_is_served() -> None:
    server = Server([kind(f"Kind{number}") for number in range(300)])
    patterns = [TypePattern("*", f"Other{number}") for number in range(49_999)]
    began = process_time()
    assert await obstacle(server, *patterns, TypePattern("*", "*")) == ""
    assert process_time() - began < 1.0
    assert len(server.asked) == 300
