"""The Kyma Lifecycle Manager as a value."""

from __future__ import annotations

from stellwerk.delivery.operator_spec import MadeObjects, OperatorSpec, OwnKind, ShownBy, WideColumn
from stellwerk.kube.types.identifiers import Resource
from stellwerk.lazy_imports import lazy_imports
from stellwerk.operators.kyma.verbs.declared import VERBS

with lazy_imports(__name__):
    from stellwerk.delivery.chart import part, values
    from stellwerk.operators.kyma import admission, installation, labels, process, settings
    from stellwerk.operators.kyma.insight import by_kind, help_topics, monitoring

_GROUP = "operator.kyma-project.io"


def _kind(short: str, kind: str, *wide: WideColumn, shown_by: ShownBy = ShownBy.STATE) -> OwnKind:
    return OwnKind(short, Resource(_GROUP, "v1beta2", kind, f"{kind.lower()}s", True), wide, shown_by)


_VERSION = WideColumn("VERSION", ("spec", "version"))

OPERATOR = OperatorSpec(
    name="kyma",
    title="Kyma Lifecycle Manager",
    kinds=(
        _kind("kyma", "Kyma", WideColumn("CHANNEL", ("spec", "channel"))),
        _kind("mf", "Manifest", _VERSION),
        _kind("mt", "ModuleTemplate", WideColumn("MODULE", ("spec", "moduleName")), _VERSION, shown_by=ShownBy.NONE),
        _kind("mrm", "ModuleReleaseMeta", shown_by=ShownBy.NONE),
        _kind("watcher", "Watcher", WideColumn("MANAGER", ("spec", "manager"))),
    ),
    made=(MadeObjects(_GROUP, "Manifest"),),
    settings=lambda: settings.TABLE,
    process=lambda: settings.PROCESS_TABLE,
    start=lambda own, settings, _: process.launch(own, settings),
    installation=lambda: installation.INSTALLATION,
    chart_part=lambda: part.ChartPart(
        values=(
            values.Value(
                "maintenancePolicy",
                "",
                values.TEXT,
                "The policy of maintenance windows, as JSON. It is read when a pod starts: `kubectl rollout restart` "
                "takes a change over. Empty: that of `maintenancePolicyConfigMap`.",
                field="maintenance_policy_file",
                file="policy.json",
            ),
            values.Value(
                "maintenancePolicyConfigMap",
                labels.POLICY_CONFIG_MAP,
                values.TEXT,
                "The ConfigMap with the policy of maintenance windows as `policy.json`, in the namespace of the "
                "release. It may be absent.",
            ),
        ),
        config_maps={"maintenancePolicyConfigMap": settings.POLICY_FOLDER},
    ),
    chart=lambda: part.OperatorChart(
        values=(
            values.Value(
                admission.SWITCH,
                False,
                values.SWITCH,
                "Have the API server refuse Kymas with a channel named none, and without an entry whose objects still "
                "become unmanaged. The original stores them and shows an error. Kubernetes 1.30 or newer.",
            ),
        ),
        templates={"admission.yaml": admission.template()},
    ),
    help=lambda: help_topics.HELP,
    insight=lambda: by_kind.INSIGHT,
    monitoring=lambda: monitoring.MONITORING,
    verbs=VERBS,
)
