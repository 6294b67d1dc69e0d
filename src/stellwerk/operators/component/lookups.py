"""Answers what templates ask the cluster, with the rights of whom is rendered for."""

from __future__ import annotations

from dataclasses import dataclass

from stellwerk.kube.client import Client
from stellwerk.kube.errors import NotServed
from stellwerk.kube.model import JsonValue, unstructured
from stellwerk.kube.names import GroupVersionKind
from stellwerk.operators.component.api import Component
from stellwerk.operators.component.targets import Target, Targets
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


async def answer(client: Client, query: Query) -> JsonValue | Missing:
    """What one cluster says. Raises ApiError."""
    try:
        resource = await client.mapper.resource(GroupVersionKind.parse(query.api_version, query.kind))
        if query.many:
            listed = await client.list(unstructured(resource), query.namespace, labels=query.label_selector)
            return [obj.body for obj in listed.items]
        found = await client.find(unstructured(resource), query.name, query.namespace)
    except NotServed:
        return Missing.KIND
    return found.body if found is not None else Missing.OBJECT
