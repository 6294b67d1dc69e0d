"""Renderers over the double and over the native program, closed at the end of each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.unit.render.given import fake_program

from stellwerk.render.binary import renderer_path
from stellwerk.render.errors import RendererMissing
from stellwerk.render.worker.pool import Shares
from stellwerk.render.worker.renderer import Renderer
from stellwerk.render.worker.worker import Bounds


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


@pytest.fixture(scope="module")
def program() -> Path:
    """The native renderer; the test is skipped where it is not built."""
    try:
        return renderer_path()
    except RendererMissing as error:
        pytest.skip(str(error))


@pytest.fixture
async def native(program: Path) -> AsyncIterator[Renderer]:
    async with Renderer(lambda: program, shares=Shares(workers=1)) as renderer:
        yield renderer
