"""A port is found on loopback, or somebody is told why not."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys

import pytest

from stellwerk.local.errors import ProcessStartFailed
from stellwerk.local.host import ports


def test_a_port_that_somebody_listens_on_is_not_free() -> None:
    with socket.create_server((ports.HOST, 0)) as other:
        assert not ports.is_free(other.getsockname()[1])
    assert ports.is_free(ports.free_port())


@pytest.mark.req("R-903")
def test_a_machine_without_a_port_is_told_why() -> None:
    with socket.create_server((ports.HOST, 0)) as other:
        taken = other.getsockname()[1]
        with pytest.raises(ProcessStartFailed, match=r"cannot listen on 127\.0\.0\.1") as failed:
            ports.free_port(range(taken, taken + 1))
    assert f"none of the ports {taken} to {taken} can be had: " in failed.value.cause
    assert "Address already in use" in failed.value.cause
    assert "ss -ltn" in failed.value.fix


def test_a_port_that_was_chosen_a_moment_ago_is_not_chosen_again() -> None:
    first = ports.free_port()
    with pytest.raises(ProcessStartFailed, match="cannot listen"):
        ports.free_port(range(first, first + 1))


def test_two_processes_choose_different_ports_before_anybody_listens() -> None:
    few = range(31_000, 31_010)
    choose = (
        f"from stellwerk.local.host import ports; print(ports.free_port(range({few.start}, {few.stop})), flush=True)"
    )
    with contextlib.ExitStack() as running:
        chosen = set()
        for _ in range(4):
            other = running.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", f"{choose}; input()"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            assert other.stdout is not None
            chosen.add(int(other.stdout.readline()))
    assert len(chosen) == 4
    assert chosen <= set(few)


def test_the_claims_of_a_process_are_bounded() -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(600):
        ports.free_port()
    assert len(os.listdir("/proc/self/fd")) - before < 300
