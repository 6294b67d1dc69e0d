"""What an operator has written, as the audit log of the API server records it."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

from stellwerk.testing.cluster import AuditLog


@dataclass(frozen=True, slots=True)
class Writes:
    """The operator's writes to a namespace's objects, in the order of their answers."""

    audit: AuditLog
    user: str
    namespace: str

    def to(self, *resources: str, namespace: str | None = None) -> list[str]:
        """Those to these resources (`configmaps`), each as `apply configmaps/one` or `delete configmaps/one`."""
        place = self.namespace if namespace is None else namespace
        return [
            f"{_VERBS.get(entry.verb, entry.verb)} {entry.resource}/{entry.name}"
            for entry in self.audit.entries(lambda entry: entry.is_write)
            if entry.user == self.user
            and entry.namespace == place
            and not entry.subresource
            and entry.resource in resources
            and entry.status < HTTPStatus.BAD_REQUEST
        ]

    def history(self) -> str:
        """Every write of every client to the namespace, a line each, for the message of a test that fails."""
        entries = self.audit.entries(lambda entry: entry.is_write and entry.namespace == self.namespace)
        return "\n".join(
            f"{entry.user}: {entry.verb} {entry.resource}/{entry.name} {entry.subresource} -> {entry.status}"
            for entry in entries
        )


_VERBS = {"patch": "apply"}
