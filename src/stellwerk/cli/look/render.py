"""`stellwerk render`: the manifests of a Component, without a cluster."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from stellwerk.apply.errors import ApplyError
from stellwerk.cli.objects import previews
from stellwerk.cli.shell import output, settings
from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.component.component import delete_hooks
from stellwerk.operators.component.errors import ComponentFailed
from stellwerk.render.errors import RenderError


def render(file: Path, folder: Path | None) -> None:
    """Print the manifests of the Component in `file`; its source is `folder`, else it is downloaded."""
    call = settings.current()
    output.print_manifests(asyncio.run(_rendered(file, folder, call.namespace or "default")), call.output)


async def _rendered(file: Path, folder: Path | None, namespace: str) -> list[JsonObject]:
    component, desk = previews.component_in(file, namespace)
    desk = replace(desk, folder=previews.folder_of(folder))
    async with previews.tools() as tools:
        try:
            offer, files = await desk.offered(component, tools.downloads)
            _, rendered = await desk.rendered(component, offer, files, tools.renderer)
            previews.warn(rendered.chart.warnings if rendered.chart is not None else ())
            documents, _ = delete_hooks.documents_of(component, rendered)
        except (ComponentFailed, RenderError, ApplyError) as error:
            raise previews.failure(error, component) from None
        return [document.body for document in documents]
