"""The CAP Operator Manager as a value."""

from __future__ import annotations

from stellwerk.delivery.operator_spec import OperatorSpec, OwnKind
from stellwerk.kube.types.identifiers import Resource
from stellwerk.lazy_imports import lazy_imports

with lazy_imports(__name__):
    from stellwerk.delivery.chart import part, values
    from stellwerk.operators.cap_manager import controllers, installation, settings
    from stellwerk.operators.cap_manager.capoperator import chart
    from stellwerk.operators.cap_manager.insight import by_kind, help_topics


def managing(installed: OperatorSpec) -> OperatorSpec:
    """The manager of an operator, whose rights it may grant. Operators do not know each other, so it gets the value."""
    return OperatorSpec(
        name="cap-manager",
        title="CAP Operator Manager",
        kinds=(OwnKind("capop", Resource("operator.sme.sap.com", "v1alpha1", "CAPOperator", "capoperators", True)),),
        settings=lambda: settings.TABLE,
        start=lambda process, own, _: controllers.launch(process, own),
        installation=lambda: installation.installation([each.installation() for each in installed.processes]),
        help=lambda: help_topics.HELP,
        insight=lambda: by_kind.INSIGHT,
        chart_part=lambda: part.ChartPart(
            labels={"kyma-project.io/module": "cap-operator"},
            values=(
                values.Value(
                    chart.KEY,
                    {},
                    values.OBJECT,
                    "Values of `capOperator` for what it installs, such as `controller.ingressNamespaces`. A field of "
                    "a CAPOperator counts before the value of its name.",
                ),
            ),
        ),
    )
