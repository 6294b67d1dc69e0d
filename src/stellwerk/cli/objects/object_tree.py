"""Collects the dependents of an object: those that its operator manages, and what controllers created for these.

Of the kinds that a cluster serves, only those that the controllers of workloads create are listed: listing all of them
would take a hundred requests, for endpoint slices. Replica sets of earlier rollouts are left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace

from stellwerk.api.apps import Deployment, ReplicaSet
from stellwerk.api.core import Pod
from stellwerk.cli import kinds
from stellwerk.cli.objects import health
from stellwerk.cli.objects.graph import Node
from stellwerk.cli.objects.health import ObjectHealth
from stellwerk.kube.concurrency import together
from stellwerk.kube.types.errors import ApiError, LoginFailed, NotServed
from stellwerk.kube.types.identifiers import ObjectKey, ObjectRef, Resource
from stellwerk.kube.types.model import Unstructured
from stellwerk.releases.release import Release
from stellwerk.runtime.insight.diagnosis import ClusterReader
from stellwerk.runtime.insight.related_objects import Kinship, Member, NotReached, ReachesElsewhere

MADE_BY_CONTROLLERS = (
    Deployment.resource,
    Resource("apps", "v1", "StatefulSet", "statefulsets", namespaced=True),
    Resource("apps", "v1", "DaemonSet", "daemonsets", namespaced=True),
    ReplicaSet.resource,
    Resource("batch", "v1", "Job", "jobs", namespaced=True),
    Pod.resource,
)
_CHILDLESS = frozenset(
    {"ConfigMap", "Secret", "Service", "ServiceAccount", "Role", "RoleBinding", "NetworkPolicy", "Pod", "Namespace"}
)


@dataclass(slots=True)
class Family:
    """One look at a cluster; what was read is not read again."""

    reader: ClusterReader
    others: AsyncExitStack | None = None
    """Where connections to other clusters are kept open; None: none is looked at."""
    _elsewhere: dict[ObjectKey, Family | str] = field(default_factory=dict)
    """What is known of other clusters, or why nothing is."""
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    _made: dict[tuple[Resource, str], asyncio.Task[list[Unstructured]]] = field(default_factory=dict)

    async def of(self, obj: Unstructured, above: frozenset[ObjectRef] = frozenset(), relation: str = "") -> Node:
        """An object and its dependents; an object in a cycle is shown once."""
        children: list[Node] = []
        if obj.ref not in above:
            here = above | {obj.ref}
            members = await self._members(obj)
            there = await self._other(obj) if any(each.is_elsewhere for each in members) else ""
            children += await together(members, lambda member: self._member(member, here, there))
            children += await together(await self._owned(obj), lambda one: self.of(one, here, "owns"))
        return Node(obj.ref, health.of(obj), tuple(children), relation)

    async def of_release(self, ref: ObjectRef, seen: ObjectHealth, release: Release) -> Node:
        """A release with its objects."""
        members = [
            Member(entry.ref, entry.phase.value, is_awaited=not entry.phase.is_settled) for entry in release.inventory
        ]
        children = await together(members, lambda member: self._member(member, frozenset({ref})))
        return Node(ref, seen, tuple(children))

    async def _members(self, obj: Unstructured) -> list[Member]:
        kinship = _kinship(obj)
        return await kinship.members(self.reader, obj) if kinship else []

    async def _other(self, obj: Unstructured) -> Family | str:
        """The other cluster of a custom resource, or why it is not looked at."""
        kinship = _kinship(obj)
        if self.others is None or not isinstance(kinship, ReachesElsewhere):
            return "in the target cluster"
        cluster = kinship.cluster_of(obj)
        async with self._opening:
            if cluster not in self._elsewhere:
                try:
                    there = await self.others.enter_async_context(kinship.elsewhere(self.reader, cluster))
                    self._elsewhere[cluster] = Family(there)
                except NotReached as error:
                    self._elsewhere[cluster] = f"in the remote cluster, which is not looked at: {error}"
            return self._elsewhere[cluster]

    async def _member(self, member: Member, above: frozenset[ObjectRef], there: Family | str = "") -> Node:
        if member.is_elsewhere and isinstance(there, Family):
            try:
                found = await there._member(replace(member, is_elsewhere=False), above)
                return replace(found, place="in the remote cluster")
            except (ApiError, LoginFailed) as error:
                there = f"in the remote cluster, which cannot be read: {error}"
        if member.is_elsewhere:
            return Node(member.ref, ObjectHealth("-", member.phase, message=str(there)), relation="manages")
        live = await self._find(member.ref)
        if isinstance(live, ObjectHealth):
            return Node(member.ref, live, relation="manages")
        if live is None and member.phase == "Completed":
            return Node(member.ref, ObjectHealth("True", member.phase), relation="manages")
        if live is None:
            return Node(member.ref, ObjectHealth("False", "NotFound", message=member.phase), relation="manages")
        node = await self.of(live, above, "manages")
        if member.is_awaited and node.health.is_ready:
            return replace(node, health=ObjectHealth("Unknown", member.phase, message="it is still waited for"))
        return node

    async def _find(self, ref: ObjectRef) -> Unstructured | ObjectHealth | None:
        """The object, None where it does not exist, or a health where it exists or may exist and cannot be read."""
        try:
            resource = await self.reader.client.mapper.resource(ref.gvk)
        except NotServed:
            return None
        found = await self.reader.find(resource, ref.key.name, ref.key.namespace)
        if found is None and self.reader.may_not_see(resource, ref.key.namespace):
            return ObjectHealth("-", "NotPermitted", message="you may not read it")
        if found is None and (why := self.reader.why_unreadable(resource, ref.key)):
            return ObjectHealth("False", "Unreadable", message=why)
        return found

    async def _owned(self, obj: Unstructured) -> list[Unstructured]:
        if not obj.key.namespace or obj.gvk.kind in _CHILDLESS or _kinship(obj):
            return []
        made = await self._made_in(obj.key.namespace, _siblings(obj))
        return [one for one in made if _is_owned(one, obj) and not _is_history(one)]

    async def _made_in(self, namespace: str, siblings: Sequence[Resource]) -> list[Unstructured]:
        """What controllers may have made there, and the objects of `siblings`; each kind is read once."""
        reading = [self._reading(resource, namespace) for resource in (*MADE_BY_CONTROLLERS, *siblings)]
        return [obj for objects in await asyncio.gather(*map(asyncio.shield, reading)) for obj in objects]

    def _reading(self, resource: Resource, namespace: str) -> asyncio.Task[list[Unstructured]]:
        place = resource, namespace
        if place not in self._made:
            name = f"{resource.plural} in {namespace}"
            self._made[place] = asyncio.create_task(self.reader.list(resource, namespace), name=name)
        return self._made[place]


def _kinship(obj: Unstructured) -> Kinship | None:
    """What the operator knows about objects of this kind; None where owner references suffice."""
    row = kinds.by_gvk(obj.gvk)
    return row.insight().kinship if row else None


def _siblings(obj: Unstructured) -> Sequence[Resource]:
    """The kinds of the same operator, which may own each other, and those of others that it owns objects of; none for
    an object of another kind."""
    row = kinds.by_gvk(obj.gvk)
    if row is None:
        return []
    found = (kind.resource for kind in row.operator.kinds)
    own = [resource for resource in found if resource.namespaced and resource.kind != obj.gvk.kind]
    return [*own, *row.insight().owns]


def _is_owned(obj: Unstructured, owner: Unstructured) -> bool:
    return any(reference.uid == owner.metadata.uid for reference in obj.metadata.owner_references)


def _is_history(obj: Unstructured) -> bool:
    return obj.gvk.kind == ReplicaSet.resource.kind and not (obj.at("spec", "replicas") or obj.at("status", "replicas"))
