"""Creates the objects of a version that do not exist. What exists is never changed: a version cannot change either."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stellwerk.api.apps import Deployment
from stellwerk.apply.objects.desired import Desired
from stellwerk.apply.set.model.owner import ControllerOwner
from stellwerk.kube.client import conditional
from stellwerk.kube.client.client import Client
from stellwerk.kube.concurrency import together
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import HasMetadata, JsonObject, PartialObjectMetadata, metadata_of, owner_reference
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.runtime.cache.informer import Informer


class BelongsToAnother(Exception):
    """An object with the name of one of the version's exists and has another controller, or none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionChildren:
    """The objects of all versions. `informers` has a cache for each of their kinds."""

    client: Client
    informers: Mapping[Resource, Informer[Deployment] | Informer[PartialObjectMetadata]]

    def is_served(self, resource: Resource) -> bool:
        """Whether the API server has the kind. Kinds of projects that a cluster does not use are left out."""
        parked = self.informers[resource].parked
        return parked is None or not parked.is_not_served

    def find(self, desired: Desired) -> HasMetadata | None:
        """The object as the cache shows it."""
        return self.informers[desired.resource].store.get(desired.key)

    async def keep(self, owner: CAPApplicationVersion, wanted: Sequence[Desired]) -> None:
        """Have all these objects, as far as their kinds are served. Raises BelongsToAnother, ApiError."""
        absent: list[Desired] = []
        for desired in wanted:
            if not self.is_served(desired.resource):
                continue
            live = self.find(desired)
            if live is None:
                absent.append(desired)
            else:
                check(owner, desired, live)
        if absent:
            await together(absent, lambda desired: self._create(owner, desired))

    async def _create(self, owner: CAPApplicationVersion, desired: Desired) -> None:
        body, target, key = owned(owner, desired), metadata_of(desired.resource), desired.key
        made = await conditional.ensure(
            self.client, target, body, lambda found: found.metadata.is_controlled_by(owner.metadata)
        )
        if isinstance(made, conditional.Taken):
            check(owner, desired, made.obj)
        self.informers[desired.resource].expect(key, made.obj.metadata.resource_version)


def owned(owner: CAPApplicationVersion, desired: Desired) -> JsonObject:
    """The object with its owner. An owner that is not stored yet has no reference."""
    return ControllerOwner(names.OPERATOR_NAME, owner_reference(owner), {}).stamped(desired.body, "")


def check(owner: CAPApplicationVersion, desired: Desired, live: HasMetadata) -> None:
    """Raise BelongsToAnother unless the version controls the object."""
    controller = live.metadata.controller
    if controller is not None and controller.uid == owner.metadata.uid:
        return
    holder = f"belongs to {controller.kind} {controller.name}" if controller is not None else "has no owner"
    raise BelongsToAnother(f"{desired.ref} exists and {holder}, so that {owner.ref} cannot use it. Delete or rename it")
