"""The rights that requests took, by the API server's audit log, and those that rules grant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stellwerk.api.rbac import PolicyRule
from stellwerk.delivery import grants
from stellwerk.delivery.grants import Grant, Right
from stellwerk.testing.cluster import AuditEntry


def used(entries: Iterable[AuditEntry]) -> set[Right]:
    """The rights that these requests took."""
    return {right for entry in entries for right in _of(entry)}


def _of(entry: AuditEntry) -> set[Right]:
    """An apply that made its object took the right to create, too. Who acts as another takes the rights of that one."""
    if entry.acting_as:
        return {("", "serviceaccounts", "impersonate")}
    resource = f"{entry.resource}/{entry.subresource}" if entry.subresource else entry.resource
    verbs = {entry.verb, "create"} if entry.verb == "patch" and entry.status == 201 else {entry.verb}
    return {(entry.group, resource, verb) for verb in verbs}


def spelled_out(rules: Iterable[PolicyRule]) -> set[Right]:
    """Each right that the rules grant."""
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule.api_groups
        for resource in rule.resources
        for verb in rule.verbs
    }


def unused(granted: Sequence[Grant], entries: Iterable[AuditEntry]) -> list[Right]:
    """The granted rights that these requests did not take, without those with a rare occasion."""
    return sorted(spelled_out(each.rule for each in granted) - used(entries) - set(grants.occasions(granted)))
