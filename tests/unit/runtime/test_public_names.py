"""The page for authors lists the public classes and functions of the modules that decide by steps."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
RUNTIME = ROOT / "src" / "stellwerk" / "runtime"
PAGE = (ROOT / "docs" / "operator-author.md").read_text()
MODULES = {
    *(f"reading.{file.stem}" for file in (RUNTIME / "reading").glob("*.py") if file.stem != "__init__"),
    *(f"control.{name}" for name in ("step", "executor", "loads")),
}
LISTED = {
    module: sorted(re.findall(r"`(\w+)`", names))
    for module, names in re.findall(r"^\| `((?:reading|control)\.\w+)` \|[^|]*\| (.*) \|$", PAGE, re.MULTILINE)
}


def test_the_page_lists_each_module_of_the_form() -> None:
    assert LISTED.keys() == MODULES


@pytest.mark.parametrize("module", sorted(MODULES))
def test_the_page_lists_each_public_class_and_function_and_no_other(module: str) -> None:
    tree = ast.parse(RUNTIME.joinpath(*module.split(".")).with_suffix(".py").read_text())
    defined = [each.name for each in tree.body if isinstance(each, ast.ClassDef | ast.FunctionDef)]
    assert LISTED[module] == sorted(name for name in defined if not name.startswith("_"))
