"""What is written of a tenant's VirtualService besides its routes."""

from __future__ import annotations

from tests.unit.cap.given import tenant

from stellwerk.api.istio import VirtualServiceSpec
from stellwerk.kube.types.model import PartialObjectMetadata
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.cap import names
from stellwerk.operators.cap.routing import objects
from stellwerk.operators.cap.tenant.networking import lacking_metadata


def test_only_labels_and_annotations_that_are_absent_are_added() -> None:
    desired = objects.of_tenant(tenant(), VirtualServiceSpec(hosts=("a",), gateways=("b",), http=()))
    labels = {names.OWNER_HASH_LABEL: "other", names.OWNER_GENERATION_LABEL: "7", names.TENANT_TYPE_LABEL: "consumer"}
    annotations = names.owner_annotations(tenant().key)
    complete = PartialObjectMetadata(metadata=ObjectMeta(name="acme", labels=labels, annotations=annotations))
    assert lacking_metadata(desired, complete) == {}
    bare = PartialObjectMetadata(metadata=ObjectMeta(name="acme", labels={names.OWNER_HASH_LABEL: "other"}))
    assert lacking_metadata(desired, bare) == {
        "labels": {names.OWNER_GENERATION_LABEL: "1", names.TENANT_TYPE_LABEL: "consumer"},
        "annotations": {**annotations},
    }
