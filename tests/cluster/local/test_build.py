"""A build happens once, is told, and fails with a reason. The compiler is played by a script; its output is real."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import stellwerk
from stellwerk.local.build import control_plane

SCRIPT = """#!/bin/sh
case "$1" in
  env) echo "${FAKE_VERSION:-go1.26.0}" ;;
  list) echo "$FAKE_MODULE" ;;
  build)
    echo "$*" >> "$FAKE_MODULE/builds"
    if [ -e "$FAKE_MODULE/failure" ]; then cat "$FAKE_MODULE/failure" >&2; exit 1; fi
    while [ "$1" != -o ]; do shift; done
    echo program > "$2" ;;
esac
"""
STAGE = "spec:\n  selector:\n    matchExpressions: []\n"
ENSURE = """
from stellwerk.local import errors
from stellwerk.local.build import control_plane
try:
    print(control_plane.ensure(print).folder)
except errors.LocalError as error:
    print(error)
"""


class Workshop:
    """A compiler, a module with stages, and an empty cache."""

    def __init__(self, folder: Path) -> None:
        self.module, self.cache, self.tools = folder / "module", folder / "cache", folder / "tools"
        for stage in (
            "node/fast/node-initialize",
            "pod/fast/pod-ready",
            "pod/fast/pod-complete",
            "pod/fast/pod-delete",
        ):
            file = self.module / "kustomize/stage" / f"{stage}.yaml"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(STAGE)
        (self.module / "LICENSE").write_text("free")
        self.tools.mkdir()
        compiler = self.tools / "go"
        compiler.write_text(SCRIPT)
        compiler.chmod(0o755)

    @property
    def environment(self) -> Mapping[str, str]:
        path = f"{self.tools}{os.pathsep}/usr/bin{os.pathsep}/bin"
        return {"PATH": path, "STELLWERK_CACHE": str(self.cache), "FAKE_MODULE": str(self.module)}

    def begin(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", ENSURE],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def ensure(self) -> list[str]:
        """The lines that were said, the last one the folder or the error."""
        return self.begin().communicate(timeout=30)[0].strip().splitlines()

    def builds(self) -> int:
        return len((self.module / "builds").read_text().splitlines())


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


def test_what_is_built_is_not_built_again(workshop: Workshop) -> None:
    first = workshop.ensure()
    assert [line.split()[1] for line in first[:-1]] == ["localkube", "kwok"]
    assert workshop.ensure() == first[-1:]
    assert workshop.builds() == 2
    assert control_plane.Binaries(Path(first[-1])).is_complete


def test_two_who_want_it_at_once_build_it_once(workshop: Workshop) -> None:
    both = [workshop.begin(), workshop.begin()]
    folders = {process.communicate(timeout=30)[0].strip().splitlines()[-1] for process in both}
    assert folders == {str(next(workshop.cache.glob("localkube-*")))}
    assert workshop.builds() == 2


def test_the_next_build_says_how_long_the_last_one_took(workshop: Workshop) -> None:
    shutil.rmtree(workshop.ensure()[-1])
    assert workshop.ensure()[0] == "building localkube (last time 0 s)"


@pytest.mark.parametrize(
    "content", ["", "[]", "3", '{"localkube": null}', '{"localkube": "soon"}', '{"localkube": []}']
)
def test_a_damaged_record_of_durations_ends_no_build(workshop: Workshop, content: str) -> None:
    workshop.cache.mkdir()
    (workshop.cache / "durations.json").write_text(content)
    lines = workshop.ensure()
    assert lines[0] == "building localkube (about 5 minutes)"
    assert control_plane.Binaries(Path(lines[-1])).is_complete


def test_durations_that_cannot_be_kept_end_no_build(workshop: Workshop) -> None:
    (workshop.cache / "durations.json").mkdir(parents=True)
    assert control_plane.Binaries(Path(workshop.ensure()[-1])).is_complete


def test_a_build_removes_what_killed_ones_left_and_what_was_not_used_for_long(workshop: Workshop) -> None:
    names = [".building-killed", "localkube-old", "localkube-used", "localkube-runs", "renderer-old"]
    left, old, used, runs, other = folders = [workshop.cache / name for name in names]
    for folder in folders:
        folder.mkdir(parents=True)
    program = runs / "localkube"
    shutil.copy("/bin/sleep", program)
    for folder in (old, runs, other):
        os.utime(folder, (0, 0))
    with subprocess.Popen([program, "1000"]) as process:
        try:
            built = Path(workshop.ensure()[-1])
        finally:
            process.kill()
    assert {*workshop.cache.glob("*-*"), *workshop.cache.glob(".*")} == {built, used, runs, other}
    assert not left.exists()
    assert not old.exists()


def test_a_build_that_is_found_counts_as_used(workshop: Workshop) -> None:
    built = Path(workshop.ensure()[-1])
    os.utime(built, (0, 0))
    workshop.ensure()
    assert built.stat().st_mtime > 0


def test_pods_with_a_fate_are_left_alone_by_the_usual_stages_and_are_still_deleted(workshop: Workshop) -> None:
    stages = {file.stem: file.read_text() for file in control_plane.Binaries(Path(workshop.ensure()[-1])).stages}
    assert {name for name, text in stages.items() if "stellwerk.local/fate" in text} == {"pod-ready", "pod-complete"}


def test_a_failed_build_names_its_cause_and_leaves_nothing_half_done(workshop: Workshop) -> None:
    failure = workshop.module / "failure"
    failure.write_text("main.go:7:2: it does not fit\n")
    answer = "\n".join(workshop.ensure())
    assert "Error:   cannot build localkube\nCause:   main.go:7:2: it does not fit\nFix:     run it by hand" in answer
    assert [file.name for file in workshop.cache.iterdir() if file.is_dir()] == []
    failure.unlink()
    assert control_plane.Binaries(Path(workshop.ensure()[-1])).is_complete


def test_an_unreachable_network_is_told_from_a_broken_program(workshop: Workshop) -> None:
    (workshop.module / "failure").write_text("go: module lookup: dial tcp: no such host\n")
    assert "check the network" in workshop.ensure()[-1]


def test_a_full_disk_is_told_from_a_broken_program(workshop: Workshop) -> None:
    (workshop.module / "failure").write_text("compile: writing output: no space left on device\n")
    assert "too little disk space" in "\n".join(workshop.ensure())


def test_without_a_compiler_and_a_place_to_install_one_it_says_so(tmp_path: Path) -> None:
    outside = Path(sys.base_prefix) / "bin" / "python3"
    source = str(Path(stellwerk.__file__).parents[1])
    answer = subprocess.run(
        [outside, "-c", ENSURE],
        env={"PATH": "/nowhere", "PYTHONPATH": source, "STELLWERK_CACHE": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert "no Go toolchain" in answer.stdout, answer
    assert "Fix:     install Go 1.26 or newer" in answer.stdout
