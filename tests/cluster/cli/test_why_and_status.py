"""`stellwerk why`, `status` and `events` against a real API server."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import yaml

from stellwerk.api.apps import Deployment
from stellwerk.api.btp import ServiceBinding, ServiceInstance
from stellwerk.api.coordination import Lease
from stellwerk.api.core import Secret
from stellwerk.api.discovery import SERVICE_NAME_LABEL, EndpointSlice
from stellwerk.api.events import Event
from stellwerk.cli.objects import webhook_calls
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, JsonValue, Unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators import btp
from stellwerk.operators.btp.installation import INSTALLATION
from tests.cluster.cli.conftest import BTP, Given, Started, Stellwerk, btp_status, parsed

KYMA = "kyma-system"
SERVICE = Resource("", "v1", "Service", "services", namespaced=True)


@pytest.fixture
def kyma(given: Given) -> Given:
    """The namespace that the module lives in."""
    given.namespace(KYMA)
    return given


def roots(text: str) -> list[str]:
    return [
        line.strip(" │├└─").removesuffix("<- root cause").rstrip() for line in text.splitlines() if "<- root" in line
    ]


def test_why_follows_the_secret_as_it_is_mended_step_by_step(stellwerk: Stellwerk, kyma: Given, place: str) -> None:
    kyma.operator(place, "cr", "MissingSecret", "Warning", "sap-btp-manager Secret in kyma-system namespace not found")
    shown = stellwerk("why", "btp/cr", "-n", place).stdout
    assert shown.startswith(f"✗ BtpOperator {place}/cr is not ready (for ")
    assert roots(shown) == ["Secret kyma-system/sap-btp-manager does not exist"]

    kyma.put(Secret.resource, KYMA, "sap-btp-manager", data={"clientid": "Y2FuYXJ5", "tokenurl": ""})
    assert "has not the label" in roots(stellwerk("why", "btp/cr", "-n", place).stdout)[0]

    kyma.gone(Secret.resource, KYMA, "sap-btp-manager")
    labels = {"app.kubernetes.io/managed-by": "kcp-kyma-environment-broker"}
    kyma.put(
        Secret.resource,
        KYMA,
        "sap-btp-manager",
        metadata={"labels": labels},
        data={"clientid": "Y2FuYXJ5", "tokenurl": ""},
    )
    shown = stellwerk("why", "btp/cr", "-n", place).stdout
    assert roots(shown) == [
        "Secret kyma-system/sap-btp-manager lacks keys: clientsecret, sm_url, cluster_id",
        "Secret kyma-system/sap-btp-manager has empty values for keys: tokenurl",
    ]
    for form in ("table", "json", "yaml"):
        told = stellwerk("why", "btp/cr", "-n", place, "-v", "-o", form)
        assert "canary" not in told.stdout + told.stderr
        assert "Y2FuYXJ5" not in told.stdout + told.stderr
    kyma.gone(Secret.resource, KYMA, "sap-btp-manager")


def test_why_finds_the_missing_priority_class_below_the_operand(stellwerk: Stellwerk, kyma: Given, place: str) -> None:
    kyma.operator(place, "cr", "ProvisioningFailed", "Error", "timed out while waiting for resources readiness")
    kyma.put(Deployment.resource, KYMA, "sap-btp-operator-controller-manager", spec=a_deployment("not-there"))
    try:
        shown = stellwerk("why", "btp/cr", "-n", place).stdout
        while "PriorityClass" not in shown:  # until the controller manager has said so; the test's timeout bounds it
            shown = stellwerk("why", "btp/cr", "-n", place).stdout
        assert roots(shown) == [
            "Deployment kyma-system/sap-btp-operator-controller-manager: PriorityClass not-there does not exist"
        ]
        children = parsed(stellwerk("status", "btp/cr", "-n", place, "-o", "json").stdout)["notReady"]
        assert isinstance(children, list)
        assert len(children) == 1
        direct = stellwerk("why", "deployment/sap-btp-operator-controller-manager", "-n", KYMA).stdout
        assert roots(direct) == roots(shown)
    finally:
        kyma.gone(Deployment.resource, KYMA, "sap-btp-operator-controller-manager")


def a_deployment(priority_class: str) -> dict[str, object]:
    pod = {"containers": [{"name": "manager", "image": "any"}], "priorityClassName": priority_class}
    labels = {"app": "operand"}
    template = {"metadata": {"labels": labels}, "spec": pod}
    return {"selector": {"matchLabels": labels}, "template": template}


def test_an_operator_that_does_not_answer_is_the_cause_of_what_it_has_not_looked_at(
    stellwerk: Stellwerk, given: Given, place: str
) -> None:
    given.put(BTP, place, "cr")
    stale = {"holderIdentity": "one", "renewTime": "2026-05-01T12:00:00.000000Z", "leaseDurationSeconds": 15}
    labels = {"app": "operator"}
    pod = {"containers": [{"name": "manager", "image": "any", "command": ["stellwerk", "run", "btp"]}]}
    template = {"metadata": {"labels": labels}, "spec": {**pod, "priorityClassName": "not-there"}}
    given.put(Lease.resource, place, INSTALLATION.lease, spec=stale)
    given.put(Deployment.resource, place, "operator", spec={"selector": {"matchLabels": labels}, "template": template})
    try:
        (root,) = roots(stellwerk("why", "btp/cr", "-n", place).stdout)
        assert root.startswith(
            f"no answer from the BTP Manager: one has not renewed the Lease {place}/{INSTALLATION.lease}"
        )
        assert f"Deployment {place}/operator: 0 of 1 replicas available" in root
        look = f"kubectl get pods -n {place} -l app=operator && kubectl logs deployment/operator -n {place}"
        assert f"Next: {look}" in stellwerk("why", "-A").stdout
        checked = stellwerk("check", "btp", "--no-rights")
        assert checked.returncode == 1
        assert checked.stdout.count(f"Fix: {look}") == 2, "of the installation and of the Lease"
        given.status(BTP, place, "cr", btp_status("MissingSecret", "Warning", "no Secret"))
        remark = next(line for line in stellwerk("why", "btp/cr", "-n", place).stdout.splitlines() if "Remark:" in line)
        assert "so that what is shown may be old" in remark
        assert look in remark
    finally:
        given.gone(Deployment.resource, place, "operator")
        given.gone(Lease.resource, place, INSTALLATION.lease)


async def test_a_webhook_behind_a_service_is_asked_by_the_api_server(
    given: Given, place: str, command_line_cluster: LocalCluster
) -> None:
    service: JsonObject = {"namespace": place, "name": "hooks", "path": "/validate", "port": 443}
    webhooks: list[JsonValue] = [{"name": "w", "clientConfig": {"service": service}}]
    kind = "ValidatingWebhookConfiguration"
    asked = Unstructured.of({"apiVersion": "v1", "kind": kind, "metadata": {"name": "c"}, "webhooks": webhooks})
    async with Client.connect(ClusterConfig.load(command_line_cluster.kubeconfig)) as client:
        without_pods = await webhook_calls.silence(client, asked)
        assert without_pods == f"{kind} c: Service {place}/hooks does not answer: no pod of it is ready"
        labels, address = {SERVICE_NAME_LABEL: "hooks"}, "192.0.2.7"
        ready = [{"addresses": [address], "conditions": {"ready": True}}]
        given.put(
            EndpointSlice.resource, place, "hooks", metadata={"labels": labels}, addressType="IPv4", endpoints=ready
        )
        assert 'services "hooks" not found' in await webhook_calls.silence(client, asked)
        given.put(SERVICE, place, "hooks", spec={"ports": [{"port": 443}]})
        subsets = [{"addresses": [{"ip": address}], "ports": [{"name": "other", "port": 1}]}]
        given.put(Resource("", "v1", "Endpoints", "endpoints", namespaced=True), place, "hooks", subsets=subsets)
        assert "no endpoints available for service" in await webhook_calls.silence(client, asked)


def test_why_names_what_it_may_not_read(
    stellwerk: Stellwerk, kyma: Given, place: str, command_line_cluster: LocalCluster
) -> None:
    kyma.operator(place, "cr", "MissingSecret", "Warning", "not found")
    login = may_only_read_operators(kyma, command_line_cluster, place)
    shown = stellwerk("why", "btp/cr", "-n", place, kubeconfig=login)
    assert shown.returncode == 0
    assert "Not looked at, because you may not: " in shown.stdout
    assert "secrets in kyma-system" in shown.stdout
    assert "does not exist" not in shown.stdout


def may_only_read_operators(given: Given, cluster: LocalCluster, place: str) -> Path:
    rules = [{"apiGroups": [BTP.group], "resources": [BTP.plural], "verbs": ["get", "list"]}]
    rbac = "rbac.authorization.k8s.io"
    given.put(Resource(rbac, "v1", "Role", "roles", True), place, "reads", rules=rules)
    subject = {"kind": "User", "name": f"reader-{place}", "apiGroup": rbac}
    role = {"kind": "Role", "name": "reads", "apiGroup": rbac}
    bindings = Resource(rbac, "v1", "RoleBinding", "rolebindings", True)
    given.put(bindings, place, "reads", subjects=[subject], roleRef=role)
    given.right(f"reader-{place}", "list", BTP, place)
    return cluster.kubeconfig_for(f"reader-{place}")


SERVICES = Path(btp.__file__).parent / "data" / "module-resources" / "apply" / "crds.yml"


def test_why_names_the_service_instances_that_hold_a_deletion_up(
    stellwerk: Stellwerk, given: Given, place: str
) -> None:
    for definition in yaml.safe_load_all(SERVICES.read_text()):
        given.definition(definition)
    spec = {"serviceOfferingName": "db", "servicePlanName": "small"}
    given.put(ServiceInstance.resource, place, "db", spec=spec)
    held = {"finalizers": ["services.cloud.sap.com/sap-btp-finalizer"]}
    given.put(ServiceBinding.resource, place, "key", metadata=held, spec={"serviceInstanceName": "db"})
    given.gone(ServiceBinding.resource, place, "key")
    given.operator(place, "cr", "ServiceInstancesAndBindingsNotCleaned", "Warning", "All must be removed")
    shown = stellwerk("why", "btp/cr", "-n", place).stdout.splitlines()
    assert roots("\n".join(shown)) == ["1 ServiceInstance and 1 ServiceBinding still exist"]
    held_by = "is being deleted, held by finalizer services.cloud.sap.com/sap-btp-finalizer"
    assert [line.strip(" │├└─") for line in shown[3:5]] == [
        f"ServiceBinding {place}/key {held_by}",
        f"ServiceInstance {place}/db",
    ]
    assert shown[-1].startswith("Next: delete the service instances and bindings, bindings first")


def test_the_older_operator_that_leads_is_named(stellwerk: Stellwerk, given: Given, place: str) -> None:
    given.operator(place, "b-younger", "OlderCRExists", "Warning", "another one leads")
    shown = stellwerk("why", "btp/b-younger", "-n", place).stdout
    assert "leads" in shown
    assert len(roots(shown)) == 1


def test_status_ends_with_one_when_not_ready_and_zero_when_ready(
    stellwerk: Stellwerk, given: Given, place: str
) -> None:
    given.operator(place, "waits", "MissingSecret", "Warning", "no Secret")
    given.operator(place, "works", "ReconcileSucceeded", "Ready", "fine", ready=True)
    waits, works = stellwerk("status", "btp/waits", "-n", place), stellwerk("status", f"btp/{place}/works")
    assert (waits.returncode, works.returncode) == (1, 0)
    assert "Ready  False   MissingSecret" in waits.stdout
    assert works.stdout.startswith(f"✔ BtpOperator {place}/works is ready (for ")
    assert waits.stderr == ""


def an_event(given: Given, place: str, name: str, note: str, when: str, **more: object) -> None:
    given.put(
        Event.resource,
        place,
        f"{name}.{note}",
        eventTime=when,
        action="Reconcile",
        reason="MissingSecret",
        type="Warning",
        note=note,
        reportingController="btp-manager",
        reportingInstance="one",
        regarding={"apiVersion": BTP.api_version, "kind": BTP.kind, "namespace": place, "name": name},
        **more,
    )


def test_events_come_newest_last_with_the_count_of_their_series(stellwerk: Stellwerk, given: Given, place: str) -> None:
    given.operator(place, "cr", "MissingSecret", "Warning", "no Secret")
    an_event(given, place, "cr", "newer", "2026-05-01T12:05:00.000000Z")
    series = {"count": 7, "lastObservedTime": "2026-05-01T12:06:00.000000Z"}
    an_event(given, place, "cr", "repeated", "2026-05-01T12:00:00.000000Z", series=series)
    an_event(given, place, "cr", "older", "2026-05-01T12:01:00.000000Z")
    an_event(given, place, "another", "foreign", "2026-05-01T12:07:00.000000Z")
    shown = stellwerk("events", "--for", "btp/cr", "-n", place)
    assert [line.split()[-1] for line in shown.stdout.splitlines()[1:]] == ["older", "newer", "repeated"]
    assert shown.stdout.splitlines()[-1].split()[3] == "7"
    everything = stellwerk("events", "-n", place).stdout.splitlines()
    assert everything[-1].split()[-1] == "foreign"
    assert "repeated" in stellwerk("status", "btp/cr", "-n", place).stdout


def test_events_of_an_object_that_is_gone_are_still_shown(stellwerk: Stellwerk, given: Given, place: str) -> None:
    an_event(given, place, "gone", "note", "2026-05-01T12:00:00.000000Z")
    assert "note" in stellwerk("events", "--for", "btp/gone", "-n", place).stdout


def test_events_are_printed_as_they_come(given: Given, place: str, started: Started) -> None:
    an_event(given, place, "cr", "before", "2026-05-01T12:00:00.000000Z")
    with started("events", "-w", "-n", place) as watching:
        assert watching.stdout is not None
        assert [watching.stdout.readline().split()[-1] for _ in range(2)] == ["NOTE", "before"]
        an_event(given, place, "cr", "after", "2026-05-01T12:01:00.000000Z")
        assert watching.stdout.readline().split()[-1] == "after"


def test_no_events_are_said_to_be_none(stellwerk: Stellwerk, place: str) -> None:
    shown = stellwerk("events", "-n", place)
    assert shown.stdout == ""
    assert shown.stderr.startswith(f"There are no Events in {place}")


def test_a_kind_without_a_name_is_no_release(stellwerk: Stellwerk, place: str) -> None:
    shown = stellwerk("why", "cat", "-n", place)
    assert shown.returncode == 2
    assert shown.stderr.startswith("Error:   cat is a kind, and no object is named")
    assert "Fix:     name an object: cat/NAME" in shown.stderr


def test_version_names_the_cluster(stellwerk: Stellwerk, command_line_cluster: LocalCluster) -> None:
    shown = stellwerk("version")
    assert shown.returncode == 0
    assert f"at {command_line_cluster.url}" in shown.stdout
    assert parsed(stellwerk("version", "--client", "-o", "json").stdout).keys() == {"stellwerk", "version", "python"}


def test_tab_completes_names_from_the_cluster(
    stellwerk: Stellwerk, given: Given, place: str, command_line_cluster: LocalCluster
) -> None:
    given.operator(place, f"tab-{place}", "MissingSecret", "Warning", "no Secret")
    given.put(Resource("", "v1", "ConfigMap", "configmaps", True), place, f"tab-{place}")
    for words, proposal in {
        f"-n {place} why btp/tab-": f"btp/tab-{place}",
        f"-n {place} why btp tab-": f"tab-{place}",
        f"-n {place} get btp other tab-": f"tab-{place}",
        f"-n {place} get cm tab-": f"tab-{place}",
        f"-n {place} reconcile btp/other btp/tab-": f"btp/tab-{place}",
        "-A why btp/tab-": f"btp/tab-{place}",
        f"get btp -n {place}": place,
    }.items():
        line = f"stellwerk --kubeconfig {command_line_cluster.kubeconfig} {words}"
        asked = {"_STELLWERK_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1)}
        deadline = time.monotonic() + 60  # a busy machine may need longer than a completion waits for a cluster
        while f"plain,{proposal}" not in (shown := stellwerk(environment=asked)).stdout.splitlines():
            assert time.monotonic() < deadline, (words, shown)
    line = f"stellwerk --kubeconfig {command_line_cluster.kubeconfig} why btp/tab-"
    asked = {"_STELLWERK_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": "4"}
    assert f"tab-{place}" not in stellwerk(environment=asked).stdout, "no verb would find it in this namespace"


def test_tab_is_silent_when_the_cluster_is_away(stellwerk: Stellwerk) -> None:
    line = "stellwerk --kubeconfig /nowhere why btp/tab-"
    asked = {"_STELLWERK_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": "4"}
    shown = stellwerk(environment=asked)
    assert (shown.stdout.strip(), shown.stderr) == ("", "")


ODDITY = Resource("test.example.com", "v1", "Oddity", "oddities", namespaced=True)


@pytest.fixture
def oddities(given: Given, place: str) -> str:
    """A namespace with an object of any content, `deep`, that cannot be decoded, and one that is as it should be."""
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": free, "status": free}}}
    given.definition(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": ODDITY.group_resource},
            "spec": {
                "group": ODDITY.group,
                "scope": "Namespaced",
                "names": {"kind": ODDITY.kind, "plural": ODDITY.plural, "listKind": "OddityList"},
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
            },
        }
    )
    deep: object = 1
    for _ in range(150):
        deep = [deep]
    given.put(ODDITY, place, "deep", spec={"a": deep})
    given.put(ODDITY, place, "good", spec={})
    return place


@pytest.mark.req("R-510")
@pytest.mark.parametrize("subject", ["oddities", "oddities/deep"])
def test_a_watch_shows_an_object_that_cannot_be_read_until_it_is_gone(
    given: Given, oddities: str, started: Started, subject: str
) -> None:
    with started("get", subject, "-w", "-n", oddities) as watching:
        assert watching.stdout is not None
        lines = [watching.stdout.readline().split() for _ in range(3 if subject == "oddities" else 2)]
        assert "deep" in lines[1]
        assert "ObjectUnreadable" in lines[1]
        given.gone(ODDITY, oddities, "deep")
        last = watching.stdout.readline().split()
        assert "deep" in last
        assert "Deleted" in last


@pytest.mark.req("R-510")
def test_an_object_that_cannot_be_read_is_told_by_every_verb_that_looks_and_fails_none(
    stellwerk: Stellwerk, oddities: str
) -> None:
    why = "object cannot be read: nested deeper than 100 levels"
    for words in (["get", "oddities"], ["get", "oddities/deep"], ["get", "oddities/deep", "oddities/good"]):
        shown = stellwerk(*words, "-n", oddities, "-o", "wide")
        assert shown.returncode == 0, shown.stderr
        assert "ObjectUnreadable" in shown.stdout
        assert why in shown.stdout
    status = stellwerk("status", "oddities/deep", "-n", oddities)
    assert status.returncode == 1
    assert "is not ready" in status.stdout
    assert why in status.stdout
    told = stellwerk("why", "oddities/deep", "-n", oddities)
    assert told.returncode == 0, told.stderr
    assert roots(told.stdout) == [f"{why}   ObjectUnreadable"]
    assert "Next: correct the field" in told.stdout
    listed = stellwerk("get", "oddities", "-n", oddities, "-o", "name")
    assert listed.returncode == 0
    assert "good" in listed.stdout
    assert "deep" not in listed.stdout
    assert "Oddity" in listed.stderr
    whole = stellwerk("get", "oddities/deep", "-n", oddities, "-o", "json")
    assert whole.returncode != 0
    assert "nested deeper than 100 levels" in whole.stderr
