"""The BTP Manager as a value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from stellwerk.delivery.operator_spec import KindHelp, Launch, OperatorSpec, OwnKind, OwnMonitoring
from stellwerk.kube.types.identifiers import Resource

if TYPE_CHECKING:
    from stellwerk.delivery.insight import KindInsight
    from stellwerk.delivery.installation import Installation
    from stellwerk.operators.btp.settings import Settings as BtpSettings
    from stellwerk.runtime.settings.process_settings import ProcessSettings
    from stellwerk.runtime.settings.table import SettingsTable


def _settings() -> SettingsTable[BtpSettings]:
    from stellwerk.operators.btp.settings import TABLE

    return TABLE


def _start(process: ProcessSettings, settings: BtpSettings, environment: Mapping[str, str]) -> Launch:
    from stellwerk.operators.btp import controllers

    return controllers.launch(process, settings, environment)


def _installation() -> Installation:
    from stellwerk.operators.btp.installation import INSTALLATION

    return INSTALLATION


def _help() -> Mapping[str, KindHelp]:
    from stellwerk.operators.btp.insight.help_topics import HELP

    return HELP


def _insight() -> Mapping[str, KindInsight]:
    from stellwerk.operators.btp.insight.by_kind import INSIGHT

    return INSIGHT


def _monitoring() -> OwnMonitoring:
    from stellwerk.operators.btp.insight.monitoring import MONITORING

    return MONITORING


OPERATOR = OperatorSpec(
    name="btp",
    title="BTP Manager",
    kinds=(OwnKind("btp", Resource("operator.kyma-project.io", "v1alpha1", "BtpOperator", "btpoperators", True)),),
    settings=_settings,
    start=_start,
    installation=_installation,
    help=_help,
    insight=_insight,
    monitoring=_monitoring,
)
