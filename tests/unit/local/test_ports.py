"""A port is found on loopback, or somebody is told why not."""

from __future__ import annotations

import socket

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


def test_a_port_that_another_process_listens_on_in_a_moment_is_not_chosen() -> None:
    first = ports.free_port()
    pair = range(first, first + 2)
    assert ports.free_port(pair, chosen={first}) == first + 1
