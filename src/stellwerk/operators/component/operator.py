"""The component-operator as a value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from stellwerk.delivery.operator_spec import KindHelp, Launch, OperatorSpec, OwnKind, OwnMonitoring
from stellwerk.kube.types.identifiers import Resource

if TYPE_CHECKING:
    from stellwerk.delivery.insight import KindInsight
    from stellwerk.delivery.installation import Installation
    from stellwerk.operators.component.settings import Settings as ComponentSettings
    from stellwerk.runtime.settings.process_settings import ProcessSettings
    from stellwerk.runtime.settings.table import SettingsTable


def _settings() -> SettingsTable[ComponentSettings]:
    from stellwerk.operators.component.settings import TABLE

    return TABLE


def _start(process: ProcessSettings, settings: ComponentSettings, environment: Mapping[str, str]) -> Launch:
    from stellwerk.operators.component import controllers

    return controllers.launch(process, settings, environment)


def _installation() -> Installation:
    from stellwerk.operators.component.installation import INSTALLATION

    return INSTALLATION


def _help() -> Mapping[str, KindHelp]:
    from stellwerk.operators.component.insight.help_topics import HELP

    return HELP


def _insight() -> Mapping[str, KindInsight]:
    from stellwerk.operators.component.insight.by_kind import INSIGHT

    return INSIGHT


def _monitoring() -> OwnMonitoring:
    from stellwerk.operators.component.insight.monitoring import MONITORING

    return MONITORING


OPERATOR = OperatorSpec(
    name="component",
    title="Component operator",
    kinds=(OwnKind("comp", Resource("core.cs.sap.com", "v1alpha1", "Component", "components", True)),),
    settings=_settings,
    start=_start,
    installation=_installation,
    help=_help,
    insight=_insight,
    monitoring=_monitoring,
)
