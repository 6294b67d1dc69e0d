"""Which field of another manager makes the API server refuse ours."""

from __future__ import annotations

from stellwerk.apply.fields.hindering_fields import hindering, may_hinder
from stellwerk.kube.types.errors import Invalid, Status, StatusCause, StatusDetails
from stellwerk.kube.types.model import JsonObject

FIELD = "spec.ports[1].name"
WANTED: JsonObject = {"spec": {"ports": [{"name": "http", "port": 7070}]}}


def refused(message: str, field: str = FIELD) -> Invalid:
    causes = (StatusCause(reason="FieldValueDuplicate", message=message, field=field),)
    return Invalid(Status(message=message, details=StatusDetails(causes=causes)))


DUPLICATE = refused('Duplicate value: "http"')


def entry(manager: str, *ports: int, **more: str) -> JsonObject:
    fields: JsonObject = {f'k:{{"port":{port},"protocol":"TCP"}}': {"f:name": {}} for port in ports}
    return {"manager": manager, "operation": "Update", "fieldsV1": {"f:spec": {"f:ports": fields}}, **more}


def found(*entries: JsonObject, error: Invalid = DUPLICATE) -> list[str]:
    return [f"{one.path} {one.manager}" for one in hindering(WANTED, [*entries], "us", error)]


def test_a_field_that_the_manifest_does_not_have_is_named_and_one_that_it_has_is_not() -> None:
    assert found(entry("team-b", 8080, 7070)) == ["spec.ports[port=8080,protocol=TCP] team-b"]


def test_our_own_fields_those_of_the_control_plane_and_of_subresources_are_not_blamed() -> None:
    others = (entry("us", 1), entry("kube-controller-manager", 2), entry("team-b", 3, subresource="status"))
    assert found(*others) == []


def test_a_field_elsewhere_in_the_object_is_not_blamed() -> None:
    assert found(entry("team-b", 8080), error=refused('Duplicate value: "a"', "spec.template.x[0].name")) == []


def test_only_refusals_of_fields_that_do_not_go_together_are_looked_into() -> None:
    assert may_hinder(DUPLICATE)
    assert may_hinder(refused("may not be specified when `value` is not empty"))
    assert may_hinder(refused("Forbidden: may not specify more than 1 handler type"))
    assert not may_hinder(refused("Required value"))
    assert not may_hinder(refused("Duplicate value", "metadata"))
