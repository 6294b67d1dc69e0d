"""Lists and texts of specs have bounds that no real object meets, whoever writes them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.cap import given
from tests.unit.cap.test_application_plan import NOW

from stellwerk.api.admission import UserInfo
from stellwerk.api.core import Namespace
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonValue, dig, metadata_of
from stellwerk.operators.cap import api
from stellwerk.operators.cap.application import exposures, inline_domains, plan
from stellwerk.operators.cap.application.plan import ApplicationSnapshot
from stellwerk.operators.cap.kinds.application import MOST_DOMAINS, CAPApplication
from stellwerk.operators.cap.kinds.bounds import BOUNDS, MOST_ROUTES, problem_of_size
from stellwerk.operators.cap.kinds.domain import Domain, DomainStatus
from stellwerk.operators.cap.routing.targets import Unroutable
from stellwerk.operators.cap.version import resources
from stellwerk.operators.cap.version.resources import UnusableWorkload
from stellwerk.operators.cap.webhooks import rules, version
from stellwerk.operators.cap.webhooks.judges import Judges
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.serving.webhook import Admission, Denied

pytestmark = pytest.mark.req("R-932")


def exposed(subdomains: int, routes: int) -> dict[str, Any]:
    listed = [{"workloadName": "srv", "port": 4004}] * routes
    return {"serviceExposures": [{"subDomain": f"s{number}", "routes": listed} for number in range(subdomains)]}


@pytest.mark.parametrize("kind", BOUNDS, ids=lambda kind: kind.__name__)
def test_each_bound_is_about_a_field_of_the_schema_and_not_below_the_bound_of_the_schema(kind: Any) -> None:
    definition = next(each for each in api.DEFINITIONS if each.versions[0].kind is kind)
    versions = dig(definition.body(), "spec", "versions")
    assert isinstance(versions, list)
    for path, most in BOUNDS[kind].items():
        schema: JsonValue = dig(versions[0], "schema", "openAPIV3Schema")
        for step in path.split("."):
            schema = dig(schema, "properties", step.removesuffix("[]"))
            schema = dig(schema, "items") if step.endswith("[]") else schema
        assert isinstance(schema, dict), path
        for bound in ("maxItems", "maxLength"):
            assert not isinstance(allowed := schema.get(bound, 0), int) or most >= allowed, path


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (given.version(contentJobs=["a"] * 257), "spec.contentJobs has 257 items, more than the 256"),
        (given.version(version="1." + "0" * 300), "spec.version has 302 characters, more than the 256"),
        (given.version(**exposed(1, 257)), "spec.serviceExposures[].routes has 257 items"),
        (given.version(**exposed(100, 100)), f"spec.serviceExposures have 10000 routes, more than the {MOST_ROUTES}"),
        (given.application(domainRefs=[{"kind": "Domain", "name": "a"}] * 1_025), "spec.domainRefs has 1025 items"),
    ],
)
def test_a_longer_list_or_text_is_refused_by_its_name_before_anything_is_made_of_it(made: Any, problem: str) -> None:
    assert problem_of_size(made).startswith(problem)
    if isinstance(made, CAPApplication):
        assert rules.problem_of_application(None, made).startswith(problem)
        found = plan.decide(ApplicationSnapshot(application=made), NOW)
        assert found.status is not None
        ready = found.status.conditions[0]
        assert (ready.reason, found.write) == ("SpecTooLarge", None)
        assert problem in ready.message
    else:
        assert version.problem_of_new(made, given.application()).startswith(problem)
        with pytest.raises(UnusableWorkload, match="another CAPApplicationVersion"):
            resources.check_size(made)


def test_what_is_stored_with_a_longer_list_may_change_in_other_respects_and_become_shorter() -> None:
    longer, long = (given.application(domainRefs=[{"kind": "Domain", "name": "a"}] * count) for count in (2_000, 1_500))
    assert problem_of_size(longer, longer) == ""
    assert problem_of_size(long, longer) == ""
    assert problem_of_size(longer, long) != ""


def test_hosts_are_not_multiplied_by_labels_where_there_are_too_many() -> None:
    hosts: list[JsonValue] = [f"h{number}.example.com" for number in range(257)]
    labels: list[JsonValue] = [{"name": f"label{number}", "value": "x"} for number in range(10_000)]
    made = given.application(domains={"secondary": hosts, "istioIngressGatewayLabels": labels})
    found = inline_domains.conversion(made, (), ())
    assert found is not None
    assert (found.created, found.problem) == (
        (),
        "spec.domains.secondary has 257 items, more than the 256 that are possible: shorten it",
    )


def test_service_exposures_are_not_multiplied_by_domains_where_they_are_too_many() -> None:
    spec = {"domain": "example.com", "ingressSelector": {"a": "b"}}
    domain = msgspec.convert({"metadata": given.metadata("d"), "spec": spec}, Domain)
    served = msgspec.structs.replace(domain, status=DomainStatus(gateway_name="gateway"))
    refs: list[JsonValue] = [{"kind": "Domain", "name": f"d{number}"} for number in range(200)]
    made = given.version(**exposed(256, 1))
    with pytest.raises(Unroutable, match="200 domains make 51200 hosts"):
        exposures.routes(given.application(domainRefs=refs), made, (), lambda *_: served, "cap-system")


def test_an_application_is_reached_by_no_more_domains_than_are_possible() -> None:
    refs: list[JsonValue] = [{"kind": "Domain", "name": f"d{number}"} for number in range(MOST_DOMAINS + 9)]
    assert len(given.application(domainRefs=refs).spec.served_refs) == MOST_DOMAINS


@pytest.mark.parametrize("name", ["a" * 3_000, "a/b", ""])
async def test_a_name_that_no_application_can_have_is_refused_and_not_asked_for(name: str) -> None:
    manager = Manager(Client.connect(ClusterConfig(server="http://nowhere.invalid")))
    judges = Judges(
        client=manager.client,
        applications=manager.informer(CAPApplication),
        tenants=manager.informer(type(given.tenant())),
        domains=manager.informer(Domain),
        cluster_domains=manager.informer(Domain),  # type: ignore[arg-type]
        namespaces=manager.informer(metadata_of(Namespace)),
    )
    made = given.version(capApplicationInstance=name)
    admission = Admission(operation="CREATE", key=ObjectKey("shop", "v"), user=UserInfo(), new=made)
    assert isinstance(await judges.version(admission), Denied)
