"""When a dependency counts as ready, in its dependant's own words: `readyExpr`.

The expression takes the place of our own conditions, as with Flux: who writes one may want less than Ready (some
condition of the status) or more (a revision at least). Only that the dependency exists, and that there is no cycle, is
asked all the same.

It sees both Components as they are. Of one in another namespace it sees names, labels and status only: a user who may
create Components here need not be allowed to read what another team has put into its spec, and an expression can spell
out all that it sees.

An expression that can never be evaluated is a mistake of the spec. One that has no answer now is not: most often a key
is missing that the status will have later.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, to_json_object
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.component.api import Component
from stellwerk.operators.component.errors import DependencyNotReady, InvalidReadyExpression
from stellwerk.render.errors import ExpressionFailed, InvalidExpression
from stellwerk.render.request.request import Claim
from stellwerk.runtime.telemetry import traces

Holds: TypeAlias = Callable[[Claim], Awaitable[bool]]
"""Answers a claim; `render.worker.renderer.Renderer.holds` does. Raises a `RenderError`."""


@dataclass(frozen=True, slots=True)
class ReadyRequirement:
    """What has to be true before a Component is applied."""

    field: str
    """Of the spec."""
    dependency: ObjectKey
    claim: Claim


def asked(component: Component, number: int, dependency: Component) -> ReadyRequirement:
    """The expression of the dependency with this number (pure)."""
    objects = {"self": to_json_object(component), "dep": _shown(dependency, component.metadata.namespace)}
    claim = Claim(
        text=component.spec.dependencies[number].ready_expr, objects=objects, tenant=component.metadata.namespace
    )
    return ReadyRequirement(f"dependencies[{number}].readyExpr", dependency.key, claim)


def _shown(dependency: Component, namespace: str) -> JsonObject:
    body = to_json_object(dependency)
    if dependency.metadata.namespace == namespace:
        return body
    metadata = dependency.metadata
    shown = ObjectMeta(
        name=metadata.name, namespace=metadata.namespace, labels=metadata.labels, generation=metadata.generation
    )
    return {"metadata": msgspec.to_builtins(shown), "status": body.get("status", {})}


async def check(questions: Iterable[ReadyRequirement], holds: Holds) -> None:
    """Raises InvalidReadyExpression, DependencyNotReady for the first that does not hold, or a RenderError."""
    for requirement in questions:
        try:
            with traces.within("judge"):
                is_ready = await holds(requirement.claim)
            if not is_ready:
                raise DependencyNotReady(requirement.dependency, f"not ready: spec.{requirement.field} is false")
        except InvalidExpression as error:
            raise InvalidReadyExpression(requirement.field, str(error)) from error
        except ExpressionFailed as error:
            why = f"not ready: spec.{requirement.field} has no answer yet: {error.why}"
            raise DependencyNotReady(requirement.dependency, why) from error
