"""What is in a cluster that cannot be reached is given up only for the very Component that says so."""

from __future__ import annotations

import pytest
from tests.unit.component.given import component

from stellwerk.kube.types.model import JsonValue
from stellwerk.operators.component.api import ABANDON_ANNOTATION, Component
from stellwerk.operators.component.targets import abandon_remote
from stellwerk.runtime.reconciler import Severity

THERE: dict[str, JsonValue] = {"kubeConfig": {"secretRef": {"name": "there"}}}


def item(name: str, namespace: str = "shop") -> dict[str, JsonValue]:
    policies = dict.fromkeys(("adoptionPolicy", "reconcilePolicy", "updatePolicy", "deletePolicy", "digest"), "x")
    place = {"group": "", "version": "v1", "kind": "ConfigMap", "namespace": namespace, "name": name}
    return {**place, **policies, "applyOrder": 0, "deleteOrder": 0}


def leaving(asked: str, *names: str, spec: dict[str, JsonValue] | None = None) -> Component:
    inventory: list[JsonValue] = [item(name) for name in names]
    annotations: dict[str, JsonValue] = {ABANDON_ANNOTATION: asked} if asked else {}
    return component(
        spec=THERE if spec is None else spec,
        status={"inventory": inventory},
        deleting=True,
        annotations=annotations,
    )


@pytest.mark.req("R-505")
def test_only_the_uid_of_the_component_itself_gives_up_its_objects() -> None:
    assert abandon_remote.is_asked_for(leaving("uid-web"))
    for asked in ("", "true", "uid-other", "UID-WEB"):
        assert not abandon_remote.is_asked_for(leaving(asked))


@pytest.mark.req("R-505")
def test_objects_in_the_operators_own_cluster_are_never_given_up() -> None:
    assert not abandon_remote.is_asked_for(leaving("uid-web", spec={}))


@pytest.mark.req("R-112")
def test_the_advice_can_be_followed_to_the_letter() -> None:
    advice = abandon_remote.advice(leaving("", "one", "two"))

    assert f"{ABANDON_ANNOTATION}=uid-web" in advice
    assert "its 2 objects there stay" in advice


def test_the_event_names_what_is_left_behind_and_fits_into_one() -> None:
    few = abandon_remote.notice(leaving("uid-web", "one", "two"), "secret shop/there: not found")
    assert few.message.endswith("ConfigMap shop/one; ConfigMap shop/two (secret shop/there: not found)")
    assert few.severity is Severity.WARNING

    many = leaving("uid-web", *(f"{number}-{'x' * 240}" for number in range(50)))
    assert len(abandon_remote.notice(many, "why").message) <= 1_024
    assert "and 45 more" in abandon_remote.notice(many, "why").message
    assert len(abandon_remote.left_behind(many)) == 50


def test_objects_without_a_namespace_are_named_without_one() -> None:
    status: dict[str, JsonValue] = {"inventory": [item("wide", namespace="")]}
    assert abandon_remote.left_behind(component(spec=THERE, status=status)) == ["ConfigMap wide"]
