"""Prints the size of the code by folder: lines without blanks, comments and docstrings; and imports inside functions.

python -m bench.sizes
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
SRC = Path("src/stellwerk")
FOLDERS = (
    SRC,
    *(SRC / name for name in ("kube", "api", "runtime", "apply", "render", "delivery", "releases", "local", "cli")),
    *(SRC / "operators" / name for name in ("btp", "cap", "cap_manager", "component")),
    SRC / "testing",
    Path("tests"),
    Path("bench"),
)
_LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def python_lines(text: str) -> int:
    """The lines of Python with code on them."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _LAYOUT:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def go_lines(text: str) -> int:
    """The lines of Go with code on them."""
    return sum(bool(line.strip()) and not line.lstrip().startswith("//") for line in text.splitlines())


def _functions(texts: Iterable[str]) -> list[_Function]:
    return [node for text in texts for node in ast.walk(ast.parse(text)) if isinstance(node, _Function)]


def _local_imports(functions: Iterable[_Function]) -> int:
    return sum(
        isinstance(node, ast.Import | ast.ImportFrom)
        for function in functions
        for statement in function.body
        for node in ast.walk(statement)
        if not isinstance(statement, _Function)
    )


def main() -> None:
    """Measure, and print."""
    print("code lines")
    for folder in FOLDERS:
        total = sum(python_lines(path.read_text()) for path in (ROOT / folder).rglob("*.py"))
        print(f"  {total:>6}  {folder}")
    go = [path for path in (ROOT / "native/renderer").rglob("*.go") if not path.name.endswith("_test.go")]
    print(f"  {sum(go_lines(path.read_text()) for path in go):>6}  native/renderer")
    functions = _functions(path.read_text() for path in (ROOT / SRC).rglob("*.py"))
    lengths = [(function.end_lineno or function.lineno) - function.lineno + 1 for function in functions]
    print(f"functions in {SRC}: {len(functions)}, median length {median(lengths):.0f} lines")
    print(f"imports inside functions of {SRC}: {_local_imports(functions)}")
    crowd = max((len(list(folder.glob("*.py"))), folder) for folder in (ROOT / SRC).rglob("*") if folder.is_dir())
    print(f"most modules in one folder: {crowd[0]}, {crowd[1].relative_to(ROOT)}")


if __name__ == "__main__":
    main()
