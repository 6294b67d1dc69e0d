"""The renderer is found by what it was built from: never one that is older than its source."""

from __future__ import annotations

from pathlib import Path

import pytest

from stellwerk.render import binary
from stellwerk.render.errors import RendererMissing


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "renderer"
    for name in ("go.mod", "go.sum", "main.go", "charts/charts.go", "charts/charts_test.go", "charts/testdata/a.go"):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    return folder


@pytest.mark.parametrize("file", ["go.mod", "go.sum", "main.go", "charts/charts.go", "charts/new.go"])
def test_a_change_of_the_source_asks_for_a_new_program(source: Path, file: str) -> None:
    before = binary.built_from(source)
    (source / file).write_text("changed")
    assert binary.built_from(source) != before


@pytest.mark.parametrize("file", ["charts/charts_test.go", "charts/testdata/a.go", "README.md"])
def test_what_the_compiler_does_not_read_leaves_the_program_as_it_is(source: Path, file: str) -> None:
    before = binary.built_from(source)
    (source / file).write_text("changed")
    assert binary.built_from(source) == before


def test_a_renamed_file_is_a_change(source: Path) -> None:
    before = binary.built_from(source)
    (source / "main.go").rename(source / "start.go")
    assert binary.built_from(source) != before


def test_a_missing_program_is_told_with_the_next_step(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STELLWERK_CACHE", str(tmp_path))
    with pytest.raises(RendererMissing, match=r"is not built: .*; run: make control-plane"):
        binary.renderer_path()


def test_the_program_of_this_source_is_found_in_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STELLWERK_CACHE", str(tmp_path))
    source = binary.source_folder()
    assert source is not None
    program = binary.built_from(source)
    program.parent.mkdir()
    program.touch(mode=0o755)
    assert binary.renderer_path() == program
