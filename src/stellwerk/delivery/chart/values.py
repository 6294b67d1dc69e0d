"""The values of the chart: name, default, schema, and what they mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stellwerk.kube.types import text_forms
from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.runtime.settings import parsers
from stellwerk.runtime.settings.process_settings import PROCESS
from stellwerk.runtime.settings.table import Setting

TEXT: JsonObject = {"type": "string"}
SWITCH: JsonObject = {"type": "boolean"}
OBJECT: JsonObject = {"type": "object"}
LIST: JsonObject = {"type": "array", "items": {"type": "object"}}
QUANTITIES: JsonObject = {
    "type": "object",
    "additionalProperties": {
        "type": ["string", "number", "null"],
        "pattern": f"^$|{text_forms.QUANTITY.pattern}",
    },
}
RESOURCES: JsonObject = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"requests": QUANTITIES, "limits": QUANTITIES, "claims": LIST},
}
TEXTS: JsonObject = {"type": "object", "additionalProperties": {"type": "string"}}
COUNT: JsonObject = {"type": "integer", "minimum": 0}
PORT: JsonObject = {"type": "integer", "minimum": 1, "maximum": 65535}
SETTING: JsonObject = {"type": ["string", "integer", "boolean"]}
SWITCH_OR_EMPTY: JsonObject = {"enum": [True, False, ""]}
SHARE: JsonObject = {"type": ["string", "integer"], "minimum": 0, "pattern": "^([0-9]+%?)?$"}
TAG: JsonObject = {"type": "string", "pattern": "^([A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?$"}
DIGEST: JsonObject = {"type": "string", "pattern": "^(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})?$"}
NAME: JsonObject = {"type": "string", "pattern": f"^({parsers.name.pattern})?$"}


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the chart, its schema and its row of the README."""

    path: str
    default: JsonValue
    schema: JsonObject
    help: str = ""
    field: str = ""
    """The field of the setting that it sets; empty: templates read it."""
    file: str = ""
    """The name of a file with the text, whose path the setting then is; empty: the setting is the text."""
    detected: tuple[tuple[str, str], ...] = ()
    """APIs and values: an empty value is that of the first API that the cluster serves. An empty API is served."""
    derived: tuple[str, str] = ("", "")
    """Another value and a word: if that one is set, an empty value is the name of the process's objects with a dash
    and the word."""

    @property
    def described(self) -> JsonObject:
        """The schema with the meaning, which editors show."""
        return {**self.schema, "description": self.help} if self.help else self.schema


def of_process(field: str) -> JsonObject:
    """The schema of a value that every process gets as the setting with this field."""
    (row,) = (row for row in PROCESS.rows if row.field == field)
    return accepted(row, or_empty=False)


def words(*allowed: str) -> JsonObject:
    """The schema of a value that is one of these."""
    return {"enum": [*allowed]}


def accepted(row: Setting[Any], *, otherwise: JsonObject = SETTING, or_empty: bool = True) -> JsonObject:
    """The schema of what may be given for a setting: what its reader accepts, as text, number or switch.

    `otherwise`: of a reader whose form is not known. `or_empty`: an empty text counts as nothing. Words have one
    spelling here, also where the program reads any case.
    """
    read: object = row.read
    known = tuple(read.meanings) if isinstance(read, parsers.Words) else row.choices
    if known:
        switches = [word == "true" for word in known if word in ("true", "false")]
        return {"enum": [*known, *switches, *([""] if or_empty else [])]}
    optional = "?" if or_empty else ""
    if isinstance(read, parsers.Number):
        bounds: JsonObject = {"minimum": read.lowest, "maximum": read.highest}
        return {"type": ["string", "integer"], "pattern": f"^([0-9]{{1,9}}){optional}$", **bounds}
    if isinstance(read, parsers.Formed):
        return {**_numbers(read), "pattern": f"^({read.pattern}){optional}$"}
    return otherwise


def _numbers(read: parsers.Formed[Any]) -> JsonObject:
    """Which texts may be written as a number: all, none, or 0 alone, as of a duration."""

    def accepts(text: str) -> bool:
        try:
            read(text)
        except ValueError:
            return False
        return True

    zero, others = accepts("0"), accepts("1")
    if not zero and not others:
        return {"type": "string"}
    return {"type": ["string", "integer"], "minimum": 0 if zero else 1, **({} if others else {"maximum": 0})}


_BUDGET = (
    Value("pdb.enabled", True, SWITCH, "A PodDisruptionBudget, from two replicas on."),
    Value("pdb.minAvailable", 1, SHARE),
    Value("pdb.maxUnavailable", "", SHARE, "Replaces minAvailable, also where it is 0."),
    Value("pdb.labels", {}, TEXTS),
    Value("pdb.annotations", {}, TEXTS),
)

