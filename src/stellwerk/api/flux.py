"""The sources of Flux (source.toolkit.fluxcd.io): the fields that operators read.

All kinds of sources have these fields in the same place: the artifact to download, and whether it is current. So they
share one shape. Each kind was served as v1beta2 before v1, with the same values for these fields; discovery shows
which of the two a cluster serves (`resources`).
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

from stellwerk.kube.types.errors import NotServed
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import Kind
from stellwerk.kube.types.object_meta import Condition, Record

if TYPE_CHECKING:
    from stellwerk.kube.client.discovery import ResourceMapper

GROUP = "source.toolkit.fluxcd.io"
VERSIONS = ("v1", "v1beta2")
"""In the order of preference."""


class FluxArtifact(Record, frozen=True, kw_only=True):
    """What the source controller has put up for download. Any of it may still be empty."""

    url: str = ""
    digest: str = ""
    revision: str = ""
    last_update_time: datetime | None = None


class SourceSpec(Record, frozen=True, kw_only=True):
    """Whether the source is followed at the moment."""

    suspend: bool = False


class FluxSourceStatus(Record, frozen=True, kw_only=True):
    """How far the source controller is."""

    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()
    artifact: FluxArtifact | None = None


class FluxSource(Kind, frozen=True, kw_only=True):
    """What all sources have in common."""

    spec: SourceSpec = SourceSpec()
    status: FluxSourceStatus = FluxSourceStatus()


class GitRepository(FluxSource, frozen=True, kw_only=True):
    """A repository at a certain branch, tag or commit."""

    resource: ClassVar[Resource] = Resource(GROUP, "v1", "GitRepository", "gitrepositories", namespaced=True)


class OciRepository(FluxSource, frozen=True, kw_only=True):
    """An artifact in a container registry."""

    resource: ClassVar[Resource] = Resource(GROUP, "v1", "OCIRepository", "ocirepositories", namespaced=True)


class Bucket(FluxSource, frozen=True, kw_only=True):
    """The files of an object store."""

    resource: ClassVar[Resource] = Resource(GROUP, "v1", "Bucket", "buckets", namespaced=True)


class HelmChart(FluxSource, frozen=True, kw_only=True):
    """A chart of a Helm repository. Its artifact holds a folder named after the chart."""

    resource: ClassVar[Resource] = Resource(GROUP, "v1", "HelmChart", "helmcharts", namespaced=True)


class ExternalArtifact(FluxSource, frozen=True, kw_only=True):
    """An artifact that another controller has put up (flux RFC-0012)."""

    resource: ClassVar[Resource] = Resource(GROUP, "v1", "ExternalArtifact", "externalartifacts", namespaced=True)


KINDS: tuple[type[FluxSource], ...] = (GitRepository, OciRepository, Bucket, HelmChart, ExternalArtifact)


def resources(kind: type[FluxSource]) -> tuple[Resource, ...]:
    """The resource in each version that flux has served it in, the preferred one first."""
    one = kind.resource
    return tuple(Resource(one.group, version, one.kind, one.plural, one.namespaced) for version in VERSIONS)


async def served(kind: type[FluxSource], mapper: ResourceMapper) -> Resource | None:
    """The resource in the version that the cluster serves; None where it serves none. Raises ApiError."""
    for resource in resources(kind):
        with suppress(NotServed):
            return await mapper.resource(resource.gvk)
    return None
