"""The steps of operations on tenants, and their Jobs."""

from __future__ import annotations

import pytest
from tests.unit.cap import given

from stellwerk.kube.types.model import JsonObject, dig
from stellwerk.operators.cap.kinds.tenant import CAPTenantOperation, Operation, OperationStep
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.operation import jobs
from stellwerk.operators.cap.operation.jobs import JobContext, NoTenantOperation

MTXS = OperationStep(name="mtxs", type="TenantOperation")


def job(
    version: CAPApplicationVersion, operation: CAPTenantOperation, step: OperationStep = MTXS, number: int = 1
) -> JsonObject:
    workload = jobs.workload_of(version, step)
    assert workload is not None
    context = JobContext(application=given.application(), version=version, tenant=given.tenant(), operation=operation)
    return jobs.job(context, number, step, workload, "credentials")


def container(body: JsonObject) -> JsonObject:
    containers = dig(body, "spec", "template", "spec", "containers")
    assert isinstance(containers, list)
    (found,) = containers
    assert isinstance(found, dict)
    return found


def variables(body: JsonObject) -> list[str]:
    env = container(body)["env"]
    assert isinstance(env, list)
    return [str(dig(each, "name")) for each in env]


# ---- steps


def test_without_a_list_the_first_job_for_tenants_is_the_only_step() -> None:
    version = given.version(
        given.job("content", "Content"), given.job("a", "TenantOperation"), given.job("b", "TenantOperation")
    )

    assert [step.name for step in jobs.steps_of(version, Operation.UPGRADE)] == ["a"]


def test_without_a_job_for_tenants_the_server_is_the_step() -> None:
    version = given.version(given.deployment("app", "Router"), given.deployment("srv", "CAP"))

    assert jobs.steps_of(version, Operation.UPGRADE) == (OperationStep(name="srv", type="TenantOperation"),)


def test_listed_steps_run_in_their_order_and_only_custom_ones_may_fail() -> None:
    version = given.version(
        given.job("mtxs", "TenantOperation"),
        given.job("notify", "CustomTenantOperation"),
        given.job("content", "Content"),
        tenantOperations={
            "upgrade": [
                {"workloadName": "notify", "continueOnFailure": True},
                {"workloadName": "content"},
                {"workloadName": "missing"},
                {"workloadName": "mtxs", "continueOnFailure": True},
            ]
        },
    )

    assert jobs.steps_of(version, Operation.UPGRADE) == (
        OperationStep(name="notify", type="CustomTenantOperation", continue_on_failure=True),
        OperationStep(name="mtxs", type="TenantOperation"),
    )
    assert jobs.steps_of(version, Operation.PROVISIONING) == (OperationStep(name="mtxs", type="TenantOperation"),)


@pytest.mark.parametrize(
    "version",
    [
        given.version(given.deployment("worker", "Additional")),
        given.version(
            given.job("notify", "CustomTenantOperation"), tenantOperations={"upgrade": [{"workloadName": "notify"}]}
        ),
    ],
    ids=["no workload", "only custom steps"],
)
def test_a_version_without_a_job_for_tenants_is_refused(version: CAPApplicationVersion) -> None:
    with pytest.raises(NoTenantOperation, match="CAPApplicationVersion shop/bookshop-v1"):
        jobs.steps_of(version, Operation.UPGRADE)


# ---- Jobs


def test_a_job_of_provisioning_subscribes_with_the_payload_of_the_subscription() -> None:
    body = job(given.version(), given.operation())

    assert container(body)["command"] == ["node", "./node_modules/@sap/cds-mtxs/bin/cds-mtx"]
    assert container(body)["args"] == [
        "$(CAPOP_TENANT_MTXS_OPERATION)",
        "acme-id",
        "--body",
        "$(CAPOP_SUBSCRIPTION_PAYLOAD)",
    ]
    assert variables(body) == [
        "CAPOP_APP_VERSION",
        "CAPOP_TENANT_ID",
        "CAPOP_TENANT_OPERATION",
        "CAPOP_TENANT_SUBDOMAIN",
        "CAPOP_TENANT_TYPE",
        "CAPOP_APP_NAME",
        "CAPOP_PROVIDER_SUBACCOUNT_ID",
        "CAPOP_PROVIDER_TENANT_ID",
        "CAPOP_PROVIDER_SUBDOMAIN",
        "CAPOP_SUBSCRIPTION_PAYLOAD",
        "CAPOP_TENANT_MTXS_OPERATION",
    ]
    env = container(body)["env"]
    assert isinstance(env, list)
    assert env[-2] == {
        "name": "CAPOP_SUBSCRIPTION_PAYLOAD",
        "valueFrom": {"secretKeyRef": {"name": "acme-context", "key": "subscriptionContext"}},
    }
    assert env[-1] == {"name": "CAPOP_TENANT_MTXS_OPERATION", "value": "subscribe"}
    assert container(body)["envFrom"] == [{"secretRef": {"name": "credentials", "optional": True}}]


def test_a_job_of_an_upgrade_has_no_payload() -> None:
    body = job(given.version(), given.operation("upgrade"))

    assert container(body)["args"] == ["$(CAPOP_TENANT_MTXS_OPERATION)", "acme-id"]
    assert "CAPOP_SUBSCRIPTION_PAYLOAD" not in variables(body)


