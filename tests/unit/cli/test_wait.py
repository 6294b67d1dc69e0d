"""What `stellwerk wait --for` accepts, and when an object is as wanted."""

from __future__ import annotations

import click
import pytest

from stellwerk.cli.act import wait
from stellwerk.kube.types.model import Unstructured

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
