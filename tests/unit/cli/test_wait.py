"""What `stellwerk wait --for` accepts, when an object is as wanted, and how a wait ends."""

from __future__ import annotations

import asyncio
from typing import Never, cast

import click
import pytest

from stellwerk.api.core import Pod
from stellwerk.cli.act import wait
from stellwerk.cli.objects import wait_for
from stellwerk.cli.objects.cluster import ClusterSession
from stellwerk.cli.shell import settings
from stellwerk.cli.shell.errors import Exit, Failure
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import ApiError, Forbidden, ServerFault, Status, Unreachable
from stellwerk.kube.types.model import Unstructured
from stellwerk.testing.clock import SimulatedLoop

OBJECT = Unstructured.of(
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop"},
        "status": {
            "phase": "Running",
            "ready": True,
            "ports": [80, 80],
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "Idle", "status": "False"}],
        },
    }
)


@pytest.mark.parametrize(
    ("value", "holds"),
    [
        ("jsonpath={.status.phase}=Running", True),
        ("jsonpath=.status.phase=Running", True),
        ("jsonpath={.status.phase}=Pending", False),
        ("jsonpath={.status.phase}", True),
        ("jsonpath=.status.absent", False),
        ("jsonpath={.status.absent}=x", False),
        ("jsonpath={.status.ready}=true", True),
        ("jsonpath={.status.ports[*]}=80", True),
        ('jsonpath={.status.conditions[?(@.type=="Ready")].status}=True', True),
        ('jsonpath={.status.conditions[?(@.type=="Idle")].status}=True', False),
        ('jsonpath={.status.conditions[?(@.type=="Idle")].status}', True),
        ("jsonpath={.status.conditions[*].status}=True", False),
        ("jsonpath={.metadata.name}=a=b}", False),
    ],
)
def test_a_path_is_awaited_with_a_value_or_with_any(value: str, holds: bool) -> None:
    awaited = wait.parsed(value)
    assert awaited.holds(OBJECT) is holds
    assert not awaited.holds(None)


@pytest.mark.parametrize(
    "value",
    ["jsonpath", "jsonpath=", "jsonpath={.a", "jsonpath={.a}=", "jsonpath=a{.b}=c", "jsonpath={.a}{.b}=c", "unready"],
)
def test_what_cannot_be_awaited_is_wrong_usage(value: str) -> None:
    with pytest.raises(click.BadParameter):
        wait.parsed(value)


class _Server:
    """Answers no list, so that no watch begins, and a read of one object with an error or never."""

    def __init__(self, error: ApiError | None) -> None:
        self._error = error

    async def list(self, *_: object, **__: object) -> Never:
        await asyncio.Event().wait()
        raise AssertionError

    async def find(self, *_: object, **__: object) -> Never:
        if self._error is not None:
            raise self._error
        await asyncio.sleep(60)
        raise Unreachable("no answer")


async def _waited(error: ApiError | None) -> float:
    """For how long a wait of five seconds lasts where it fails as too late."""
    began = asyncio.get_running_loop().time()
    cluster = ClusterSession(cast(Client, _Server(error)), settings.current())
    with pytest.raises(Failure) as failure:
        await wait_for.until(
            cluster, Pod.resource, OBJECT, lambda _: False, wanted="there", patience=wait_for.WaitLimit(5)
        )
    assert failure.value.code == Exit.TIMEOUT
    return asyncio.get_running_loop().time() - began


@pytest.mark.parametrize("error", [None, Unreachable("refused"), ServerFault(Status(code=503))], ids=repr)
def test_a_wait_ends_soon_after_its_time_where_no_answer_comes(error: ApiError | None) -> None:
    with click.Context(click.Command("wait")).scope(), asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        assert runner.run(_waited(error)) <= 16


def test_a_wait_fails_at_once_where_the_object_may_not_be_read() -> None:
    with (
        click.Context(click.Command("wait")).scope(),
        asyncio.Runner(loop_factory=SimulatedLoop) as runner,
        pytest.raises(Forbidden),
    ):
        runner.run(_waited(Forbidden(Status(code=403))))
