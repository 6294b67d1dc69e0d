"""What a Component costs the API server. Requests are deterministic, so they are promised; Events are among them."""

from __future__ import annotations

import pytest

from stellwerk.local.cluster import LocalCluster
from stellwerk.testing.cluster import AuditEntry, AuditLog
from stellwerk.testing.eventually import eventually
from tests.cluster.component.given import Given, config_map
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then

OPERATOR = "component-operator"
TEN = {f"{number}.yaml": config_map(f"config-{number}") for number in range(10)}


class Costs:
    """The operator's requests about the test's namespace, from mark to mark."""

    def __init__(self, cluster: LocalCluster, namespace: str) -> None:
        self._audit = AuditLog(cluster)
        self._namespace = namespace

    def mark(self) -> None:
        """Begin to count."""
        self._audit.mark()

    def all(self) -> list[AuditEntry]:
        """What was asked since; watches are opened once for all Components and not counted."""
        return self._audit.entries(
            lambda entry: entry.user == OPERATOR and entry.verb != "watch" and entry.namespace in (self._namespace, "")
        )

    async def settled(self, running: Running) -> list[AuditEntry]:
        """What was asked until the operator, its Events included, had no more to say."""
        await running.has_sent_events()
        seen = -1

        def is_quiet() -> bool:
            nonlocal seen
            before, seen = seen, len(self.all())
            return before == seen

        await eventually(is_quiet, describe="no further request")
        return self.all()


@pytest.fixture
def costs(component_cluster: LocalCluster, home: str) -> Costs:
    return Costs(component_cluster, home)


def shown(entries: list[AuditEntry]) -> str:
    return "\n".join(f"{entry.verb} {entry.path}" for entry in entries)


async def warm(given: Given, running: Running, then: Then) -> None:
    """An operator that has seen a Component with ConfigMaps before: its watches are open."""
    await given.source({"first.yaml": config_map("first")}, "first")
    await running.start()
    await given.component("first", "first")
    await then.ready("first")


async def deployed(given: Given, running: Running, then: Then, costs: Costs) -> None:
    """A Component with ten objects is Ready, and what comes from now on is counted."""
    await warm(given, running, then)
    await given.source(TEN)
    await given.component()
    await then.ready()
    await costs.settled(running)
    costs.mark()


@pytest.mark.req("R-A1")
async def test_a_new_component_with_ten_objects_costs_two_statuses_and_at_most_sixteen_requests(
    given: Given, running: Running, then: Then, costs: Costs
) -> None:
    await warm(given, running, then)
    await given.source(TEN)
    await costs.settled(running)
    costs.mark()
    await given.component()
    await then.ready()
    asked = await costs.settled(running)
    assert len(asked) <= 16, shown(asked)
    statuses = [entry for entry in asked if entry.is_write and (entry.name, entry.subresource) == ("comp", "status")]
    assert len(statuses) == 2, shown(asked)


async def test_a_new_revision_with_the_same_content_costs_at_most_three_requests(
    given: Given, running: Running, then: Then, costs: Costs
) -> None:
    await deployed(given, running, then, costs)
    await given.source(TEN, revision="r2")
    await then.ready(revision="r2")
    asked = await costs.settled(running)
    assert len(asked) <= 3, shown(asked)


@pytest.mark.req("R-108")
async def test_a_ready_component_that_is_looked_at_again_costs_nothing(
    given: Given, running: Running, then: Then, costs: Costs
) -> None:
    await deployed(given, running, then, costs)
    running.operator.controller.queue.add(then.key())
    asked = await costs.settled(running)
    assert asked == [], shown(asked)


async def test_the_end_of_a_component_with_ten_objects_costs_at_most_fifteen_requests(
    given: Given, running: Running, then: Then, costs: Costs
) -> None:
    await deployed(given, running, then, costs)
    await given.deleted()
    await then.gone()
    asked = await costs.settled(running)
    assert len(asked) <= 15, shown(asked)
