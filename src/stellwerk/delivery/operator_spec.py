"""An operator as a value: everything that the rest of the product knows about it.

`stellwerk.assembly.OPERATORS` lists the operators. `run`, `up`, `install`, `check`, `get`, `why`, `diff`, `explain`,
the CustomResourceDefinitions and the reference pages iterate over that list, so an operator is added by its folder and
one line there.

An `OperatorSpec` itself is light, because completion reads it while the user waits: names only. What costs time to
import comes from its functions, each of which imports one part of the operator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stellwerk.kube.types.identifiers import Resource
from stellwerk.runtime.insight.reason_catalog import Catalogue

if TYPE_CHECKING:
    from stellwerk.delivery.insight import KindInsight
    from stellwerk.delivery.installation import Installation
    from stellwerk.delivery.monitoring.alerts import Alert
    from stellwerk.delivery.monitoring.panels import Panel
    from stellwerk.runtime.insight.help_topics import Topic
    from stellwerk.runtime.process.process import OperatorIdentity, Parts
    from stellwerk.runtime.settings.process_settings import ProcessSettings
    from stellwerk.runtime.settings.table import SettingsTable


class CannotStart(Exception):
    """The operator cannot start; the message is the cause, and `fix` what the user can do about it."""

    def __init__(self, why: str, *, fix: str) -> None:
        super().__init__(why)
        self.fix = fix


@dataclass(frozen=True, slots=True)
class OwnKind:
    """A kind that users of an operator create, and the short word by which the command line knows it."""

    short: str
    resource: Resource


@dataclass(frozen=True, slots=True)
class Launch:
    """An operator that is about to run: its identity, and the function that adds its controllers to the manager."""

    identity: OperatorIdentity
    install: Callable[[Parts], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class KindHelp:
    """The reasons of a kind's conditions, and topics about it."""

    catalogue: Catalogue[Any, Any] = field(default_factory=lambda: Catalogue({}, {}))
    page: Callable[[], str] | None = None
    """The reference page of the reasons, as Markdown; None: a table and a section for each."""
    topics: Mapping[str, Topic] = field(default_factory=dict)

    def reasons_page(self, kind: str) -> str:
        """The reference page of the reasons of `kind`."""
        if self.page is not None:
            return self.page()
        head = [f"# Reasons of a {kind}", "", "`stellwerk explain REASON` prints the same text.", ""]
        table = ["| reason | state | meaning |", "| --- | --- | --- |", *self.catalogue.table(self.catalogue.meanings)]
        return "\n".join([*head, *table, "", *self.catalogue.sections()])


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnMonitoring:
    """What an operator adds to the alerts and panels that all operators have."""

    alerts: Sequence[Alert] = ()
    runbook: str = ""
    """A section for each of these alerts, as Markdown (`## Name`)."""
    panels: Sequence[Panel] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSpec:
    """An operator. Every function imports a part of it."""

    name: str
    """As `stellwerk run` calls it."""
    title: str
    """In running text: BTP Manager."""
    kinds: tuple[OwnKind, ...]
    settings: Callable[[], SettingsTable[Any]]
    start: Callable[[ProcessSettings, Any, Mapping[str, str]], Launch]
    """Prepare a process: its settings, those of the operator's table, and the environment. Raises `CannotStart`."""
    installation: Callable[[], Installation]
    help: Callable[[], Mapping[str, KindHelp]]
    """By kind. A kind that is absent has no reasons of its own."""
    insight: Callable[[], Mapping[str, KindInsight]]
    """By kind. A kind that is absent is explained by its condition `Ready` and its help."""
    monitoring: Callable[[], OwnMonitoring] = OwnMonitoring
