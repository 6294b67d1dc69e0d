"""From kinds to URLs: what an API server serves.

Two requests return everything (aggregated discovery, KEP-3352), and for the kinds of Kubernetes itself none is needed:
their plurals and scopes do not change within an API version. A kind that is not known is looked for once more, because
its CustomResourceDefinition may be new; not more often than every second, because a manifest may name a kind that will
never exist.

A kind that is not listed is not proved absent. An API service that does not answer is listed as stale, without its
kinds or with former ones: then what was known of them is kept, and of what was not known nothing is concluded
(`Undiscovered`).

Proxies and API servers before 1.26 answer with the names of groups only. Then each version of a group is asked for, as
client-go does: slower, and with the same result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from sys import intern
from time import monotonic
from typing import Protocol

import msgspec

from stellwerk.kube.nested import nested
from stellwerk.kube.types.errors import ApiError, NotFound, NotServed, Undecodable, Undiscovered
from stellwerk.kube.types.identifiers import GroupVersionKind, Resource, segment_complaint
from stellwerk.kube.types.model import UNREADABLE

_ACCEPT = ",".join(
    (
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
        "application/json",
    )
)
_REFRESH_SECONDS = 1.0
_REFRESH_EACH_SECONDS = 10.0
"""If each version of a group has to be asked for."""
_MOST_VERSIONS = 2_000
"""Of all groups that are asked for one by one; large clusters have some hundreds."""
_ASKED_AT_ONCE = 8


class Ask(Protocol):
    """How discovery sends a request; `Client.raw` fits."""

    def __call__(self, method: str, path: str, *, accept: str) -> Awaitable[bytes]: ...


class _GroupName(msgspec.Struct):
    kind: str = ""


class _ServedResource(msgspec.Struct, rename="camel"):
    resource: str
    scope: str
    response_kind: _GroupName = msgspec.field(default_factory=_GroupName)
    singular_resource: str = ""
    verbs: tuple[str, ...] | None = None
    short_names: tuple[str, ...] | None = None
    categories: tuple[str, ...] | None = None


class _ServedVersion(msgspec.Struct, rename="camel"):
    version: str
    resources: list[_ServedResource] | None = None
    freshness: str = ""


class _DiscoveredName(msgspec.Struct):
    name: str = ""


class _ServedGroup(msgspec.Struct):
    metadata: _DiscoveredName = msgspec.field(default_factory=_DiscoveredName)
    versions: list[_ServedVersion] = msgspec.field(default_factory=list)


class _GroupVersion(msgspec.Struct, rename="camel"):
    group_version: str = ""


class _NamedGroup(msgspec.Struct, rename="camel"):
    name: str = ""
    versions: list[_GroupVersion] = msgspec.field(default_factory=list)
    preferred_version: _GroupVersion = msgspec.field(default_factory=_GroupVersion)


class _Served(msgspec.Struct):
    """The answer to /api or /apis: aggregated (`items`), or names only (`versions` of /api, `groups` of /apis)."""

    kind: str = ""
    items: list[_ServedGroup] | None = None
    versions: list[str] | None = None
    groups: list[_NamedGroup] | None = None


class _ListedResource(msgspec.Struct, rename="camel"):
    """A resource in the answer about one version of a group. A name with a slash is that of a subresource."""

    name: str
    kind: str
    namespaced: bool = False
    singular_name: str = ""
    verbs: tuple[str, ...] | None = None
    short_names: tuple[str, ...] | None = None
    categories: tuple[str, ...] | None = None


class _ListedVersion(msgspec.Struct):
    kind: str = ""
    resources: list[_ListedResource] | None = None


@dataclass(frozen=True, slots=True)
class Details:
    """The properties of a resource in discovery, besides its path."""

    singular: str = ""
    verbs: tuple[str, ...] = ()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


class ResourceMapper:
    """Which resource a kind is. Shared by all clients of one API server."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._known: dict[GroupVersionKind, Resource] = dict(_BUILT_IN)
        self._all: dict[Resource, Details] = {}
        self._former: dict[Resource, Details] = {}
        """What was served at the last look."""
        self._stale: frozenset[tuple[str, str]] = frozenset()
        """Groups and versions of API services that do not answer."""
        self._asked_at = float("-inf")
        self._pause_seconds = _REFRESH_SECONDS
        self._lock = asyncio.Lock()

    async def resource(self, gvk: GroupVersionKind) -> Resource:
        """The resource of a kind. Raises NotServed where the server knows no such kind, else ApiError."""
        if found := self._known.get(gvk):
            return found
        await self._refresh()
        if found := self._known.get(gvk):
            return found
        self._check_fresh(gvk.group, gvk.version)
        raise NotServed(f"the API server serves no {gvk}: is its CustomResourceDefinition installed?")

    async def preferred(self, group: str, kind: str) -> Resource:
        """The resource of a kind in the version that the server prefers. Raises NotServed, else ApiError."""
        for attempt in range(2):
            for resource in self._all:
                if (resource.group, resource.kind) == (group, kind):
                    return resource
            if attempt == 0:
                await self._refresh()
        self._check_fresh(group)
        raise NotServed(f"the API server serves no {kind} of group {group or 'core'}")

    async def serves(self, resource: Resource) -> bool:
        """Whether the server has this resource now. Raises Undiscovered and ApiError where that is unknown."""
        await self._refresh()
        wanted = (resource.group, resource.version, resource.plural)
        if any((each.group, each.version, each.plural) == wanted for each in self._all):
            return True
        self._check_fresh(resource.group, resource.version)
        return False

    async def other_versions(self, resource: Resource) -> list[str]:
        """The other versions in which the server has this kind now. Raises ApiError where that is unknown."""
        await self._refresh()
        kind = (resource.group, resource.kind)
        served = [each.version for each in self._all if (each.group, each.kind) == kind]
        return [version for version in served if version != resource.version]

    def undiscovered(self) -> list[tuple[str, str]]:
        """The groups and versions of which no kind is known, though there may be some."""
        known = {(resource.group, resource.version) for resource in self._all}
        return sorted(self._stale - known)

    def _check_fresh(self, group: str, version: str = "") -> None:
        stale = sorted(each for each in self._stale if each[0] == group and version in ("", each[1]))
        if stale:
            service = f"{stale[0][1]}.{group}"
            raise Undiscovered(
                f"the API server does not know which kinds of {group} it serves: its API service {service} does not "
                f"answer; see kubectl get apiservice {service}"
            )

    async def all(self) -> list[Resource]:
        """Everything that is served, preferred versions first within a group."""
        return list(await self.described())

    async def described(self) -> dict[Resource, Details]:
        """Everything that is served with its properties, in the order of `all`."""
        await self._refresh()
        return dict(self._all)

    def forget(self) -> None:
        """A CustomResourceDefinition came or went: ask again at the next unknown kind, and believe no removed one."""
        self._known = dict(_BUILT_IN)
        self._all = {}
        self.invalidate()

    def invalidate(self) -> None:
        """Something may be served that was not a moment ago: ask again when everything is asked for."""
        self._asked_at = float("-inf")

    async def _refresh(self) -> None:
        async with self._lock:
            if monotonic() - self._asked_at < self._pause_seconds:
                return
            core, groups = await asyncio.gather(
                nested(partial(self._served, "/api")), nested(partial(self._served, "/apis"))
            )
            self._stale = frozenset({*core.stale, *groups.stale})
            self._all = {**core.resources, **groups.resources}
            for resource, details in self._former.items():
                if (resource.group, resource.version) in self._stale:
                    self._all.setdefault(resource, details)
            self._former = self._all
            self._known = {**_BUILT_IN, **{resource.gvk: resource for resource in self._all}}
            self._pause_seconds = _REFRESH_SECONDS if groups.is_whole else _REFRESH_EACH_SECONDS
            self._asked_at = monotonic()

    async def _served(self, path: str) -> _ServedApis:
        data = await self._ask("GET", path, accept=_ACCEPT)
        try:
            served = _decoder.decode(data)
        except UNREADABLE as error:
            raise Undecodable(f"cannot read what the API server serves at {path}: {error}") from error
        if served.kind == _LIST and served.items is not None:
            return _ServedApis(
                {resource: details for group in served.items for resource, details in _resources(group)},
                frozenset(stale for group in served.items for stale in _stale(group)),
            )
        named = _named(path, served)
        if not 0 < len(named) <= _MOST_VERSIONS:
            raise Undecodable(f"the answer to GET {path} is no {_LIST} and names no groups of an API server")
        return await self._each(named)

    async def _each(self, named: Mapping[tuple[str, str], str]) -> _ServedApis:
        """What every version of a group has, asked for by its path. One that does not answer is stale."""
        free, stale = asyncio.Semaphore(_ASKED_AT_ONCE), set[tuple[str, str]]()

        async def listed(group: str, version: str, path: str) -> list[tuple[Resource, Details]]:
            async with free:
                try:
                    found = _version_decoder.decode(await self._ask("GET", path, accept="application/json"))
                except NotFound:  # it went since it was named
                    return []
                except (ApiError, *UNREADABLE):
                    stale.add((group, version))
                    return []
            if found.kind != _VERSION:
                stale.add((group, version))
            return [*_listed(group, version, found)]

        answers = await asyncio.gather(*(nested(partial(listed, *each, path)) for each, path in named.items()))
        resources = {resource: details for answer in answers for resource, details in answer}
        return _ServedApis(resources, frozenset(stale), is_whole=False)