POD = (
    Value("replicaCount", 2, COUNT, "One replica acts, the others wait for its Lease."),
    Value("image.registry", "", TEXT, "Registry of the image, in front of the repository."),
    Value("image.repository", "", TEXT, "The image that you built (`make image`); required."),
    Value("image.tag", "", TAG, "Tag of the image; empty: the appVersion of the chart."),
    Value("image.digest", "", DIGEST, "Digest such as `sha256:...`, instead of the tag."),
    Value("image.pullPolicy", "IfNotPresent", words("Always", "IfNotPresent", "Never", "")),
    Value("imagePullSecrets", [], LIST, "References to Secrets such as `{name: login}`."),
    Value("podLabels", {}, TEXTS),
    Value("podAnnotations", {}, TEXTS),
    Value("nodeSelector", {}, TEXTS),
    Value("affinity", {}, OBJECT),
    Value("tolerations", [], LIST),
    Value(
        "topologySpreadConstraints",
        [],
        LIST,
        "Empty: over hosts and zones. A constraint without labelSelector gets that of the Deployment.",
    ),
    Value("defaultHostNameSpreadPolicy", "ScheduleAnyway", words("ScheduleAnyway", "DoNotSchedule")),
    Value("defaultZoneSpreadPolicy", "ScheduleAnyway", words("ScheduleAnyway", "DoNotSchedule")),
    Value("priorityClassName", "", TEXT),
    Value(
        "podSecurityContext",
        {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "fsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        OBJECT,
    ),
    Value(
        "securityContext",
        {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}},
        OBJECT,
    ),
    Value(
        "resources",
        {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
        RESOURCES,
        "The limit includes the processes that render charts and kustomizations.",
    ),
    Value("volumes", [], LIST, "Further volumes of the pods."),
    Value("volumeMounts", [], LIST, "Further mounts of the containers."),
    *_BUDGET,
    Value(
        "podDisruptionBudget",
        {},
        {
            "type": "object",
            "additionalProperties": False,
            "properties": {value.path.removeprefix("pdb."): value.described for value in _BUDGET},
        },
        "Another name of pdb; what is set here counts before it.",
    ),
    Value(
        "serviceAccount.create",
        True,
        SWITCH,
        "Create the ServiceAccount of each process. False: it exists in the namespace of the release.",
    ),
    Value("serviceAccount.name", "", NAME, "Its name; empty: that of the process, such as `component-operator`."),
    Value("serviceAccount.annotations", {}, TEXTS, "Annotations of the ServiceAccounts that the chart creates."),
)
"""Values of all operators, which each operator's key may replace for its own pods."""

OF_WEBHOOKS = (
    Value(
        "webhooks.enabled",
        True,
        SWITCH,
        "Install admission webhooks. False: API servers store what they would refuse.",
    ),
    Value(
        "webhooks.failurePolicy",
        "",
        words("Fail", "Ignore", ""),
        "What API servers do while no webhook answers: Fail refuses the write, Ignore accepts it. Empty: what each "
        "webhook needs.",
    ),
    Value(
        "webhooks.certificates",
        "Default",
        words("Default", "CertManager"),
        "Default: the program creates a certificate, renews it, and makes API servers trust it. CertManager: "
        "cert-manager does.",
    ),
)
"""Values of all operators with admission webhooks, which each operator's key may replace for its own."""

COMMON = (
    Value(
        "fullnameOverride",
        "",
        TEXT,
        "Name of objects that belong to no operator: rules, dashboards, the pod of `helm test`. Empty: the release's.",
    ),
    Value("nameOverride", "", TEXT, "What follows the name of the release there, where fullnameOverride is empty."),
    Value("commonLabels", {}, TEXTS, "Labels of every object."),
    Value(
        "rbac.create",
        True,
        SWITCH,
        "False: you create the roles and their bindings, also those of `helm test`, which fails without them.",
    ),
    Value(
        "rbac.aggregate",
        True,
        SWITCH,
        "Add rights to the kinds of operators to roles of Kubernetes, of which edit includes view, and admin both.",
    ),
    Value("crds.install", True, SWITCH, "Install the CustomResourceDefinitions of the enabled operators."),
    Value("crds.keep", True, SWITCH, "`helm uninstall` leaves them, and the objects of users with them."),
    Value(
        "networkPolicy.enabled",
        True,
        SWITCH,
        "Only metrics, probes, and the ports of servers can be reached. The policies of the BTP module select the pods "
        "of its manager as well, whatever is set here.",
    ),
    Value(
        "networkPolicy.metricsFrom",
        [],
        LIST,
        "What may read the metrics, as peers of a NetworkPolicy, such as the namespace of Prometheus: "
        "`{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}`. Empty: every pod.",
    ),
    Value(
        "networkPolicy.egressPorts",
        [80, 443, 6443, 8443, 9090, 16443],
        {"type": "array", "items": PORT},
        "TCP ports that the operators may call, besides DNS: API servers, HTTP servers, Flux's source-controller. They "
        "are those of pods and hosts, not of Services. Add that of a collector of traces, such as 4318, and that of "
        "your API server if it is another one. The port in the address of Prometheus for the monitoring of versions is "
        "added by itself.",
    ),
    Value("networkPolicy.extraEgress", [], LIST, "Further rules of the NetworkPolicy."),
    Value("monitoring.service", True, SWITCH, "A Service for the metrics of each operator."),
    Value("monitoring.serviceMonitor", False, SWITCH, "A ServiceMonitor of the Prometheus operator."),
    Value(
        "monitoring.podMonitor",
        False,
        SWITCH,
        "A PodMonitor of the Prometheus operator. It has no token, so the chart refuses it with monitoring.secure.",
    ),
    Value("monitoring.serviceMonitorSelectorLabels", {}, TEXTS, "Further labels of both, and of the PrometheusRule."),
    Value("monitoring.secure", False, SWITCH, "Metrics by HTTPS, only for clients that may `get /metrics`."),
    Value("monitoring.rules", False, SWITCH, "A PrometheusRule with alerts and recording rules."),
    Value("monitoring.runbookUrl", "", TEXT, "Address of the page of the alerts, where you publish it."),
    Value("monitoring.dashboards", False, SWITCH, "Grafana dashboards as ConfigMaps."),
    Value("monitoring.dashboardLabels", {"grafana_dashboard": "1"}, TEXTS, "Labels by which Grafana finds them."),
    Value("monitoring.busola", False, SWITCH, "Pages of the kinds in the Kyma dashboard (namespace kube-public)."),
    Value("log.level", "info", of_process("zap_log_level"), "debug, info, warn, error, panic, or a number above 0."),
    Value("log.format", "json", of_process("zap_encoder")),
    Value(
        "leaderElection",
        True,
        SWITCH,
        "Act only while holding the Lease. False: one replica where replicaCount is the default, and the chart refuses "
        "a larger number, because all of them would act. Servers have no Lease and any number of replicas.",
    ),
    Value(
        "watchNamespaces",
        [],
        {"type": "array", "items": {"type": "string", "pattern": "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"}},
        "The only namespaces whose objects the CAP Operator sees. It then has Roles in these, in those of ingress "
        "gateways and in its own, and no right to Secrets of others. Empty: all. The other operators work on all "
        "namespaces, and the chart refuses a list for them.",
    ),
    Value("extraEnv", [], LIST, "Further variables of each pod."),
    Value("extraObjects", [], LIST, "Further objects. One without a namespace is in that of the release."),
)


@dataclass(frozen=True, slots=True)
class Shared:
    """A common value that sets settings of all operators which have them, where their own values are empty."""

    value: Value
    setting: str
    """The field of the setting, or the beginning of several fields in front of an underscore."""
    is_opposite: bool = False
    """Whether the setting is a switch that is true where the value is false."""

    def sets(self, field: str) -> bool:
        """Whether it sets the setting with this field."""
        return field == self.setting or field.startswith(f"{self.setting}_")


SHARED = (
    Shared(
        Value(
            "concurrency.maxConcurrentReconciles",
            "",
            SETTING,
            "How many objects of a kind an operator works on at once. Empty: the defaults of the programs.",
        ),
        "max_concurrent_reconciles",
    ),
    Shared(
        Value(
            "tenancy.defaultServiceAccount",
            "",
            TEXT,
            "ServiceAccount, in the namespace of an object, that is used where the object names none. Empty: none.",
        ),
        "default_service_account",
    ),
    Shared(
        Value(
            "tenancy.crossNamespaceRefs",
            True,
            SWITCH,
            "False: operators refuse sources and dependencies in other namespaces than the object's.",
        ),
        "no_cross_namespace_refs",
        is_opposite=True,
    ),
    Shared(
        Value(
            "egress.allowHosts",
            "",
            TEXT,
            "Hosts that objects of users may have operators call, separated by commas. Empty: any.",
        ),
        "egress_allow_hosts",
    ),
    Shared(
        Value(
            "egress.allowPrivate",
            "",
            SETTING,
            "Whether these may be in a private network. Empty or auto: unless tenancy is strict.",
        ),
        "egress_allow_private",
    ),
)

WEBHOOKS = (
    Value("service.type", "ClusterIP", words("ClusterIP", "NodePort", "LoadBalancer")),
    Value("service.port", 443, PORT),
    Value(
        "certificateManager",
        "",
        words("Default", "CertManager", ""),
        "Default or CertManager. Empty: what webhooks.certificates names.",
    ),
    Value("certificateConfig.certManager.issuerGroup", "", TEXT, "Group of the issuer; empty: cert-manager.io."),
    Value("certificateConfig.certManager.issuerKind", "", TEXT, "Kind of the issuer; empty: Issuer."),
    Value(
        "certificateConfig.certManager.issuerName",
        "",
        TEXT,
        "The issuer. It has to put the certificate of its authority into the Secret. Empty: one is created that signs "
        "by itself.",
    ),
)
"""Values of every process with admission webhooks."""
