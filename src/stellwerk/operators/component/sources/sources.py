"""Where a Component's manifests come from, and what is to be taken from there now (pure).

    named      which source the spec names
    offered    a flux object, Blueprint or HTTP answer -> what it offers, or why it offers nothing yet
    chosen     the offer, unless an earlier one has to be finished first; a pin may refuse it

A flux object offers its artifact only while its condition Ready is true for the generation it has now: the artifact of
the generation before is still named there while the next one is fetched.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from stellwerk.api import flux
from stellwerk.delivery.sets.inventory_status import State
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.kube.watch.watch_states import WatchSuspended
from stellwerk.operators.component.api import Component
from stellwerk.operators.component.api_spec import DEFAULT_DIGEST_HEADER, ComponentSpec, HttpRepository
from stellwerk.operators.component.api_status import Artifact, SourceStatus
from stellwerk.operators.component.errors import InvalidSpec, SourceNotReady, WaitingForPin
from stellwerk.operators.component.references import digests
from stellwerk.runtime import conditions


class SourceKind(StrEnum):
    """The kinds of sources, as `spec.sourceRef` spells them."""

    Blueprint = "blueprint"
    HttpRepository = "httpRepository"
    FluxGitRepository = "fluxGitRepository"
    FluxOciRepository = "fluxOciRepository"
    FluxBucket = "fluxBucket"
    FluxHelmChart = "fluxHelmChart"
    FluxExternalArtifact = "fluxExternalArtifact"


FLUX_KINDS: dict[SourceKind, type[flux.FluxSource]] = {
    SourceKind.FluxGitRepository: flux.GitRepository,
    SourceKind.FluxOciRepository: flux.OciRepository,
    SourceKind.FluxBucket: flux.Bucket,
    SourceKind.FluxHelmChart: flux.HelmChart,
    SourceKind.FluxExternalArtifact: flux.ExternalArtifact,
}

_NOWHERE = ObjectKey("", "")


@dataclass(frozen=True, slots=True)
class Source:
    """One source, the same for all Components that name it."""

    kind: SourceKind
    key: ObjectKey = _NOWHERE
    """The place of the object; a web server has none."""
    repository: HttpRepository | None = None

    @property
    def place(self) -> str:
        """The place in the spec, for messages."""
        return f"/sourceRef/{self.kind}"

    @property
    def index_value(self) -> str:
        """Under what Components are found that name the source."""
        if self.repository is None:
            return index_value(self.kind, self.key)
        return f"{self.kind}/{self.repository.url}"


def index_value(kind: SourceKind, key: ObjectKey) -> str:
    """Under what Components are found that name the object."""
    return f"{kind}/{key}"


# ---- which


def named(component: Component) -> Source:
    """The source that the spec names. Raises `InvalidSpec` where it names none, or more than one."""
    found = given(component)
    if len(found) != 1:
        why = "names no source" if not found else f"names {len(found)} sources"
        raise InvalidSpec("sourceRef", f"{why}; exactly one of {', '.join(SourceKind)} is expected")
    if found[0].repository is not None and not found[0].repository.url:
        raise InvalidSpec("sourceRef.httpRepository.url", "is missing")
    return found[0]


def index_by_source(component: Component) -> Iterable[str]:
    """For an index of a store."""
    return (source.index_value for source in given(component))


def given(component: Component) -> list[Source]:
    """Every source that the spec names, also where that is one too many."""
    reference = component.spec.source_ref
    names = {
        SourceKind.Blueprint: reference.blueprint,
        SourceKind.FluxGitRepository: reference.flux_git_repository,
        SourceKind.FluxOciRepository: reference.flux_oci_repository,
        SourceKind.FluxBucket: reference.flux_bucket,
        SourceKind.FluxHelmChart: reference.flux_helm_chart,
        SourceKind.FluxExternalArtifact: reference.flux_external_artifact,
    }
    found = [Source(kind, name.key(component.metadata.namespace)) for kind, name in names.items() if name is not None]
    if reference.http_repository is not None:
        found.append(Source(SourceKind.HttpRepository, repository=reference.http_repository))
    return found


def of_flux(component: Component) -> tuple[type[flux.FluxSource], ObjectKey] | None:
    """The Flux object that the spec names; None where its source is something else."""
    found = given(component)
    return (FLUX_KINDS[found[0].kind], found[0].key) if len(found) == 1 and found[0].kind in FLUX_KINDS else None


# ---- what it offers


def offer(metadata: ObjectMeta, artifact: Artifact) -> SourceStatus:
    """What an object offers."""
    return SourceStatus(artifact=artifact, digest=digests.of_source(metadata, artifact))


def download_offer(artifact: Artifact) -> SourceStatus:
    """What a web server offers."""
    return SourceStatus(artifact=artifact, digest=digests.of_download(artifact))


def offered_by_flux(source: Source, found: flux.FluxSource | None) -> SourceStatus:
    """What a flux object offers. Raises `SourceNotReady`."""
    if found is None:
        raise SourceNotReady(source.place, f"{_shown(source)} not found")
    if why := not_ready(found):
        raise SourceNotReady(source.place, f"source not ready: {_shown(source)} {why}")
    artifact = found.status.artifact
    assert artifact is not None  # not_ready has seen to it
    taken = Artifact(url=artifact.url, digest=artifact.digest, revision=artifact.revision)
    return offer(found.metadata, taken)


def not_watched(source: Source, parked: WatchSuspended) -> SourceNotReady:
    """The kind of the source cannot be watched."""
    if parked.is_not_served:
        return not_served(source)
    return SourceNotReady(source.place, f"{_shown(source)} cannot be read: {parked.why}")


def not_served(source: Source) -> SourceNotReady:
    """The cluster does not know the kind of the source."""
    kind = FLUX_KINDS[source.kind].resource.kind
    return SourceNotReady(
        source.place, f"{_shown(source)} not found: the cluster serves no {kind}; install flux's source-controller"
    )


def not_ready(found: flux.FluxSource) -> str:
    """Why a flux object offers nothing at the moment; empty where it does."""
    ready = conditions.find(found.status.conditions, "Ready")
    if ready is None and not isinstance(found, flux.ExternalArtifact):
        return "has no condition Ready yet"
    if ready is not None and not ready.is_true:
        return f"is not Ready: {ready.message or ready.reason or 'it gives no cause'}"
    if ready is not None and ready.observed_generation != found.metadata.generation:
        return "has changed, and its controller has not looked at the change yet"
    artifact = found.status.artifact
    if artifact is None or not (artifact.url and artifact.digest and artifact.revision):
        return "has no complete artifact yet"
    return ""


def _shown(source: Source) -> str:
    return f"{FLUX_KINDS[source.kind].resource.kind} {source.key}"


def is_news(component: Component, artifact: Artifact) -> bool:
    """Whether a source with this artifact is worth a pass of the Component."""
    return component.status.state is not State.Ready or not component.status.has_attempted(artifact)


# ---- what is taken of it


def held(component: Component, timeout: timedelta, now: datetime) -> SourceStatus | None:
    """What a sticky Component goes on with though there may be something newer; None: the newest.

    Only while the present content is waited for, and not beyond the timeout: a version that never becomes ready must
    not keep the one out that mends it. An edit of the spec takes the newest.
    """
    status, source = component.status, component.status.source_ref
    is_under_way = (
        component.spec.sticky
        and status.observed_generation == component.metadata.generation
        and status.processing_since is not None
        and now - status.processing_since < timeout
    )
    return source if is_under_way and source is not None and source.artifact is not None else None


def check_pins(spec: ComponentSpec, artifact: Artifact) -> None:
    """Raises `WaitingForPin` where the spec asks for another digest or revision."""
    if spec.digest and spec.digest != artifact.digest:
        raise WaitingForPin("digest", spec.digest, artifact.digest)
    if spec.revision and spec.revision != artifact.revision:
        raise WaitingForPin("revision", spec.revision, artifact.revision)


# ---- web servers


def headers_of(repository: HttpRepository) -> tuple[str, str]:
    """The names of the headers with digest and revision."""
    digest = repository.digest_header or DEFAULT_DIGEST_HEADER
    return digest, repository.revision_header or digest
