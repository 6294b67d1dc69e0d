"""The kinds that documents name, as the API server serves them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from stellwerk.apply.objects.desired import Document, defined_by, kinds_of
from stellwerk.kube.client.discovery import ResourceMapper
from stellwerk.kube.types.errors import NotServed, Undiscovered
from stellwerk.kube.types.identifiers import GroupVersionKind, Resource


async def served(
    documents: Iterable[Document], mapper: ResourceMapper, promised: Collection[tuple[str, str]] = ()
) -> dict[GroupVersionKind, Resource]:
    """What `desired_set` needs to know: the resources of the documents' kinds.

    A kind that the server does not serve is left out, for `desired_set` to name with its place; so is one of a group
    and version that is `promised` and does not answer yet. Raises `ApiError` where the server cannot be asked.
    """
    documents = tuple(documents)
    resources = defined_by(documents)
    for gvk in kinds_of(documents):
        if gvk in resources:
            continue
        try:
            resources[gvk] = await mapper.resource(gvk)
        except NotServed:
            continue
        except Undiscovered:
            if (gvk.group, gvk.version) not in promised:
                raise
    return resources
