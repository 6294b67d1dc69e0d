"""`stellwerk install`, `check`, `export` and `unstick` against a real API server."""

from __future__ import annotations

import functools
import json
import tarfile
from pathlib import Path

import pytest
import yaml

from stellwerk import assembly
from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.core import Secret
from stellwerk.kube.types.model import JsonObject, Unstructured, decode_json, dig, encode_json
from stellwerk.local.cluster import LocalCluster
from tests.cluster.cli.conftest import Given, Stellwerk, parsed
from tests.kubectl import kubectl
from tests.unit.operators import helm_charts


def test_what_is_installed_is_what_is_printed_and_is_then_found_complete(stellwerk: Stellwerk) -> None:
    printed = list(yaml.safe_load_all(stellwerk("install", "component", "--print").stdout))
    wanted = [body for body in assembly.installation(["component"]) if dig(body, "roleRef", "name") != "cluster-admin"]
    assert {str(Unstructured.of(body).ref) for body in printed} == {str(Unstructured.of(body).ref) for body in wanted}
    done = stellwerk("install", "component")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("is applied") == len(printed)

    checked = parsed(stellwerk("check", "component", "--pre", "-o", "json").stdout)
    checks = checked["checks"]
    assert isinstance(checks, list)
    verdicts = {one["subject"]: one["verdict"] for one in checks if isinstance(one, dict)}
    assert verdicts.pop("component: kinds of source.toolkit.fluxcd.io") == "unsure"
    assert {*verdicts.values()} == {"good"}


def test_rights_that_a_role_lacks_are_named_with_the_command_that_grants_them(
    stellwerk: Stellwerk, command_line_cluster: LocalCluster
) -> None:
    assert stellwerk("install", "component").returncode == 0
    removal = ("--type=json", '-p=[{"op": "remove", "path": "/rules/0"}]')
    kubectl(command_line_cluster.kubeconfig, "patch", "clusterrole", "component-operator", *removal)
    done = stellwerk("check", "component", "--pre")
    assert done.returncode == 3, done
    assert "ClusterRole component-operator lacks " in done.stdout
    assert "Fix: stellwerk install component" in done.stdout
    assert stellwerk("install", "component").returncode == 0
    assert stellwerk("check", "component", "--pre").returncode == 0


def test_a_binding_to_another_role_with_all_rights_is_good(
    stellwerk: Stellwerk, command_line_cluster: LocalCluster
) -> None:
    assert stellwerk("install", "component").returncode == 0
    change = functools.partial(kubectl, command_line_cluster.kubeconfig)
    name, accounts = ("clusterrolebinding", "component-operator-manager"), "--group=system:serviceaccounts"
    try:
        for role, code in (("view", 3), ("cluster-admin", 0)):
            change("delete", *name)
            change("create", *name, f"--clusterrole={role}", accounts)
            done = stellwerk("check", "component", "--pre")
            assert done.returncode == code, done
    finally:
        change("delete", *name)
        assert stellwerk("install", "component").returncode == 0


