"""The real control plane behind the cluster tests: one a session, a namespace a test."""

from __future__ import annotations

import contextlib
import secrets
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import pytest

from stellwerk.local.build import control_plane
from stellwerk.local.cluster import LocalCluster
from stellwerk.local.components import Options
from stellwerk.local.errors import LocalError
from stellwerk.testing import cluster as clusters
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.faults import FaultProxy
from tests.cluster import program
from tests.cluster.program import CommandLine

_HERE = Path(__file__).parent


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build what is missing before the first test, whose time limit a build would break.

    A failure is told by the tests that wanted a cluster, so that the others run.
    """
    if not session.config.option.collectonly and any(item.path.is_relative_to(_HERE) for item in session.items):
        with contextlib.suppress(LocalError):
            control_plane.ensure(_tell)


def _tell(text: str) -> None:
    sys.stderr.write(f"{text}\n")


@pytest.fixture(scope="session")
def command_line() -> Iterator[CommandLine]:
    """Runs the program as a person does."""
    with program.command_line() as command_line:
        yield command_line


class MakeCluster(Protocol):
    """Starts a cluster for one test alone; the arguments are those of `stellwerk.local.components.Options`."""

    def __call__(
        self, *, controllers: bool = True, pods: bool = True, extra_flags: Mapping[str, Sequence[str]] | None = None
    ) -> LocalCluster: ...


@pytest.fixture(scope="session")
def cluster() -> LocalCluster:
    """The session's cluster: everything runs, pods live. Shared, so a test keeps to its own namespace."""
    return clusters.started("shared")


@pytest.fixture
async def proxy(cluster: LocalCluster) -> AsyncIterator[FaultProxy]:
    """A line to the shared cluster, as its administrator, that can be made bad."""
    async with FaultProxy(cluster.kubeconfig) as made:
        yield made


@pytest.fixture(scope="session")
def remote_cluster() -> LocalCluster:
    """A second cluster, shared like the first, without pods: the other side of remote work."""
    return clusters.started("remote", Options(durable=False, pods=False))


@pytest.fixture
def make_cluster() -> Iterator[MakeCluster]:
    """Starts clusters for one test alone; they are gone after it."""
    made: list[LocalCluster] = []

    def make(
        *, controllers: bool = True, pods: bool = True, extra_flags: Mapping[str, Sequence[str]] | None = None
    ) -> LocalCluster:
        options = Options(controllers=controllers, pods=pods, durable=False, extra_flags=extra_flags or {})
        made.append(clusters.started(f"own-{secrets.token_hex(4)}", options))
        return made[-1]

    yield make
    for cluster in made:
        cluster.down()


@pytest.fixture
def namespace(cluster: LocalCluster) -> Iterator[str]:
    """A new namespace of the shared cluster."""
    name = clusters.create_namespace(cluster)
    yield name
    clusters.leave_namespace(cluster, name)


@pytest.fixture
def audit(cluster: LocalCluster) -> AuditLog:
    """What was asked of the shared cluster since the test began. Others ask too: filter by user or namespace."""
    return AuditLog(cluster)
