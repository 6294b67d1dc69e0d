"""What templates may ask a cluster, whoever renders them: what it serves, and its objects."""

from __future__ import annotations

from stellwerk.kube.client import Client
from stellwerk.kube.errors import NotServed
from stellwerk.kube.model import JsonObject, JsonValue, decode_json, unstructured
from stellwerk.kube.names import GroupVersionKind
from stellwerk.render.request import Cluster, Missing, Query


async def facts_of(client: Client) -> Cluster:
    """What a cluster serves, as templates see it. Raises ApiError."""
    version = decode_json(await client.raw("GET", "/version"))
    served = await client.mapper.all()
    versions = dict.fromkeys(resource.api_version for resource in served)
    kinds = dict.fromkeys(f"{resource.api_version}/{resource.kind}" for resource in served)
    lists: dict[str, list[JsonObject]] = {}
    for resource in served:
        fact: JsonObject = {"Name": resource.plural, "Kind": resource.kind, "Namespaced": resource.namespaced}
        lists.setdefault(resource.api_version, []).append(fact)
    resources: tuple[JsonObject, ...] = tuple(
        {"GroupVersion": version_, "APIResources": [*lists[version_]]} for version_ in sorted(lists)
    )
    return Cluster(version, tuple(sorted({*versions, *kinds})), resources)


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
