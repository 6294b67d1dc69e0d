"""The chart installs every registered operator with the least rights, and refuses values that have no effect."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
import pytest
import pytest_asyncio
import yaml
from click.testing import CliRunner
from tests.toy_operator.operator import OPERATOR as TOY
from tests.unit.operators import helm_charts
from tests.unit.operators.helm_charts import ALL, BTP, CAP, COMPONENT, KYMA, MATRIX, NAMESPACE, Chart, Objects

from stellwerk import __version__
from stellwerk.apply.objects import json_edit
from stellwerk.assembly import OPERATORS, PROCESSES
from stellwerk.cli.local import chart as cli_chart
from stellwerk.cli.local.chart import ChartChoice
from stellwerk.delivery import helm_chart
from stellwerk.delivery.operator_spec import ProcessSpec
from stellwerk.kube.types.model import JsonObject, JsonValue, dig
from stellwerk.operators.kyma import admission
from stellwerk.operators.kyma.installation import identity
from stellwerk.render.errors import RenderError
from stellwerk.render.request.request import Missing, TemplateQuery
from stellwerk.runtime.serving.health import HealthChecks
from stellwerk.runtime.settings.process_settings import ProcessSettings
from stellwerk.runtime.settings.table import from_go

COMPONENT_OPERATOR = "component-operator"


pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.heavy]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chart() -> AsyncIterator[Chart]:
    async with helm_charts.chart() as chart:
        yield chart


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def noted(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Chart]:
    """The chart, with its notes as an object."""
    folder = helm_charts.write_chart(tmp_path_factory.mktemp("chart"), OPERATORS.values())
    async with helm_charts.chart(helm_charts.with_notes(folder)) as chart:
        yield chart


def settings(spec: ProcessSpec, deployment: JsonObject) -> tuple[Any, ProcessSettings]:
    """What `stellwerk run` reads from the arguments and variables of a Deployment."""
    parsed: list[tuple[Any, ProcessSettings]] = []
    table, process = spec.settings(), spec.process()
    base = table.from_environment(variables(deployment)).settings
    command = click.Command(
        spec.name,
        params=[*process.options(), *table.options()],
        callback=lambda **values: parsed.append((table.from_flags(values, base), process.from_flags(values))),
    )
    container = manager(deployment)
    assert dig(container, "command") == ["stellwerk", "run", spec.name]
    arguments = dig(container, "args")
    assert isinstance(arguments, list)
    result = CliRunner().invoke(command, from_go([str(argument) for argument in arguments], (process, table)))
    assert result.exit_code == 0, result.output
    return parsed[0]


def manager(deployment: JsonObject) -> JsonValue:
    """The container of a Deployment."""
    containers = dig(deployment, "spec", "template", "spec", "containers")
    assert isinstance(containers, list)
    return containers[0]


def variables(deployment: JsonObject) -> dict[str, str]:
    """The variables of a Deployment; each has one value."""
    found = dig(manager(deployment), "env")
    listed = [(str(each["name"]), str(each["value"])) for each in (dig_list(found) if found is not None else ())]
    assert len(dict(listed)) == len(listed)
    return dict(listed)


def dig_list(body: JsonValue, *path: str) -> list[Any]:
    """A list in an object."""
    found = dig(body, *path)
    assert isinstance(found, list)
    return found


def rules(objects: Objects) -> Sequence[Any]:
    """The rules of all roles."""
    roles = [body for body in objects.values() if body["kind"] in ("ClusterRole", "Role")]
    listed: list[Any] = [body.get("rules") or [] for body in roles]
    return [rule for some in listed for rule in some]


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)
async def test_values_give_deployments_whose_arguments_the_programs_accept(chart: Chart, values: JsonObject) -> None:
    objects = await chart.render({"crds": {"install": False}, **values})  # most of the time is theirs

    deployments = [body for (kind, _), body in objects.items() if kind == "Deployment"]
    enabled = [spec for spec in OPERATORS.values() if dig(values, helm_chart.key(spec), "enabled")]
    specs = [
        process
        for spec in enabled
        for process in spec.processes
        if _are_on(values, spec) or process.installation().webhooks is None
    ]
    by_command = {_program(body): body for body in deployments}
    assert set(by_command) == {spec.name for spec in specs}
    assert len(deployments) == len(specs)
    for spec in specs:
        settings(spec, by_command[spec.name])


def _are_on(values: JsonObject, spec: ProcessSpec) -> bool:
    """Whether the values leave the webhooks of an operator on."""
    own, common = (dig(place, "webhooks", "enabled") for place in (values.get(helm_chart.key(spec)), values))
    return own is not False and common is not False


def _program(deployment: JsonObject) -> str:
    command = dig(manager(deployment), "command")
    assert isinstance(command, list)
    return str(command[2])


@pytest.mark.req("R-504")
async def test_by_default_no_role_has_a_wildcard_and_no_account_is_cluster_admin(chart: Chart) -> None:
    objects = await chart.render(ALL)

    assert all("*" not in [*rule["verbs"], *rule.get("resources", [])] for rule in rules(objects))
    assert all(dig(body, "roleRef", "name") != "cluster-admin" for body in objects.values())


@pytest.mark.req("R-504")
async def test_the_roles_are_those_of_the_operators_and_of_their_servers(chart: Chart) -> None:
    objects = await chart.render(ALL)

    enabled = [spec for spec in OPERATORS.values() if dig(ALL, helm_chart.key(spec), "enabled")]
    for process in (process for spec in enabled for process in spec.processes):
        installation = process.installation()
        for body in (*installation.accounts(NAMESPACE), *installation.roles_of_users()):
            expected = yaml.safe_load(yaml.safe_dump(body))
            name = (str(expected["kind"]), str(expected["metadata"]["name"]))
            for part in ("rules", "roleRef", "subjects", "aggregationRule"):
                if part in expected:
                    assert objects[name].get(part) == expected[part], name


async def test_two_replicas_are_protected_by_default(chart: Chart) -> None:
    objects = await chart.render({**ALL, "capOperator": CAP})

    for name in (COMPONENT_OPERATOR, "btp-manager-controller-manager", "cap-operator-webhook"):
        assert dig(objects["Deployment", name], "spec", "replicas") == 2
        assert dig(objects["PodDisruptionBudget", name], "spec", "minAvailable") == 1
        assert ("NetworkPolicy", name) in objects


async def test_without_leader_election_one_replica_acts_and_servers_keep_their_number(chart: Chart) -> None:
    values: JsonObject = {**ALL, "capOperator": CAP, "leaderElection": False}
    objects = await chart.render(values)

    for (kind, name), body in objects.items():
        if kind == "Deployment":
            is_server = name == "cap-operator-webhook"
            assert dig(body, "spec", "replicas") == (2 if is_server else 1), name
            assert (("PodDisruptionBudget", name) in objects) is is_server


async def test_options_reach_the_program(chart: Chart) -> None:
    values: JsonObject = {
        "componentOperator": {
            **COMPONENT,
            "options": {"tenancy": "strict", "noCrossNamespaceRefs": True, "artifactCacheMib": 1_000_000},
        }
    }
    own, process = settings(OPERATORS["component"], (await chart.render(values))["Deployment", COMPONENT_OPERATOR])

    assert (own.tenancy, own.no_cross_namespace_refs, own.artifact_cache_mib) == ("strict", True, 1_000_000)
    assert process.leader_elect


@pytest.mark.parametrize(
    ("values", "process", "field", "expected"),
    [
        ({"btpManager": {**BTP, "options": {"enableLimitedCache": False}}}, "btp", "enable_limited_cache", False),
        ({"btpManager": {**BTP, "options": {"probeInterval": 0}}}, "btp", "probe_interval", timedelta(0)),
        (
            {"capOperator": {**CAP, "subscriptionServer": {"options": {"clientRequestsPerSecond": 0}}}},
            "cap-server",
            "client_requests_per_second",
            0,
        ),
    ],
)
async def test_false_and_zero_are_values(
    chart: Chart, values: JsonObject, process: str, field: str, expected: object
) -> None:
    deployments = [body for (kind, _), body in (await chart.render(values)).items() if kind == "Deployment"]
    (deployment,) = [body for body in deployments if _program(body) == process]

    own, _ = settings(PROCESSES[process], deployment)
    assert getattr(own, field) == expected


async def test_values_of_the_original_that_cannot_be_read_count_as_in_the_original(chart: Chart) -> None:
    controller: JsonObject = {
        "certManager": "gardener",
        "dnsManager": "gardener",
        "maxConcurrentReconciles": {"capTenant": "200", "domain": "many"},
        "versionMonitoring": {"metricsEvaluationInterval": "5", "promClientAcquireRetryDelay": "10min"},
        "rolloutDelay": "1d",
    }
    values: JsonObject = {"capOperator": {**CAP, "controller": controller}}
    own, _ = settings(OPERATORS["cap"], (await chart.render(values))["Deployment", "cap-operator-controller"])

    default = OPERATORS["cap"].settings().defaults
    assert own == replace(default, max_concurrent_reconciles_cap_tenant=100)


async def test_a_further_variable_counts_before_the_one_of_a_value(chart: Chart) -> None:
    values: JsonObject = {
        "capOperator": {**CAP, "controller": {"rolloutDelay": "2h"}},
        "extraEnv": [{"name": "ROLLOUT_DELAY", "value": "3h"}],
    }
    own, _ = settings(OPERATORS["cap"], (await chart.render(values))["Deployment", "cap-operator-controller"])

    assert own.rollout_delay == timedelta(hours=3)


async def test_an_override_renames_account_and_bindings_alike(chart: Chart) -> None:
    objects = await chart.render({"componentOperator": {**COMPONENT, "fullnameOverride": "it"}})

    assert dig(objects["Deployment", "it"], "spec", "template", "spec", "serviceAccountName") == "it"
    assert ("ServiceAccount", "it") in objects
    assert dig(objects["ClusterRoleBinding", "it-dependents"], "roleRef", "name") == "it-dependents"
    assert objects["ClusterRoleBinding", "it-manager"]["subjects"] == [
        {"kind": "ServiceAccount", "name": "it", "namespace": NAMESPACE}
    ]


@pytest.mark.parametrize(
    ("values", "name"),
    [({}, "mine"), ({"nameOverride": "core"}, "mine-core"), ({"fullnameOverride": "it", "nameOverride": "core"}, "it")],
)
async def test_names_of_the_release_are_those_of_objects_of_no_operator(
    chart: Chart, values: JsonObject, name: str
) -> None:
    monitoring: JsonObject = {"rules": True, "dashboards": True}
    common: JsonObject = {"componentOperator": COMPONENT, "monitoring": monitoring}
    objects = await chart.render({**common, **values}, release="mine")

    assert ("PrometheusRule", name) in objects
    assert ("ConfigMap", f"{name}-dashboard-overview") in objects
    assert ("Deployment", COMPONENT_OPERATOR) in objects


async def test_definitions_are_kept_unless_the_values_say_otherwise(chart: Chart) -> None:
    definition = ("CustomResourceDefinition", "components.core.cs.sap.com")
    annotations = dig((await chart.render(ALL))[definition], "metadata", "annotations")

    assert isinstance(annotations, dict)
    assert annotations["helm.sh/resource-policy"] == "keep"
    assert not dig((await chart.render({**ALL, "crds": {"keep": False}}))[definition], "metadata", "annotations")
    assert definition not in await chart.render({**ALL, "crds": {"install": False}})


@pytest.mark.req("R-509")
@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"componentOperator": COMPONENT, "image": {}}, "image.repository"),
        ({"btpManager": {"enabled": True}}, "SAP_BTP_SERVICE_OPERATOR"),
        ({"replicas": 2}, "replicas"),
        ({"componentOperator": {"option": {}}}, "option"),
        ({"componentOperator": {"options": {"unknown": 1}}}, "unknown"),
        ({"log": {"format": "xml"}}, "format"),
        ({"componentOperator": COMPONENT, "watchNamespaces": ["a", "b"]}, "cannot be limited to a, b"),
        ({"componentOperator": COMPONENT, "leaderElection": False, "replicaCount": 3}, "Set replicaCount=1"),
        ({"componentOperator": {**COMPONENT, "replicaCount": 2}, "leaderElection": False}, "Set replicaCount=1"),
        (
            {"capOperator": {**CAP, "controller": {"replicas": 2}}, "leaderElection": False},
            "Set capOperator.controller.replicas=1",
        ),
        (
            {"componentOperator": COMPONENT, "monitoring": {"podMonitor": True, "secure": True}},
            "monitoring.serviceMonitor=true",
        ),
        (
            {"componentOperator": {"options": {"tenancy": "strict"}, "rbac": {"clusterAdmin": True}}},
            "acknowledgeClusterAdminOfTenants",
        ),
    ],
)
async def test_a_value_that_cannot_be_meant_is_refused_by_name(chart: Chart, values: JsonObject, named: str) -> None:
    with pytest.raises(RenderError, match=named):
        await chart.render(values)


async def test_every_binding_in_the_whole_cluster_is_stated_by_the_notes(noted: Chart) -> None:
    """Each has a ClusterRoleBinding. One that has most rights in some namespaces only names these."""
    for spec in OPERATORS.values():
        own = helm_chart.key(spec)
        objects = await noted.render({"crds": {"install": False}, own: ALL[own]})
        assert [name for kind, name in objects if kind == "ClusterRoleBinding"]
        text = str(dig(objects["ConfigMap", "notes"], "data", "text"))
        places = " and ".join(dict.fromkeys(each.namespace for each in spec.installation().grants_in))
        where = f"the namespaces {places}" if places else "all namespaces"
        assert f"The {spec.title} is installed. It works on {where}." in text


@pytest.mark.parametrize(
    "values",
    [ALL, {**ALL, "webhooks": {"enabled": False}}, {"componentOperator": COMPONENT, "capOperator": CAP}],
    ids=["all", "fewer", "two"],
)
async def test_the_notes_name_each_deployment_and_the_next_commands(noted: Chart, values: JsonObject) -> None:
    objects = await noted.render({"crds": {"install": False}, **values})
    lines = [line.strip() for line in str(dig(objects["ConfigMap", "notes"], "data", "text")).splitlines()]

    rollouts = {line for line in lines if line.startswith("kubectl rollout status")}
    names = [name for kind, name in objects if kind == "Deployment"]
    assert rollouts == {f"kubectl rollout status deployment/{name} --namespace {NAMESPACE}" for name in names}
    names = [spec.name for spec in OPERATORS.values() if dig(values, helm_chart.key(spec), "enabled")]
    check, get = lines[-2:]
    assert (check.split()[:2], sorted(check.split()[2:]), get) == (
        ["stellwerk", "check"],
        sorted(names),
        "stellwerk get -A",
    )


async def test_the_notes_of_a_release_without_operators_name_the_switches(noted: Chart) -> None:
    objects = await noted.render({})
    text = str(dig(objects["ConfigMap", "notes"], "data", "text"))

    assert "stellwerk check" not in text
    for spec in OPERATORS.values():
        assert f"{helm_chart.key(spec)}.enabled" in text


async def test_pods_start_live_and_become_ready_by_probes_that_the_program_serves(chart: Chart) -> None:
    served = {route.path for route in HealthChecks().routes()}
    objects = await chart.render(ALL)

    for (kind, _), body in objects.items():
        if kind != "Deployment":
            continue
        _, process = settings(PROCESSES[_program(body)], body)
        container = manager(body)
        ports = {dig(port, "name"): dig(port, "containerPort") for port in dig_list(container, "ports")}
        expected = {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}
        for probe, path in expected.items():
            assert dig(container, probe, "httpGet", "path") == path
            assert path in served
            port = ports[dig(container, probe, "httpGet", "port")]
            assert process.health_probe_bind_address == f":{port}"


async def test_values_of_the_original_cap_operator_are_accepted_and_mean_what_they_mean_there(chart: Chart) -> None:
    """Its chart calls them the same."""
    values: JsonObject = {
        "image": {"tag": "", "pullPolicy": ""},
        "tolerations": [],
        "podLabels": {"team": "a"},
        "priorityClassName": "high",
        "controller": {
            "replicas": 2,
            "image": {"repository": "ghcr.io/sap/cap-operator/controller", "tag": "v0.35.0"},
            "priorityClassName": "",
            "nodeSelector": {},
            "podSecurityContext": {},
            "maxConcurrentReconciles": {"capTenant": "20", "domain": ""},
            "detailedOperationalMetrics": True,
        },
        "webhook": {"priorityClassName": "higher", "image": {"repository": "example.com/other", "tag": "v3"}},
    }
    objects = await chart.render({"capOperator": {**CAP, **values}, "tolerations": [{"operator": "Exists"}]})

    controller, webhook = (
        objects["Deployment", "cap-operator-controller"],
        objects["Deployment", "cap-operator-webhook"],
    )
    pod, other = dig(controller, "spec", "template", "spec"), dig(webhook, "spec", "template", "spec")
    assert dig(controller, "spec", "replicas") == 2
    assert ("PodDisruptionBudget", "cap-operator-controller") in objects
    assert dig(controller, "spec", "template", "metadata", "labels", "team") == "a"
    assert (dig(pod, "priorityClassName"), dig(other, "priorityClassName")) == ("high", "higher")
    assert dig(pod, "tolerations") == [{"operator": "Exists"}], "an empty value is none"
    assert dig(pod, "securityContext", "runAsNonRoot") is True
    assert dig(manager(controller), "image") == f"example.com/stellwerk:{__version__}", "the original's does not run"
    assert dig(manager(webhook), "image") == "example.com/other:v3"
    own, process = settings(PROCESSES["cap"], controller)
    assert (own.max_concurrent_reconciles_cap_tenant, own.max_concurrent_reconciles_domain) == (20, 1)
    assert own.detailed_operational_metrics
    assert own.metrics_eval_interval == timedelta(hours=1)
    assert process.leader_elect


@pytest.mark.parametrize("place", ["capOperator", "webhook"])
async def test_images_of_the_original_are_ignored_at_each_level_with_tag_and_digest(chart: Chart, place: str) -> None:
    image: JsonObject = {
        "repository": "ghcr.io/sap/cap-operator/web-hooks",
        "tag": "v1",
        "digest": f"sha256:{'0' * 64}",
    }
    values: JsonObject = {"image": image} if place == "capOperator" else {place: {"image": image}}
    objects = await chart.render({"capOperator": {**CAP, **values}})

    for (kind, _), body in objects.items():
        if kind == "Deployment":
            assert dig(manager(body), "image") == f"example.com/stellwerk:{__version__}"


@pytest.mark.parametrize(
    ("served", "expected"),
    [
        ((), ("cert-manager.io", "kubernetes")),
        (("cert.gardener.cloud/v1alpha1", "dns.gardener.cloud/v1alpha1"), ("gardener", "gardener")),
        (("dns.gardener.cloud/v1alpha1",), ("cert-manager.io", "gardener")),
    ],
)
async def test_certificates_and_dns_are_those_that_the_cluster_serves_unless_the_values_name_others(
    chart: Chart, served: Sequence[str], expected: tuple[str, str]
) -> None:
    deployment = ("Deployment", "cap-operator-controller")
    own, _ = settings(PROCESSES["cap"], (await chart.render({"capOperator": CAP}, apis=served))[deployment])
    assert (own.cert_manager, own.dns_manager) == expected

    chosen: JsonObject = {**CAP, "controller": {"certManager": "gardener", "dnsManager": "kubernetes"}}
    own, _ = settings(PROCESSES["cap"], (await chart.render({"capOperator": chosen}, apis=served))[deployment])
    assert (own.cert_manager, own.dns_manager) == ("gardener", "kubernetes")


@pytest.mark.req("R-706")
async def test_webhooks_are_registered_at_their_service_and_not_for_the_namespace_of_the_release(chart: Chart) -> None:
    values: JsonObject = {**CAP, "webhook": {"service": {"port": 8443, "targetPort": 9443}}}
    objects = await chart.render({"capOperator": values})

    own, _ = settings(PROCESSES["cap-webhooks"], objects["Deployment", "cap-operator-webhook"])
    assert (own.webhook_port, own.webhook_service, own.tls_enabled) == (9443, "cap-operator-webhook", False)
    assert {"name": "webhook", "containerPort": 9443, "protocol": "TCP"} in dig_list(
        manager(objects["Deployment", "cap-operator-webhook"]), "ports"
    )
    assert dig(objects["Service", "cap-operator-webhook"], "spec", "ports") == [
        {"name": "webhook", "port": 8443, "targetPort": "webhook"}
    ]
    for kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"):
        for entry in dig_list(objects[kind, "cap-operator"], "webhooks"):
            service = dig(entry, "clientConfig", "service")
            assert isinstance(service, dict)
            assert (service["name"], service["namespace"], service["port"]) == (
                "cap-operator-webhook",
                NAMESPACE,
                8443,
            )
            (expression,) = dig_list(entry, "namespaceSelector", "matchExpressions")
            assert dig(expression, "values") == [NAMESPACE]


async def test_cert_manager_certifies_the_webhooks_where_the_values_ask_for_it(chart: Chart) -> None:
    values: JsonObject = {**CAP, "webhook": {"certificateManager": "CertManager"}}
    objects = await chart.render({"capOperator": values})

    deployment = objects["Deployment", "cap-operator-webhook"]
    own, _ = settings(PROCESSES["cap-webhooks"], deployment)
    (mounted,) = [each for each in dig_list(manager(deployment), "volumeMounts") if dig(each, "name") == "certificate"]
    assert (own.tls_enabled, own.tls_cert) == (True, f"{dig(mounted, 'mountPath')}/tls.crt")
    certificate = objects["Certificate", "cap-operator-webhook"]
    assert f"cap-operator-webhook.{NAMESPACE}.svc" in dig_list(certificate, "spec", "dnsNames")
    volumes = dig_list(deployment, "spec", "template", "spec", "volumes")
    assert {"name": "certificate", "secret": {"secretName": dig(certificate, "spec", "secretName")}} in volumes
    assert dig(certificate, "spec", "issuerRef", "name") == "cap-operator-webhook"
    assert ("Issuer", "cap-operator-webhook") in objects
    annotations = dig(objects["ValidatingWebhookConfiguration", "cap-operator"], "metadata", "annotations")
    assert annotations == {"cert-manager.io/inject-ca-from": f"{NAMESPACE}/cap-operator-webhook"}


async def test_whoever_may_view_or_edit_a_namespace_may_do_so_with_cap_objects(chart: Chart) -> None:
    objects = await chart.render({"capOperator": CAP})

    for who, may_change in (("view", False), ("edit", True), ("admin", True)):
        role = objects["ClusterRole", f"cap-operator-{who}"]
        assert dig(role, "metadata", "labels", f"rbac.authorization.k8s.io/aggregate-to-{who}") == "true"
        verbs = {
            (resource, verb)
            for rule in rules({("", ""): role})
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }
        assert (("captenants", "delete") in verbs) is may_change
        assert ("captenants/status", "get") in verbs
    off = await chart.render({"capOperator": CAP, "rbac": {"aggregate": False}})
    assert ("ClusterRole", "cap-operator-view") not in off
    assert ("ClusterRole", "cap-operator-controller") in off


async def test_monitoring_of_the_cap_operator_has_service_monitors_and_a_dashboard(chart: Chart) -> None:
    monitoring: JsonObject = {"enabled": True, "serviceMonitorSelectorLabels": {"release": "prometheus"}}
    objects = await chart.render({"capOperator": {**CAP, "monitoring": monitoring}})

    for name in ("cap-operator-controller", "cap-operator-webhook"):
        assert dig(objects["ServiceMonitor", name], "metadata", "labels", "release") == "prometheus"
    dashboard = objects["ConfigMap", "cap-operator-dashboard"]
    assert dig(dashboard, "metadata", "labels", "grafana_dashboard") == "1"
    text = dig(dashboard, "data", "cap-operator.json")
    assert isinstance(text, str)
    assert json.loads(text)["panels"]


ORIGINAL_VALUES = Path(__file__).parents[4] / "shared" / "fixtures" / "cap" / "manager-values.yaml"


@pytest.mark.skipif(not ORIGINAL_VALUES.exists(), reason="the values of the original are not beside this checkout")
async def test_the_values_file_of_the_original_gives_what_its_defaults_give(chart: Chart) -> None:
    original = yaml.safe_load(ORIGINAL_VALUES.read_text())
    secret: JsonObject = {"value": "p" * 32}  # otherwise each rendering has its own
    given = {**original, "subscriptionServer": {**original["subscriptionServer"], "gatewaySecret": secret}}
    objects = await chart.render({"capOperator": {**given, **CAP}})

    domain = {name: original["subscriptionServer"][name] for name in ("domain", "dnsTarget", "certificateConfig")}
    domain["gatewaySecret"] = secret
    webhook: JsonObject = {"replicas": original["webhook"]["replicas"]}  # our default is two
    assert objects == await chart.render({"capOperator": {**CAP, "subscriptionServer": domain, "webhook": webhook}})


SERVER = "cap-operator-subscription-server"
AUTHORITY = "the authority of clients, as PEM"
DOMAIN: JsonObject = {
    "domain": "cop.example.com",
    "dnsTarget": "lb.example.com",
    "certificateConfig": {"additionalCACertificate": AUTHORITY},
}


async def test_registries_reach_the_subscription_server_at_its_domain_and_at_its_paths_only(chart: Chart) -> None:
    values: JsonObject = {**CAP, "subscriptionServer": {**DOMAIN, "port": 4001}}
    objects = await chart.render({"capOperator": values}, apis=["dns.gardener.cloud/v1alpha1"])

    (server,) = dig_list(objects["Gateway", SERVER], "spec", "servers")
    assert dig(server, "hosts") == ["./cop.example.com"]
    assert dig(server, "tls", "mode") == "OPTIONAL_MUTUAL"
    secret = dig(objects["Certificate", SERVER], "spec", "secretRef")
    assert secret == {"name": dig(server, "tls", "credentialName"), "namespace": "istio-system"}
    assert ("Secret", f"{dig(server, 'tls', 'credentialName')}-cacert") in objects
    assert dig(objects["DNSEntry", SERVER], "spec", "targets") == ["lb.example.com"]
    (route,) = dig_list(objects["VirtualService", SERVER], "spec", "http")
    matched = {(dig(each, "uri", "prefix"), str(dig(each, "method"))) for each in dig_list(route, "match")}
    assert matched == {
        ("/provision/", "{'regex': 'PUT|DELETE'}"),
        ("/sms/provision/", "{'regex': 'PUT|DELETE'}"),
        ("/dependencies/", "{'exact': 'GET'}"),
        ("/sms/dependencies/", "{'exact': 'GET'}"),
    }
    (destination,) = dig_list(route, "route")
    assert dig(destination, "destination") == {
        "host": f"{SERVER}.{NAMESPACE}.svc.cluster.local",
        "port": {"number": 4001},
    }
    assert dig(objects["Service", SERVER], "spec", "ports") == [{"name": "http", "port": 4001, "targetPort": "http"}]


@pytest.mark.req("R-704")
async def test_the_header_with_a_client_certificate_is_the_gateways_and_its_authority_is_checked(chart: Chart) -> None:
    labels: JsonObject = {"istio": "mine", "app": "gateway"}
    server: JsonObject = {**DOMAIN, "istioSystemNamespace": "mesh", "ingressGatewayLabels": labels}
    objects = await chart.render({"capOperator": {**CAP, "subscriptionServer": server}})

    (route,) = dig_list(objects["VirtualService", SERVER], "spec", "http")
    deployment = objects["Deployment", SERVER]
    own, _ = settings(PROCESSES["cap-server"], deployment)
    assert dig(route, "headers", "request", "set") == {
        "x-forwarded-client-cert": "%DOWNSTREAM_PEER_CERT%",
        "x-stellwerk-gateway": proofs(objects["Secret", own.gateway_secret])["current"],
    }
    assert (own.gateway_namespace, own.gateway_labels) == ("mesh", "app=gateway,istio=mine")
    (mounted,) = [each for each in dig_list(manager(deployment), "volumeMounts") if dig(each, "name") == "files"]
    assert own.sms_client_ca == f"{dig(mounted, 'mountPath')}/client-ca.crt"
    assert dig(objects["ConfigMap", f"{SERVER}-files"], "data", "client-ca.crt") == AUTHORITY

    without: JsonObject = {**server, "certificateConfig": {"additionalCACertificate": ""}}
    objects = await chart.render({"capOperator": {**CAP, "subscriptionServer": without}})
    own, _ = settings(PROCESSES["cap-server"], objects["Deployment", SERVER])
    assert own.sms_client_ca == ""
    (gateway,) = dig_list(objects["Gateway", SERVER], "spec", "servers")
    assert dig(gateway, "tls", "mode") == "SIMPLE"


def proofs(secret: JsonObject) -> dict[str, str]:
    """The values of the Secret of the gateway."""
    data = dig(secret, "data")
    assert isinstance(data, dict)
    return {key: b64decode(str(value)).decode() for key, value in data.items()}


@pytest.mark.req("R-951")
async def test_the_value_of_the_gateway_is_made_once_kept_over_upgrades_and_changed_where_that_is_asked_for(
    chart: Chart,
) -> None:
    live: dict[str, JsonObject] = {}

    async def look_up(query: TemplateQuery) -> JsonValue | Missing:
        return live.get(query.name, Missing.OBJECT)

    async def upgraded(**value: JsonValue) -> tuple[dict[str, str], JsonValue]:
        """What the Secret has after an upgrade with these values, and what the route adds."""
        server: JsonObject = {**DOMAIN, "gatewaySecret": value}
        objects = await chart.render({"capOperator": {**CAP, "subscriptionServer": server}}, lookup=look_up)
        own, _ = settings(PROCESSES["cap-server"], objects["Deployment", SERVER])
        secret = live[own.gateway_secret] = objects["Secret", own.gateway_secret]
        (route,) = dig_list(objects["VirtualService", SERVER], "spec", "http")
        return proofs(secret), dig(route, "headers", "request", "set", "x-stellwerk-gateway")

    def ask(when: str) -> None:
        name, secret = next(iter(live.items()))
        live[name] = json_edit.with_annotations(secret, {"sme.sap.com/rotate": when})

    first, added = await upgraded()
    assert (len(first["current"]), first["former"], added) == (48, "", first["current"])
    assert await upgraded() == (first, added), "an upgrade keeps it"
    ask("monday")
    second, added = await upgraded()
    assert added == second["current"] != first["current"]
    assert second["former"] == first["current"], "requests by the former route count meanwhile"
    ask("monday")  # the annotation stays, as it is not the chart's
    third, added = await upgraded()
    assert (third["current"], third["former"]) == (second["current"], ""), "then the former value counts no more"
    ask("tuesday")
    fourth, _ = await upgraded()
    assert fourth["current"] not in (first["current"], second["current"])

    live.clear()
    given = "g" * 40
    assert (await upgraded(value=given)) == ({"current": given, "former": "", "rotated": ""}, given)
    assert (await upgraded(value=given, name=""))[0]["current"] == given
    live.clear()
    assert (await upgraded(name="ours"))[0]["current"] != given
    assert [*live] == ["ours"]
    with pytest.raises(RenderError, match="gatewaySecret"):
        await upgraded(value="short")


@pytest.mark.req("R-951")
async def test_without_a_domain_the_secret_of_the_gateway_is_yours(chart: Chart) -> None:
    for name in ("", "ours"):
        server: JsonObject = {"gatewaySecret": {"name": name}}
        objects = await chart.render({"capOperator": {**CAP, "subscriptionServer": server}})
        own, _ = settings(PROCESSES["cap-server"], objects["Deployment", SERVER])
        assert own.gateway_secret == name
        assert all(kind != "Secret" for kind, _ in objects)


async def test_cert_manager_certifies_the_domain_where_the_values_ask_for_it(chart: Chart) -> None:
    issuer: JsonObject = {"issuerName": "ours", "issuerKind": "Issuer", "commonName": "cop"}
    server: JsonObject = {
        **DOMAIN,
        "certificateManager": "CertManager",
        "certificateConfig": {"certManager": issuer},
    }
    objects = await chart.render({"capOperator": {**CAP, "subscriptionServer": server}})

    name = f"{NAMESPACE}--{SERVER}"
    certificate = objects["Certificate", name]
    assert certificate["apiVersion"] == "cert-manager.io/v1"
    assert dig(certificate, "metadata", "namespace") == "istio-system", "the gateway reads Secrets of its namespace"
    assert dig(certificate, "spec", "issuerRef") == {"kind": "Issuer", "name": "ours"}
    assert (dig(certificate, "spec", "secretName"), dig(certificate, "spec", "commonName")) == (name, "cop")


async def test_without_a_domain_the_subscription_server_is_for_the_cluster_alone(chart: Chart) -> None:
    objects = await chart.render({"capOperator": CAP})

    assert ("Service", SERVER) in objects
    kinds = {kind for kind, _ in objects}
    assert not kinds & {"Gateway", "VirtualService", "Certificate", "DNSEntry"}


@pytest.mark.parametrize(("apis", "issuer"), [((), "cert-manager.io"), (("cert.gardener.cloud/v1alpha1",), "gardener")])
async def test_without_helm_the_chart_sees_what_the_cluster_serves_too(apis: Sequence[str], issuer: str) -> None:
    choice = ChartChoice(image="registry.example.com/stellwerk:1", apis=apis)
    objects = await cli_chart.rendered([OPERATORS["cap"]], choice)

    (controller,) = (
        body for body in objects if body["kind"] == "Deployment" and _program(body) == OPERATORS["cap"].name
    )
    own, _ = settings(OPERATORS["cap"], controller)
    assert own.cert_manager == issuer


async def test_without_helm_objects_of_the_user_are_rendered_once_for_operators_in_several_namespaces(
    tmp_path: Path,
) -> None:
    extra: JsonObject = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "extra"}}
    file = tmp_path / "values.yaml"
    file.write_text(json.dumps({"extraObjects": [extra]}))
    choice = ChartChoice(image="example.com/stellwerk:1", files=[file])
    operators = [OPERATORS["component"], OPERATORS["cap"]]
    objects = await cli_chart.rendered(operators, choice)

    assert len([body for body in objects if body["kind"] == "Namespace"]) == 2
    (found,) = [body for body in objects if dig(body, "metadata", "name") == "extra"]
    first = OPERATORS["component"].installation().namespace
    assert dig(cli_chart.in_release(found, operators, choice), "metadata", "namespace") == first
    chosen = cli_chart.in_release(found, operators, ChartChoice(namespace="mine"))
    assert dig(chosen, "metadata", "namespace") == "mine"
    named: JsonObject = {**extra, "metadata": {"name": "extra", "namespace": "other"}}
    assert cli_chart.in_release(named, operators, choice) == named


async def test_an_operator_that_is_registered_is_in_the_chart(tmp_path: Path) -> None:
    folder = helm_charts.write_chart(tmp_path, [*OPERATORS.values(), TOY])
    key = helm_chart.key(TOY)

    async with helm_charts.chart(folder) as chart:
        objects = await chart.render({key: {"enabled": True, "options": {"greeting": "Good morning"}}})

    assert ("ServiceAccount", "toy") in objects
    assert ("ClusterRole", "toy") in objects
    own, _ = settings(TOY, objects["Deployment", "toy"])
    assert own.greeting == "Good morning"
    (server,) = TOY.servers
    own, _ = settings(server, objects["Deployment", "toy-greeter"])
    assert own.port == 8000
    (port,) = dig_list(objects["Service", "toy-greeter"], "spec", "ports")
    assert dig(port, "port") == 8000
    assert ("Role", "toy-greeter") in objects
    assert f"`{key}.options.greeting`" in (folder / "README.md").read_text()


async def test_an_operator_takes_its_own_values_before_the_common_ones(chart: Chart) -> None:
    objects = await chart.render(
        {"replicaCount": 3, "btpManager": BTP, "componentOperator": {**COMPONENT, "replicaCount": 1}}
    )

    assert dig(objects["Deployment", COMPONENT_OPERATOR], "spec", "replicas") == 1
    assert dig(objects["Deployment", "btp-manager-controller-manager"], "spec", "replicas") == 3


async def test_the_manager_of_the_cap_operator_knows_the_image_of_its_own_pods(chart: Chart) -> None:
    image: JsonObject = {"registry": "registry.example.com", "repository": "stellwerk", "tag": "1.2"}
    objects = await chart.render({"image": image, "capOperatorManager": helm_charts.MANAGER})

    own = manager(objects["Deployment", "cap-operator-manager"])
    assert dig(own, "image") == "registry.example.com/stellwerk:1.2"
    image_variable, _ = dig_list(own, "env")
    assert image_variable == {"name": "STELLWERK_IMAGE", "value": "registry.example.com/stellwerk:1.2"}


async def test_rules_are_those_of_the_enabled_operators_and_name_the_runbook(chart: Chart) -> None:
    monitoring: JsonObject = {"rules": True, "runbookUrl": "https://docs.example.com/alerts"}
    values: JsonObject = {"componentOperator": COMPONENT, "monitoring": monitoring}
    rule = (await chart.render(values))["PrometheusRule", "stellwerk"]

    groups = dig_list(rule, "spec", "groups")
    assert [dig(group, "name") for group in groups] == ["stellwerk-recordings", "stellwerk", "stellwerk-component"]
    alerts = {str(dig(each, "alert")): each for group in groups for each in dig_list(group, "rules")}
    url = "https://docs.example.com/alerts#stellwerknoleader"
    assert dig(alerts["StellwerkNoLeader"], "annotations", "runbook_url") == url
    assert "or vector(0)" in str(dig(alerts["StellwerkNoLeader"], "expr"))  # also where the operator never started
    assert dig(alerts["StellwerkObjectNotReady"], "annotations", "summary") == (
        "{{ $labels.kind }} {{ $labels.namespace }}/{{ $labels.name }} is not ready, or has failed"
    )
    alone = await chart.render({**values, "leaderElection": False, "replicaCount": 1})
    assert "StellwerkNoLeader" not in str(alone["PrometheusRule", "stellwerk"])


async def test_dashboards_are_an_overview_and_one_for_each_enabled_operator(chart: Chart) -> None:
    objects = await chart.render({"capOperator": CAP, "monitoring": {"dashboards": True, "busola": True}})

    found = {name for kind, name in objects if kind == "ConfigMap" and name.startswith("stellwerk-dashboard-")}
    assert found == {"stellwerk-dashboard-overview", "stellwerk-dashboard-cap"}
    board = objects["ConfigMap", "stellwerk-dashboard-cap"]
    assert json.loads(str(dig(board, "data", "stellwerk-cap.json")))["uid"] == "stellwerk-cap"
    assert dig(board, "metadata", "labels", "grafana_dashboard") == "1"
    pages = {name for (kind, name), body in objects.items() if dig(body, "metadata", "namespace") == "kube-public"}
    assert pages == {f"stellwerk-{kind.name}" for kind in OPERATORS["cap"].installation().definitions}


@pytest.mark.req("R-707")
async def test_monitors_keep_the_labels_of_our_series_and_log_in_where_metrics_are_secure(chart: Chart) -> None:
    values: JsonObject = {"componentOperator": COMPONENT, "monitoring": {"serviceMonitor": True, "podMonitor": True}}
    objects = await chart.render(values)
    assert dig_list(objects["PodMonitor", COMPONENT_OPERATOR], "spec", "podMetricsEndpoints") == [
        {"port": "metrics", "honorLabels": True}
    ]
    (endpoint,) = dig_list(objects["ServiceMonitor", COMPONENT_OPERATOR], "spec", "endpoints")
    assert endpoint == {"port": "metrics", "honorLabels": True}

    objects = await chart.render({**values, "monitoring": {"serviceMonitor": True, "secure": True}})
    (endpoint,) = dig_list(objects["ServiceMonitor", COMPONENT_OPERATOR], "spec", "endpoints")
    assert dig(endpoint, "scheme") == "https"
    assert dig(endpoint, "bearerTokenFile")
    _, process = settings(OPERATORS["component"], objects["Deployment", COMPONENT_OPERATOR])
    assert process.metrics_secure


async def test_the_lifecycle_manager_takes_flags_of_the_original_as_values_and_its_policy_as_a_file(
    chart: Chart,
) -> None:
    options: JsonObject = {
        "ociRegistryHost": "registry.example.com",
        "skrWatcherImageTag": "2.1.0",
        "maxConcurrentManifestReconciles": 8,
    }
    objects = await chart.render({"kymaLifecycleManager": {**KYMA, "options": options}})

    name = "klm-controller-manager"
    own, process = settings(PROCESSES["kyma"], objects["Deployment", name])
    assert (own.oci_registry_host, own.skr_watcher_image_tag) == ("registry.example.com", "2.1.0")
    assert (own.max_concurrent_manifest_reconciles, process.leader_elect) == (8, True)
    assert dig(objects["ConfigMap", f"{name}-files"], "data", "policy.json") == KYMA["maintenancePolicy"]
    (mounted,) = [
        each for each in dig_list(manager(objects["Deployment", name]), "volumeMounts") if dig(each, "name") == "files"
    ]
    assert own.maintenance_policy_file == f"{dig(mounted, 'mountPath')}/policy.json"
    (reports,) = dig_list(objects["Service", name], "spec", "ports")
    assert (dig(reports, "port"), dig(reports, "targetPort")) == (8082, "listener")


@pytest.mark.req("R-509")
@pytest.mark.parametrize(
    ("named", "mounted"),
    [
        ({}, "klm-maintenance-config"),
        ({"maintenancePolicyConfigMap": "windows"}, "windows"),
        ({"maintenancePolicyConfigMap": ""}, None),
    ],
)
async def test_the_policy_of_the_original_is_mounted_where_the_lifecycle_manager_reads_it(
    chart: Chart, named: JsonObject, mounted: str | None
) -> None:
    objects = await chart.render({"kymaLifecycleManager": {**KYMA, "maintenancePolicy": "", **named}})

    deployment = objects["Deployment", "klm-controller-manager"]
    own, _ = settings(PROCESSES["kyma"], deployment)
    assert own.maintenance_policy_file == "/etc/maintenance-policy/policy.json", "as with the original"
    volumes = {
        str(dig(each, "name")): dig(each, "configMap")
        for each in dig_list(deployment, "spec", "template", "spec", "volumes")
        if dig(each, "configMap")
    }
    mounts = {dig(each, "mountPath"): dig(each, "name") for each in dig_list(manager(deployment), "volumeMounts")}
    if mounted is None:
        assert not volumes
        return
    assert volumes[str(mounts["/etc/maintenance-policy"])] == {"name": mounted, "optional": True}


@pytest.mark.parametrize("namespaces", [("istio-system", "kcp-system"), ("mesh", "gateways"), ("kcp-system", "mesh")])
async def test_rights_in_other_namespaces_are_where_the_process_needs_them_whatever_the_release_is_called(
    noted: Chart, namespaces: tuple[str, str]
) -> None:
    istio, gateways = namespaces
    options: JsonObject = {"withoutRegistry": True, "disableWatcher": True}
    options |= {"istioNamespace": istio, "istioGatewayNamespace": gateways}
    objects = await noted.render({"kymaLifecycleManager": {**KYMA, "fullnameOverride": "klm", "options": options}})

    own, _ = settings(PROCESSES["kyma"], objects["Deployment", "klm"])
    granted: set[tuple[str, str]] = set()
    for (kind, name), binding in objects.items():
        if kind == "RoleBinding":
            assert dig_list(binding, "subjects") == [{"kind": "ServiceAccount", "name": "klm", "namespace": NAMESPACE}]
            role = objects["Role", str(dig(binding, "roleRef", "name"))]
            place = str(dig(role, "metadata", "namespace"))
            assert dig(binding, "metadata", "namespace") == place, name
            granted |= {(place, each) for rule in dig_list(role, "rules") for each in dig_list(rule, "resources")}
    for need in identity(own).rights.needs:
        assert not need.namespace or (need.namespace, need.resource) in granted
    places = " and ".join(dict.fromkeys(("kcp-system", gateways, istio)))
    assert f"works on the namespaces {places}." in str(dig(objects["ConfigMap", "notes"], "data", "text"))


async def test_kymas_are_checked_by_the_api_server_only_if_the_values_ask_for_it(chart: Chart) -> None:
    kinds = {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    objects = await chart.render({"kymaLifecycleManager": KYMA})
    assert not kinds & {kind for kind, _ in objects}

    objects = await chart.render({"kymaLifecycleManager": {**KYMA, "admissionChecks": True}})
    for body in admission.objects():
        made = objects[str(body["kind"]), admission.NAME]
        assert made["spec"] == body["spec"]
        assert dig(made, "metadata", "labels", "app.kubernetes.io/name") == "klm-controller-manager"
