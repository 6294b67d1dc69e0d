"""The one place that knows all four operators: from settings to a running process.

Each operator is imported when it is run: a process runs one, and should not pay for the others' start and memory.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.btp import api as btp_api
from stellwerk.operators.component import api as component_api
from stellwerk.runtime.process.process import OperatorIdentity, Parts, run
from stellwerk.runtime.settings.settings import ProcessSettings
from stellwerk.runtime.supervision.tasks import Closing

if TYPE_CHECKING:
    from stellwerk.operators.btp.settings import Settings
    from stellwerk.operators.component.settings import Settings as ComponentSettings
    from stellwerk.render.worker.renderer import Renderer


OPERATORS = ("btp", "component")
"""As `stellwerk run` calls them."""


def installation(operators: Collection[str] = OPERATORS) -> list[JsonObject]:
    """What a cluster must have before these operators start: namespaces, kinds, service accounts and their rights.

    The Component operator gets every right, as the original does: Components may hold anything.
    """
    from stellwerk.operators.btp import rights as btp
    from stellwerk.operators.component import rights as component

    found: list[JsonObject] = []
    if "btp" in operators:
        found += [_namespace(btp_api.STANDARD_NAMESPACE), btp_api.DEFINITION.body(), *btp.manifests()]
    if "component" in operators:
        definitions = [definition.body() for definition in component_api.DEFINITIONS]
        found += [_namespace(component.NAMESPACE), *definitions, *component.manifests(), *component.cluster_admin()]
    return found


def lease_of(operator: str) -> str:
    """The name of the Lease by which replicas of an operator, and the original, agree on who acts."""
    return {"btp": btp_api.LEASE_NAME, "component": component_api.LEASE_NAME}[operator]


def unconfined(renderer: Renderer, process: ProcessSettings) -> str | None:
    """Why the process is not ready for tenants' templates; None where it is."""
    if renderer.is_confined or process.allow_unconfined_renderer:
        return None
    return (
        "the renderer runs without a filter of system calls, because the kernel or its sandbox does not offer seccomp; "
        "allow seccomp, or start with --allow-unconfined-renderer where you trust all templates"
    )


def _namespace(name: str) -> JsonObject:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


async def run_btp(process: ProcessSettings, settings: Settings, environment: Mapping[str, str]) -> None:
    """Run the BTP Manager until SIGTERM or SIGINT.

    Raises MissingImage, LoginFailed and CannotListen before anything is done; LeadershipLost when another process may
    lead by now.
    """
    from stellwerk.operators.btp import operator as btp
    from stellwerk.operators.btp.rights import RIGHTS
    from stellwerk.render.worker.renderer import Renderer

    btp.require(environment)
    identity = OperatorIdentity(
        component=btp_api.OPERATOR_NAME,
        lease=btp_api.LEASE_NAME,
        namespace=settings.chart_namespace,
        rights=RIGHTS,
    )
    resolved = btp.in_force(settings, Path.cwd())

    def install(parts: Parts) -> None:
        renderer = Renderer()
        parts.manager.add_server("renderer", Closing(renderer.close))
        parts.manager.ready_when("renderer", lambda: unconfined(renderer, process))
        btp.install(parts.manager, resolved, environment, renderer=renderer, recorder=parts.recorder)

    await run(process, identity, install)


async def run_component(process: ProcessSettings, settings: ComponentSettings) -> None:
    """Run the Component operator until SIGTERM or SIGINT.

    Raises RendererMissing, LoginFailed and CannotListen before anything is done; LeadershipLost when another process
    may lead by now.
    """
    from stellwerk.operators.component import operator as component
    from stellwerk.operators.component.rights import RIGHTS
    from stellwerk.render.binary import renderer_path
    from stellwerk.render.sources.downloads import Downloads
    from stellwerk.render.worker.renderer import Renderer

    renderer_path()
    identity = OperatorIdentity(component=component_api.RECONCILER, lease=component_api.LEASE_NAME, rights=RIGHTS)

    def install(parts: Parts) -> None:
        downloads = Downloads(shelf=component.shelf(settings, parts.manager.metrics))
        renderer = Renderer(renderer_path)
        parts.manager.add_server("downloads", Closing(downloads.close))
        parts.manager.add_server("renderer", Closing(renderer.close))
        parts.manager.ready_when("renderer", lambda: unconfined(renderer, process))
        component.install(
            parts.manager,
            settings,
            renderer=renderer,
            downloads=downloads,
            connect=parts.connect,
            recorder=parts.recorder,
            namespace=identity.home(parts.manager.client.config),
        )

    await run(process, identity, install)
