"""The contents that a Blueprint has had, and who uses them (pure).

A Blueprint may change while a Component still works on its former content. So each content that is taken gets an
object of its own, the BlueprintVersion, named after Blueprint and content; it stays for as long as a Component's status
shows that it was taken.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import JsonObject, Kind
from stellwerk.kube.types.object_meta import Record
from stellwerk.operators.component.api import Blueprint, BlueprintVersion, Component
from stellwerk.operators.component.api_status import Artifact
from stellwerk.operators.component.references import digests
from stellwerk.operators.component.sources.sources import SourceKind, index_value
from stellwerk.render.errors import BadArchive, SourceError
from stellwerk.render.files.files import Files
from stellwerk.render.files.limits import LIMITS

SCHEME = "blueprint://"
_LONGEST_NAME = 253
_SHORT_HASH = 8


class BlueprintSummary(Kind, frozen=True, kw_only=True):
    """A Blueprint without its files: what a cache needs to hold."""

    resource: ClassVar[Resource] = Blueprint.resource


class VersionSummarySpec(Record, frozen=True, kw_only=True):
    """Whose content it is."""

    blueprint: str = ""
    digest: str = ""


class VersionSummary(Kind, frozen=True, kw_only=True):
    """A BlueprintVersion without its files: what a cache needs to hold."""

    resource: ClassVar[Resource] = BlueprintVersion.resource

    spec: VersionSummarySpec = VersionSummarySpec()

    @property
    def blueprint(self) -> ObjectKey:
        """The place of its Blueprint."""
        return ObjectKey(self.metadata.namespace, self.spec.blueprint)


# ---- names


def version_name(blueprint: str, digest: str) -> str:
    """The name of a version. A Blueprint with a name too long for it is known by a part of it and a hash."""
    room = _LONGEST_NAME - len(digest) - 2
    if len(blueprint) > room:
        tail = f"-{digests.of_bytes(blueprint.encode())[:_SHORT_HASH]}"
        blueprint = blueprint[: room - len(tail)].rstrip("-.") + tail
    return f"{blueprint}--{digest}"


def url(blueprint: ObjectKey, digest: str) -> str:
    """The place of an artifact of a Blueprint, as in the status of a Component."""
    return f"{SCHEME}{blueprint.namespace}/{blueprint.name}/{digest}"


def index_by_version(component: Component) -> Iterable[str]:
    """For an index of a store: the version that the Component has taken, by its URL."""
    taken = component.status.source_ref.artifact if component.status.source_ref else None
    return (taken.url,) if taken is not None and taken.url.startswith(SCHEME) else ()


def blueprint_of(url: str) -> ObjectKey:
    """The Blueprint of a version, by the URL of the version."""
    namespace, _, rest = url.removeprefix(SCHEME).partition("/")
    return ObjectKey(namespace, rest.rpartition("/")[0])


# ---- contents


def artifact(blueprint: Blueprint) -> Artifact:
    """What a Blueprint offers now."""
    digest = digests.of_blueprint(blueprint.spec)
    return Artifact(
        url=url(blueprint.key, digest), digest=digest, revision=f"generation:{blueprint.metadata.generation}"
    )


def version_of(blueprint: ObjectKey, taken: Artifact, files: Files) -> JsonObject:
    """The version that keeps a content of a Blueprint."""
    texts: JsonObject = {path: content.decode() for path, content in files.items()}
    return {
        "apiVersion": BlueprintVersion.resource.api_version,
        "kind": BlueprintVersion.resource.kind,
        "metadata": {"name": version_name(blueprint.name, taken.digest), "namespace": blueprint.namespace},
        "spec": {"blueprint": blueprint.name, "digest": taken.digest, "revision": taken.revision, "files": texts},
    }


def files(contents: Mapping[str, str]) -> Files:
    """The files of a Blueprint or version.

    Raises a `SourceError` for more than an archive may hold, and for a path that is unclean or leads out.
    """
    if len(contents) > LIMITS.entries:
        raise SourceError(f"the blueprint has {len(contents)} files; at most {LIMITS.entries} are allowed")
    try:
        return Files.of(contents)
    except BadArchive as error:
        raise SourceError(f"invalid file path in blueprint: {error.entry or error.why}: {error.why}") from error


# ---- who uses them

Users: TypeAlias = Callable[[str], Collection[Component]]
"""The Components that have taken a version, by its URL."""

Followers: TypeAlias = Callable[[str], Collection[Component]]
"""The Components whose spec names a source, by its index value."""


@dataclass(frozen=True, slots=True)
class BlueprintUsage:
    """The versions of one Blueprint, parted by whether a Component needs them."""

    used: Mapping[ObjectKey, tuple[ObjectKey, ...]]
    """With the Components that need each."""
    unused: tuple[VersionSummary, ...]
    has_followers: bool
    """Whether any Component names the Blueprint, and may take or have taken a version that we cannot see yet."""

    @property
    def components(self) -> tuple[ObjectKey, ...]:
        """Who needs any of them."""
        return tuple(sorted({key for keys in self.used.values() for key in keys}))


def usage(
    blueprint: ObjectKey,
    current: str,
    versions: Iterable[VersionSummary],
    users: Users,
    followers: Followers,
    *,
    cross_namespace: bool,
) -> BlueprintUsage:
    """Who needs which version. `current`: the digest of the present content; empty where there is no Blueprint.

    The present content is needed by every Component whose spec names the Blueprint: it may be taking it now. Unless
    `cross_namespace`, Components of other namespaces need nothing: their reference is refused, and must not hold the
    Blueprint of another tenant.
    """

    def may_use(component: Component) -> bool:
        return cross_namespace or component.metadata.namespace == blueprint.namespace

    following = [
        follower
        for follower in followers(index_value(SourceKind.Blueprint, blueprint))
        if may_use(follower) and not _is_leaving(follower)
    ]
    used: dict[ObjectKey, tuple[ObjectKey, ...]] = {}
    unused = []
    for version in versions:
        needing = {user.key for user in users(url(blueprint, version.spec.digest)) if may_use(user)}
        if version.spec.digest == current:
            needing |= {one.key for one in following}
        if needing:
            used[version.key] = tuple(sorted(needing))
        elif not version.metadata.is_terminating:
            unused.append(version)
    return BlueprintUsage(used, tuple(unused), bool(following))


def used_unseen(usage: BlueprintUsage, users: Sequence[ObjectKey]) -> BlueprintUsage:
    """The usage where these Components cannot be decoded: each may need any version."""
    if not users:
        return usage
    unseen = {version.key: tuple(sorted(users)) for version in usage.unused}
    return BlueprintUsage({**usage.used, **unseen}, (), has_followers=True)


def _is_leaving(component: Component) -> bool:
    return component.metadata.is_terminating
