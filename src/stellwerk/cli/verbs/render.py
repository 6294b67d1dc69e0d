"""`stellwerk render`: the manifests of a Component, without a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from stellwerk.cli.arguments import options
from stellwerk.cli.objects import previews
from stellwerk.cli.shell import settings

if TYPE_CHECKING:
    from stellwerk.kube.types.model import JsonObject


@click.command("render")
@click.option(
    "-f",
    "--file",
    required=True,
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    help="The Component, with the Secrets and ConfigMaps that it refers to.",
)
@click.option(
    "--path",
    "folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The files of its source; else they are downloaded, which only httpRepository allows without a cluster.",
)
@options.all_of
def command(file: Path, folder: Path | None) -> None:
    """Print the manifests of a Component, without a cluster."""
    import asyncio

    objects = asyncio.run(_rendered(file, folder))
    from stellwerk.cli.shell import output

    output.print_manifests(objects, settings.current().output)


async def _rendered(file: Path, folder: Path | None) -> list[JsonObject]:
    from dataclasses import replace

    from stellwerk.apply.errors import ApplyError
    from stellwerk.operators.component.component import delete_hooks
    from stellwerk.operators.component.errors import ComponentFailed
    from stellwerk.render.errors import RenderError

    component, desk = previews.component_in(file, settings.current().namespace or "default")
    desk = replace(desk, folder=previews.folder_of(folder))
    async with previews.tools() as tools:
        try:
            offer, files = await desk.offered(component, tools.downloads)
            _, rendered = await desk.rendered(component, offer, files, tools.renderer)
            previews.warn(rendered)
            documents, _ = delete_hooks.documents_of(component, rendered)
        except (ComponentFailed, RenderError, ApplyError) as error:
            raise previews.failure(error, component) from None
        return [one.body for one in documents]
