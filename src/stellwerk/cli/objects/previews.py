"""What `diff`, `render` and `values` have in common: a Component, and what a person has at hand to work it out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
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
from stellwerk.delivery.insight import PreviewRequest
from stellwerk.kube.types.model import Kind
from stellwerk.local.cluster import at_address
from stellwerk.operators.component.api import Component
from stellwerk.operators.component.insight.preview import ComponentPreviewInput
from stellwerk.render.binary import renderer_path
from stellwerk.render.errors import SourceError
from stellwerk.render.files import local_files
from stellwerk.render.files.files import Files
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


@asynccontextmanager
async def requested(
    cluster: ClusterSession, *, documents: tuple[Document, ...] = (), folder: Path | None = None, image: str = ""
) -> AsyncIterator[PreviewRequest]:
    """What a preview gets from the cluster of a call. Connections that previews open live as long as the block."""
    system = at_address(cluster.client.config.server)
    async with tools() as at_hand, AsyncExitStack() as connections:
        yield PreviewRequest(
            client=cluster.client,
            renderer=at_hand.renderer,
            downloads=at_hand.downloads,
            documents=documents,
            folder=folder,
            local_folder=system.folder if system else None,
            image=image,
            connections=connections,
        )


async def component_of(cluster: ClusterSession, subject: ObjectArgument) -> Component:
    """The Component of the cluster. Raises Failure where the object is of another kind."""
    obj = await cluster.object(subject)
    if obj.gvk[::2] == Component.resource.gvk[::2]:
        return msgspec.convert(obj.body, Component)
    raise Failure(
        f"{obj.ref} is no Component",
        cause="this verb works out what a Component renders to; other kinds have nothing to render",
        fix="name one: comp/NAME",
        subject=str(obj.ref),
        code=Exit.USAGE,
    )


def component_in(file: Path, namespace: str) -> tuple[Component, ComponentPreviewInput]:
    """The Component in a file, and the Secrets and ConfigMaps in the same file."""
    document, others = the_only(file, [Component.resource.kind])
    return converted(document, Component, file, namespace), ComponentPreviewInput(client=None, documents=others)


def the_only(file: Path, kinds: Sequence[str]) -> tuple[Document, tuple[Document, ...]]:
    """The only object of these kinds in a file, and the other objects of the file. Raises Failure."""
    try:
        documents = read_text(local_files.content(file), file=file.name)
    except UnreadableManifest as error:
        raise Failure(f"cannot read {file}", cause=str(error), fix="correct the file") from None
    matching = [document for document in documents if document.body.get("kind") in kinds]
    if len(matching) != 1:
        names = " or ".join(kinds)
        cause = f"it holds {len(matching)} objects of kind {names}"
        raise Failure(f"cannot use {file}", cause=cause, fix=f"put exactly one {names} into it", code=Exit.USAGE)
    return matching[0], tuple(document for document in documents if document is not matching[0])


def converted(document: Document, kind: type[K], file: Path, namespace: str) -> K:
    """The typed object of a file, in `namespace` where it names none. Raises Failure."""
    try:
        obj = msgspec.convert(document.body, kind)
    except msgspec.ValidationError as error:
        cause = f"the {kind.resource.kind} is not valid: {error}"
        raise Failure(f"cannot use {file}", cause=cause, fix="correct it") from None
    if obj.metadata.namespace:
        return obj
    return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, namespace=namespace))


def folder_of(path: Path | None) -> Files | None:
    """The files below a folder; None without one."""
    if path is None:
        return None
    try:
        return local_files.read(path)
    except SourceError as error:
        raise Failure(f"cannot use {path}", cause=str(error), fix="name another folder with --path") from None


def warn(warnings: Sequence[str]) -> None:
    """Print what Helm ignores silently in a chart."""
    for warning in warnings:
        settings.say(f"Warning: {text.escaped(warning)}")


def failure(error: Exception, obj: Kind) -> Failure:
    """What a person can do about a preview that did not come to an end."""
    fix = "correct what the cause names"
    return Failure(f"cannot work out {obj.ref}", cause=str(error), fix=fix, subject=str(obj.ref))
