"""Nothing is removed that nobody wanted removed."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stellwerk.local import cluster
from stellwerk.local.errors import BadName

COMMAND = [sys.executable, "-m", "stellwerk.cli.main", "down", "--name", "asked"]


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """The folder of a local system that does not run."""
    folder = tmp_path / "asked"
    (folder / "data").mkdir(parents=True)
    return folder


def environment(system: Path) -> dict[str, str]:
    return {**os.environ, "STELLWERK_STATE": str(system.parent), "LC_ALL": "C.UTF-8"}


def down(system: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *more],
        env=environment(system),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def at_a_terminal(system: Path, answer: str) -> tuple[int, str]:
    """Types an answer, as a person would. Returns the exit code and what the screen shows."""
    terminal, side = pty.openpty()
    process = subprocess.Popen(COMMAND, env=environment(system), stdin=side, stdout=side, stderr=side)
    os.close(side)
    os.write(terminal, f"{answer}\n".encode())
    code, shown = process.wait(timeout=30), b""
    try:
        while part := os.read(terminal, 4096):
            shown += part
    except OSError:  # the other side is closed
        pass
    os.close(terminal)
    return code, shown.decode()


def test_without_a_terminal_and_without_yes_it_refuses(system: Path) -> None:
    done = down(system)
    assert done.returncode == 2
    assert "there is no terminal to ask at" in done.stderr
    assert "--yes" in done.stderr
    assert system.exists()


def test_yes_removes_without_a_question(system: Path) -> None:
    assert down(system, "--yes").returncode == 0
    assert not system.exists()


def test_keeping_the_data_needs_no_question(system: Path) -> None:
    assert down(system, "--keep-data").returncode == 0
    assert system.exists()


def test_where_nothing_is_nothing_is_asked(system: Path) -> None:
    (system / "data").rmdir()
    system.rmdir()
    done = down(system)
    assert done.returncode == 0
    assert "There is no local system" in done.stderr


def test_where_nothing_is_keeping_the_data_is_not_reported_as_done(system: Path) -> None:
    done = down(system, "--keep-data", "--name=typo")
    assert done.returncode == 0
    assert "There is no local system 'typo'." in done.stderr


@contextlib.contextmanager
def kept(file: Path, place: Path) -> Iterator[None]:
    """Nobody can remove the file, which may move to another place meanwhile. Permissions do not hold for root."""
    if os.geteuid():
        file.parent.chmod(0o500)
    elif frozen := subprocess.run(["chattr", "+i", file], capture_output=True, check=False).returncode:
        pytest.skip(f"this file system removes every file for root: chattr ended with {frozen}")
    try:
        yield
    finally:
        now = place if place.exists() else file
        if os.geteuid():
            now.parent.chmod(0o700)
        else:
            subprocess.run(["chattr", "-i", now], check=True)


def test_data_that_cannot_be_removed_is_named_and_removed_the_next_time(system: Path) -> None:
    file, place = system / "data" / "db", system.with_name(".asked.removed") / "data" / "db"
    file.write_text("data")
    with kept(file, place):
        done = down(system, "--yes")
        assert done.returncode == 1
        assert f"Cause:   {place}: " in done.stderr
        assert not system.exists()
    assert down(system, "--yes").returncode == 0
    assert list(system.parent.iterdir()) == []


WITH_A_MOUNT = """
mount -t tmpfs none "$0" && mkdir "$0/data" && touch "$0/data/db" || exit 77
"$@"
code=$?
find "$0" -mindepth 1
exit $code
"""


def down_with_a_mount(system: Path, place: Path) -> subprocess.CompletedProcess[str]:
    """Remove the system where a place, which exists, is a mount with data; prints what remains in there."""
    inside = ["unshare", "--map-root-user", "--mount", "sh", "-c", WITH_A_MOUNT, str(place)]
    done = subprocess.run(
        [*inside, *COMMAND, "--yes"],
        env=environment(system),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    if done.returncode == 77 or done.stderr.startswith("unshare"):
        pytest.skip(f"this machine offers no mounts of their own: {done.stderr.strip()}")
    return done


def test_a_folder_that_cannot_be_renamed_is_emptied_in_its_place(system: Path) -> None:
    """A volume of a container is a mount, which cannot be removed either."""
    done = down_with_a_mount(system, system)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_what_remains_of_a_removed_system_does_not_keep_the_data_of_a_new_one(system: Path) -> None:
    left = system.with_name(".asked.removed") / "volume"
    left.mkdir(parents=True)
    done = down_with_a_mount(system, left)
    assert done.returncode == 1
    assert f"Cause:   {left}: " in done.stderr
    assert not system.exists()
    assert done.stdout == ""


def test_a_file_that_cannot_be_removed_does_not_keep_the_others(system: Path) -> None:
    (system / "volume").mkdir()
    (system / "zone").write_text("")
    done = down_with_a_mount(system, system / "volume")
    left = system.with_name(".asked.removed")
    assert f"Cause:   {left / 'volume'}: " in done.stderr
    assert [path.name for path in left.iterdir()] == ["volume"]


@pytest.mark.parametrize(("answer", "code", "stays"), [("y", 0, False), ("n", 1, True), ("", 1, True)])
def test_a_person_is_asked(system: Path, answer: str, code: int, stays: bool) -> None:
    ended, shown = at_a_terminal(system, answer)
    assert "Remove the local system 'asked' with all its data? [y/N]" in shown
    assert (ended, system.exists()) == (code, stays)


@pytest.mark.parametrize("name", ["..", "../..", ".", "", "a/b", "/tmp", "-x", "x" * 64])
def test_a_name_never_leads_out_of_the_folder_of_local_systems(system: Path, name: str) -> None:
    done = down(system, "--yes", f"--name={name}")
    assert done.returncode == 2
    assert "cannot be a name" in done.stderr
    assert (system / "data").is_dir()
    with pytest.raises(BadName):
        cluster.named(name)
