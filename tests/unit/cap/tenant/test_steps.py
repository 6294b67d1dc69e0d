"""Rules of the steps of a tenant that random worlds show rarely."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest
from tests.unit.cap import given
from tests.unit.cap.tenant.given import NOW, UNREADY, V1, V2, a_tenant, an_application
from tests.unit.cap.tenant.worlds import Course, World, a_domain, a_route, odd, steps

from stellwerk.kube.types.errors import Invalid, Status, StatusCause, StatusDetails
from stellwerk.kube.types.model import Unstructured
from stellwerk.kube.types.object_meta import Condition
from stellwerk.operators.cap import kstatus, names
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
from stellwerk.operators.cap.kinds.status import condition
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.tenant.decide import TenantLogic
from stellwerk.runtime import conditions
from stellwerk.runtime.control.executor import next_step
from stellwerk.runtime.control.step import Create
from stellwerk.runtime.reading.view import View
from stellwerk.runtime.reconciler import ReconcileError
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


# ---- what a tenant in use lacks


def in_use(number: str = "1.0.0", *versions: Any, strategy: str = "", **shown: Any) -> World:
    """A tenant that uses version 1.0.0 and should have this number, and the versions that exist."""
    world = routed()
    ready = condition(world.tenant, True, "ProvisioningCompleted", shown.pop("message", "it has completed"))
    tenant = a_tenant(number, "bookshop-v1", strategy)
    status = msgspec.structs.replace(tenant.status, observed_generation=1, conditions=(ready,), **shown)
    world.replace(TENANTS, msgspec.structs.replace(tenant, status=status))
    world.objects |= {VERSIONS: [*versions], APPLICATIONS: [an_application("Consistent")]}
    return world


def shown_of(world: World) -> tuple[str, Condition | None, str]:
    """State, the condition beside Ready, and the message of Ready, after a pass as the controller makes it."""
    found = steps(world)
    status = found.status
    failure = None if found.failure is None else ReconcileError(found.failure[0])
    cause = kstatus.cause_of(world.tenant, status, failure)
    status = msgspec.structs.replace(status, conditions=conditions.with_cause(status.conditions, cause, NOW))
    world.replace(TENANTS, msgspec.structs.replace(world.tenant, status=status))
    ready = conditions.find(status.conditions, "Ready")
    assert ready is not None
    assert ready.is_true, "Ready is the original's"
    return status.state, cause, ready.message


PATCH = """kubectl patch cat acme -n shop --type merge -p '{"spec":{"version":"2.0.0"}}'"""
LIST = "kubectl get cav -n shop"
UNREADY_V1 = given.version(name="bookshop-v1", version="1.0.0")


@pytest.mark.parametrize(
    ("world", "type", "says", "command"),
    [
        (lambda: in_use("1.0.0"), "Stalled", "CAPApplicationVersion bookshop-v1, which", LIST),
        (lambda: in_use("1.0.0", V2), "Stalled", "CAPApplicationVersion bookshop-v1, which", PATCH),
        (lambda: in_use("", V2, strategy="never"), "Stalled", "CAPApplicationVersion bookshop-v1, which", PATCH),
        (lambda: in_use("1.0.0", V2, strategy="never"), "Stalled", "CAPApplicationVersion bookshop-v1, which", PATCH),
        (lambda: in_use("9.0.0", V2), "Stalled", "CAPApplicationVersion bookshop-v1, which", PATCH),
        (lambda: in_use("9.0.0", V1, V2), "Stalled", "version 9.0.0: none has this number", PATCH),
        (lambda: in_use("9.0.0", UNREADY_V1), "Stalled", "version 9.0.0: none has this number", LIST),
        (lambda: in_use("1.0.0", UNREADY_V1, V2), "Reconciling", "status Ready for CAPApplication", ""),
        (lambda: in_use("2.0.0", V1, UNREADY), "Reconciling", "status Ready for CAPApplication", ""),
    ],
)
def test_a_tenant_in_use_whose_version_is_not_there_says_so_beside_ready(
    world: Callable[[], World], type: str, says: str, command: str
) -> None:
    made = world()
    state, cause, message = shown_of(made)

    assert (state, cause.type if cause else "", says in message, command in message) == ("Ready", type, True, True)
    assert cause is not None
    assert cause.message == message, "why, get and the condition tell one thing"
    assert steps(made).events == [], "the Event is sent once"
    assert shown_of(made) == (state, cause, message)


def test_a_version_that_cannot_be_read_is_no_lost_one() -> None:
    world = in_use("1.0.0", V2)
    world.hidden[VERSIONS] = [odd(CAPApplicationVersion, "bookshop-v1")]
    assert shown_of(world) == ("Ready", None, "it has completed")


@pytest.mark.parametrize("strategy", ["", "never"])
def test_what_a_tenant_in_use_lacked_is_not_shown_any_more_when_it_is_there(strategy: str) -> None:
    world = in_use("1.0.0", strategy=strategy)
    shown_of(world)
    world.objects[VERSIONS] = [UNREADY_V1]
    shown_of(world)
    world.objects[VERSIONS] = [V1]

    rest = "CAPApplicationVersion bookshop-v1 is in use, and no operation is under way"
    assert shown_of(world) == ("Ready", None, rest)
    assert shown_of(world) == ("Ready", None, rest), "it is written once"


@pytest.mark.parametrize("number", ["1.0.0", "2.0.0"])
def test_a_tenant_at_rest_does_not_keep_the_message_of_a_failure(number: str) -> None:
    world = in_use(number, V1, strategy="never")
    application, world.objects[APPLICATIONS] = world.objects[APPLICATIONS], []
    _, cause, failed = shown_of(world)
    assert cause is not None
    assert "does not exist" in failed
    world.objects[APPLICATIONS] = application

    rest = "CAPApplicationVersion bookshop-v1 is in use, and no operation is under way"
    assert shown_of(world) == ("Ready", None, rest)
