"""Why a BtpOperator is not ready: from what was read to the answer, without a cluster."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from textwrap import dedent
from typing import cast

import pytest

from stellwerk.api.core import ConfigMap
from stellwerk.apply.readiness.deployment_diagnosis import Surroundings
from stellwerk.cli.objects import findings, health
from stellwerk.cli.objects.object_summary import ObjectSummary
from stellwerk.cli.shell.text import Style
from stellwerk.delivery.workloads import Workload
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import JsonObject, JsonValue, Unstructured
from stellwerk.operators.btp.insight import why as btp
from stellwerk.operators.btp.insight.why import BtpSurroundings, RequiredSecret
from stellwerk.operators.btp.reasons import Reason
from stellwerk.runtime.insight.diagnosis import ClusterReader, root_causes

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
STANDARD = ObjectKey("kyma-system", "btpoperator")
SECRET = ObjectKey("kyma-system", "sap-btp-manager")
OPERAND = ObjectKey("kyma-system", "sap-btp-operator-controller-manager")


def an_operator(
    reason: str = "",
    state: str = "Warning",
    message: str = "",
    *,
    ready: bool = False,
    key: ObjectKey = STANDARD,
    created: str = "2026-05-01T10:00:00Z",
    deleted: bool = False,
) -> Unstructured:
    metadata: JsonObject = {"name": key.name, "namespace": key.namespace, "creationTimestamp": created}
    if deleted:
        metadata["deletionTimestamp"] = "2026-05-01T11:50:00Z"
    body: JsonObject = {
        "apiVersion": "operator.kyma-project.io/v1alpha1",
        "kind": "BtpOperator",
        "metadata": metadata,
    }
    condition: JsonObject = {
        "type": "Ready",
        "status": "True" if ready else "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-05-01T11:56:00Z",
    }
    return Unstructured.of({**body, "status": {"state": state, "conditions": [condition]}} if reason else body)


def a_graph(subject: Unstructured, **facts: object) -> BtpSurroundings:
    graph = BtpSurroundings(
        subject=subject, operators=(subject,), secret=RequiredSecret(SECRET), operand_key=OPERAND, now=NOW
    )
    return replace(graph, **facts)  # type: ignore[arg-type]


def told(graph: BtpSurroundings) -> list[str]:
    seen = ObjectSummary(graph.subject.ref, health.of(graph.subject), btp.explain(graph))
    return findings.told(seen, Style(), NOW)


def look(golden: str) -> list[str]:
    return dedent(golden).strip("\n").splitlines()


def a_service(kind: str, name: str, *, deleted: bool = False) -> Unstructured:
    metadata: dict[str, JsonValue] = {"name": name, "namespace": "shop"}
    if deleted:
        metadata["deletionTimestamp"] = "2026-05-01T11:50:00Z"
        metadata["finalizers"] = ["services.cloud.sap.com/sap-btp-finalizer"]
    return Unstructured.of({"apiVersion": "services.cloud.sap.com/v1", "kind": kind, "metadata": metadata})


def test_a_missing_secret_is_the_root_cause_and_the_next_step_names_its_keys() -> None:
    operator = an_operator("MissingSecret", "Warning", "sap-btp-manager Secret in kyma-system namespace not found")
    assert told(a_graph(operator)) == look(
        """
        ✗ BtpOperator kyma-system/btpoperator is not ready (for 4m)
        └─ sap-btp-manager Secret in kyma-system namespace not found   MissingSecret
           └─ Secret kyma-system/sap-btp-manager does not exist        <- root cause
        Next: create it with the keys clientid, clientsecret, sm_url, tokenurl, cluster_id and the label app.kubernetes.io/managed-by=kcp-kyma-environment-broker (stellwerk explain MissingSecret)
        """  # noqa: E501  # a line as it is printed
    )


def test_a_secret_that_only_lacks_the_label_is_told_apart_from_one_that_is_absent() -> None:
    secret = RequiredSecret(SECRET, exists=True, labelled=False)
    diagnosis = btp.explain(a_graph(an_operator("MissingSecret"), secret=secret))
    assert [cause.text for cause in root_causes(diagnosis.findings)] == [
        "Secret kyma-system/sap-btp-manager is there, but has not the label "
        "app.kubernetes.io/managed-by=kcp-kyma-environment-broker"
    ]
    assert diagnosis.next_step.startswith("kubectl label secret sap-btp-manager -n kyma-system ")


def test_an_invalid_secret_names_the_keys_that_are_missing_and_those_without_a_value() -> None:
    secret = RequiredSecret(SECRET, exists=True, absent_keys=("clientid", "tokenurl"), empty_keys=("sm_url",))
    diagnosis = btp.explain(a_graph(an_operator("InvalidSecret", "Error"), secret=secret))
    assert [cause.text for cause in root_causes(diagnosis.findings)] == [
        "Secret kyma-system/sap-btp-manager lacks keys: clientid, tokenurl",
        "Secret kyma-system/sap-btp-manager has empty values for keys: sm_url",
    ]


def test_a_secret_that_was_mended_points_at_the_operator_that_has_not_looked() -> None:
    diagnosis = btp.explain(a_graph(an_operator("InvalidSecret", "Error"), secret=RequiredSecret(SECRET, exists=True)))
    assert diagnosis.next_step == "check that the operator runs: stellwerk status"


def test_a_secret_that_may_not_be_read_is_not_called_missing() -> None:
    graph = a_graph(an_operator("MissingSecret", message="not found"), secret=None, hidden=("secrets in kyma-system",))
    lines = told(graph)
    assert not any("does not exist" in line for line in lines)
    assert "Not looked at, because you may not: secrets in kyma-system." in lines


def test_the_older_one_that_leads_is_named() -> None:
    younger = an_operator("OlderCRExists", key=ObjectKey("default", "second"), created="2026-05-01T11:00:00Z")
    middle = an_operator("OlderCRExists", key=ObjectKey("default", "middle"), created="2026-05-01T10:30:00Z")
    oldest = an_operator("ReconcileSucceeded", "Ready", ready=True, created="2026-05-01T10:00:00Z")
    diagnosis = btp.explain(a_graph(younger, operators=(younger, middle, oldest)))
    assert [cause.text for cause in root_causes(diagnosis.findings)] == [
        "BtpOperator kyma-system/btpoperator is older and leads"
    ]
    assert diagnosis.next_step == "delete this one, which has no effect: kubectl delete btpoperator second -n default"


def test_one_in_the_wrong_place_is_deleted_with_a_command() -> None:
    diagnosis = btp.explain(a_graph(an_operator("WrongNamespaceOrName", key=ObjectKey("default", "second"))))
    assert diagnosis.next_step.endswith("kubectl delete btpoperator second -n default")


def test_what_keeps_the_users_objects_of_a_deletion_is_looked_for_with_a_command() -> None:
    binding = Unstructured.of(
        {"apiVersion": "services.cloud.sap.com/v1", "kind": "ServiceBinding", "metadata": {"name": "b"}}
    )
    diagnosis = btp.explain(a_graph(an_operator("HardDeleting", "Deleting", deleted=True), bindings=(binding,)))
    assert diagnosis.next_step.endswith("kubectl logs deployment/sap-btp-operator-controller-manager -n kyma-system")


def test_a_released_one_that_another_client_holds_is_not_named_as_the_leader() -> None:
    redundant = an_operator("OlderCRExists", key=ObjectKey("default", "second"), created="2026-05-01T11:00:00Z")
    leader = an_operator(
        "ReconcileSucceeded", "Ready", ready=True, key=ObjectKey("default", "a"), created="2026-05-01T10:30:00Z"
    )
    released = an_operator("HardDeleting", "Deleting", created="2026-05-01T10:00:00Z", deleted=True)

    diagnosis = btp.explain(a_graph(redundant, operators=(redundant, leader, released)))

    assert [cause.text for cause in root_causes(diagnosis.findings)] == ["BtpOperator default/a is older and leads"]


def test_of_two_that_are_equally_old_the_one_in_the_standard_place_leads() -> None:
    first, standard = an_operator("OlderCRExists", key=ObjectKey("a", "a")), an_operator("ReconcileSucceeded", "Ready")

    diagnosis = btp.explain(a_graph(first, operators=(first, standard)))

    assert [cause.text for cause in root_causes(diagnosis.findings)] == [
        "BtpOperator kyma-system/btpoperator is older and leads"
    ]
    diagnosis = btp.explain(a_graph(first, operators=(first, an_operator(key=ObjectKey("a", "b")))))
    assert "the operator has not looked again" in next(root_causes(diagnosis.findings)).text


def test_a_blocked_deletion_names_what_is_left_bindings_first() -> None:
    operator = an_operator("ServiceInstancesAndBindingsNotCleaned", message="All must be removed", deleted=True)
    graph = a_graph(
        operator,
        instances=(a_service("ServiceInstance", "db"),),
        bindings=(a_service("ServiceBinding", "key", deleted=True), a_service("ServiceBinding", "other")),
    )
    assert told(graph) == look(
        """
        ✗ BtpOperator kyma-system/btpoperator is being deleted, and its deletion is blocked (for 4m)
        └─ All must be removed                                      ServiceInstancesAndBindingsNotCleaned
           └─ 1 ServiceInstance and 2 ServiceBindings still exist   <- root cause
              ├─ ServiceBinding shop/key is being deleted, held by finalizer services.cloud.sap.com/sap-btp-finalizer
              ├─ ServiceBinding shop/other
              └─ ServiceInstance shop/db
        Next: delete them, bindings first; or have them deleted with all their data: kubectl label btpoperator btpoperator -n kyma-system force-delete=true
        """  # noqa: E501  # a line as it is printed
    )


def test_a_blocked_deletion_outside_of_the_modules_namespace_is_not_told_to_use_a_label_that_does_not_count() -> None:
    elsewhere = an_operator(
        "ServiceInstancesAndBindingsNotCleaned", key=ObjectKey("shop", "btpoperator"), message="left", deleted=True
    )
    diagnosis = btp.explain(a_graph(elsewhere, instances=(a_service("ServiceInstance", "db"),)))
    assert diagnosis.next_step == (
        "delete the service instances and bindings, bindings first: stellwerk instance list -A"
    )


def test_a_blocked_deletion_of_the_fixed_one_is_told_to_use_the_label_though_the_module_is_elsewhere() -> None:
    fixed = an_operator("ServiceInstancesAndBindingsNotCleaned", message="left", deleted=True)
    operand_key = ObjectKey("module", OPERAND.name)
    graph = a_graph(fixed, instances=(a_service("ServiceInstance", "db"),), operand_key=operand_key)

    assert "force-delete=true" in btp.explain(replace(graph, fixed=True)).next_step
    assert "force-delete=true" not in btp.explain(replace(graph, home="module")).next_step


def test_of_many_blockers_ten_are_named_and_all_are_counted() -> None:
    many = tuple(a_service("ServiceInstance", f"db{number}") for number in range(25))
    lines = told(a_graph(an_operator("ServiceInstancesAndBindingsNotCleaned", deleted=True), instances=many))
    assert any("25 ServiceInstances and 0 ServiceBindings" in line for line in lines)
    assert sum("ServiceInstance shop/" in line for line in lines) == btp.NAMED
    assert any("and 15 more" in line for line in lines)


def test_a_failed_provisioning_is_followed_down_to_the_pod() -> None:
    operator = an_operator("ProvisioningFailed", "Error", "timed out while waiting for resources readiness")
    assert told(a_graph(operator, operand=an_operand_without_image())) == look(
        """
        ✗ BtpOperator kyma-system/btpoperator is not ready (for 4m)
        └─ timed out while waiting for resources readiness                       ProvisioningFailed
           └─ Deployment kyma-system/operand: 0 of 1 replicas available
              └─ Pod kyma-system/operand-1-a: image nowhere:1 cannot be pulled   ImagePullBackOff   <- root cause
        Next: check the image's name, and the pull secret if the registry asks for one: kubectl describe pod operand-1-a -n kyma-system
        """  # noqa: E501  # a line as it is printed
    )


FORBIDDEN = (
    "failed to apply module resources: cannot apply ConfigMap kyma-system/x: user m may not patch configmaps in "
    "namespace kyma-system (grant verb patch on configmaps in namespace kyma-system)"
)
WAITED = "timed out while waiting for resources readiness: timeout waiting for"
FAILURES = [
    ("ProvisioningFailed", FORBIDDEN, "grant verb patch on configmaps in namespace kyma-system ("),
    ("ReconcileFailed", FORBIDDEN, "grant verb patch on configmaps in namespace kyma-system ("),
    (
        "ProvisioningFailed",
        "cannot read the module resources: apply/x.yml: line 3: no YAML",
        "correct the object, file or right",
    ),
    ("ProvisioningFailed", f"{WAITED} bindings.example.com CustomResourceDefinition to be ready", "correct the object"),
    ("ChartInstallFailed", f"error while installing resource x: {FORBIDDEN}", "grant verb patch on configmaps in"),
    ("ConsistencyCheckFailed", f"Checking consistency of resources failed: {FORBIDDEN}", "grant verb patch on"),
    ("PreparingInstallInfoFailed", "Error while preparing InstallInfo: chart x: no Chart.yaml", "correct the file"),
    (
        "ResourceRemovalFailed",
        "Unable to remove installed resources: the server is busy",
        "correct the object, file or",
    ),
    (
        "DeletionOfOrphanedResourcesFailed",
        "failed to delete the Secret: forbidden",
        "give the ServiceAccount of the operator",
    ),
    (
        "AnnotatingSecretFailed",
        "failed to annotate the required Secret: forbidden",
        "give the ServiceAccount of the operator",
    ),
    ("GettingConfigMapFailed", "Getting config map failed: ConfigMap btp-manager-versions: forbidden", "give the"),
    ("StoringChartDetailsFailed", "Failure of storing chart details: ConfigMap x: forbidden", "delete the ConfigMap"),
    ("ChartPathEmpty", "No chart path available for processing: set ChartPath", "set ChartPath, or set ModuleSource"),
]


@pytest.mark.parametrize(("reason", "message", "step"), FAILURES)
def test_a_step_that_failed_is_its_own_cause_whatever_the_operand_lacks(reason: str, message: str, step: str) -> None:
    operator = an_operator(reason, "Error", message)
    for operand in (an_operand_without_image(), None):
        diagnosis = btp.explain(a_graph(operator, operand=operand))
        assert [cause.text for cause in root_causes(diagnosis.findings)] == [message]
        assert diagnosis.next_step.startswith(step)
        assert f"stellwerk explain {reason}" in diagnosis.next_step
        assert diagnosis.unready == ()


@pytest.mark.parametrize("message", [f"{WAITED} {OPERAND.name} Deployment to be ready", WAITED.partition(":")[0]])
def test_an_operand_that_was_waited_for_in_vain_is_looked_into(message: str) -> None:
    graph = a_graph(an_operator("ReconcileFailed", "Error", message), operand=an_operand_without_image())
    diagnosis = btp.explain(graph)
    assert [cause.reason for cause in root_causes(diagnosis.findings)] == ["ImagePullBackOff"]
    assert [str(child.ref) for child in diagnosis.unready] == ["Deployment kyma-system/operand"]


def an_operand_without_image() -> Workload:
    waiting: JsonObject = {
        "name": "manager",
        "image": "nowhere:1",
        "state": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}},
    }
    return Workload(
        an_owned(
            "apps/v1",
            "Deployment",
            "operand",
            "",
            spec={"replicas": 1},
            status={"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1},
        ),
        Surroundings(
            replica_sets=(an_owned("apps/v1", "ReplicaSet", "operand-1", "operand"),),
            pods=(an_owned("v1", "Pod", "operand-1-a", "operand-1", status={"containerStatuses": [waiting]}),),
        ),
    )


def an_owned(api_version: str, kind: str, name: str, owner: str, **parts: JsonValue) -> Unstructured:
    reference: JsonObject = {"apiVersion": "apps/v1", "kind": "Owner", "name": owner, "uid": owner}
    metadata: JsonObject = {
        "name": name,
        "namespace": "kyma-system",
        "uid": name,
        "generation": 1,
        "ownerReferences": [reference],
    }
    return Unstructured.of({"apiVersion": api_version, "kind": kind, "metadata": metadata, **parts})


def test_a_ready_operator_needs_no_answer() -> None:
    assert told(a_graph(an_operator("ReconcileSucceeded", "Ready", ready=True))) == [
        "✔ BtpOperator kyma-system/btpoperator is ready (for 4m)"
    ]


def test_a_ready_operator_that_was_asked_to_go_is_not_called_ready() -> None:
    operator = an_operator("ReconcileSucceeded", "Ready", "fine", ready=True, deleted=True)
    assert told(a_graph(operator)) == look(
        """
        ◌ BtpOperator kyma-system/btpoperator is being deleted (for 10m)
        └─ its deletion was requested, and the operator has not begun yet   <- root cause
        Next: check that the operator runs: stellwerk status
        """
    )


def test_an_operator_that_nobody_looked_at_points_at_the_manager() -> None:
    diagnosis = btp.explain(a_graph(an_operator()))
    assert [cause.reason for cause in root_causes(diagnosis.findings)] == ["NotSeenYet"]
    assert "stellwerk status" in diagnosis.next_step


@pytest.mark.parametrize(
    ("reason", "words"),
    [("MissingSecret", "your turn"), ("ProvisioningFailed", "tries again"), ("Initialized", "goes on by itself")],
)
def test_status_says_whose_turn_it_is(reason: str, words: str) -> None:
    assert words in btp.explain(a_graph(an_operator(reason))).turn


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_of_the_catalogue_has_an_answer(reason: Reason) -> None:
    """Whatever was read or not: a finding, a root cause where something is wrong, and no exception."""
    for graph in (
        a_graph(an_operator(reason)),
        a_graph(an_operator(reason), secret=None, hidden=("deployments in x",)),
    ):
        assert btp.explain(graph).findings[0].reason == reason


def test_a_reason_that_nobody_knows_is_passed_on() -> None:
    diagnosis = btp.explain(a_graph(an_operator("FromTheFuture", "Error", "the pump leaks")))
    assert [cause.text for cause in root_causes(diagnosis.findings)] == ["the pump leaks"]


class Tunables(ClusterReader):
    """A cluster with the ConfigMap of tunables and nothing else."""

    def __init__(self, **data: str) -> None:
        super().__init__(cast("Client", None))
        self._data = data

    async def find(self, resource: Resource, name: str, namespace: str) -> Unstructured | None:
        body: JsonObject = {"kind": "ConfigMap", "metadata": {"name": name}, "data": {**self._data}}
        return Unstructured.of(body) if resource == ConfigMap.resource else None

    async def list(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> list[Unstructured]:
        return []


@pytest.mark.parametrize(("selection", "home"), [("oldest", "module"), ("fixed", "kyma-system")])
async def test_which_one_decides_for_all_is_read_from_the_tunables(selection: str, home: str) -> None:
    reader = Tunables(ChartNamespace="module", CrSelection=selection)

    seen = await btp.observe(reader, an_operator(), NOW)

    assert (seen.home, seen.fixed, seen.operand_key.namespace) == (home, selection == "fixed", "module")


def test_it_looks_where_the_operator_looks_also_when_a_tunable_is_junk() -> None:
    assert btp.places(btp.settings_of({})) == (OPERAND, SECRET)
    assert btp.places(btp.settings_of({"ChartNamespace": "elsewhere", "SecretName": "other"})) == (
        ObjectKey("elsewhere", OPERAND.name),
        ObjectKey("elsewhere", "other"),
    )
    assert btp.places(btp.settings_of({"ChartNamespace": "No Namespace At All"})) == (OPERAND, SECRET)
