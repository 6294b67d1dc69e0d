"""Rules of the steps of a tenant that random worlds show rarely."""

from __future__ import annotations

import random
from typing import Any, cast

import msgspec
import pytest
from tests.unit.cap import given
from tests.unit.cap.tenant.given import NOW, V1, V2, a_tenant, an_application
from tests.unit.cap.tenant.worlds import Course, World, a_domain, a_route, steps

from stellwerk.kube.types.errors import Invalid, Status, StatusCause, StatusDetails
from stellwerk.kube.types.model import Unstructured
from stellwerk.operators.cap import names
from stellwerk.operators.cap.collections import (
    APPLICATIONS,
    CLUSTER_DOMAINS,
    DOMAINS,
    OPERATIONS,
    OUTPUTS,
    ROUTES,
    TENANTS,
    VERSIONS,
)
from stellwerk.operators.cap.kinds.domain import Domain
from stellwerk.operators.cap.tenant.decide import TenantLogic
from stellwerk.runtime.control.executor import next_step
from stellwerk.runtime.control.step import Create
from stellwerk.runtime.reading.view import View
from stellwerk.testing.clock import FakeClock

FORBIDDEN = {"x-forwarded-host": "evil"}


def routed(headers: str = "", *routes: Unstructured) -> World:
    """A tenant at rest but for its routes, in an application with one domain."""
    tenant = a_tenant("1.0.0", "bookshop-v1")
    status = msgspec.structs.replace(tenant.status, observed_generation=1)
    tenant = msgspec.structs.replace(tenant, status=status)
    application = an_application("Consistent")
    marks = {names.REQUEST_HEADERS_ANNOTATION: headers} if headers else {}
    metadata = msgspec.structs.replace(application.metadata, annotations=marks)
    spec = given.application(domainRefs=[{"kind": "Domain", "name": "d1"}]).spec
    application = msgspec.structs.replace(application, metadata=metadata, spec=spec)
    domain = a_domain(random.Random(0), Domain, "d1")
    ready = msgspec.structs.replace(domain.status, state="Ready", gateway_name="gw-1")
    world = World(tenant)
    world.objects = {
        APPLICATIONS: [application],
        VERSIONS: [V1, V2],
        TENANTS: [tenant],
        OPERATIONS: [],
        OUTPUTS: [],
        DOMAINS: [msgspec.structs.replace(domain, status=ready)],
        CLUSTER_DOMAINS: [],
        ROUTES: [*routes],
    }
    return world


def route(name: str = "acme", **changes: Any) -> Unstructured:
    """A VirtualService, written before, that sets a header which is refused now."""
    found = a_route(random.Random(0), a_tenant(), name, ["acme.d1.example.com"])
    http: Any = {"route": [{"destination": {"host": "former"}}], "headers": {"request": {"set": FORBIDDEN}}}
    body = {**found.body, "spec": {"hosts": ["acme.d1.example.com"], "gateways": ["shop/gw-1"], "http": [http]}}
    metadata = msgspec.structs.replace(found.metadata, deletion_timestamp=None)
    return Unstructured(cast("Any", body), msgspec.structs.replace(metadata, **changes))


def applied(found: Course) -> list[Any]:
    return [body for kind, _, body in (each for each in found.requests if each[0] == "apply") if kind]


def test_a_refused_header_is_taken_from_the_routes_before_its_annotation_is_refused() -> None:
    found = steps(routed('{"x-forwarded-host": "me", "x-own": "1"}', route()))

    (body,) = applied(found)
    assert "x-forwarded-host" not in str(body)
    assert "x-own" in str(body)
    assert found.failure[1] == "VirtualServiceModificationFailed"
    assert found.events == [], "what leads elsewhere than asked for is no news"
    assert steps(routed('{"x-forwarded-host": "me"}')).requests == [], "new routes wait for the annotation"


def test_a_host_that_another_tenant_has_is_not_taken_from_it() -> None:
    rival = route("rival", creation_timestamp=None)
    found = steps(routed("", rival))

    assert applied(found) == []
    assert "CAPTenant shop/rival had the host acme.d1.example.com before" in found.failure[0]
    own = route(creation_timestamp=NOW)
    given_up = steps(routed("", rival, own))
    assert ("delete", "VirtualService", "acme") in given_up.requests


def test_routes_that_are_being_deleted_are_waited_for() -> None:
    rival = msgspec.structs.replace(route().metadata, deletion_timestamp=FakeClock().now())
    found = steps(routed("", Unstructured(route().body, rival)))
    assert applied(found) == []
    assert found.failure is None


@pytest.mark.parametrize("reason", ["NamespaceTerminating", "FieldValueInvalid"])
def test_the_refusal_of_an_operation_says_what_lets_the_tenant_go(reason: str) -> None:
    world, clock = routed(), FakeClock()
    tenant = a_tenant("1.0.0", "bookshop-v1", deleted=True)
    view = View(sources=world.sources(), now=clock.now())

    (write,) = next_step(TenantLogic(cast("Any", clock)), tenant, view).writes

    assert isinstance(write, Create)
    details = StatusDetails(causes=(StatusCause(reason=reason),))
    error = Invalid(Status(code=403, reason="Forbidden", message="no", details=details))
    message = write.refused("no", error).message
    assert ("kubectl patch cat acme -n shop" in message) == (reason == "NamespaceTerminating")
