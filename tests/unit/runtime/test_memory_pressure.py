"""A process says that its memory ends before the kernel ends the process."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from stellwerk.runtime.supervision.memory_pressure import MemoryCheck, own_group
from stellwerk.runtime.telemetry.metrics import Metrics

MIB = 1 << 20


def group(folder: Path, *, used: int, limit: str, forgettable: int = 0) -> Path:
    """A control group as the kernel shows it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.stat").write_text(f"anon 5\ninactive_file {forgettable}\nactive_file 7\n")
    return folder


@pytest.mark.req("R-305")
def test_near_the_limit_the_process_is_unready_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    check = MemoryCheck(group(tmp_path, used=96 * MIB, limit=str(100 * MIB)))
    with caplog.at_level(logging.WARNING):
        assert check.finding() == "96 of 100 MiB of memory are in use"
        assert check.finding() == "96 of 100 MiB of memory are in use"
    assert len(caplog.records) == 1
    group(tmp_path, used=90 * MIB, limit=str(100 * MIB))
    assert check.finding() is None


def test_files_that_the_kernel_may_forget_do_not_count(tmp_path: Path) -> None:
    assert MemoryCheck(group(tmp_path, used=99 * MIB, limit=str(100 * MIB), forgettable=9 * MIB)).finding() is None


@pytest.mark.parametrize(("limit", "shown"), [("1000", True), ("max", False)])
def test_use_and_limit_are_metrics_where_there_is_a_limit(tmp_path: Path, limit: str, shown: bool) -> None:
    metrics = Metrics()
    metrics.memory(MemoryCheck(group(tmp_path, used=700, limit=limit, forgettable=200)).usage)
    lines = metrics.exposition().decode().splitlines()
    assert ("stellwerk_memory_used_bytes 500.0" in lines) is shown
    assert ("stellwerk_memory_limit_bytes 1000.0" in lines) is shown


def test_without_a_limit_nothing_is_wrong(tmp_path: Path) -> None:
    assert MemoryCheck(group(tmp_path, used=99 * MIB, limit="max")).finding() is None
    assert MemoryCheck(tmp_path / "no-control-group").finding() is None


def test_the_group_of_the_process_is_found_in_a_container_and_outside(tmp_path: Path) -> None:
    own = tmp_path / "cgroup"
    own.write_text("1:name=systemd:/elsewhere\n0::/pods/ours\n")
    root = tmp_path / "fs"
    assert own_group(root, own) == root, "in a container the root is its own group"
    group(root / "pods" / "ours", used=1, limit="max")
    assert own_group(root, own) == root / "pods" / "ours"
    assert own_group(root, tmp_path / "absent") == root
