"""What `diff`, `render` and `values` have in common: a Component, and what a person has at hand to work it out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stellwerk.cli.errors import Exit, Failure

if TYPE_CHECKING:
    from stellwerk.cli.cluster import Cluster
    from stellwerk.cli.subject import Subject
    from stellwerk.operators.component.api import Component
    from stellwerk.operators.component.preview import Desk
    from stellwerk.render.downloads import Downloads
    from stellwerk.render.files import Files
    from stellwerk.render.renderer import Renderer


@dataclass(frozen=True, slots=True)
class Tools:
    """What fetches and renders."""

    downloads: Downloads
    renderer: Renderer


@asynccontextmanager
async def tools() -> AsyncIterator[Tools]:
    """Downloads and a renderer for one call."""
    from stellwerk.render.binary import renderer_path
    from stellwerk.render.downloads import Downloads
    from stellwerk.render.renderer import Renderer

    async with Downloads() as downloads, Renderer(renderer_path) as renderer:
        yield Tools(downloads, renderer)


async def component_of(cluster: Cluster, subject: Subject) -> Component:
    """The Component of the cluster that is meant."""
    import msgspec

    from stellwerk.operators.component.api import Component

    obj = await cluster.object(subject)
    if obj.gvk[::2] != Component.resource.gvk[::2]:
        raise Failure(
            f"{obj.ref} is no Component",
            cause="this verb works out what a Component renders to; other kinds have nothing to render",
            fix="name one: comp/NAME",
            subject=str(obj.ref),
            code=Exit.USAGE,
        )
    return msgspec.convert(obj.body, Component)


def component_in(file: Path, namespace: str) -> tuple[Component, Desk]:
    """The Component in a file, and the Secrets and ConfigMaps that lie beside it there."""
    import msgspec

    from stellwerk.apply.errors import UnreadableManifest
    from stellwerk.apply.manifests import read_text
    from stellwerk.operators.component.api import Component
    from stellwerk.operators.component.preview import Desk

    try:
        documents = read_text(file.read_bytes(), file=file.name)
    except UnreadableManifest as error:
        raise Failure(f"cannot read {file}", cause=str(error), fix="correct the file") from None
    found = [document for document in documents if document.body.get("kind") == Component.resource.kind]
    if len(found) != 1:
        cause = f"it holds {len(found)} objects of kind Component"
        raise Failure(f"cannot use {file}", cause=cause, fix="put exactly one Component into it", code=Exit.USAGE)
    try:
        component = msgspec.convert(found[0].body, Component)
    except msgspec.ValidationError as error:
        raise Failure(f"cannot use {file}", cause=f"the Component is not valid: {error}", fix="correct it") from None
    metadata = component.metadata
    if not metadata.namespace:
        metadata = msgspec.structs.replace(metadata, namespace=namespace)
    others = tuple(document for document in documents if document is not found[0])
    return msgspec.structs.replace(component, metadata=metadata), Desk(client=None, documents=others)


def folder_of(path: Path | None) -> Files | None:
    """The files below a folder; None without one."""
    from stellwerk.render import folder
    from stellwerk.render.errors import SourceError

    if path is None:
        return None
    try:
        return folder.read(path)
    except SourceError as error:
        raise Failure(f"cannot use {path}", cause=str(error), fix="name another folder with --path") from None


def failure(error: Exception, component: Component) -> Failure:
    """What a person can do about a preview that did not come to an end."""
    return Failure(
        f"cannot work out {component.ref}",
        cause=str(error),
        fix="correct what the cause names",
        subject=str(component.ref),
    )
