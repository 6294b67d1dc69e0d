"""The component-operator as a value."""

from __future__ import annotations

from stellwerk.delivery.operator_spec import MadeObjects, OperatorSpec, OwnKind
from stellwerk.kube.types.identifiers import Resource
from stellwerk.lazy_imports import lazy_imports

with lazy_imports(__name__):
    from stellwerk.delivery.chart import part
    from stellwerk.operators.component import controllers, installation, settings
    from stellwerk.operators.component.insight import by_kind, help_topics, monitoring

OPERATOR = OperatorSpec(
    name="component",
    title="Component operator",
    kinds=(OwnKind("comp", Resource("core.cs.sap.com", "v1alpha1", "Component", "components", True)),),
    made=(MadeObjects("core.cs.sap.com", "BlueprintVersion"),),
    settings=lambda: settings.TABLE,
    start=lambda process, own, environment: controllers.launch(process, own, environment),
    installation=lambda: installation.INSTALLATION,
    help=lambda: help_topics.HELP,
    insight=lambda: by_kind.INSIGHT,
    monitoring=lambda: monitoring.MONITORING,
    chart=lambda: part.OperatorChart(ignored_images=("ghcr.io/sap/component-operator",)),
)
