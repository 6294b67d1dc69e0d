"""Which requirements no test names. A requirement without a test is either listed in `open.toml`, with the reason, or
a mistake; so is an entry there that a test has overtaken, and a mark that names no requirement. An entry may stay
beside tests that prove a part: it then says which part is missing.

    python -m tests.requirements
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

HERE = Path(__file__).parent
TESTS = HERE.parent
PARTLY = "partly: "
"""How a reason begins that stands beside tests: they prove a part, and it says which part is missing."""


def marked(root: Path = TESTS) -> dict[str, list[str]]:
    """Every id that a mark names, and the files in which it does. Read from the sources: importing takes seconds."""
    found: dict[str, list[str]] = {}
    for file in sorted(root.rglob("*.py")):
        for name in dict.fromkeys(_names(ast.parse(file.read_text()))):
            found.setdefault(name, []).append(str(file.relative_to(root)))
    return found


def open_ones(file: Path = HERE / "open.toml") -> dict[str, str]:
    """The requirements that nothing proves yet, and why."""
    return {name: str(reason) for name, reason in tomllib.loads(file.read_text()).items()}


def findings(known: Collection[str], marks: Mapping[str, list[str]], unbuilt: Mapping[str, str]) -> list[str]:
    """What is wrong, a sentence each (pure)."""
    return [
        *(
            f"{name}: no test names it, and open.toml does not say why"
            for name in known
            if name not in {*marks, *unbuilt}
        ),
        *(
            f"{name}: {_files(marks[name])} proves it: delete its line in open.toml, or begin it with {PARTLY!r}"
            for name, reason in unbuilt.items()
            if name in marks and not reason.startswith(PARTLY)
        ),
        *(
            f"{name}: partly proved by no test at all"
            for name, reason in unbuilt.items()
            if reason.startswith(PARTLY) and name not in marks
        ),
        *(f"{name}: open.toml gives no reason" for name, reason in unbuilt.items() if not reason.strip()),
        *(
            f"{name}: named in {_files(marks[name])}, and there is no such requirement"
            for name in marks
            if name not in known
        ),
        *(f"{name}: named in open.toml, and there is no such requirement" for name in unbuilt if name not in known),
    ]


def _files(files: list[str]) -> str:
    return files[0] if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"


def _names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("mark.req"):
            for argument in node.args:
                assert isinstance(argument, ast.Constant), f"a mark spells its id out, unlike {ast.unparse(node)}"
                yield str(argument.value)
