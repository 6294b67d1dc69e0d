"""An operator as a value: everything that the rest of the product knows about it.

`stellwerk.assembly.OPERATORS` lists the operators. `run`, `up`, `install`, `check`, `get`, `why`, `diff`, `explain`,
the CustomResourceDefinitions, the chart and the reference pages iterate over that list, so an operator is added by its
folder and one line there.

An operator is a process (`ProcessSpec`) with controllers. Its servers are further processes, which scale and have
rights by themselves; they are values too (`ServerSpec`), in `OperatorSpec.servers`.

An `OperatorSpec` itself is light, because completion reads it while the user waits: names only. What costs time to
import comes from its functions, each of which uses one part of the operator, imported by `lazy_imports`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from stellwerk.delivery.operator_verbs import OperatorVerbs
from stellwerk.kube.types.identifiers import Resource
from stellwerk.lazy_imports import lazy_imports
from stellwerk.runtime.insight.reason_catalog import Catalogue

with lazy_imports(__name__):
    from stellwerk.delivery.chart import part
    from stellwerk.runtime.settings import process_settings

if TYPE_CHECKING:
    from stellwerk.delivery.insight import KindInsight
    from stellwerk.delivery.installation import Installation
    from stellwerk.delivery.monitoring.alerts import Alert
    from stellwerk.delivery.monitoring.panels import Panel
    from stellwerk.runtime.insight.help_topics import Topic
    from stellwerk.runtime.process.process import OperatorIdentity, Parts
    from stellwerk.runtime.settings.table import SettingsTable


class CannotStart(Exception):
    """The operator cannot start; the message is the cause, and `fix` what the user can do about it."""

    def __init__(self, why: str, *, fix: str) -> None:
        super().__init__(why)
        self.fix = fix


@dataclass(frozen=True, slots=True)
class WideColumn:
    """A field of an object as a column of a table."""

    title: str
    path: tuple[str, ...]


class ShownBy(Enum):
    """Where the objects of a kind show whether they are ready."""

    CONDITION = "the condition Ready, or another main one"
    STATE = "status.state, whose cause is in status.lastOperation or in a condition that is not True"
    NONE = "nowhere: they have no status"


@dataclass(frozen=True, slots=True)
class OwnKind:
    """A kind that users of an operator create, and the short word by which the command line knows it."""

    short: str
    resource: Resource
    wide: tuple[WideColumn, ...] = ()
    """Columns of `stellwerk get KIND -o wide` besides those of every kind."""
    readiness: ShownBy = ShownBy.CONDITION


@dataclass(frozen=True, slots=True)
class MadeObjects:
    """Objects of a kind that the operator makes by itself: an export leaves them out."""

    group: str
    kind: str
    label: tuple[str, str] | None = None
    """Only those with this label and value are made by the operator; None: all are."""


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

    def reason_pages(self, kind: str) -> dict[str, str]:
        """A page for each reason of `kind`, as Markdown."""
        return {str(word): self.catalogue.page(word, kind) for word in self.catalogue.meanings}


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnMonitoring:
    """What an operator adds to the alerts and panels that all operators have."""

    alerts: Sequence[Alert] = ()
    runbook: str = ""
    """A section for each of these alerts, as Markdown (`## Name`)."""
    panels: Sequence[Panel] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec(ABC):
    """A program that `stellwerk run` starts. Every function imports a part of the program."""

    name: str
    """As `stellwerk run` calls it."""
    title: str
    """In running text: BTP Manager."""
    settings: Callable[[], SettingsTable[Any]]
    start: Callable[[process_settings.ProcessSettings, Any, Mapping[str, str]], Launch]
    """Prepare a process: its settings, those of the program's table, and the environment. Raises `CannotStart`."""
    installation: Callable[[], Installation]
    process: Callable[[], SettingsTable[process_settings.ProcessSettings]] = lambda: process_settings.PROCESS
    """The settings that every process has. A program may have other defaults, and variables for some of them."""
    chart_part: Callable[[], part.ChartPart] = lambda: part.ChartPart()
    local: Callable[[], ProcessSpec] | None = None
    """The program that a local system starts instead; None: the same. `stellwerk run` does not know it."""

    @property
    @abstractmethod
    def purpose(self) -> str:
        """What the program does, as the end of a sentence after a colon."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSpec(ProcessSpec):
    """A further process of an operator. It serves requests, so every replica works; with a Lease, one does more."""

    serves: str
    """What it serves, as the end of a sentence after a colon."""

    @property
    def purpose(self) -> str:
        """What it serves."""
        return self.serves


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSpec(ProcessSpec):
    """An operator: the process of its controllers, the kinds of their objects, and its further processes."""

    kinds: tuple[OwnKind, ...]
    made: tuple[MadeObjects, ...] = ()
    """Objects of its own kinds that no user writes."""
    help: Callable[[], Mapping[str, KindHelp]]
    """By kind. A kind that is absent has no reasons of its own."""
    insight: Callable[[], Mapping[str, KindInsight]]
    """By kind. A kind that is absent is explained by its condition `Ready` and its help."""
    monitoring: Callable[[], OwnMonitoring] = OwnMonitoring
    servers: tuple[ServerSpec, ...] = ()
    chart: Callable[[], part.OperatorChart] = lambda: part.OperatorChart()
    verbs: OperatorVerbs | None = None
    """Verbs for the daily tasks of its users; None for none."""

    @property
    def processes(self) -> tuple[ProcessSpec, ...]:
        """The process of the controllers, and the servers."""
        return (self, *self.servers)

    @property
    def purpose(self) -> str:
        """The kinds that it reconciles."""
        return " and ".join(kind.resource.kind for kind in self.kinds)
