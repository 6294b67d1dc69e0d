"""Which requirements no test names. A requirement without a test is either listed in `open.toml`, with the reason, or
a mistake; so is an entry there that a test has overtaken, and a mark that names no requirement.

    python -m tests.requirements
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

HERE = Path(__file__).parent
TESTS = HERE.parent


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
    untested = [f"{name}: no test names it, and open.toml does not say why" for name in known if name not in marks]
    return [
        *(line for line in untested if line.partition(":")[0] not in unbuilt),
        *(
            f"{name}: open.toml says that nothing proves it, but {_files(marks[name])} does"
            for name in unbuilt
            if name in marks
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
