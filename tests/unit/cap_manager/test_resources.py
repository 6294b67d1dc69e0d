"""The marks on objects of an installation, and the rights of the manager."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from stellwerk.api.rbac import PolicyRule
from stellwerk.apply.set.model.inventory import Inventory, InventoryEntry
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey
from stellwerk.kube.types.model import JsonObject, dig
from stellwerk.operators.cap.operator import OPERATOR as CAP
from stellwerk.operators.cap_manager import rights
from stellwerk.operators.cap_manager.api import DELETE_POLICY_ANNOTATION
from stellwerk.operators.cap_manager.capoperator import resources
from stellwerk.render.request.request import Rendered

CONFIG: JsonObject = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "annotations": {"k": "v"}}}


def rendered(**annotations: str) -> Rendered:
    body: JsonObject = {**CONFIG, "metadata": {"name": "a", "annotations": {"k": "v", **annotations}}}
    return Rendered("helm", (body,), ("templates/a.yaml",), None, frozenset(), "digest")


@pytest.mark.parametrize("present", [{}, {DELETE_POLICY_ANNOTATION: "orphan"}])
def test_objects_are_marked_to_stay_only_where_they_are_retained(present: dict[str, str]) -> None:
    (kept,) = resources.documents(rendered(**present), retains=True)
    assert dig(kept.body, "metadata", "annotations") == {"k": "v", DELETE_POLICY_ANNOTATION: "orphan"}
    (plain,) = resources.documents(rendered(**present), retains=False)
    assert dig(plain.body, "metadata", "annotations") == {"k": "v"}
    assert str(plain.origin) == "templates/a.yaml"


def test_retained_objects_stay_in_a_deletion() -> None:
    entry = InventoryEntry(gvk=GroupVersionKind("", "v1", "ConfigMap"), key=ObjectKey("cap", "a"))
    (kept,) = resources.retained(Inventory((entry, replace(entry, key=ObjectKey("cap", "b"))))).entries[:1]
    assert kept.delete.orphans_on_delete


def test_the_manager_has_every_right_that_it_grants() -> None:
    installed = [process.installation() for process in CAP.processes]
    granted = rights.granted_rules(installed)
    bodies = [body for each in installed for body in (*each.accounts(), *each.roles_of_users())]
    roles = [body for body in bodies if body["kind"] in ("ClusterRole", "Role")]
    wanted = [rule for body in roles for rule in _rules(body)]
    assert wanted
    assert set(wanted) == set(granted)


def test_the_manager_may_neither_escalate_nor_bind() -> None:
    verbs = {verb for grant in rights.GRANTS for verb in grant.rule.verbs}
    assert verbs.isdisjoint({"*", "escalate", "bind", "impersonate"})


def _rules(body: JsonObject) -> list[PolicyRule]:
    return msgspec.convert(body["rules"], list[PolicyRule])
