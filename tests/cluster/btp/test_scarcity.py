"""What an operator does when the machine has nothing left to give: it says so, and goes on when there is something."""

from __future__ import annotations

import resource
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import pytest

from stellwerk.local.cluster import LocalCluster
from stellwerk.testing.eventually import eventually
from tests.cluster.btp.given import Given
from tests.cluster.btp.process import Operator, inputs, operator
from tests.cluster.btp.then import Then

LAST_STANDARD_STREAM = 3


@pytest.fixture
async def running(btp_cluster: LocalCluster, given: Given, tmp_path: Path) -> AsyncIterator[Operator]:
    """The operator as a process, ready and with nothing to do."""
    await inputs(given)
    async with operator(btp_cluster, tmp_path) as running:
        await running.process.start()
        await running.proxy.history.settled()
        yield running


@contextmanager
def limited(pid: int, what: int, to: int) -> Iterator[None]:
    """The kernel's limit of a process, until the block ends."""
    soft, hard = resource.prlimit(pid, what)
    resource.prlimit(pid, what, (to, hard))
    try:
        yield
    finally:
        resource.prlimit(pid, what, (soft, hard))


async def is_red(running: Operator) -> bool:
    """Whether a kubelet that probes would take the process for unready."""
    url = running.metrics_url
    try:
        async with aiohttp.request("GET", url, timeout=aiohttp.ClientTimeout(total=2)) as response:
            return response.status != 200
    except (aiohttp.ClientError, TimeoutError):
        return True


async def is_green(running: Operator) -> bool:
    return not await is_red(running)


@pytest.mark.req("R-305")
async def test_without_a_free_descriptor_it_says_so_and_goes_on_when_there_is_one(
    running: Operator, given: Given, then: Then
) -> None:
    process = running.process
    with limited(process.pid, resource.RLIMIT_NOFILE, LAST_STANDARD_STREAM):
        await given.btp_operator()
        await process.logged("Too many open files", within=60)
        assert await is_red(running)
        assert process.is_running

    await then.shows("Ready", "ReconcileSucceeded", within=60)
    await eventually(lambda: is_green(running), describe="its metrics answer again")


@pytest.mark.req("R-305")
@pytest.mark.req("R-508")
async def test_where_no_file_takes_another_byte_the_module_comes_up_all_the_same(
    running: Operator, given: Given, then: Then
) -> None:
    said = len(running.process.log_text())
    with limited(running.process.pid, resource.RLIMIT_FSIZE, 0):
        await given.btp_operator()
        await then.shows("Ready", "ReconcileSucceeded")

        assert len(running.process.log_text()) == said, "the limit holds for its log, too"
    running.process.assert_clean_log()
