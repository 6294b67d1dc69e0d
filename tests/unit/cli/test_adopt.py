"""What `stellwerk adopt` shows and refuses."""

from __future__ import annotations

import pytest

from stellwerk.assembly import OPERATORS
from stellwerk.cli.act import adopt
from stellwerk.cli.act.adopt import Comparison
from stellwerk.cli.objects.check_rules import OperatorDeployment
from stellwerk.cli.releases.dry_run import DiffLine
from stellwerk.cli.shell.errors import Failure
from stellwerk.cli.shell.field_diff import Change
from stellwerk.cli.shell.text import Style
from stellwerk.kube.types.model import JsonObject, Unstructured

CHANGED = DiffLine("~", "ConfigMap a/one", changes=(Change("data.a", "1", "2"),))


def comp(name: str) -> Unstructured:
    head: JsonObject = {"apiVersion": "core.cs.sap.com/v1alpha1", "kind": "Component"}
    return Unstructured.of({**head, "metadata": {"name": name, "namespace": "a"}})


def test_each_object_is_shown_with_what_would_change() -> None:
    compared = [
        Comparison(comp("same"), unchanged=3),
        Comparison(comp("other"), (CHANGED,), 2),
        Comparison(comp("odd"), remark="there is no source"),
    ]
    assert adopt.shown(compared, Style()) == [
        "Component a/same: nothing differs, 3 unchanged",
        "Component a/other:",
        "  ~ ConfigMap a/one",
        "      data.a: 1 -> 2",
        "Component a/odd: not compared, there is no source",
    ]
    adopt.refuse_losses(compared)


@pytest.mark.parametrize(
    "line",
    [
        DiffLine("-", "ConfigMap a/one", "will be deleted: delete policy"),
        DiffLine("~", "Job a/one", "will be deleted and created again"),
        DiffLine("~", "Secret a/one", "will be created again: its key is old"),
    ],
)
def test_nothing_is_stopped_if_an_object_would_be_deleted_or_created_again(line: DiffLine) -> None:
    with pytest.raises(Failure) as refused:
        adopt.refuse_losses([Comparison(comp("fine"), (CHANGED,)), Comparison(comp("lost"), (CHANGED, line))])
    assert "stellwerk diff component/lost -n a" in refused.value.report.fix
    assert "Component a/fine" not in refused.value.report.cause


def test_the_next_steps_have_the_way_back() -> None:
    body: JsonObject = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "op", "namespace": "ns"}}
    original = OperatorDeployment(Unstructured.of({**body, "spec": {"replicas": 2}}), is_original=True)
    steps = adopt.next_steps(OPERATORS["component"], [original])
    assert steps[0].startswith("Next: stellwerk install component --image IMAGE")
    assert "docs/migration/component-operator.md" in steps[1]
    assert steps[2:] == ["Back: kubectl scale deployment op -n ns --replicas=2"]
