"""Files that are made from code are as the code would make them now."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[3]


def generated() -> Mapping[Path, str]:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "deploy" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    files: Mapping[Path, str] = module.generated()
    return files


def test_every_generated_file_is_fresh() -> None:
    wanted = generated()
    there = {path: (ROOT / path).read_text() for path in wanted if (ROOT / path).is_file()}
    stale = [str(path) for path in wanted if there.get(path) != wanted[path]]
    assert not stale, "run `make generate`"
