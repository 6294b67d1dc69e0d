"""A remark of an API server is told when it comes up, and not again as long as it stays."""

from __future__ import annotations

from stellwerk.apply.objects.desired import Address, Desired, Origin
from stellwerk.apply.set.executor import ActionResult
from stellwerk.apply.set.model.policy import UpdatePolicy
from stellwerk.apply.set.plan.actions import Create, Remove
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.operators.component.observers.observers import MOST_OBJECTS, Remarks

SHOP = ObjectKey("home", "shop")
CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True)


def address(name: str = "one") -> Address:
    return Address(CONFIG_MAPS, ObjectKey("home", name))


def written(*remarks: str, name: str = "one") -> ActionResult:
    desired = Desired(address(name), {"kind": "ConfigMap"}, Origin())
    return ActionResult(Create(desired, UpdatePolicy.SSA_OVERRIDE), None, remarks=remarks)


def test_a_remark_is_told_once_as_long_as_each_write_brings_it() -> None:
    remarks = Remarks()

    assert remarks.news([written("old"), written("old", name="two")]) == [
        "ConfigMap home/one: old",
        "ConfigMap home/two: old",
    ]
    assert remarks.news([written("old")]) == []
    assert remarks.news([]) == []
    assert remarks.news([written("old", "odd")]) == ["ConfigMap home/one: odd"]


def test_a_remark_that_comes_back_is_told_again() -> None:
    remarks = Remarks()
    remarks.news([written("old")])

    assert remarks.news([written()]) == []
    assert remarks.news([written("old")]) == ["ConfigMap home/one: old"]


def test_an_object_that_is_made_anew_is_no_news() -> None:
    remarks = Remarks()
    remarks.news([written("old")])

    assert remarks.news([ActionResult(Remove(address(), "u", "1", "to create it again"), None)]) == []
    assert remarks.news([written("old")]) == []


def test_only_so_much_is_remembered() -> None:
    remarks = Remarks()
    remarks.news([written("old", name=f"n{number}") for number in range(MOST_OBJECTS + 1)])

    assert remarks.news([written("old", name="n0")]) == ["ConfigMap home/n0: old"]
    assert remarks.news([written("old", name=f"n{MOST_OBJECTS}")]) == []
