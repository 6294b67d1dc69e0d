"""The check of requirements finds what it promises to find. `make check` runs it on the real ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.requirements.check import findings

ROOT = Path(__file__).parents[3]
KNOWN = ("R-1", "R-2")


def test_a_requirement_with_neither_test_nor_reason_is_named() -> None:
    assert findings(KNOWN, {"R-1": ["a.py"]}, {}) == ["R-2: no test names it, and open.toml does not say why"]


def test_a_reason_that_a_test_has_overtaken_is_named_with_the_test() -> None:
    marks = {"R-1": ["a.py"], "R-2": ["b.py", "c.py"]}
    assert findings(KNOWN, marks, {"R-2": "later"}) == [
        "R-2: b.py and 1 more proves it: delete its line in open.toml, or begin it with 'partly: '"
    ]


def test_a_reason_may_stand_beside_tests_that_prove_a_part() -> None:
    marks = {"R-1": ["a.py"], "R-2": ["b.py"]}
    assert findings(KNOWN, marks, {"R-2": "partly: only here"}) == []
    assert findings(KNOWN, {"R-1": ["a.py"]}, {"R-2": "partly: nowhere"}) == ["R-2: partly proved by no test at all"]


def test_unknown_ids_and_empty_reasons_are_named() -> None:
    wrong = findings(KNOWN, {"R-1": ["a.py"], "R-3": ["a.py"]}, {"R-2": " ", "R-4": "later"})
    assert wrong == [
        "R-2: open.toml gives no reason",
        "R-3: named in a.py, and there is no such requirement",
        "R-4: named in open.toml, and there is no such requirement",
    ]


def test_a_test_that_names_no_requirement_fails(tmp_path: Path) -> None:
    marks = {"wrong": "@pytest.mark.req('R-999')", "empty": "@pytest.mark.req()", "right": "@pytest.mark.req('R-101')"}
    tests = "".join(f"{mark}\ndef test_{name}() -> None: ...\n" for name, mark in marks.items())
    (tmp_path / "test_it.py").write_text(f"import pytest\n{tests}")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = req\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "tests.requirements.marks", str(tmp_path)],
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert "2 errors" in done.stdout, done.stdout
    assert "1 passed" in done.stdout
    assert "the mark req names no requirement: R-999" in done.stdout