_LIST = "APIGroupDiscoveryList"
_VERSION = "APIResourceList"
_STALE = "Stale"
_decoder = msgspec.json.Decoder(_Served)
_version_decoder = msgspec.json.Decoder(_ListedVersion)


@dataclass(frozen=True, slots=True)
class _ServedApis:
    """What is served below one path, and which groups and versions may have more than that."""

    resources: dict[Resource, Details]
    stale: frozenset[tuple[str, str]]
    is_whole: bool = True
    """Whether one answer had everything."""


def _named(path: str, served: _Served) -> dict[tuple[str, str], str]:
    """The paths of all versions by group and version, the preferred version of a group first."""
    if path == "/api":
        return {("", version): f"/api/{version}" for version in served.versions or () if not segment_complaint(version)}
    found: dict[tuple[str, str], str] = {}
    for group in served.groups or ():
        preferred = group.preferred_version.group_version
        for each in sorted(group.versions, key=lambda each: each.group_version != preferred):
            name, _, version = each.group_version.partition("/")
            if name == group.name and not segment_complaint(name) and not segment_complaint(version):
                found[name, version] = f"/apis/{name}/{version}"
    return found


def _listed(group: str, version: str, answer: _ListedVersion) -> Iterable[tuple[Resource, Details]]:
    for each in answer.resources or ():
        if "/" not in each.name:
            yield (
                _resource(group, version, each.kind, each.name, namespaced=each.namespaced),
                _details(each.singular_name, each.verbs, each.short_names, each.categories),
            )