def test_a_job_with_a_command_keeps_its_arguments_and_one_without_loses_them() -> None:
    with_command = given.version(given.job("mtxs", "TenantOperation", command=["run"], args=["it"]))
    without = given.version(given.job("mtxs", "TenantOperation", args=["ignored"]))

    assert (container(job(with_command, given.operation()))["command"]) == ["run"]
    assert (container(job(with_command, given.operation()))["args"]) == ["it"]
    assert container(job(without, given.operation("upgrade")))["args"] == ["$(CAPOP_TENANT_MTXS_OPERATION)", "acme-id"]


def test_a_custom_step_runs_what_it_names_and_knows_no_operation_of_mtxs() -> None:
    version = given.version(given.job("notify", "CustomTenantOperation", args=["--now"]))
    body = job(version, given.operation(), OperationStep(name="notify", type="CustomTenantOperation"))

    assert "command" not in container(body)
    assert container(body)["args"] == ["--now"]
    assert "CAPOP_TENANT_MTXS_OPERATION" not in variables(body)


def test_the_variables_of_the_workload_come_last_and_init_containers_get_those_of_the_operator() -> None:
    details: JsonObject = {
        "env": [{"name": "MINE", "value": "1"}],
        "initContainers": [{"name": "i", "image": "i:1", "env": [{"name": "I"}]}],
    }
    body = job(given.version(given.job("mtxs", "TenantOperation", **details)), given.operation("upgrade"))
    inits = dig(body, "spec", "template", "spec", "initContainers")
    assert isinstance(inits, list)
    (init,) = inits
    env = dig(init, "env")
    assert isinstance(env, list)

    assert variables(body)[-1] == "MINE"
    assert [dig(each, "name") for each in env][:2] == ["I", "CAPOP_APP_VERSION"]
    assert dig(init, "envFrom") == [{"secretRef": {"name": "credentials", "optional": True}}]


def test_labels_of_the_operator_win_over_those_of_the_workload_and_are_on_the_pods_too() -> None:
    workload = given.job("mtxs", "TenantOperation") | {
        "labels": {"app": "mine", "team": "blue"},
        "annotations": {"a": "b"},
    }
    body = job(given.version(workload), given.operation(), number=2)
    labels = dig(body, "metadata", "labels")
    assert isinstance(labels, dict)

    assert labels["app"] == "bookshop"
    assert labels["team"] == "blue"
    assert labels["sme.sap.com/tenant-operation-step"] == "2"
    assert labels["sme.sap.com/tenant-operation-type"] == "provisioning"
    assert labels["sme.sap.com/workload-name"] == "mtxs"
    assert labels["sme.sap.com/workload-type"] == "TenantOperation"
    assert labels["sme.sap.com/category"] == "Workload"
    assert labels["sme.sap.com/owner-generation"] == "1"
    assert dig(body, "spec", "template", "metadata", "labels") == labels
    assert dig(body, "metadata", "annotations") == {"a": "b", "sme.sap.com/owner-identifier": "shop.acme-op"}


def test_limits_of_the_job_go_into_it_and_pods_are_not_restarted() -> None:
    limits: JsonObject = {"backoffLimit": 0, "ttlSecondsAfterFinished": 60, "activeDeadlineSeconds": 10}
    body = job(given.version(given.job("mtxs", "TenantOperation", **limits)), given.operation())

    assert dig(body, "spec", "backoffLimit") == 0
    assert dig(body, "spec", "ttlSecondsAfterFinished") == 60
    assert dig(body, "spec", "activeDeadlineSeconds") == 10
    assert dig(body, "spec", "template", "spec", "restartPolicy") == "Never"


def test_a_job_made_from_the_server_has_limits_of_its_own() -> None:
    version = given.version(given.deployment("srv", "CAP", replicas=3, ports=[{"name": "p", "port": 1}]))
    body = job(version, given.operation(), OperationStep(name="srv", type="TenantOperation"))

    assert dig(body, "spec", "backoffLimit") == 2
    assert dig(body, "spec", "ttlSecondsAfterFinished") == 300
    assert container(body)["image"] == "srv:1"


def test_a_job_made_from_the_server_does_not_run_the_server() -> None:
    fields = {"command": ["npm", "start"], "args": ["--port", "4004"], "restartPolicy": "Always"}
    version = given.version(given.deployment("srv", "CAP", **fields))
    body = job(version, given.operation("upgrade"), OperationStep(name="srv", type="TenantOperation"))

    assert container(body)["command"] == ["node", "./node_modules/@sap/cds-mtxs/bin/cds-mtx"]
    assert container(body)["args"] == ["$(CAPOP_TENANT_MTXS_OPERATION)", "acme-id"]
    assert dig(body, "spec", "template", "spec", "restartPolicy") == "Never"


def test_pods_are_spread_by_their_own_labels_unless_they_name_others() -> None:
    spread: JsonObject = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    own: JsonObject = {**spread, "labelSelector": {"matchLabels": {"a": "b"}}}
    version = given.version(given.job("mtxs", "TenantOperation", topologySpreadConstraints=[spread, own]))
    body = job(version, given.operation())
    constraints = dig(body, "spec", "template", "spec", "topologySpreadConstraints")
    assert isinstance(constraints, list)

    assert dig(constraints[0], "labelSelector", "matchLabels") == dig(body, "metadata", "labels")
    assert "matchLabelKeys" not in (constraints[0] if isinstance(constraints[0], dict) else {})
    assert constraints[1] == own
