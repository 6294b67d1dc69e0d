"""The renderer is built once per state of its source, and a wheel carries it. The compiler is played by a script."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCRIPT = """#!/bin/sh
echo "$1" >> "$RECORD"
case "$1" in
  env) case "$2" in GOROOT) echo "$WORKSHOP/go-root" ;; *) echo go1.26.0 ;; esac ;;
  list)
    printf 'std\\t\\t\\t%s/go-root/src/fmt\\n' "$WORKSHOP"
    printf 'example.com/a\\tv1.2.3\\t%s/a\\t%s/a/inner\\n' "$WORKSHOP" "$WORKSHOP" ;;
  test) echo '--- FAIL: TestThatFails'; exit 1 ;;
  build)
    while [ "$1" != -o ]; do shift; done
    echo program > "$2"; chmod 755 "$2" ;;
esac
"""
ENSURE = "from stellwerk.local.build import renderer; print(renderer.ensure())"
CHECK = """
from stellwerk.local import errors
from stellwerk.local.build import renderer
try:
    renderer.check()
except errors.LocalError as error:
    print(error)
"""


class Workshop:
    """A compiler and an empty cache."""

    def __init__(self, folder: Path) -> None:
        self.cache, self.record = folder / "cache", folder / "record"
        compiler = folder / "go"
        compiler.write_text(SCRIPT)
        compiler.chmod(0o755)
        for place, package in (("go-root", "src/fmt"), ("a", "inner")):
            (folder / place / package).mkdir(parents=True)
            (folder / place / "LICENSE").write_text(f"terms of {place}\n")
        self.licence_of_a = folder / "a" / "LICENSE"
        path = os.pathsep.join([str(folder), "/usr/bin", "/bin"])
        self.environment = {
            "PATH": path,
            "STELLWERK_CACHE": str(self.cache),
            "RECORD": str(self.record),
            "WORKSHOP": str(folder),
        }

    def attempt(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments], env=self.environment, cwd=ROOT, capture_output=True, text=True, timeout=60
        )

    def run(self, *arguments: str) -> str:
        done = self.attempt(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def calls(self, verb: str) -> int:
        return self.record.read_text().splitlines().count(verb)


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


def test_what_is_built_is_not_built_again(workshop: Workshop) -> None:
    first = workshop.run("-c", ENSURE)
    assert Path(first).read_text() == "program\n"
    assert workshop.run("-c", ENSURE) == first
    assert workshop.calls("build") == 1


def test_old_versions_do_not_fill_the_disk(workshop: Workshop) -> None:
    for number in range(8):
        older = workshop.cache / f"renderer-{number}"
        older.mkdir(parents=True)
        os.utime(older, (number, number))
    newest = Path(workshop.run("-c", ENSURE)).parent
    kept = {folder.name for folder in workshop.cache.glob("renderer-*")}
    assert kept == {newest.name, "renderer-7", "renderer-6", "renderer-5", "renderer-4"}


def test_a_failing_test_of_the_renderer_is_told_in_its_words(workshop: Workshop) -> None:
    answer = workshop.run("-c", CHECK)
    assert "the renderer fails go test" in answer
    assert "--- FAIL: TestThatFails" in answer


def test_a_wheel_carries_the_program_and_is_for_one_platform(workshop: Workshop, tmp_path: Path) -> None:
    workshop.run("-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist"))
    wheel = next((tmp_path / "dist").iterdir())
    assert not wheel.name.endswith("-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        program = archive.getinfo("stellwerk/render/bin/stellwerk-renderer")
        assert archive.read(program) == b"program\n"
        licences = archive.read("stellwerk/render/bin/LICENSES").decode()
    assert program.external_attr >> 16 & 0o111, "it can be started"
    assert "terms of a" in licences
    assert "example.com/a v1.2.3: LICENSE" in licences
    assert "the Go standard library: LICENSE" in licences


def test_a_module_without_a_licence_is_not_shipped(workshop: Workshop, tmp_path: Path) -> None:
    workshop.licence_of_a.unlink()
    refused = workshop.attempt("-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist"))
    assert refused.returncode != 0
    assert "there is no licence text in example.com/a v1.2.3" in refused.stdout + refused.stderr
