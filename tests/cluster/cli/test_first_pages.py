"""What the first pages tell a newcomer to type works, in their order, on the system that `make demo` leaves behind."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from stellwerk.local.cluster import LocalCluster
from stellwerk.render.binary import cache_folder
from stellwerk.testing import cluster as clusters

ROOT = Path(__file__).parents[3]
PROGRAMS = Path(sys.prefix) / "bin"
pytestmark = pytest.mark.timeout(300)
_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BAD_NEWS = {0, 1, 3}
"""It did what it was asked to: all is well, something is not ready, something would change."""


def told(page: str) -> list[str]:
    """What a page has people type, but for `make`, which is done already, and the end of it all."""
    blocks: list[str] = _BLOCK.findall((ROOT / page).read_text())
    lines = [line.partition(" #")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith(".venv/bin/") and not line.endswith("stellwerk down")]


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """The environment of somebody who has done `make demo`, and nothing else ever."""
    home = tmp_path_factory.mktemp("home")
    # It lies among the clusters of the session, so that it ends with it, and is called `local` by the newcomer alone.
    place = clusters.session_folder() / f"newcomer-{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}"
    place.mkdir()
    state = home / ".local/state/stellwerk"
    state.mkdir(parents=True)
    (state / "local").symlink_to(place)
    bare = {name: value for name, value in os.environ.items() if name in ("PATH", "PYTHONPATH", "LANG", "TMPDIR")}
    environment = {**bare, "HOME": str(home), "STELLWERK_CACHE": str(cache_folder())}
    try:
        up = typed(".venv/bin/stellwerk up --samples", environment)
        assert up.returncode == 0, up.stderr
        yield environment
    finally:
        LocalCluster(place).down()


def typed(line: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    program, *words = shlex.split(line)
    expanded = [word.replace("~", environment["HOME"], 1) if word.startswith("~/") else word for word in words]
    return subprocess.run(
        [PROGRAMS / Path(program).name, *expanded],
        env=dict(environment),
        cwd=environment["HOME"],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md"])
def test_every_line_of_it_can_be_typed(newcomer: Mapping[str, str], page: str) -> None:
    lines = told(page)
    assert len(lines) >= 4
    for line in lines:
        answer = typed(line, newcomer)
        assert answer.returncode in BAD_NEWS, f"{line}\n{answer.stderr}"
        assert answer.stdout, line
        assert "Error:" not in answer.stderr, f"{line}\n{answer.stderr}"


def test_the_system_shows_what_the_readme_shows(newcomer: Mapping[str, str]) -> None:
    shown = typed(".venv/bin/stellwerk get -A", newcomer).stdout
    printed = (ROOT / "README.md").read_text()
    rows = [line.split()[:3] for line in shown.splitlines()]
    assert len(rows) > 4
    assert [row for row in rows if not re.search(r"^" + r" +".join(map(re.escape, row)), printed, re.MULTILINE)] == []
