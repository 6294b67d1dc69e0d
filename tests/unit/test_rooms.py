"""The docstring of a folder is its map: it names every module and folder in it."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"
ROOMS = [
    ".".join(page.parent.relative_to(SRC).parts)
    for part in (
        "kube",
        "runtime",
        "render",
        "apply",
        "cli",
        "delivery",
        "local",
        "testing",
        "releases",
        "operators/btp",
        "operators/cap",
        "operators/component",
    )
    for page in sorted((SRC / "stellwerk" / part).rglob("__init__.py"))
]


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_names_its_modules(room: str) -> None:
    page = import_module(room)
    assert page.__doc__
    assert page.__file__
    named = set(re.findall(r"\w+", page.__doc__))
    folder = Path(page.__file__).parent
    inside = {path.stem for path in folder.glob("*.py")} | {path.parent.name for path in folder.glob("*/__init__.py")}
    assert not inside - {"__init__"} - named, "not on the map"