def _stale(group: _ServedGroup) -> Iterable[tuple[str, str]]:
    return ((group.metadata.name, each.version) for each in group.versions if each.freshness == _STALE)


def _resources(group: _ServedGroup) -> Iterable[tuple[Resource, Details]]:
    for version in group.versions:
        for served in version.resources or []:
            yield (
                _resource(
                    group.metadata.name,
                    version.version,
                    served.response_kind.kind,
                    served.resource,
                    namespaced=served.scope == "Namespaced",
                ),
                _details(served.singular_resource, served.verbs, served.short_names, served.categories),
            )


def _resource(group: str, version: str, kind: str, plural: str, *, namespaced: bool) -> Resource:
    """A resource. An operator of thousands of clusters has each name in memory once, while a cluster serves it."""
    return Resource(intern(group), intern(version), intern(kind), intern(plural), namespaced)


def _details(singular: str, *lists: tuple[str, ...] | None) -> Details:
    return Details(intern(singular), *(tuple(map(intern, each or ())) for each in lists))


def _built_in() -> Iterable[Resource]:
    namespaced = {
        "v1": "Pod Service Secret ConfigMap ServiceAccount Event PersistentVolumeClaim LimitRange ResourceQuota",
        "apps/v1": "Deployment ReplicaSet StatefulSet DaemonSet",
        "batch/v1": "Job CronJob",
        "rbac.authorization.k8s.io/v1": "Role RoleBinding",
        "coordination.k8s.io/v1": "Lease",
        "events.k8s.io/v1": "Event",
    }
    cluster = {
        "v1": "Namespace Node PersistentVolume",
        "rbac.authorization.k8s.io/v1": "ClusterRole ClusterRoleBinding",
        "apiextensions.k8s.io/v1": "CustomResourceDefinition",
        "admissionregistration.k8s.io/v1": "MutatingWebhookConfiguration ValidatingWebhookConfiguration",
    }
    for table, scope in ((namespaced, True), (cluster, False)):
        for api_version, kinds in table.items():
            for kind in kinds.split():
                gvk = GroupVersionKind.parse(api_version, kind)
                yield Resource(gvk.group, gvk.version, kind, f"{kind.lower()}s", scope)
    yield Resource("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", True)
    yield Resource("networking.k8s.io", "v1", "Ingress", "ingresses", True)
    yield Resource("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", False)


_BUILT_IN = {resource.gvk: resource for resource in _built_in()}


def built_in(gvk: GroupVersionKind) -> Resource | None:
    """Where every cluster serves a kind of Kubernetes itself; None for other kinds."""
    return _BUILT_IN.get(gvk)
