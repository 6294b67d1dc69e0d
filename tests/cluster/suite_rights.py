"""Every right of every process against the audit logs of a whole run of the tests: used, or why not.

The tests of rights let one process live a life, and forgive what has a rare occasion. Over all tests together most of
these occasions come, so that a right is named here which nothing has ever needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from stellwerk.api.coordination import Lease
from stellwerk.assembly import OPERATORS
from stellwerk.delivery import grants
from stellwerk.delivery.grants import Right
from stellwerk.delivery.operator_spec import ProcessSpec
from stellwerk.testing.cluster import AuditEntry, entries_in
from tests.cluster import rights as audited
from tests.cluster.btp.operand_rights import the_operands

_USERS = {
    "cap": ("cap-controller", "cap-operator"),
    "cap-server": ("cap-subscription-server",),
    "cap-webhooks": ("cap-webhooks",),
    "cap-manager": ("cap-operator-manager",),
}
"""Who the processes are in tests that run them without their ServiceAccount, with the same rights and no more."""
_FORBIDDEN = 403


@dataclass(frozen=True, slots=True)
class RightsOfProcess:
    """What became of the rights of one process."""

    process: str
    granted: frozenset[Right]
    used: frozenset[Right]
    rare: Mapping[Right, str]
    """Rights with a rare occasion, used or not."""
    of_others: frozenset[Right]
    """What the process holds because it grants it."""

    @property
    def unexplained(self) -> list[Right]:
        """What nothing has needed, and nothing says when it is needed."""
        return sorted(self.granted - self.used - self.of_others - self.rare.keys())

    @property
    def waiting(self) -> list[Right]:
        """What has a rare occasion that did not come."""
        return sorted((self.granted & self.rare.keys()) - self.used - self.of_others)

    def lines(self, *, verbose: bool) -> Iterator[str]:
        """For the end of a run."""
        others = (self.granted & self.of_others) - self.used
        yield (
            f"{self.process}: {len(self.granted)} rights, {len(self.granted & self.used)} used, "
            f"{len(others)} of the operand, {len(self.waiting)} with a rare occasion that did not come"
        )
        if verbose:
            yield from (f"  {text_of(right)}: {self.rare[right]}" for right in self.waiting)
        yield from (f"  granted and never used: {text_of(right)}" for right in self.unexplained)


def of_run(logs: Iterable[Path]) -> list[RightsOfProcess]:
    """Each process of each operator, with what all these logs show of it."""
    requests = [entry for log in logs for entry in _requests(log)]
    # The election is the engine's, and its tests have users of their own.
    leases = {right for right in audited.used(requests) if right[:2] == (Lease.resource.group, Lease.resource.plural)}
    return [_of_process(process, requests, leases) for operator in OPERATORS.values() for process in operator.processes]


def _requests(log: Path) -> Iterable[AuditEntry]:
    with log.open("rb") as lines:
        yield from (entry for entry in entries_in(lines) if entry.status != _FORBIDDEN)


def _of_process(process: ProcessSpec, requests: Iterable[AuditEntry], leases: set[Right]) -> RightsOfProcess:
    installation = process.installation()
    granted = installation.every_grant
    account = f"system:serviceaccount:{installation.namespace}:{installation.account}"
    users = {account, *_USERS.get(process.name, ())}
    used = audited.used(entry for entry in requests if entry.user in users) | leases
    return RightsOfProcess(
        process.name,
        frozenset(audited.spelled_out(one.rule for one in granted)),
        frozenset(used),
        grants.occasions(granted),
        frozenset(the_operands() if process.name == "btp" else ()),
    )


def text_of(right: Right) -> str:
    """Verb and resource, as a role has them."""
    group, resource, verb = right
    return f"{verb} {resource}.{group}" if group else f"{verb} {resource}"
