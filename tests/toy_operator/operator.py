"""The toy operator as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stellwerk.delivery.insight import KindInsight
from stellwerk.delivery.installation import Installation
from stellwerk.delivery.operator_spec import KindHelp, Launch, OperatorSpec, OwnKind
from stellwerk.kube.types.identifiers import Resource
from stellwerk.runtime.settings.process_settings import ProcessSettings
from stellwerk.runtime.settings.table import Setting, SettingsTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    greeting: str = "Hello"


TABLE = SettingsTable(Settings(), (Setting(field="greeting", read=str, help="What pages begin with."),))


def _start(process: ProcessSettings, settings: Settings, environment: Mapping[str, str]) -> Launch:
    from tests.toy_operator import controllers

    return controllers.launch(settings.greeting)


def _installation() -> Installation:
    from tests.toy_operator.installation import INSTALLATION

    return INSTALLATION


def _help() -> Mapping[str, KindHelp]:
    from tests.toy_operator.insight import HELP

    return HELP


def _insight() -> Mapping[str, KindInsight]:
    from tests.toy_operator.insight import INSIGHT

    return INSIGHT


OPERATOR = OperatorSpec(
    name="toy",
    title="Toy operator",
    kinds=(
        OwnKind("site", Resource("toy.example.com", "v1", "Site", "sites", True)),
        OwnKind("page", Resource("toy.example.com", "v1", "Page", "pages", True)),
    ),
    settings=lambda: TABLE,
    start=_start,
    installation=_installation,
    help=_help,
    insight=_insight,
)
