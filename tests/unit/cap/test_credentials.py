"""The Secrets that workloads read their credentials from."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.cap import given

from stellwerk.operators.cap.pods.credentials import is_named_for, mark_of, secret_name


def test_an_operation_that_comes_back_under_its_name_has_a_secret_of_another_name() -> None:
    former = given.operation()
    again = msgspec.structs.replace(former, metadata=msgspec.structs.replace(former.metadata, uid="another"))

    assert secret_name(former, "acme-op-mtxs") == secret_name(former, "acme-op-mtxs")
    assert secret_name(again, "acme-op-mtxs") != secret_name(former, "acme-op-mtxs")
    assert mark_of(again, "acme-op-mtxs") == mark_of(former, "acme-op-mtxs"), "the label is that of the original"


def test_a_secret_that_replaces_another_has_another_name() -> None:
    operation = given.operation()

    assert secret_name(operation, "acme-op-mtxs", "renewed") != secret_name(operation, "acme-op-mtxs")


LONG = "w" * 60


@pytest.mark.parametrize(
    ("name", "prefix", "may_be"),
    [
        (secret_name(given.version(), "shop-v1-app"), "shop-v1-app", True),
        ("shop-v1-app-x7k2q", "shop-v1-app", True),
        (secret_name(given.version(), LONG), LONG, True),
        (f"{LONG[:58]}x7k2q", LONG, True),
        ("shop-v1-app-extra", "shop-v1-app", False),
        ("shop-v1-app-x7k2q9", "shop-v1-app", False),
        ("shop-v1-app-2-x7k2q", "shop-v1-app", False),
        ("settings", "shop-v1-app", False),
    ],
)
def test_secrets_of_a_workload_are_known_by_their_names(name: str, prefix: str, may_be: bool) -> None:
    assert is_named_for(name, prefix) is may_be
