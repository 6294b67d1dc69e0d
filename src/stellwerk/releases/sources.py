"""What a person names on the command line, as the objects of a release.

A folder with Chart.yaml is a chart, any other folder a kustomization, a file is manifests as they are. The objects of
all sources are one set, in the order in which they were named.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from stellwerk.apply.objects.manifests import Document, Origin
from stellwerk.delivery.template_lookup import answer
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.model import JsonValue
from stellwerk.releases.errors import ReleaseSourceUnusable
from stellwerk.releases.release import RECONCILER, Release
from stellwerk.render.files import local_files
from stellwerk.render.files.files import Files
from stellwerk.render.request import values
from stellwerk.render.request.capabilities import facts_of
from stellwerk.render.request.request import (
    ClusterApis,
    DeleteHookMode,
    Generator,
    Missing,
    RenderRequest,
    TemplateQuery,
)
from stellwerk.render.request.request import ReleaseInfo as RenderedAs
from stellwerk.render.request.values import Layer
from stellwerk.render.worker.renderer import Renderer


@dataclass(frozen=True, slots=True)
class ReleaseSource:
    """The files of one source."""

    path: Path
    files: Files
    generator: Generator


def read(paths: Sequence[Path]) -> list[ReleaseSource]:
    """The sources at these paths. Raises ReleaseSourceUnusable, SourceError, OSError."""
    return [_read(path) for path in paths]


def _read(path: Path) -> ReleaseSource:
    if path == local_files.STDIN:
        return ReleaseSource(path, Files.of({"stdin.yaml": local_files.content(path)}), "manifests")
    if path.is_dir():
        files = local_files.read(path)
        if not len(files):
            raise ReleaseSourceUnusable(f"the folder {path} is empty")
        return ReleaseSource(path, files, "auto")
    if not path.is_file():
        raise ReleaseSourceUnusable(f"there is no file or folder {path}")
    name = path.name if path.suffix in (".yaml", ".yml", ".json") else f"{path.name}.yaml"
    return ReleaseSource(path, Files.of({name: path.read_bytes()}), "manifests")


def layers(paths: Sequence[Path]) -> list[Layer]:
    """The values of these files, the last one nearest. Raises InvalidValues, OSError."""
    return [Layer(str(path), values.read(local_files.content(path), str(path)), secret=True) for path in paths]


async def rendered(
    place: Client | ClusterApis,
    renderer: Renderer,
    release: Release,
    sources: Sequence[ReleaseSource],
    layers: Sequence[Layer],
    *,
    delete_hooks: DeleteHookMode = "refuse",
    warn: Callable[[str], None] = lambda warning: None,
) -> tuple[Document, ...]:
    """The objects of all sources, for the cluster behind a client, or for an assumed one, where nothing exists.

    `delete_hooks` decides about the delete hooks of a release; `warn` receives what Helm ignores without a message.
    Raises RenderError, ApiError.
    """
    client = place if isinstance(place, Client) else None

    async def look_up(query: TemplateQuery) -> JsonValue | Missing:
        if client is None or query.where == "kubeconfig":
            return [] if query.many else Missing.OBJECT
        return await answer(client, query)

    cluster = await facts_of(place) if isinstance(place, Client) else place
    documents: list[Document] = []
    for source in sources:
        made = await renderer.render(_request(release, source, layers, cluster, delete_hooks), look_up)
        for warning in made.chart.warnings if made.chart is not None else ():
            warn(f"{source.path}/{warning}")
        origins = (_origin(source, origin) for origin in made.origins)
        documents += [Document(body, Origin(file=origin)) for body, origin in zip(made.objects, origins, strict=True)]
    return tuple(documents)


def _origin(source: ReleaseSource, origin: str) -> str:
    return f"{source.path}/{origin}" if source.path.is_dir() and origin else str(source.path)


def _request(
    release: Release, source: ReleaseSource, layers: Sequence[Layer], cluster: ClusterApis, delete_hooks: DeleteHookMode
) -> RenderRequest:
    return RenderRequest(
        delete_hooks=delete_hooks,
        files=source.files,
        generator=source.generator,
        prefix=RECONCILER,
        release=RenderedAs(release.key.name, release.key.namespace, RECONCILER, release.revision),
        values=values.merge(layers),
        component_digest=release.digest,
        cluster=cluster,
        tenant=release.key.namespace,
        secrets=lambda: values.secret_words(layers),
    )
