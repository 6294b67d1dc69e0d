"""The pages of the rooms name every module that is in them, so that a newcomer finds his way without a search."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest


@pytest.mark.parametrize("room", ["stellwerk.apply", "stellwerk.apply.rollout", "stellwerk.render"])
def test_a_room_names_its_modules(room: str) -> None:
    page = import_module(room)
    assert page.__doc__
    assert page.__file__
    named = set(re.findall(r"\w+", page.__doc__))
    modules = {path.stem for path in Path(page.__file__).parent.glob("*.py")} - {"__init__"}
    assert not modules - named, "not on the page"
