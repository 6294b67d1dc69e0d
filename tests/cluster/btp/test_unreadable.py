"""A BtpOperator that cannot be decoded says so, and another one leads."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import JsonPatch
from stellwerk.kube.types.model import metadata_of
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.testing.eventually import eventually
from tests.cluster.btp.given import Given
from tests.cluster.btp.running import Running
from tests.cluster.btp.then import Then

DEEP = "[" * 9_000 + "]" * 9_000
LOOSE = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/x-kubernetes-preserve-unknown-fields"
PATH = BtpOperator.resource.path("default")


@pytest.fixture
async def loose_definition(client: Client) -> AsyncIterator[None]:
    """A definition that keeps any field of the spec, as that of another version may."""
    target, name = metadata_of(CustomResourceDefinition), BtpOperator.resource.group_resource
    await client.patch(target, name, "", JsonPatch([{"op": "add", "path": LOOSE, "value": True}]))
    yield
    await client.delete(metadata_of(BtpOperator), "odd", "default")
    await client.patch(target, name, "", JsonPatch([{"op": "remove", "path": LOOSE}]))


async def is_deep(client: Client) -> bool:
    """Whether there is a BtpOperator `odd` that cannot be decoded; the API server prunes for a moment longer."""
    body = {"apiVersion": BtpOperator.resource.api_version, "kind": "BtpOperator", "metadata": {"name": "odd"}}
    text = json.dumps({**body, "spec": {"deep": "HERE"}}).replace('"HERE"', DEEP)
    await client.raw("POST", PATH, body=text.encode())
    if DEEP[:100].encode() in await client.raw("GET", f"{PATH}/odd"):
        return True
    await client.delete(metadata_of(BtpOperator), "odd", "default")
    return False


@pytest.mark.req("R-510")
async def test_a_btp_operator_that_cannot_be_read_says_so_and_another_one_leads(
    running: Running, given: Given, then: Then, client: Client, loose_definition: None
) -> None:
    await eventually(lambda: is_deep(client), within=30, describe="there is a deep BtpOperator")
    await given.required_secret()
    await running.start()

    async def says_why() -> bool:
        table = await client.raw("GET", f"{PATH}/odd", accept="application/json;as=Table;v=v1;g=meta.k8s.io")
        return b"object cannot be read: nested deeper than 100 levels; correct the field" in table

    await eventually(says_why, within=40, describe="the BtpOperator says why")
    await given.btp_operator()
    await then.shows("Ready", "ReconcileSucceeded")
