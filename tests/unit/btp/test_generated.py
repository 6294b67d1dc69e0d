"""Files that are made from code are as the code would make them now."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "deploy" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", sorted(generator().generated()))
def test_a_generated_file_is_fresh(path: Path) -> None:
    assert (ROOT / path).read_text() == generator().generated()[path], "run `make generate`"
