"""The existing objects, of any owner, that are new to a set.

A watch on the owner's label shows every object that belongs to another set. Then only those have to
be asked for that must not be taken over even without an owner; all others are met, if they exist, when they are
created. Without such a watch all are asked for: one list for each place with more than a few of them, else one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import TypeAlias

from stellwerk.apply.objects.desired import Address
from stellwerk.apply.set.model.confirmation import Live
from stellwerk.apply.set.model.desired_set import DesiredObject
from stellwerk.apply.set.model.inventory import ObjectIdentity
from stellwerk.apply.set.model.policy import AdoptionPolicy
from stellwerk.apply.set.plan.plan_input import LiveObject
from stellwerk.kube.client.client import Client
from stellwerk.kube.concurrency import together
from stellwerk.kube.types.errors import Forbidden, MethodNotAllowed, NotServed
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import PartialObjectMetadata, View, metadata_of

_LIST_FROM = 3
_LIST_LIMIT = 500

Owned: TypeAlias = Callable[[Address], Live | None]
"""An object that carries some owner's label, as a cache shows it."""


async def existing(
    client: Client,
    newcomers: Sequence[DesiredObject],
    namespace_exists: Callable[[str], bool | None],
    owned: Owned | None = None,
) -> dict[ObjectIdentity, LiveObject]:
    """The live objects of newcomers, as far as they matter before the first write.

    Raises ApiError where the cluster cannot be asked.
    """
    known = {
        newcomer.identity: LiveObject(newcomer.address, live)
        for newcomer in newcomers
        if owned and (live := owned(newcomer.address))
    }
    unknown = [
        newcomer
        for newcomer in newcomers
        if newcomer.identity not in known and (owned is None or newcomer.directive.adoption is AdoptionPolicy.NEVER)
    ]
    return known | await _asked(client, unknown, namespace_exists)


async def _asked(
    client: Client, newcomers: Sequence[DesiredObject], namespace_exists: Callable[[str], bool | None]
) -> dict[ObjectIdentity, LiveObject]:
    places: dict[tuple[Resource, str], list[DesiredObject]] = {}
    for newcomer in newcomers:
        namespace = newcomer.address.key.namespace
        if newcomer.is_served and not (namespace and namespace_exists(namespace) is False):
            places.setdefault((newcomer.address.resource, namespace), []).append(newcomer)
    found = await together([*places.values()], lambda objects: _in_place(client, objects))
    return {identity: seen for part in found for identity, seen in part.items()}


async def _in_place(client: Client, objects: Sequence[DesiredObject]) -> dict[ObjectIdentity, LiveObject]:
    """Those that exist of objects of one resource and namespace."""
    view, namespace = metadata_of(objects[0].address.resource), objects[0].address.key.namespace

    async def find(obj: DesiredObject) -> PartialObjectMetadata | None:
        return await client.find(view, obj.address.key.name, namespace)

    try:
        listed = await _listed(client, view, namespace) if len(objects) >= _LIST_FROM else None
        found = await together(objects, find) if listed is None else [listed.get(obj.address.key) for obj in objects]
    except NotServed:
        return {}  # a kind that a definition of this very set will bring has no objects yet
    pairs = zip(objects, found, strict=True)
    return {obj.identity: LiveObject(obj.address, live) for obj, live in pairs if live is not None}


async def _listed(
    client: Client, view: View[PartialObjectMetadata], namespace: str
) -> dict[ObjectKey, PartialObjectMetadata] | None:
    """All objects of a place, by one request; None where there are too many for one, or we may only get them."""
    try:
        async with aclosing(client.pages(view, namespace, limit=_LIST_LIMIT)) as pages:
            page = await anext(pages)
    except (Forbidden, MethodNotAllowed):
        return None
    return None if page.continue_token else {obj.key: obj for obj in page.items}
