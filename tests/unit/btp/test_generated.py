"""Files that are made from code are as the code would make them now."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@cache
def generated() -> Mapping[Path, str]:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "deploy" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    files: Mapping[Path, str] = module.generated()
    return files


@pytest.mark.parametrize("path", sorted(generated()))
def test_a_generated_file_is_fresh(path: Path) -> None:
    assert (ROOT / path).read_text() == generated()[path], "run `make generate`"
