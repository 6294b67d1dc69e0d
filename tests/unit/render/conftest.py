"""A renderer over the double, closed at the end of each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.unit.render.given import fake_program

from stellwerk.render.pool import Shares
from stellwerk.render.renderer import Renderer
from stellwerk.render.worker import Bounds


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Callable[..., Renderer]]:
    """Makes renderers with bounds and shares of a test's own."""
    program = fake_program(tmp_path)
    async with AsyncExitStack() as stack:

        def made(bounds: Bounds | None = None, shares: Shares | None = None) -> Renderer:
            renderer = Renderer(lambda: program, bounds=bounds, shares=shares)
            stack.push_async_callback(renderer.close)
            return renderer

        yield made


@pytest.fixture
def renderer(make: Callable[..., Renderer]) -> Renderer:
    return make()
