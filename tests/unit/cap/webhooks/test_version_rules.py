"""What is refused of a version, rule by rule, in the words of the original."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.cap.given import application, deployment, job, version

from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.webhooks.version import problem_of_change, problem_of_correction, problem_of_new

USUAL = (deployment("srv", "CAP"), deployment("app", "Router"), job("mtxs", "TenantOperation"))
LONG = "w" * 60


def operations(**phases: Any) -> dict[str, Any]:
    listed = {phase: [{"workloadName": name} for name in names] for phase, names in phases.items()}
    return {"tenantOperations": listed}


def ports(*listed: dict[str, Any]) -> dict[str, Any]:
    return {"ports": [*listed]}


def exposed(*exposures: tuple[str, str, int]) -> dict[str, Any]:
    listed = [{"subDomain": name, "routes": [{"workloadName": w, "port": port}]} for name, w, port in exposures]
    return {"serviceExposures": listed}


def more(*workloads: dict[str, Any], **spec: Any) -> CAPApplicationVersion:
    return version(*USUAL, *workloads, **spec)


def test_a_version_as_it_should_be_is_accepted() -> None:
    assert problem_of_new(version(), application()) == ""
    full = more(
        job("content", "Content"),
        job("custom", "CustomTenantOperation"),
        deployment("api", "Service", **ports({"name": "api", "port": 80})),
        contentJobs=["content"],
        **operations(provisioning=["custom", "mtxs"], upgrade=["mtxs"]),
        **exposed(("api", "api", 80), ("app", "app", 5000), ("srv", "srv", 4004)),
    )
    assert problem_of_new(full, application()) == ""


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (more(deployment("Upper", "Service")), "Invalid workload name: Upper"),
        (more(deployment("a-", "Service")), "Invalid workload name: a-"),
        (
            more(deployment(LONG, "Service")),
            f"Derived service name 'bookshop-v1-{LONG}-svc' (length 76) exceeds max limit of 63 characters",
        ),
        (
            more(job(LONG, "Content")),
            f"Derived content job pod name 'bookshop-v1-{LONG}-q4m9c' (length 78) exceeds max limit of 63 characters",
        ),
        (
            more(deployment("a", "Other")),
            "invalid deployment definition type. Only supported - CAP, Router, Additional and Service",
        ),
        (
            more(job("a", "Other")),
            "invalid job definition type. Only supported - Content, TenantOperation and CustomTenantOperation",
        ),
        (
            more(deployment("a", "Service", **ports({"name": "x", "port": 1}, {"name": "x", "port": 2}))),
            "duplicate port name: x in workload - a",
        ),
        (
            more(deployment("a", "Service", **ports({"name": "x", "port": 1}, {"name": "y", "port": 1}))),
            "duplicate port number: 1 in workload - a",
        ),
        (
            version(deployment("srv", "CAP", **ports({"name": "x", "port": 1})), *USUAL[1:]),
            "routerDestinationName not defined in port configuration of workload - srv",
        ),
        (
            version(
                deployment("app", "Router", **ports({"name": "x", "port": 1, "routerDestinationName": "y"})),
                USUAL[0],
                USUAL[2],
            ),
            "routerDestinationName should not be defined for workload of type Router - app",
        ),
        (
            more(deployment("a", "Service", podDisruptionBudget={"selector": {"matchLabels": {"a": "b"}}})),
            "selector must not be specified for podDisrptionBudget config in workload - a",
        ),
        (more(deployment("app", "Service")), "duplicate workload name: app"),
        (
            version(*USUAL[1:]),
            "there should always be one workload deployment definition of type CAP. "
            "Currently, there are 0 workloads of type CAP",
        ),
        (
            more(deployment("app2", "Router")),
            "there should always be one workload deployment definition of type Router. "
            "Currently, there are 2 workloads of type Router",
        ),
        (
            version(*USUAL[:2]),
            "there should always be one job workload of type TenantOperation. Currently, there are none.",
        ),
        (
            more(job("a", "Content"), job("b", "Content")),
            "if there are more than one content job, contentJobs should be defined",
        ),
        (
            more(job("a", "Content"), job("b", "Content"), contentJobs=["a"]),
            "content job b is not specified as part of ContentJobs",
        ),
        (
            more(job("a", "Content"), contentJobs=["a", "mtxs"]),
            "job mtxs specified as part of ContentJobs is not a valid content job: there is a",
        ),
        (more(**exposed(("x", "app", 5000), ("x", "app", 5000))), "duplicate subDomain x in service exposure"),
        (
            more(**exposed(("x", "mtxs", 80))),
            "workload name mtxs mentioned as part of routes in service exposure with subDomain x is not a valid "
            "workload. Of those with a deploymentDefinition there are app, srv",
        ),
        (more(**exposed(("x", "app", 80))), "port 80 mentioned as part of routes for workload app"),
        (
            more(**exposed(("x", "app", 80))),
            "port 80 mentioned as part of routes for workload app in service exposure with subDomain x is not a valid "
            "port in the workload. Of its ports there is 5000",
        ),
        (
            more(job("custom", "CustomTenantOperation")),
            "- If a jobDefinition of type CustomTenantOperation is part of the workloads, then spec.tenantOperations "
            "must be specified",
        ),
        (
            more(job("custom", "CustomTenantOperation"), **operations(provisioning=["mtxs"])),
            "workload tenant operation custom is not specified in spec.tenantOperations",
        ),
        (
            more(**operations(provisioning=["mtxs", "srv"])),
            "srv specified in spec.tenantOperations is not a valid workload of type TenantOperation or "
            "CustomTenantOperation: there is mtxs",
        ),
        (
            more(job("custom", "CustomTenantOperation"), **operations(provisioning=["mtxs"], upgrade=["custom"])),
            "- No tenant operation specified in spec.tenantOperation.upgrade",
        ),
        (
            more(version="1.0.0+build"),
            "spec.version 1.0.0+build cannot be used: metadata.labels['sme.sap.com/cav-version']: the value must have",
        ),
        (
            more(deployment("api", "Service", podDisruptionBudget={"minAvailable": 1, "selector": {}})),
            "selector must not be specified for podDisrptionBudget config in workload - api",
        ),
        (more(version=f"1.0.0-{'a' * 58}"), f"spec.version 1.0.0-{'a' * 58} cannot be used"),
    ],
)
def test_a_new_version_is_refused_with_the_cause(made: CAPApplicationVersion, problem: str) -> None:
    assert problem_of_new(made, application()).startswith(problem)


def test_a_version_without_its_application_is_refused() -> None:
    assert problem_of_new(version(), None, ["books"]).startswith(
        "no valid CAPApplication found for: shop.bookshop-v1: CAPApplication shop/bookshop does not exist (there is "
        "books): create it"
    )


def test_a_version_of_the_first_releases_needs_no_job_for_tenants_where_that_is_allowed() -> None:
    assert problem_of_new(version(*USUAL[:2]), application(), derives_tenant_jobs=True) == ""


def test_an_application_for_services_alone_has_no_jobs_for_tenants() -> None:
    found = application()
    fixed = msgspec.structs.replace(found, status=msgspec.structs.replace(found.status, services_only=True))
    assert "there should not be any job workload of type TenantOperation" in problem_of_new(version(), fixed)
    service = version(deployment("api", "Service", **ports({"name": "api", "port": 80})))
    assert problem_of_new(service, fixed) == ""
    assert problem_of_new(service, application(provider=None)) == "", "as its first version decides"


@pytest.mark.parametrize(
    ("spec", "refused"),
    [
        ({"capApplicationInstance": "bookshop", "version": "1.0.0", "workloads": 7}, False),
        ({"capApplicationInstance": "other"}, True),
        ({"version": "2.0.0"}, True),
        ({"version": 1}, False),
    ],
)
def test_a_correction_keeps_the_application_and_the_number_that_can_be_read(spec: JsonObject, refused: bool) -> None:
    problem = problem_of_correction({"spec": spec}, version())
    assert problem == ("spec cannot be modified for: shop.bookshop-v1" if refused else "")


def test_a_spec_cannot_be_changed_and_an_empty_list_is_no_change() -> None:
    assert problem_of_change(version(), version(registrySecrets=[])) == ""
    changed = version(deployment("srv", "CAP", env=[{"name": "A"}]), *USUAL[1:])
    assert problem_of_change(version(), changed) == "spec cannot be modified for: shop.bookshop-v1"


def container(**fields: Any) -> CAPApplicationVersion:
    return version(deployment("srv", "CAP", **fields), *USUAL[1:])


def content(**fields: Any) -> CAPApplicationVersion:
    return more(job("content", "Content", **fields))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (content(), content(backoffLimit=0)),
        (content(), content(ttlSecondsAfterFinished=0)),
        (content(), content(activeDeadlineSeconds=0)),
        (container(), container(replicas=0)),
        (container(), container(terminationGracePeriodSeconds=0)),
        (container(podDisruptionBudget={}), container(podDisruptionBudget={"minAvailable": 0})),
        (container(securityContext={}), container(securityContext={"runAsUser": 0})),
        (container(securityContext={}), container(securityContext={"allowPrivilegeEscalation": False})),
        (container(securityContext={}), container(securityContext={"readOnlyRootFilesystem": False})),
        (container(), container(stickiness={})),
        (container(), container(nodeSelector={"example.com/ours": ""})),
        (container(args=[""]), container()),
    ],
)
def test_a_number_a_switch_or_a_key_that_comes_or_goes_is_a_change(
    one: CAPApplicationVersion, other: CAPApplicationVersion
) -> None:
    for old, new in ((one, other), (other, one)):
        assert problem_of_change(old, new) == "spec cannot be modified for: shop.bookshop-v1"


@pytest.mark.parametrize(
    "fields",
    [
        {"env": [], "nodeSelector": {}, "imagePullPolicy": ""},
        {"resources": {"limits": {}}},
        {"livenessProbe": None, "priorityClassName": ""},
    ],
)
def test_an_empty_list_map_or_text_is_no_change(fields: dict[str, Any]) -> None:
    assert problem_of_change(container(), container(**fields)) == ""
    assert problem_of_change(container(**fields), container()) == ""


def test_what_a_go_client_leaves_out_when_it_writes_a_version_is_no_change() -> None:
    """The original has stored versions so; the manifest of the user has more, and is applied again."""
    stored = container(volumeMounts=[{"name": "a"}], env=[{"name": "A"}], readinessProbe={"periodSeconds": 5})
    applied = container(
        volumeMounts=[{"name": "a", "readOnly": False}],
        env=[{"name": "A", "value": ""}],
        readinessProbe={"periodSeconds": 5, "initialDelaySeconds": 0},
    )
    assert problem_of_change(stored, applied) == ""
