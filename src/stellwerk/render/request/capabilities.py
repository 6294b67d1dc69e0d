"""What a cluster serves, as templates see it: `.Capabilities` of a chart, and what other templates may ask."""

from __future__ import annotations

from stellwerk.kube.client.client import Client
from stellwerk.kube.client.discovery import Details
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject
from stellwerk.render.request.request import ClusterApis


async def facts_of(client: Client) -> ClusterApis:
    """What a cluster serves, as templates see it. Raises ApiError."""
    version = await client.document("/version")
    served = await client.mapper.described()
    versions = dict.fromkeys(resource.api_version for resource in served)
    kinds = dict.fromkeys(f"{resource.api_version}/{resource.kind}" for resource in served)
    lists: dict[str, list[JsonObject]] = {}
    for resource, details in served.items():
        lists.setdefault(resource.api_version, []).append(_fact(resource, details))
    resources: tuple[JsonObject, ...] = tuple(
        {"GroupVersion": version_, "APIResources": [*lists[version_]]} for version_ in sorted(lists)
    )
    unknown = tuple(f"{group}/{name}" for group, name in client.mapper.undiscovered())
    return ClusterApis(version, tuple(sorted({*versions, *kinds})), resources, unknown)


def _fact(resource: Resource, details: Details) -> JsonObject:
    """One resource under the names that Go gives its fields."""
    return {
        "Name": resource.plural,
        "SingularName": details.singular,
        "Namespaced": resource.namespaced,
        "Kind": resource.kind,
        "Verbs": [*details.verbs],
        "ShortNames": [*details.short_names],
        "Categories": [*details.categories],
    }
