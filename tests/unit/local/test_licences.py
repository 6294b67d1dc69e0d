"""The licences that travel with the renderer."""

from __future__ import annotations

from pathlib import Path

import pytest

from stellwerk.local.build import licences
from stellwerk.local.build.licences import Package
from stellwerk.local.errors import BuildFailed


def module(folder: Path, name: str, **texts: str) -> Path:
    root = folder / name
    for path, text in texts.items():
        file = root / path.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


def test_a_packages_own_words_are_told_beside_those_of_its_module(tmp_path: Path) -> None:
    root = module(
        tmp_path,
        "m",
        LICENSE="Apache",
        fork__LICENSE="MIT",
        fork__NOTICE="by X",
        fork__inner__x="",
        other__LICENSE="BSD",
    )
    found = licences.gathered([Package("m v1", root, root / "fork" / "inner")])
    assert found == {"m v1": {"LICENSE": "Apache", "fork/LICENSE": "MIT", "fork/NOTICE": "by X"}}


def test_source_that_is_named_like_a_licence_is_none(tmp_path: Path) -> None:
    root = module(tmp_path, "m", **{"license.go": "package m", "LICENCE.md": "MIT"})
    assert licences.gathered([Package("m v1", root, root)]) == {"m v1": {"LICENCE.md": "MIT"}}


def test_a_module_without_one_is_refused_by_name(tmp_path: Path) -> None:
    root = module(tmp_path, "m", README="free as in beer")
    with pytest.raises(BuildFailed, match="m v1"):
        licences.gathered([Package("m v1", root, root)])


def test_a_text_that_many_share_is_written_once_with_all_their_names() -> None:
    text = licences.written({"b v2": {"LICENSE": "same\n"}, "a v1": {"COPYING": "same"}, "c v3": {"LICENSE": "other"}})
    assert text.count("same") == 1
    assert "a v1: COPYING\nb v2: LICENSE\n" in text
    assert text.index("  a v1") < text.index("  b v2") < text.index("  c v3")


def test_the_compilers_answer_names_modules_and_the_standard_library(tmp_path: Path) -> None:
    listed = "std\t\t\t/go/src/fmt\n\nexample.com/a\tv1\t/cache/a@v1\t/cache/a@v1/x\n"
    assert licences.packages(listed, Path("/go")) == [
        Package("the Go standard library", Path("/go"), Path("/go/src/fmt")),
        Package("example.com/a v1", Path("/cache/a@v1"), Path("/cache/a@v1/x")),
    ]
