"""The renderer of an operator process."""

from __future__ import annotations

from stellwerk.render.binary import renderer_path
from stellwerk.render.worker.renderer import Renderer
from stellwerk.runtime.process.process import Parts
from stellwerk.runtime.settings.process_settings import ProcessSettings
from stellwerk.runtime.supervision.tasks import Closing


def add_renderer(parts: Parts, process: ProcessSettings) -> Renderer:
    """Add a renderer to the process. The process is ready only while the renderer confines templates.

    The renderer starts its program on first use.
    """
    renderer = Renderer(renderer_path)
    parts.manager.add_server("renderer", Closing(renderer.close))
    parts.manager.ready_when("renderer", lambda: unconfined(renderer, process))
    return renderer


def unconfined(renderer: Renderer, process: ProcessSettings) -> str | None:
    """Why the process is not ready to render templates of tenants; None where it is."""
    if renderer.is_confined or process.allow_unconfined_renderer:
        return None
    return (
        "the renderer runs without a filter of system calls, because the kernel or its sandbox does not offer seccomp; "
        "allow seccomp, or start with --allow-unconfined-renderer where you trust all templates"
    )
