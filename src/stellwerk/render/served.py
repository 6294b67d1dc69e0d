"""What a cluster serves, as templates see it: `.Capabilities` of a chart, and what other templates may ask."""

from __future__ import annotations

from stellwerk.kube.client import Client
from stellwerk.kube.model import JsonObject
from stellwerk.render.request import Cluster


async def facts_of(client: Client) -> Cluster:
    """What a cluster serves, as templates see it. Raises ApiError."""
    version = await client.document("/version")
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
