"""What templates may ask a cluster for, whoever renders them: its objects."""

from __future__ import annotations

from stellwerk.kube.client import Client
from stellwerk.kube.errors import NotServed
from stellwerk.kube.model import JsonValue, unstructured
from stellwerk.kube.names import GroupVersionKind
from stellwerk.render.request import Missing, Query


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
