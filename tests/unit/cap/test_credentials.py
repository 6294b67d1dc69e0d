"""The Secrets that workloads read their credentials from."""

from __future__ import annotations

from typing import cast

import msgspec
import pytest
from tests.unit.cap import given

from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import AlreadyExists, Status
from stellwerk.kube.types.model import JsonObject, JsonValue, PartialObjectMetadata, owner_reference
from stellwerk.operators.cap.pods.credentials import (
    BindingSecrets,
    CredentialSecrets,
    SecretInTheWay,
    is_named_for,
    mark_of,
    secret_name,
)
from stellwerk.operators.cap.watches import Caches
from stellwerk.runtime.process.manager import Manager


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


class Ending:
    """An API server that has the Secret already, and deletes it as soon as a finalizer allows it."""

    async def create(self, *_: object, **__: object) -> None:
        raise AlreadyExists(Status(code=409))

    async def find(self, _: object, name: str, namespace: str) -> PartialObjectMetadata:
        owner = cast("JsonValue", msgspec.to_builtins(owner_reference(given.version())))
        ends: JsonObject = {"ownerReferences": [owner], "deletionTimestamp": "2026-01-01T00:00:00Z"}
        return msgspec.convert({"metadata": {**given.metadata(name), **ends}}, PartialObjectMetadata)


async def test_no_workload_gets_a_secret_that_is_being_deleted() -> None:
    found = Caches(Manager(Client.connect(ClusterConfig(server="https://127.0.0.1:1"))))
    client, workload = cast("Client", Ending()), given.version().spec.workloads[0]
    credentials = CredentialSecrets(client, BindingSecrets(client, found.secrets), found.credentials)
    with pytest.raises(SecretInTheWay, match="is being deleted"):
        await credentials.create(given.version(), "bookshop-v1-srv", given.application(), workload, "{}")
