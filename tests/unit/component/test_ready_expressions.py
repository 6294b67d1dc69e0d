"""A dependency is ready when the dependant's expression says so, and a mistake in it is told with its place."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from tests.unit.component.given import component

from stellwerk.kube.types.model import JsonObject, dig
from stellwerk.operators.component.api import Component
from stellwerk.operators.component.dependencies import ready_expressions
from stellwerk.operators.component.dependencies.ready_expressions import ReadyRequirement
from stellwerk.operators.component.errors import DependencyNotReady, InvalidReadyExpression
from stellwerk.render.errors import ExpressionFailed, InvalidExpression, RendererGone
from stellwerk.render.request.request import Claim

DEPENDANT = component("app", spec={"dependencies": [{"name": "other"}, {"name": "base", "readyExpr": "dep.x == 1"}]})


def base(namespace: str = "shop") -> Component:
    return component(
        "base",
        namespace,
        spec={"values": {"password": "hunter2"}},
        status={"state": "Ready", "revision": 3},
        labels={"tier": "one"},
        annotations={"note": "for ourselves"},
    )


def asked(namespace: str = "shop") -> ReadyRequirement:
    return ready_expressions.asked(DEPENDANT, 1, base(namespace))


def saying(answer: bool | Exception) -> Callable[[Claim], Awaitable[bool]]:
    async def holds(_: Claim) -> bool:
        if isinstance(answer, Exception):
            raise answer
        return answer

    return holds


def seen_of(namespace: str) -> JsonObject:
    found = asked(namespace).claim.objects["dep"]
    assert isinstance(found, dict)
    return found


def test_an_expression_sees_both_components() -> None:
    claim = asked().claim

    assert (claim.text, claim.tenant) == ("dep.x == 1", "shop")
    assert dig(claim.objects["self"], "metadata", "name") == "app"
    assert dig(seen_of("shop"), "spec", "values") == {"password": "hunter2"}
    assert dig(seen_of("shop"), "status", "revision") == 3


def test_of_a_component_in_another_namespace_it_sees_neither_spec_nor_annotations() -> None:
    found = seen_of("bank")

    assert found["metadata"] == {"name": "base", "namespace": "bank", "generation": 1, "labels": {"tier": "one"}}
    assert dig(found, "status", "revision") == 3
    assert "hunter2" not in str(found)


async def test_an_expression_that_does_not_hold_is_waited_for() -> None:
    await ready_expressions.check([asked()], saying(True))
    with pytest.raises(DependencyNotReady, match=r"shop/base not ready: spec\.dependencies\[1\]\.readyExpr is false"):
        await ready_expressions.check([asked()], saying(False))


async def test_an_expression_without_an_answer_is_waited_for_and_says_why() -> None:
    with pytest.raises(DependencyNotReady, match="has no answer yet: no such key: x"):
        await ready_expressions.check([asked()], saying(ExpressionFailed("no such key: x")))


async def test_an_expression_that_nobody_could_answer_is_a_mistake_of_the_spec() -> None:
    mistake = InvalidExpression("undeclared reference to 'deb'", line=2, column=7)

    with pytest.raises(InvalidReadyExpression, match="line 2, column 7: undeclared reference to 'deb'; correct it"):
        await ready_expressions.check([asked()], saying(mistake))


async def test_a_renderer_that_dies_is_no_mistake_of_the_spec() -> None:
    with pytest.raises(RendererGone):
        await ready_expressions.check([asked()], saying(RendererGone("it died")))
