"""The CAP Operator as a value."""

from __future__ import annotations

from stellwerk.delivery.operator_spec import MadeObjects, OperatorSpec, OwnKind, WideColumn
from stellwerk.kube.types.identifiers import Resource
from stellwerk.lazy_imports import lazy_imports
from stellwerk.operators.cap.subscription.spec import SERVER as SUBSCRIPTIONS
from stellwerk.operators.cap.verbs.declared import VERBS
from stellwerk.operators.cap.webhooks.spec import SERVER as WEBHOOKS

with lazy_imports(__name__):
    from stellwerk.operators.cap import controllers, installation, settings, variables
    from stellwerk.operators.cap.chart import values
    from stellwerk.operators.cap.insight import by_kind, help_topics, monitoring

_GROUP = "sme.sap.com"


def _kind(short: str, kind: str, *wide: WideColumn, namespaced: bool = True) -> OwnKind:
    return OwnKind(short, Resource(_GROUP, "v1alpha1", kind, f"{kind.lower()}s", namespaced), wide)


_TENANT = (
    WideColumn("SUBDOMAIN", ("spec", "subDomain")),
    WideColumn("TENANT ID", ("spec", "tenantId")),
    WideColumn("VERSION", ("status", "currentCAPApplicationVersionInstance")),
)


OPERATOR = OperatorSpec(
    name="cap",
    title="CAP Operator",
    kinds=(
        _kind("ca", "CAPApplication", WideColumn("UPGRADE", ("status", "tenantUpgrade", "phase"))),
        _kind("cav", "CAPApplicationVersion"),
        _kind("cat", "CAPTenant", *_TENANT),
        _kind("ctop", "CAPTenantOperation"),
        _kind("ctout", "CAPTenantOutput"),
        _kind("dom", "Domain"),
        _kind("cdom", "ClusterDomain", namespaced=False),
    ),
    made=(
        MadeObjects(_GROUP, "CAPTenantOperation"),
        # With a Secret: for a tenant of the provider that exists already, the application would make none.
        MadeObjects(_GROUP, "CAPTenant", (f"{_GROUP}/tenant-type", "provider")),
    ),
    settings=lambda: settings.TABLE,
    start=lambda process, own, environment: controllers.launch(process, own, environment),
    installation=lambda: installation.INSTALLATION,
    process=lambda: variables.process(leader_elect=True),
    chart_part=lambda: values.CONTROLLER,
    chart=lambda: values.CHART,
    servers=(SUBSCRIPTIONS, WEBHOOKS),
    help=lambda: help_topics.HELP,
    insight=lambda: by_kind.INSIGHT,
    verbs=VERBS,
    monitoring=lambda: monitoring.MONITORING,
)
