"""A Component may not bring itself, nor one that brought it."""

from __future__ import annotations

import pytest
from tests.unit.component.given import component

from stellwerk.apply.errors import InvalidSet
from stellwerk.apply.set.model.inventory import ObjectIdentity
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.component.api import OWNER_ID, Component
from stellwerk.operators.component.component import set_checks

CLUSTER = "cluster-uid"


def below(name: str, parent: str, cluster: str = CLUSTER) -> Component:
    return component(name, annotations={OWNER_ID: f"{cluster}/shop/{parent}"} if parent else {})


def inner(*names: str, kind: str = "Component") -> list[ObjectIdentity]:
    return [ObjectIdentity("core.cs.sap.com", kind, ObjectKey("shop", name)) for name in names]


def check(one: Component, brings: list[ObjectIdentity], *others: Component) -> None:
    world = {other.key: other for other in (one, *others)}
    set_checks.check_cycle(one, brings, world.get, CLUSTER)


@pytest.mark.req("R-406")
def test_itself_and_all_above_are_refused_and_named() -> None:
    top, middle, leaf = below("top", ""), below("middle", "top"), below("leaf", "middle")

    with pytest.raises(InvalidSet, match="Component shop/leaf: is the Component itself"):
        check(leaf, inner("leaf"), top, middle)
    with pytest.raises(InvalidSet, match="Component shop/top: cannot be brought, because it is what brings"):
        check(leaf, inner("other", "top"), top, middle)
    with pytest.raises(InvalidSet, match="Component shop/middle"):
        check(leaf, inner("middle"))


def test_others_are_brought() -> None:
    top, leaf = below("top", ""), below("leaf", "top")

    check(leaf, inner("another"), top)
    check(top, inner("leaf"), leaf)
    check(leaf, inner("top", kind="Blueprint"), top)


def test_an_owner_in_another_cluster_is_another_one() -> None:
    check(below("leaf", "top", cluster="elsewhere"), inner("top"))


@pytest.mark.parametrize("note", ["", "x", "cluster-uid", "cluster-uid/shop"])
def test_an_owner_that_cannot_be_read_is_none(note: str) -> None:
    check(component("leaf", annotations={OWNER_ID: note}), inner("top"))


def test_a_circle_that_is_there_already_ends() -> None:
    one, other = below("one", "other"), below("other", "one")

    with pytest.raises(InvalidSet, match="shop/other"):
        check(one, inner("other"), other)
    check(one, inner("third"), other)
