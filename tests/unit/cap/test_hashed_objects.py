"""When an object that carries the hash of what is wanted is written all the same."""

from __future__ import annotations

import pytest
from tests.unit.cap.tenant.given import a_tenant

from stellwerk.api.cert_manager import CertManagerCertificate
from stellwerk.api.istio import Gateway, VirtualService
from stellwerk.apply.objects.desired import Desired
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import JsonObject, PartialObjectMetadata, Unstructured
from stellwerk.operators.cap.hashed_objects import is_written, owner_of

ROUTE: JsonObject = {"route": [{"destination": {"host": "app", "port": {"number": 5000}}, "weight": 100}]}
SPEC: JsonObject = {
    "hosts": ["acme.example.com"],
    "gateways": ["shop/gw"],
    "http": [ROUTE],
    "selector": {"istio": "ingress"},
}


def desired_as(resource: Resource) -> Desired:
    return Desired.named(resource, ObjectKey("shop", "acme"), {}, spec=SPEC)


def live_as(desired: Desired, spec: JsonObject) -> Unstructured:
    """The object as it was written with the hash `h`, with another spec."""
    owner = owner_of(a_tenant())
    return Unstructured.of({**owner.stamped(desired.body, "h"), "spec": spec})


@pytest.mark.parametrize(
    "edit",
    [
        {"hosts": ["other.example.com"]},
        {"hosts": ["acme.example.com", "other.example.com"]},
        {"gateways": []},
        {"http": [{**ROUTE, "timeout": "1s"}]},
        {"http": [ROUTE, ROUTE]},
        {"http": []},
        {"http": None},
        {"selector": {"istio": "egress"}},
        {"selector": {}},
    ],
)
@pytest.mark.parametrize("resource", [VirtualService.resource, Gateway.resource])
def test_what_another_client_edits_is_written_although_the_hash_is_there(resource: Resource, edit: JsonObject) -> None:
    desired = desired_as(resource)
    assert not is_written(owner_of(a_tenant()), live_as(desired, {**SPEC, **edit}), desired, "h")


def test_what_is_as_wanted_is_left_alone_and_so_are_fields_of_others() -> None:
    desired, owner = desired_as(VirtualService.resource), owner_of(a_tenant())
    assert is_written(owner, live_as(desired, SPEC), desired, "h")
    assert is_written(owner, live_as(desired, {**SPEC, "exportTo": ["."]}), desired, "h")
    added: JsonObject = {"selector": {"istio": "ingress", "zone": "a"}}
    assert is_written(owner, live_as(desired, {**SPEC, **added}), desired, "h"), "an apply would not take it away"
    metadata = live_as(desired, {}).metadata
    assert is_written(owner, PartialObjectMetadata(metadata=metadata), desired, "h"), "its fields are not known"
    assert not is_written(owner, live_as(desired, SPEC), desired, "another")


def test_what_controllers_of_other_kinds_change_stays() -> None:
    desired = desired_as(CertManagerCertificate.resource)
    assert is_written(owner_of(a_tenant()), live_as(desired, {**SPEC, "hosts": []}), desired, "h")
