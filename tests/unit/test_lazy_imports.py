"""Modules are imported when the program starts, in a lazy block, or for a reason inside a function."""

from __future__ import annotations

import ast
import builtins
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from stellwerk.assembly import OPERATORS, PROCESSES
from stellwerk.delivery.chart.part import ChartPart, OperatorChart
from stellwerk.delivery.insight import KindInsight
from stellwerk.delivery.installation import Installation
from stellwerk.delivery.operator_spec import KindHelp, OperatorSpec, OwnMonitoring, ProcessSpec
from stellwerk.kube.types.model import Kind
from stellwerk.lazy_imports import lazy_imports
from stellwerk.runtime.settings.table import SettingsTable

SRC = Path(__file__).parents[2] / "src"
MOST_INSIDE_FUNCTIONS = 10
OF_EXTRAS = {"opentelemetry.trace"}
"""Modules that a plain installation lacks."""

IMPORTER = """
from stellwerk.lazy_imports import lazy_imports

with lazy_imports(__name__):
    import mailbox

    from wsgiref import headers, missing
"""
EAGER = "import sys, importer; print(*({'mailbox', 'wsgiref.headers'} & {*sys.modules}))"


@cache
def _files_with_indented_imports() -> Mapping[str, ast.AST]:
    texts = {str(file.relative_to(SRC)): file.read_text() for file in sorted(SRC.rglob("*.py"))}
    return {
        name: ast.parse(text) for name, text in texts.items() if re.search(r"^ +(from|import) ", text, re.MULTILINE)
    }


def _imports(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom))


def _run(folder: Path, program: str) -> str:
    (folder / "importer.py").write_text(IMPORTER)
    path = f"import sys; sys.path.insert(0, {str(folder)!r})\n"
    done = subprocess.run([sys.executable, "-c", path + program], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.heavy
def test_a_module_is_imported_when_an_attribute_of_it_is_read(tmp_path: Path) -> None:
    assert _run(tmp_path, EAGER) == ""
    assert _run(tmp_path, f"import importer; importer.headers.Headers\n{EAGER}") == "wsgiref.headers"
    assert _run(tmp_path, f"import importer; importer.mailbox.Message\n{EAGER}") == "mailbox"


@pytest.mark.heavy
def test_a_module_that_does_not_exist_is_an_error_where_it_is_used(tmp_path: Path) -> None:
    used = "import importer\ntry: importer.missing.name\nexcept ImportError as error: print(error)"
    assert "wsgiref.missing" in _run(tmp_path, used)


def test_other_modules_import_as_usual_during_the_block() -> None:
    found: list[str] = []

    def another_module() -> None:
        exec("import wsgiref.headers; found.append(vars(wsgiref)['headers'].Headers.__name__)", {"found": found})

    with lazy_imports(__name__):
        thread = threading.Thread(target=another_module)
        thread.start()
        thread.join()

    assert found == ["Headers"]


def test_imports_are_as_usual_after_a_block_that_fails() -> None:
    usual = builtins.__import__

    with pytest.raises(ValueError, match="inside"), lazy_imports(__name__):
        raise ValueError("inside")

    assert builtins.__import__ is usual


def test_every_module_of_a_lazy_block_exists() -> None:
    """A block can import modules only; of a class or a function it would notice nothing before the first use."""
    modules = {
        f"{node.module}.{name.name}" if isinstance(node, ast.ImportFrom) else name.name
        for tree in _files_with_indented_imports().values()
        for block in ast.walk(tree)
        if isinstance(block, ast.With) and ast.unparse(block.items[0]) == "lazy_imports(__name__)"
        for node in _imports(block)
        for name in node.names
    }

    assert len(modules) > 30
    assert not [module for module in sorted(modules - OF_EXTRAS) if find_spec(module) is None]


def test_few_imports_are_inside_functions() -> None:
    """Only what may be missing, or must come after something else, cannot stand in a lazy block."""
    inside = {
        f"{file}:{node.lineno}: {ast.unparse(node)}"
        for file, tree in _files_with_indented_imports().items()
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in _imports(function)
    }

    assert len(inside) <= MOST_INSIDE_FUNCTIONS, "\n".join(sorted(inside))


@pytest.mark.parametrize("program", PROCESSES.values(), ids=PROCESSES)
def test_the_parts_of_every_program_are_of_their_kind(program: ProcessSpec) -> None:
    assert isinstance(program.settings(), SettingsTable)
    assert isinstance(program.process(), SettingsTable)
    assert isinstance(program.installation(), Installation)
    assert isinstance(program.chart_part(), ChartPart)


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
def test_the_parts_of_every_operator_are_of_their_kind(operator: OperatorSpec) -> None:
    own = {kind.resource.kind for kind in operator.kinds}

    assert isinstance(operator.chart(), OperatorChart)
    assert isinstance(operator.monitoring(), OwnMonitoring)
    assert {*operator.help(), *operator.insight()} <= own
    assert all(isinstance(help_, KindHelp) for help_ in operator.help().values())
    for kind, insight in operator.insight().items():
        assert isinstance(insight, KindInsight)
        assert insight.previewer is not None
        previewed = insight.previewer().kind
        assert issubclass(previewed, Kind)
        assert previewed.resource.kind == kind
