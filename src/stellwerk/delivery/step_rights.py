"""The rights of a kind that decides by steps, from what its passes ask about and what its steps write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from stellwerk.delivery.grants import Grant, grant
from stellwerk.kube.types.model import HasMetadata
from stellwerk.runtime.control.step import CONFLICT, Create, Patch, Write
from stellwerk.runtime.reading.questions import Collection

T = TypeVar("T", bound=HasMetadata)

_ENFORCED = "the admission plugin OwnerReferencesPermissionEnforcement is on"


@dataclass(frozen=True, slots=True)
class Use(Generic[T]):
    """A collection that passes of a kind ask about, and what their steps write there."""

    collection: Collection[T]
    purpose: str
    """What does not work without it, as the end of a sentence that begins with "Without it"."""
    writes: tuple[type[Write], ...] = ()
    seldom: Mapping[str, str] = field(default_factory=dict)
    """The occasion of each right that is seldom needed, besides those that each such write has."""

    def grant(self) -> Grant:
        """The rights on its objects."""
        verbs: dict[str, str] = {"list": "", "watch": ""}
        for write in self.writes:
            for verb, occasion in write.verbs.items():
                verbs[verb] = occasion if verbs.get(verb, occasion) else ""
        seldom = {verb: why for verb in verbs if (why := self.seldom.get(verb, verbs[verb]))}
        resource = self.collection.resource
        return grant(resource.group, resource.plural, " ".join(sorted(verbs)), self.purpose, **seldom)


def kept(collection: Collection[T], purpose: str) -> Use[T]:
    """The use of a collection whose objects a kind keeps (`ready_steps.keep`)."""
    return Use(collection, purpose, (Create, Patch))


def rights_of(own: Use[Any], uses: Iterable[Use[Any]]) -> tuple[Grant, ...]:
    """The rights of a kind: on its objects and their status, and on what its passes use."""
    resource, uses = own.collection.resource, tuple(uses)
    parts = [grant(resource.group, f"{resource.plural}/status", "update patch", own.purpose, patch=CONFLICT)]
    if any("create" in write.verbs for each in uses for write in each.writes):
        owning = f"no object can have a {resource.kind} as its controller"
        parts.append(grant(resource.group, f"{resource.plural}/finalizers", "update", owning, update=_ENFORCED))
    return (own.grant(), *parts, *(each.grant() for each in uses))


def joined(grants: Iterable[Grant]) -> tuple[Grant, ...]:
    """The grants with one for each list of resources. The first purpose counts; what one needs always is not seldom."""
    found: dict[tuple[tuple[str, ...], ...], Grant] = {}
    for each in grants:
        place = (each.rule.api_groups, each.rule.resources, each.rule.resource_names)
        former = found.get(place)
        found[place] = each if former is None else _both(former, each)
    return tuple(found.values())


def _both(first: Grant, second: Grant) -> Grant:
    verbs = tuple(dict.fromkeys((*first.rule.verbs, *second.rule.verbs)))
    seldom = {
        verb: next(each.seldom[verb] for each in (first, second) if verb in each.rule.verbs)
        for verb in verbs
        if all(verb in each.seldom for each in (first, second) if verb in each.rule.verbs)
    }
    return Grant(replace(first.rule, verbs=verbs), first.purpose, seldom)
