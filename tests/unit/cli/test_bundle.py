"""The archive for support has no secrets."""

from __future__ import annotations

import io
import tarfile
from datetime import UTC, datetime

import pytest

from stellwerk.cli.look import bundle
from stellwerk.kube.types.model import JsonObject, JsonValue

CANARY = "canary-4711"
TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJjYW5hcnkifQ.c2lnbmF0dXJlLWNhbmFyeQ"  # of nobody


@pytest.mark.parametrize(
    "body",
    [
        {"spec": {"values": {"db": {"url": CANARY, "port": 5432, "hosts": [CANARY]}}}},
        {"spec": {"postBuild": {"substitute": {"ANY": CANARY}, "patches": [{"patch": CANARY}]}}},
        {"spec": {"workloads": [{"deploymentDefinition": {"env": [{"name": "ANY", "value": CANARY}]}}]}},
        {"data": {"key": CANARY}, "stringData": {"key": CANARY}, "binaryData": {"key": CANARY}},
        {"spec": {"adminPassword": CANARY, "clientSecret": CANARY, "apiKey": CANARY, "private_key": CANARY}},
        {"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": CANARY}}},
        {"metadata": {"managedFields": [{"manager": CANARY}]}},
        {"subscriptionCallbackData": CANARY},
        {"status": {"conditions": [{"message": f"refused: Authorization: Bearer {TOKEN}"}]}},
    ],
)
def test_what_may_be_a_secret_is_masked_by_its_place_or_its_form(body: JsonObject) -> None:
    shown = str(bundle.without_secrets(body))
    assert CANARY not in shown
    assert TOKEN not in shown


@pytest.mark.parametrize(
    "body",
    [
        {"spec": {"kubeConfig": {"secretRef": {"name": "far", "key": "value"}}}},
        {"spec": {"btp": {"services": [{"name": "xsuaa", "class": "xsuaa", "secret": "shop-uaa-bind"}]}}},
        {"status": {"state": "Error", "replicas": 3, "ready": False, "since": None}},
        {"metadata": {"name": "shop", "annotations": {"reconcile.fluxcd.io/requestedAt": "now"}}},
    ],
)
def test_what_explains_an_error_stays(body: JsonObject) -> None:
    assert bundle.without_secrets(body) == body


def test_the_keys_of_values_stay() -> None:
    values: JsonValue = {"values": {"db": {"url": CANARY}}}
    assert bundle.without_secrets(values) == {"values": {"db": {"url": "***"}}}


def test_the_archive_has_one_folder_and_is_readable_by_its_owner_only() -> None:
    packed = bundle.packed({"b.txt": "ä", "a/c.txt": ""}, datetime(2026, 1, 1, tzinfo=UTC))
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        assert archive.getnames() == ["stellwerk-bundle/a/c.txt", "stellwerk-bundle/b.txt"]
        assert {entry.mode for entry in archive} == {0o600}
        content = archive.extractfile("stellwerk-bundle/b.txt")
        assert content is not None
        assert content.read().decode() == "ä"
