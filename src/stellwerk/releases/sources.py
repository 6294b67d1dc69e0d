"""What a person names on the command line, as the objects of a release.

A folder with Chart.yaml is a chart, any other folder a kustomization, and a file is a folder with this file alone:
values reach every source. The objects of all sources are one set, in the order in which they were named.

A kustomization may list folders and files outside of its own folder. They are read with it, at their places below the
first folder that holds all of them, as in an artifact.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    folder: str = ""
    """Of the source among the files."""


def read(paths: Sequence[Path]) -> list[ReleaseSource]:
    """The sources at these paths. Raises ReleaseSourceUnusable, SourceError, OSError."""
    return [_read(path) for path in paths]


def _read(path: Path) -> ReleaseSource:
    if path == local_files.STDIN:
        return ReleaseSource(path, Files.of({"stdin.yaml": local_files.content(path)}), "kustomize")
    if path.is_dir():
        return _folder(path)
    if not path.is_file():
        raise ReleaseSourceUnusable(f"there is no file or folder {path}")
    shown = path.name.lstrip(".")  # a hidden file would be no resource
    name = shown if path.suffix in (".yaml", ".yml") else f"{shown}.yaml"
    return ReleaseSource(path, Files.of({name: path.read_bytes()}), "kustomize")


_LISTS = ("kustomization.yaml", "kustomization.yml", "Kustomization", ".component-config.yaml")
_ABOVE = re.compile(rb"(?:\.\./)+[^\s\"',\[\]{}#]+")
"""A path that leads out of a folder. Such a file may be a template, so that it is not read as YAML."""


def _folder(path: Path) -> ReleaseSource:
    files = local_files.read(path)
    if not len(files):
        raise ReleaseSourceUnusable(f"the folder {path} is empty")
    own = path.resolve()
    read: dict[Path, Mapping[str, bytes]] = {own: files}
    waiting = [] if "Chart.yaml" in files else [own]
    while waiting:
        folder = waiting.pop()
        for place in _outside(folder, read[folder]):
            if any(place.is_relative_to(known) for known in read):
                continue
            if place.is_dir():
                read[place] = local_files.read(place)
                waiting.append(place)
            elif place.is_file():
                read[place.parent] = {**read.get(place.parent, {}), place.name: place.read_bytes()}
    if len(read) == 1:
        return ReleaseSource(path, files, "auto")
    root = Path(os.path.commonpath(read))
    found = {
        str((folder / name).relative_to(root)): text for folder, held in read.items() for name, text in held.items()
    }
    return ReleaseSource(path, Files.of(found), "auto", str(own.relative_to(root)))


def _outside(folder: Path, files: Mapping[str, bytes]) -> Iterator[Path]:
    """The places outside of a folder that its kustomizations list."""
    for name, content in files.items():
        file = folder / name
        if file.name in _LISTS:
            for entry in _ABOVE.findall(content):
                place = (file.parent / os.fsdecode(entry)).resolve()
                if not place.is_relative_to(folder) and not folder.is_relative_to(place):
                    yield place


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
    if not source.path.is_dir() or not origin:
        return str(source.path)
    return os.path.normpath(source.path / os.path.relpath(origin, source.folder or "."))


def _request(
    release: Release, source: ReleaseSource, layers: Sequence[Layer], cluster: ClusterApis, delete_hooks: DeleteHookMode
) -> RenderRequest:
    return RenderRequest(
        delete_hooks=delete_hooks,
        files=source.files,
        path=source.folder,
        generator=source.generator,
        prefix=RECONCILER,
        release=RenderedAs(release.key.name, release.key.namespace, RECONCILER, release.revision),
        values=values.merge(layers),
        component_digest=release.digest,
        cluster=cluster,
        tenant=release.key.namespace,
        secrets=lambda: values.secret_words(layers),
    )
