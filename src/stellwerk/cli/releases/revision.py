"""A revision of a release: its objects from the sources, and the runner that applies and deletes them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stellwerk.apply.objects.manifests import Document
from stellwerk.cli.objects.cluster import ClusterSession
from stellwerk.cli.releases.set_values import GivenValues
from stellwerk.cli.shell import settings, text
from stellwerk.cli.shell.progress_line import Say
from stellwerk.kube.client.client import Client
from stellwerk.releases import sources as release_sources
from stellwerk.releases.release import Release
from stellwerk.releases.release_runner import Engine
from stellwerk.render.binary import renderer_path
from stellwerk.render.request.request import ClusterApis
from stellwerk.render.worker.renderer import Renderer
from stellwerk.runtime.clock import SystemClock


def runner(cluster: ClusterSession, *, creates_namespaces: bool = False, report: Say = lambda words: None) -> Engine:
    """The runner for releases of the cluster. It calls `report` with its progress."""

    def tell(sentence: str) -> None:
        settings.say(text.escaped(sentence))

    return Engine(
        client=cluster.client, clock=SystemClock(), tell=tell, report=report, creates_namespaces=creates_namespaces
    )


async def documents(
    place: Client | ClusterApis, release: Release, sources: Sequence[Path], given: GivenValues, delete_hooks: str
) -> tuple[Document, ...]:
    """The objects of a revision, in a cluster or in an assumed one. Raises RenderError, ReleaseError, ApiError."""
    found, layers = release_sources.read(sources), given.layers()
    async with Renderer(renderer_path) as renderer:
        return await release_sources.rendered(
            place,
            renderer,
            release,
            found,
            layers,
            delete_hooks="omit" if delete_hooks == "skip" else "refuse",
            warn=lambda warning: settings.say(f"Warning: {text.escaped(warning)}"),
        )
