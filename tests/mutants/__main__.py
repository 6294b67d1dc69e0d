"""Breaks one guard after the other in a copy of the sources, and runs the tests that must notice it.

    python -m tests.mutants [AREA | ID ...]

Each mutation is one entry of `<area>.toml`: a `file`, the `before` text (which occurs once in it), the `after` text,
the `guard` that the change removes, and the `tests` of which at least one must fail. A mutation that no test notices
is printed as SURVIVED, and the run ends with 1. A run of everything writes the table `tests/requirements/mutations.md`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.mutants.mutations import ROOT, Mutation, mutations, table

_COPIED = (
    "src",
    "tests",
    "bench",
    "native",
    "deploy",
    "samples",
    "docs",
    "CHANGELOG.md",
    "pyproject.toml",
    "requirements.lock",
    "Makefile",
    "README.md",
)
_SECONDS = 600


def main(chosen: Sequence[str]) -> int:
    """Run the chosen mutations, all of them without a choice. The unchanged sources must pass the tests of all."""
    everything = mutations()
    if unknown := {*chosen} - {each.name for each in everything} - {each.area for each in everything}:
        print(f"no area and no mutation: {', '.join(sorted(unknown))}\n\n{__doc__}")
        return 2
    selected = [each for each in everything if not chosen or each.name in chosen or each.area in chosen]
    outcomes: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = _copied(Path(folder))
        unchanged = _run(copy, sorted({test for each in selected for test in each.tests}))
        if unchanged.returncode != 0:
            print(f"the tests fail without a mutation:\n{unchanged.stdout[-5000:]}{unchanged.stderr[-1000:]}")
            return 2
        for number, mutation in enumerate(selected, start=1):
            outcomes[mutation.name] = outcome = _outcome(copy, mutation)
            print(f"[{number}/{len(selected)}] {mutation.name}: {outcome} ({mutation.guard})", flush=True)
    if not chosen:
        (ROOT / "tests" / "requirements" / "mutations.md").write_text(table(everything, outcomes))
    survivors = [name for name, outcome in outcomes.items() if outcome != "killed"]
    print(f"{len(selected) - len(survivors)} of {len(selected)} mutations were killed")
    return 1 if survivors else 0


def _copied(folder: Path) -> Path:
    for name in _COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    return folder


def _outcome(copy: Path, mutation: Mutation) -> str:
    target = copy / mutation.file
    text = target.read_text()
    target.write_text(mutation.applied_to(text))
    try:
        done = _run(copy, mutation.tests, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        return "killed"  # a test that never ends is noticed, too
    finally:
        target.write_text(text)
    match done.returncode:
        case 1:
            return "killed"
        case 0:
            return "SURVIVED"
        case _:
            return f"NOT RUN: {done.stdout.strip().splitlines()[-1] if done.stdout.strip() else done.stderr[-200:]}"


def _run(copy: Path, tests: Sequence[str], timeout: float | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(copy / "src")}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    return subprocess.run(
        command, cwd=copy, env=environment, timeout=timeout, capture_output=True, text=True, check=False
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
