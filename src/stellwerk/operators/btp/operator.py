"""The BTP Manager as a value."""

from __future__ import annotations

from stellwerk.delivery.operator_spec import OperatorSpec, OwnKind
from stellwerk.kube.types.identifiers import Resource
from stellwerk.lazy_imports import lazy_imports

with lazy_imports(__name__):
    from stellwerk.delivery.chart import part
    from stellwerk.operators.btp import api, controllers, installation, settings
    from stellwerk.operators.btp.insight import by_kind, help_topics, monitoring

OPERATOR = OperatorSpec(
    name="btp",
    title="BTP Manager",
    kinds=(OwnKind("btp", Resource("operator.kyma-project.io", "v1alpha1", "BtpOperator", "btpoperators", True)),),
    settings=lambda: settings.TABLE,
    start=lambda process, own, environment: controllers.launch(process, own, environment),
    installation=lambda: installation.INSTALLATION,
    help=lambda: help_topics.HELP,
    insight=lambda: by_kind.INSIGHT,
    monitoring=lambda: monitoring.MONITORING,
    chart_part=lambda: part.ChartPart(labels={api.MODULE_LABEL: api.MODULE_NAME}),
)
