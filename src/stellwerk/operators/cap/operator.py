"""The CAP Operator as a value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from stellwerk.delivery.operator_spec import KindHelp, Launch, OperatorSpec, OwnKind
from stellwerk.kube.types.identifiers import Resource

if TYPE_CHECKING:
    from stellwerk.delivery.insight import KindInsight
    from stellwerk.delivery.installation import Installation
    from stellwerk.operators.cap.settings import Settings as CapSettings
    from stellwerk.runtime.settings.process_settings import ProcessSettings
    from stellwerk.runtime.settings.table import SettingsTable


def _settings() -> SettingsTable[CapSettings]:
    from stellwerk.operators.cap.settings import TABLE

    return TABLE


def _start(process: ProcessSettings, settings: CapSettings, environment: Mapping[str, str]) -> Launch:
    from stellwerk.operators.cap import controllers

    return controllers.launch(process, settings, environment)


def _installation() -> Installation:
    from stellwerk.operators.cap.installation import INSTALLATION

    return INSTALLATION


def _help() -> Mapping[str, KindHelp]:
    from stellwerk.operators.cap.insight.help_topics import HELP

    return HELP


def _insight() -> Mapping[str, KindInsight]:
    from stellwerk.operators.cap.insight.by_kind import INSIGHT

    return INSIGHT


def _kind(short: str, kind: str, *, namespaced: bool = True) -> OwnKind:
    return OwnKind(short, Resource("sme.sap.com", "v1alpha1", kind, f"{kind.lower()}s", namespaced))


OPERATOR = OperatorSpec(
    name="cap",
    title="CAP Operator",
    kinds=(
        _kind("ca", "CAPApplication"),
        _kind("cav", "CAPApplicationVersion"),
        _kind("cat", "CAPTenant"),
        _kind("ctop", "CAPTenantOperation"),
        _kind("ctout", "CAPTenantOutput"),
        _kind("dom", "Domain"),
        _kind("cdom", "ClusterDomain", namespaced=False),
    ),
    settings=_settings,
    start=_start,
    installation=_installation,
    help=_help,
    insight=_insight,
)
