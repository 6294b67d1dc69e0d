"""Kinds that decide by steps keep to them: `make check` runs this over their folders.

A step reads through its view, which wakes the object, and its writes are values. So these folders open no watch, queue
no key, expect no write, and send no request. Conflicts are refused everywhere by ruff.

    python -m tests.forms
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src" / "stellwerk"
CONVERTED = ("operators/cap/tenant", "operators/cap/operation", "operators/kyma")
"""Folders whose kinds decide by steps."""

_WATCHES = {
    "watches",
    "on_change",
    "on_parked",
    "on_served",
    "on_state",
    "on_unreadable",
    "expect",
    "expect_end",
}
_WRITES = {"apply", "create", "delete", "delete_all", "patch", "update", "update_status"}


def old_forms(source: str) -> Iterator[tuple[int, str]]:
    """The lines of a module that do what a step must not, with the form that is used."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        called, owner = node.func.attr, _name(node.func.value)
        if called in _WATCHES or (owner == "queue" and called == "add") or (owner == "client" and called in _WRITES):
            yield node.lineno, f"{owner}.{called}(" if owner else f".{called}("


def _name(node: ast.expr) -> str:
    """The last name of what a method is called on: `queue` of `self.controller.queue`."""
    if isinstance(node, ast.Attribute):
        return node.attr.lstrip("_")
    return node.id.lstrip("_") if isinstance(node, ast.Name) else ""


def main() -> int:
    """Print what is found. Returns 1 if there is anything."""
    found = [
        f"{path.relative_to(SOURCES.parents[1])}:{line}: {form} is for the view or a write of the step"
        for folder in CONVERTED
        for path in sorted((SOURCES / folder).rglob("*.py"))
        for line, form in old_forms(path.read_text())
    ]
    print("\n".join([*found, f"{len(found)} old forms are left in {len(CONVERTED)} folders that decide by steps"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
