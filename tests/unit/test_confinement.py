"""What the shipped product never does, by its own source: start programs, run text as code, write where others look.

A list of exceptions, each with its reason, is part of the promise: whoever adds a way out has to say why here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

import stellwerk

PACKAGE = Path(stellwerk.__file__).parent
NOT_SHIPPED_IN_AN_OPERATOR = ("testing", "local")
"""The test kit, and the local Kubernetes behind `stellwerk up`: both exist to start programs."""

STARTERS = {
    "asyncio.create_subprocess_exec",
    "asyncio.create_subprocess_shell",
    "multiprocessing",
    "os.exec*",
    "os.fork*",
    "os.popen",
    "os.posix_spawn*",
    "os.spawn*",
    "os.startfile",
    "os.system",
    "pty",
    "subprocess",
    "concurrent.futures.ProcessPoolExecutor",
}
STARTS = {
    "render/worker/worker.py": "the renderer",
    "kube/login/auth.py": "the login program that a person's own kubeconfig names; one from a Secret may not name any",
}
INTERPRETERS = {"compile", "eval", "exec", "pickle", "marshal", "shelve", "dill", "runpy"}
WRITERS = {
    "tempfile",
    "write_text",
    "write_bytes",
    "mkdir",
    "makedirs",
    "symlink_to",
    "rename",
    "touch",
    "copytree",
}
WRITES = {
    "kube/login/auth.py": "a client certificate, 0600 and gone at once, where the system has no files in memory",
    "runtime/certificates/certs.py": "a server's certificate, as above",
    "render/worker/worker.py": "the kernel's own file about the renderer: it is the first to go when memory ends",
    "render/sources/artifact_disk_cache.py": "verified artifacts, if a folder for them is named",
    "operators/btp/module/rehearsal.py": "the copy of the module for `stellwerk up`",
    "cli/shell/closed_streams.py": "/dev/null, in the place of standard streams that the caller has closed",
    "cli/look/bundle.py": "a new archive for support, 0600, under the name that a person gives",
    "cli/reference.py": "the reference page, made in a checkout",
}


@cache
def sources() -> Mapping[str, ast.Module]:
    """Every module that an operator's image runs, by its path."""
    return {
        str(file.relative_to(PACKAGE)): ast.parse(file.read_text())
        for file in sorted(PACKAGE.rglob("*.py"))
        if file.relative_to(PACKAGE).parts[0] not in NOT_SHIPPED_IN_AN_OPERATOR
    }


def names(tree: ast.AST) -> Iterator[str]:
    """What a module imports and calls, by full name where the source has it."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=imported):
                yield from (one.name for one in imported)
            case ast.ImportFrom(module=str(module), names=imported):
                yield from (f"{module}.{one.name}" for one in imported)
            case ast.Call(func=called):
                yield ast.unparse(called)


def uses(tree: ast.AST, forbidden: set[str]) -> set[str]:
    return {name for name in names(tree) if any(_is(name, one) for one in forbidden)}


def _is(name: str, forbidden: str) -> bool:
    if forbidden.endswith("*"):
        return name.startswith(forbidden[:-1])
    return name == forbidden or name.startswith(f"{forbidden}.")


def opened_for_writing(tree: ast.AST) -> set[str]:
    """Calls that make or change a file, by the last part of their name."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func).rpartition(".")[2]
            if name == "open" and set(_mode(node)) & set("wxa+"):
                found.add("open:w")
            elif name in WRITERS:
                found.add(name)
    return found | uses(tree, {"tempfile"})


def _mode(call: ast.Call) -> str:
    """How `open` is called: the second argument of the function, the first of a path's method, or by name."""
    at = 1 if isinstance(call.func, ast.Name) else 0
    given = [*call.args[at : at + 1], *(one.value for one in call.keywords if one.arg == "mode")]
    return "".join(str(one.value) for one in given if isinstance(one, ast.Constant))


def test_the_search_finds_what_it_looks_for() -> None:
    tree = ast.parse("import subprocess\nos.execvp('a', [])\neval('1')\nopen('f', 'wb')\nPath('f').write_text('')\n")

    assert uses(tree, STARTERS) == {"subprocess", "os.execvp"}
    assert uses(tree, INTERPRETERS) == {"eval"}
    assert opened_for_writing(tree) == {"open:w", "write_text"}
    assert len(sources()) > 200


@pytest.mark.req("R-508")
def test_the_only_program_that_an_operator_starts_is_the_renderer() -> None:
    starting = {file for file, tree in sources().items() if uses(tree, STARTERS)}

    assert starting <= set(STARTS)
    assert {"render/worker/worker.py", "kube/login/auth.py"} <= starting, (
        "the list of exceptions holds nothing that is gone"
    )


@pytest.mark.req("R-508")
def test_no_text_is_run_as_code() -> None:
    assert {file: found for file, tree in sources().items() if (found := uses(tree, INTERPRETERS))} == {}


@pytest.mark.req("R-508")
def test_nothing_is_written_to_a_shared_place() -> None:
    writing = {file for file, tree in sources().items() if opened_for_writing(tree)}

    assert writing == set(WRITES)
