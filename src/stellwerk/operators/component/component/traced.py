"""Rendering and judging, each with a span around it."""

from __future__ import annotations

from dataclasses import dataclass

from stellwerk.operators.component.component.deployment import Renders
from stellwerk.render.request.request import Claim, Lookup, Rendered, RenderRequest
from stellwerk.runtime.telemetry import traces


@dataclass(frozen=True, slots=True)
class Traced:
    """A renderer whose work shows in traces: how long it took, and how many objects came of it."""

    renderer: Renders

    async def render(self, request: RenderRequest, lookup: Lookup | None = None) -> Rendered:
        """The objects that files make. Raises a `RenderError`."""
        with traces.within("render") as span:
            rendered = await self.renderer.render(request, lookup)
            span.record(objects=len(rendered.objects))
            return rendered

    async def holds(self, claim: Claim) -> bool:
        """Whether an expression is true of its objects. Raises a `RenderError`."""
        with traces.within("judge"):
            return await self.renderer.holds(claim)
