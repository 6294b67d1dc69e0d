"""Answers what templates ask the cluster, with the rights of whom is rendered for."""

from __future__ import annotations

from dataclasses import dataclass

from stellwerk.kube.model import JsonValue
from stellwerk.operators.component.api import Component
from stellwerk.operators.component.targets import Target, Targets
from stellwerk.operators.questions import answer
from stellwerk.render.request import Missing, Query


@dataclass(frozen=True, slots=True)
class Lookups:
    """The questions of one Component's templates."""

    component: Component
    target: Target
    targets: Targets

    async def __call__(self, query: Query) -> JsonValue | Missing:
        """The object, the list of objects, or why there is none. Raises ApiError."""
        match query.where:
            case "target":
                return await answer(self.target.client, query)
            case "local":
                return await answer(self.targets.local(self.component).client, query)
            case "kubeconfig":
                async with self.targets.passing(query.kubeconfig) as client:
                    return await answer(client, query)
