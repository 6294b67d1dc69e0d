"""An operator is restarted when any file of its code has changed, and only then."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from stellwerk.cli.local.operator_processes import source_of


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with code, a manifest, and what Python has compiled."""
    package = tmp_path / "package"
    (package / "module" / "__pycache__").mkdir(parents=True)
    for name in ("code.py", "module/crds.yml", "module/__pycache__/code.pyc"):
        (package / name).write_text("content")
    (tmp_path / "renderer").write_text("program")
    return package


def source(package: Path) -> str:
    return source_of(package, package.parent / "renderer")


def restore_older(package: Path) -> None:
    os.utime(package / "code.py", (0, 0))


CHANGES: list[Callable[[Path], object]] = [
    lambda package: (package / "module/crds.yml").write_text("other content"),
    lambda package: (package / "module/crds.yml").unlink(),
    lambda package: (package / "module/new.md").write_text("content"),
    lambda package: (package.parent / "renderer").write_text("other program"),
    restore_older,
]


@pytest.mark.parametrize("change", CHANGES)
def test_each_change_of_the_code_is_another_source(package: Path, change: Callable[[Path], object]) -> None:
    before = source(package)
    assert source(package) == before
    change(package)
    assert source(package) != before


def test_the_same_files_in_another_place_are_another_source(package: Path) -> None:
    before = source(package)
    other = package.rename(package.with_name("other"))
    assert source(other) != before


def test_compiled_modules_and_hidden_files_do_not_matter(package: Path) -> None:
    before = source(package)
    (package / "module/__pycache__/other.pyc").write_text("content")
    (package / ".code.py.swp").write_text("content")
    assert source(package) == before
