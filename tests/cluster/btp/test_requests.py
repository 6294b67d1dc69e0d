"""How many requests the BTP Manager needs, by the API server's audit log: they are deterministic, so they are promised.

Leases are left out: they are renewed by the clock, not by work.
"""

from __future__ import annotations

from collections import Counter

import pytest

from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.testing.cluster import AuditEntry, AuditLog
from tests.cluster.btp.beginnings import provisioned
from tests.cluster.btp.given import Given
from tests.cluster.btp.running import Running
from tests.cluster.btp.then import Then
from tests.cluster.btp.world import ACCOUNT

TO_READY = 35
"""The original needs 69."""
TO_GONE = 35
"""The original needs 51."""
GROUPS_OF_USERS = ("services.cloud.sap.com", "apiextensions.k8s.io")
LOOKS_AT_KINDS_THAT_GO = 10
"""At the end, one for the definition of each of the two kinds. Each watch of theirs may ask a few times until the
deletion of the definition is seen; when the API server ends a watch is not up to us."""
LOOKS_AT_DISCOVERY = 10
"""Two after a 404 of such a watch, at most once a second."""
TO_EXPLAIN = 4
"""To say what a module waits for that does not come or go within five seconds, on a busy machine: three reads and the
status."""


def ours(audit: AuditLog) -> list[AuditEntry]:
    """The operator's requests, but for those that go with the clock: leases are renewed, watches come with its start.

    Each watch has a connection of its own, so the last ones are still being opened when all caches are full.
    """
    return audit.entries(lambda entry: entry.user == ACCOUNT and entry.resource != "leases" and entry.verb != "watch")


def table(entries: list[AuditEntry]) -> str:
    counted = Counter(f"{one.verb} {one.resource}{f'/{one.subresource}' if one.subresource else ''}" for one in entries)
    return "\n".join(
        [f"{count:3} {what}" for what, count in sorted(counted.items())]
        + [f"{e.verb} {e.path} {e.status}" for e in entries]
    )


def explanations(then: Then) -> int:
    """How often the CR said more, or something else, about a state that it showed already."""
    return len(then.history.of()) - len(then.history.states())


async def test_a_new_cr_becomes_ready_with_few_requests(
    running: Running, given: Given, then: Then, btp_cluster: LocalCluster
) -> None:
    await given.required_secret()
    await running.start()
    await running.is_quiet()
    audit = AuditLog(btp_cluster)

    await given.btp_operator()
    await then.shows("Ready", "ReconcileSucceeded")
    await running.is_idle()

    asked = ours(audit)
    assert len(asked) <= TO_READY + TO_EXPLAIN * explanations(then), f"{len(asked)} requests:\n{table(asked)}"


@pytest.mark.req("R-108")
async def test_a_pass_over_a_ready_module_sends_nothing(
    running: Running, given: Given, then: Then, btp_cluster: LocalCluster
) -> None:
    await provisioned(running, given, then)
    await running.is_idle()
    audit = AuditLog(btp_cluster)
    passes = running.passes

    running.wake()
    await running.has_passed(passes + 1)

    asked = ours(audit)
    assert asked == [], table(asked)


async def test_a_module_is_removed_with_few_requests(
    running: Running, given: Given, then: Then, btp_cluster: LocalCluster
) -> None:
    await provisioned(running, given, then)
    await running.is_idle()
    audit = AuditLog(btp_cluster)

    await given.client.delete(BtpOperator, "btpoperator", "kyma-system")
    await then.is_gone()

    asked = ours(audit)
    looks = [one for one in asked if one.status == 404 and one.group in GROUPS_OF_USERS]
    discovery = [one for one in asked if one.path.partition("?")[0] in ("/api", "/apis")]
    most = TO_GONE + TO_EXPLAIN * explanations(then)
    assert len(asked) - len(looks) - len(discovery) <= most, f"{len(asked)} requests:\n{table(asked)}"
    assert len(looks) <= LOOKS_AT_KINDS_THAT_GO, table(looks)
    assert len(discovery) <= LOOKS_AT_DISCOVERY, table(discovery)
