"""The Secrets that workloads read their credentials from."""

from __future__ import annotations

import msgspec
from tests.unit.cap import given

from stellwerk.operators.cap.pods.credentials import mark_of, secret_name


def test_an_operation_that_comes_back_under_its_name_has_a_secret_of_another_name() -> None:
    former = given.operation()
    again = msgspec.structs.replace(former, metadata=msgspec.structs.replace(former.metadata, uid="another"))

    assert secret_name(former, "acme-op-mtxs") == secret_name(former, "acme-op-mtxs")
    assert secret_name(again, "acme-op-mtxs") != secret_name(former, "acme-op-mtxs")
    assert mark_of(again, "acme-op-mtxs") == mark_of(former, "acme-op-mtxs"), "the label is that of the original"


def test_a_secret_that_replaces_another_has_another_name() -> None:
    operation = given.operation()

    assert secret_name(operation, "acme-op-mtxs", "renewed") != secret_name(operation, "acme-op-mtxs")
