"""What `diff`, `render` and `values` have in common: a Component, and what a person has at hand to work it out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from stellwerk.apply.errors import UnreadableManifest
from stellwerk.apply.objects.manifests import Document, read_text
from stellwerk.cli.arguments.object_argument import ObjectArgument
from stellwerk.cli.objects.cluster import ClusterSession
from stellwerk.cli.shell import settings, text
from stellwerk.cli.shell.errors import Exit, Failure
from stellwerk.kube.types.model import Kind
from stellwerk.operators.component.api import Component
from stellwerk.operators.component.insight.preview import ComponentPreviewInput
from stellwerk.render.binary import renderer_path
from stellwerk.render.errors import SourceError
from stellwerk.render.files import local_files
from stellwerk.render.files.files import Files
from stellwerk.render.request.request import Rendered
from stellwerk.render.sources.downloads import Downloads
from stellwerk.render.worker.renderer import Renderer

K = TypeVar("K", bound=Kind)


@dataclass(frozen=True, slots=True)
class Tools:
    """What fetches and renders."""

    downloads: Downloads
    renderer: Renderer


@asynccontextmanager
async def tools() -> AsyncIterator[Tools]:
    """Downloads and a renderer for one call."""
    async with Downloads() as downloads, Renderer(renderer_path) as renderer:
        yield Tools(downloads, renderer)


async def component_of(cluster: ClusterSession, subject: ObjectArgument) -> Component:
    """The Component of the cluster that is meant."""
    return await one_of(cluster, subject, Component)


async def one_of(cluster: ClusterSession, subject: ObjectArgument, *kinds: type[K]) -> K:
    """The object of the cluster that is meant, which must be of one of these kinds."""
    obj = await cluster.object(subject)
    for kind in kinds:
        if obj.gvk[::2] == kind.resource.gvk[::2]:
            return msgspec.convert(obj.body, kind)
    names = " or ".join(kind.resource.kind for kind in kinds)
    raise Failure(
        f"{obj.ref} is no {names}",
        cause=f"this verb works out what a {names} renders to; other kinds have nothing to render",
        fix="name one: comp/NAME",
        subject=str(obj.ref),
        code=Exit.USAGE,
    )


def component_in(file: Path, namespace: str) -> tuple[Component, ComponentPreviewInput]:
    """The Component in a file, and the Secrets and ConfigMaps that lie beside it there."""
    component, others = one_in(file, namespace, Component)
    return component, ComponentPreviewInput(client=None, documents=others)


def one_in(file: Path, namespace: str, *kinds: type[K]) -> tuple[K, tuple[Document, ...]]:
    """The one object of these kinds in a file, and what lies beside it there. `namespace`: where it names none."""
    try:
        documents = read_text(local_files.content(file), file=file.name)
    except UnreadableManifest as error:
        raise Failure(f"cannot read {file}", cause=str(error), fix="correct the file") from None
    named = {kind.resource.kind: kind for kind in kinds}
    found = [document for document in documents if document.body.get("kind") in named]
    if len(found) != 1:
        names = " or ".join(named)
        cause = f"it holds {len(found)} objects of kind {names}"
        raise Failure(f"cannot use {file}", cause=cause, fix=f"put exactly one {names} into it", code=Exit.USAGE)
    kind = named[str(found[0].body["kind"])]
    try:
        one = msgspec.convert(found[0].body, kind)
    except msgspec.ValidationError as error:
        cause = f"the {kind.resource.kind} is not valid: {error}"
        raise Failure(f"cannot use {file}", cause=cause, fix="correct it") from None
    metadata = one.metadata
    if not metadata.namespace:
        metadata = msgspec.structs.replace(metadata, namespace=namespace)
    others = tuple(document for document in documents if document is not found[0])
    return msgspec.structs.replace(one, metadata=metadata), others


def folder_of(path: Path | None) -> Files | None:
    """The files below a folder; None without one."""
    if path is None:
        return None
    try:
        return local_files.read(path)
    except SourceError as error:
        raise Failure(f"cannot use {path}", cause=str(error), fix="name another folder with --path") from None


def warn(rendered: Rendered) -> None:
    """Print what Helm passes over in silence in the chart of a Component."""
    for warning in rendered.chart.warnings if rendered.chart is not None else ():
        settings.say(f"Warning: {text.escaped(warning)}")


def failure(error: Exception, one: Kind, *, fix: str = "correct what the cause names") -> Failure:
    """What a person can do about a preview that did not come to an end."""
    return Failure(f"cannot work out {one.ref}", cause=str(error), fix=fix, subject=str(one.ref))