async def test_with_an_image_it_prints_what_the_chart_renders(stellwerk: Stellwerk) -> None:
    printed = [*yaml.safe_load_all(stellwerk("install", "component", "--image", "example.com/s:1", "--print").stdout)]
    values: JsonObject = {"image": {"repository": "example.com/s", "tag": "1"}, "componentOperator": {"enabled": True}}
    async with helm_charts.chart() as chart:
        rendered = await chart.render(values, "component-operator")

    namespace, *objects = printed
    assert namespace["kind"] == "Namespace"
    assert ("Deployment", "component-operator") in rendered
    for body in objects:
        assert body["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "stellwerk"
        body["metadata"]["labels"]["app.kubernetes.io/managed-by"] = "Helm"
    expected = yaml.safe_load(yaml.safe_dump([decode_json(encode_json(body)) for body in rendered.values()]))
    for body in expected:
        body["metadata"].get("annotations", {}).pop("example.com/delete-policy", None)  # of the renderer
    assert sorted(objects, key=repr_of) == sorted(expected, key=repr_of)


def repr_of(body: JsonObject) -> str:
    return str(Unstructured.of(body).ref)


def test_with_an_image_it_starts_the_operator_where_the_user_wants_it_and_check_recognizes_it(
    place: str, stellwerk: Stellwerk, tmp_path: Path
) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("componentOperator: {replicaCount: 1, options: {tenancy: strict}}")
    words = ("install", "component", "--image", "example.com/s:1", "--values", str(values), "-n", place)
    tried = stellwerk(*words, "--dry-run")
    assert tried.returncode == 0, tried.stderr
    assert f"Deployment {place}/component-operator would be applied" in tried.stdout
    assert f"Deployment {place}/component-operator" not in stellwerk("check", "component").stdout

    done = stellwerk(*words)
    assert done.returncode == 0, done.stderr
    shown = stellwerk("check", "component", "--no-objects").stdout
    assert f"Deployment {place}/component-operator (stellwerk install)" in shown
    assert "cap" not in stellwerk("check", "--no-objects").stdout, "nothing of it is in this cluster"
    ended(stellwerk, place)


def ended(stellwerk: Stellwerk, place: str) -> None:
    """The end of an installation; for other tests, the account is in its usual place again."""
    assert stellwerk("uninstall", "component", "--yes").returncode == 0
    assert f"Deployment {place}" not in stellwerk("check", "component").stdout
    assert stellwerk("install", "component").returncode == 0


def test_what_an_installation_no_longer_wants_goes_and_what_is_left_ends_with_it(
    place: str, stellwerk: Stellwerk, tmp_path: Path
) -> None:
    wide, narrow = tmp_path / "wide.yaml", tmp_path / "narrow.yaml"
    wide.write_text("componentOperator: {rbac: {clusterAdmin: true}}")
    narrow.write_text("{}")
    binding = "ClusterRoleBinding component-operator-cluster-admin"
    words = ("install", "component", "--image", "example.com/s:1", "-n", place, "--values")
    assert f"{binding} is applied" in stellwerk(*words, str(wide)).stdout
    assert f"{binding} would be deleted (dry run)" in stellwerk(*words, str(narrow), "--dry-run").stdout
    assert f"{binding} is deleted" in stellwerk(*words, str(narrow)).stdout

    refused = stellwerk("uninstall", "component")
    assert (refused.returncode, "add --yes" in refused.stderr) == (2, True)
    tried = stellwerk("uninstall", "component", "--dry-run").stdout.splitlines()
    assert all(line.endswith("would be deleted (dry run)") for line in tried)
    gone = stellwerk("uninstall", "component", "--yes").stdout
    assert gone.splitlines() == [line.replace("would be deleted (dry run)", "is deleted") for line in tried]
    assert f"Deployment {place}/component-operator is deleted" in gone
    assert "ClusterRole component-operator-view is deleted" in gone
    assert "CustomResourceDefinition" not in gone
    again = stellwerk("uninstall", "component", "--yes")
    assert (again.returncode, "has not installed component" in again.stderr) == (1, True)
    assert stellwerk("install", "component").returncode == 0


def test_the_roles_of_users_end_with_an_installation_under_other_names(
    place: str, stellwerk: Stellwerk, tmp_path: Path
) -> None:
    renamed = tmp_path / "renamed.yaml"
    renamed.write_text("capOperator: {fullnameOverride: renamed}")
    words = ("install", "cap", "--image", "example.com/s:1", "-n", place, "--values", str(renamed))
    assert "ClusterRole renamed-view is applied" in stellwerk(*words).stdout

    gone = stellwerk("uninstall", "cap", "--yes").stdout
    for name in ("view", "edit", "admin"):
        assert f"ClusterRole renamed-{name} is deleted" in gone


def test_an_operator_that_runs_elsewhere_keeps_its_rights(
    place: str, stellwerk: Stellwerk, command_line_cluster: LocalCluster
) -> None:
    assert stellwerk("install", "component", "--image", "example.com/s:1", "-n", place).returncode == 0
    for words in (("install", "component"), ("install", "component", "--image", "example.com/s:1", "--dry-run")):
        refused = stellwerk(*words)
        assert refused.returncode == 1
        assert f"it runs as Deployment {place}/component-operator" in refused.stderr
        assert f"stellwerk install component -n {place}" in refused.stderr

    annotate = ("annotate", "deployment", "component-operator", "-n", place)
    kubectl(command_line_cluster.kubeconfig, *annotate, "meta.helm.sh/release-name=kept")
    refused = stellwerk("install", "component", "-n", place)
    assert f"helm upgrade kept deploy/chart/stellwerk -n {place} --reset-then-reuse-values" in refused.stderr
    assert f"helm uninstall kept -n {place}" in refused.stderr
    kubectl(command_line_cluster.kubeconfig, *annotate, "meta.helm.sh/release-name-")
    ended(stellwerk, place)


def test_nothing_is_written_where_a_deployment_of_the_original_has_the_name_of_ours(
    place: str, stellwerk: Stellwerk, command_line_cluster: LocalCluster
) -> None:
    names = ("deployment", "component-operator", "-n", place)
    kubectl(command_line_cluster.kubeconfig, "create", *names, "--image=example.com/original:1")
    refused = stellwerk("install", "component", "--image", "example.com/s:1", "-n", place)
    kubectl(command_line_cluster.kubeconfig, "delete", *names)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert f"kubectl delete deployment component-operator -n {place}" in refused.stderr


def test_nothing_is_written_where_the_cluster_lacks_a_kind(place: str, stellwerk: Stellwerk, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("capOperator: {subscriptionServer: {domain: server.example.com}}")
    refused = stellwerk("install", "cap", "--image", "example.com/s:1", "--values", str(values), "-n", place)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "cert.gardener.cloud/v1alpha1" in refused.stderr
    assert "certificateManager: CertManager" in refused.stderr


def test_objects_of_the_user_without_a_namespace_are_applied_in_that_of_the_release(
    place: str, stellwerk: Stellwerk, tmp_path: Path
) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("extraObjects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: extra}}]")
    words = ("install", "component", "cap-manager", "--image", "example.com/s:1", "--values", str(values), "-n", place)
    done = stellwerk(*words, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(f"ConfigMap {place}/extra would be applied") == 1


def test_a_value_that_the_chart_requires_is_asked_for(stellwerk: Stellwerk) -> None:
    done = stellwerk("install", "btp", "--image", "example.com/s:1", "--print")
    assert done.returncode == 1
    assert "btpManager.environment.SAP_BTP_SERVICE_OPERATOR is required" in done.stderr
    assert "stellwerk install --values FILE" in done.stderr


def test_a_module_that_is_not_ready_and_has_no_leader_is_told_with_three(
    given: Given, place: str, stellwerk: Stellwerk
) -> None:
    given.operator(place, "waits", "OlderCRExists", "Warning", "another one is older")
    done = stellwerk("check", "btp")
    assert done.returncode == 3, done
    assert "btp: BtpOperator objects" in done.stdout
    assert "Fix: stellwerk why -A" in done.stdout


def test_who_may_look_at_nothing_is_told_so(stellwerk: Stellwerk) -> None:
    done = stellwerk("check", "btp", "--as", "jane")
    assert done.returncode == 3
    assert "you may not read" in done.stdout


def test_a_bundle_has_what_the_verbs_show_and_no_secret_and_names_what_is_left_out(
    given: Given, place: str, stellwerk: Stellwerk, tmp_path: Path
) -> None:
    given.operator(place, "one", "MissingSecret", "Warning", "Authorization: Bearer canary-canary-canary")
    given.put(Secret.resource, place, "credentials", data={"password": "Y2FuYXJ5"})
    target = tmp_path / "bundle.tar.gz"
    done = stellwerk("bundle", "--file", str(target), "-n", place)
    assert (done.returncode, done.stdout) == (0, f"{target}\n"), done.stderr
    assert "Left out, logs: no log of an operator was found" in done.stderr
    assert target.stat().st_mode & 0o077 == 0
    with tarfile.open(target) as archive:
        files = {
            entry.name.removeprefix("stellwerk-bundle/"): content.read().decode()
            for entry in archive
            if (content := archive.extractfile(entry)) is not None
        }
    assert {"summary.txt", "versions.json", "check.txt", "why.txt", "events.txt"} <= {*files}
    assert f"BtpOperator {place}/one is not ready" in files["why.txt"]
    assert "reason: MissingSecret" in files["objects/btpoperators.operator.kyma-project.io.yaml"]
    assert "logs: no log of an operator was found" in files["summary.txt"]
    assert not any("canary" in text or "Y2FuYXJ5" in text for text in files.values())

    again = stellwerk("bundle", "--file", str(target))
    assert again.returncode == 1
    assert again.stderr.splitlines()[0] == f"Error:   {target} exists"


def test_stats_count_objects_though_no_process_can_be_asked(given: Given, place: str, stellwerk: Stellwerk) -> None:
    given.operator(place, "one", "MissingSecret", "Warning", "it is absent")
    done = stellwerk("stats", "-n", place)
    assert done.returncode == 0, done
    assert ["BtpOperator", "1", "0", "1", "Warning", "1"] in [line.split() for line in done.stdout.splitlines()]
    assert "Processes are left out: no log of an operator was found" in done.stderr
    machine = json.loads(stellwerk("stats", "-n", place, "-o", "json").stdout)
    assert (machine["kinds"][0]["attention"], machine["controllers"]) == (1, [])


def test_an_export_can_be_applied_as_it_is(given: Given, place: str, stellwerk: Stellwerk) -> None:
    given.operator(place, "one", "OlderCRExists", "Warning", "another one is older")
    (body,) = yaml.safe_load_all(stellwerk("export", "btp", "-n", place).stdout)
    assert body["metadata"] == {"name": "one", "namespace": place}
    assert "status" not in body


def test_an_export_has_the_tenants_and_not_the_operations_of_an_application(
    given: Given, place: str, stellwerk: Stellwerk
) -> None:
    resources = {row.resource.kind: row.resource for row in assembly.OPERATORS["cap"].kinds}
    tenant, operation = resources["CAPTenant"], resources["CAPTenantOperation"]
    definitions = {
        str(dig(body, "metadata", "name")): body
        for each in assembly.OPERATORS["cap"].installation().definitions
        if dig(body := each.body(), "spec", "names", "kind") in (tenant.kind, operation.kind)
    }
    for body in definitions.values():
        given.definition(body)
    about: JsonObject = {"tenantId": "t", "subDomain": "acme"}
    of_tenant: JsonObject = {**about, "capApplicationInstance": "shop"}
    given.put(tenant, place, "shop-acme", spec=of_tenant)
    given.put(
        tenant, place, "shop-provider", spec=of_tenant, metadata={"labels": {"sme.sap.com/tenant-type": "provider"}}
    )
    step: JsonObject = {"name": "mtx", "type": "TenantOperation"}
    of_operation: JsonObject = {**about, "capApplicationVersionInstance": "shop-1", "operation": "provisioning"}
    given.put(operation, place, "shop-acme-1", spec={**of_operation, "steps": [step]})
    try:
        (body,) = yaml.safe_load_all(stellwerk("export", "-n", place).stdout)
        assert (body["kind"], body["metadata"]["name"]) == ("CAPTenant", "shop-acme")
        refused = stellwerk("export", "ctop", "-n", place)
        assert refused.returncode == 1, refused.stdout
        assert "objects of kind CAPTenantOperation are not exported" in refused.stderr
    finally:
        for name in definitions:
            given.gone(CustomResourceDefinition.resource, "", name)


@pytest.mark.parametrize("more", [[], ["--force", "--yes"]])
def test_only_a_deletion_that_waits_can_be_unstuck(
    given: Given, place: str, stellwerk: Stellwerk, more: list[str]
) -> None:
    given.operator(place, "one", "OlderCRExists", "Warning", "another one is older")
    done = stellwerk("unstick", "btp/one", "-n", place, *more)
    assert done.returncode == 2
    assert "is not being deleted" in done.stderr


LABEL = "jsonpath={.metadata.labels.force-delete}"


def test_force_names_its_price_first_and_is_then_taken(given: Given, place: str, stellwerk: Stellwerk) -> None:
    home, name = "kyma-system", f"btp/{place}"
    given.namespace(home)
    given.operator(home, place, "ServiceInstancesAndBindingsNotCleaned", "Warning", "some are left")
    given.keep(home, place)
    told = stellwerk("unstick", name, "-n", home)
    assert told.returncode == 0, told.stderr
    assert "with the data in the services" in told.stdout
    refused = stellwerk("unstick", name, "-n", home, "--force")
    assert refused.returncode == 2
    done = stellwerk("unstick", name, "-n", home, "--force", "--yes")
    assert done.returncode == 0, done.stderr
    assert stellwerk("get", name, "-n", home, "-o", LABEL).stdout == "true"
    given.release(home, place)


def test_force_that_has_no_effect_is_not_used_and_what_helps_instead_is_named(
    given: Given, place: str, stellwerk: Stellwerk
) -> None:
    given.operator(place, "one", "ServiceInstancesAndBindingsNotCleaned", "Warning", "some are left")
    given.keep(place, "one")
    told = stellwerk("unstick", "btp/one", "-n", place)
    assert told.returncode == 0, told.stderr
    assert "Force: has no effect: the label force-delete counts only on a BtpOperator in the namespace" in told.stdout
    for dry_run in ([], ["--dry-run"]):
        refused = stellwerk("unstick", "btp/one", "-n", place, "--force", "--yes", *dry_run)
        assert refused.returncode == 2
        assert "force has no effect on BtpOperator" in refused.stderr
        assert "stellwerk instance list -A" in refused.stderr
    assert stellwerk("get", "btp/one", "-n", place, "-o", LABEL).stdout == ""
    given.release(place, "one")
