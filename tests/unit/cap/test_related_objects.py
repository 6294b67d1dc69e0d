"""Which objects lead to a domain of the CAP Operator: those with its mark, and no others."""

from __future__ import annotations

import pytest

from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, Unstructured
from stellwerk.operators.cap import names
from stellwerk.operators.cap.insight.related_objects import KINSHIP
from stellwerk.runtime.insight.diagnosis import ClusterReader


def marked(identity: str, mark: str = "") -> Unstructured:
    metadata: JsonObject = {
        "name": "one",
        "namespace": "gateways",
        "labels": {names.OWNER_HASH_LABEL: mark or names.sha1(identity)},
        "annotations": {names.OWNER_ANNOTATION: identity},
    }
    return Unstructured.of({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})


@pytest.mark.parametrize(
    ("obj", "kind", "key"),
    [
        (marked("Domain.shop.primary"), "Domain", ObjectKey("shop", "primary")),
        (marked("Domain.shop.with.dots"), "Domain", ObjectKey("shop", "with.dots")),
        (marked("ClusterDomain.with.dots"), "ClusterDomain", ObjectKey("", "with.dots")),
        (marked("Domain.shop.primary"), "ClusterDomain", None),
        (marked("Domain.shop.primary", "another"), "Domain", None),
        (marked("shop.bookshop"), "Domain", None),
    ],
)
async def test_the_mark_of_an_object_names_its_domain(obj: Unstructured, kind: str, key: ObjectKey | None) -> None:
    async with Client.connect(ClusterConfig(server="http://127.0.0.1:9")) as client:
        found = await KINSHIP[kind].manager(ClusterReader(client), obj)
    assert (found.ref.key if found is not None else None) == key
