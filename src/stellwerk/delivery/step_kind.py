"""A kind that decides by steps, as one value: its process, its rights, `diff` and `why` read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from stellwerk.delivery.grants import Grant, grant
from stellwerk.delivery.insight import KindInsight, Preview, PreviewFailed, PreviewRequest
from stellwerk.delivery.installation import Installation
from stellwerk.delivery.operator_spec import KindHelp, Launch, OperatorSpec, OwnKind
from stellwerk.delivery.ready_steps import ReadyLogic, ReadyState, catalogue
from stellwerk.delivery.step_preview import StepPreview
from stellwerk.delivery.step_rights import Use, rights_of
from stellwerk.kube.client.client import Client, view_of
from stellwerk.kube.schema.crd import AGE, Definition, PrinterColumn, Version
from stellwerk.kube.types import lenient
from stellwerk.kube.types.model import UNREADABLE, Kind, Unstructured
from stellwerk.runtime.clock import Clock, SystemClock
from stellwerk.runtime.control.controller import Controller, EventSink
from stellwerk.runtime.control.executor import Deciding, InformerSources, RemoteSources
from stellwerk.runtime.control.loads import Loads
from stellwerk.runtime.control.status_writer import StatusWriter
from stellwerk.runtime.control.step import Step, Write
from stellwerk.runtime.insight.diagnosis import ConditionDiagnosis, Diagnosis, Finding
from stellwerk.runtime.insight.reason_catalog import Meaning
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.process.process import Parts
from stellwerk.runtime.reading.questions import Collection
from stellwerk.runtime.reading.view import View
from stellwerk.runtime.settings.table import SettingsTable

K = TypeVar("K", bound=Kind)

LEASES = grant("coordination.k8s.io", "leases", "get create patch", "replicas cannot agree on which of them acts")

COLUMNS = (
    PrinterColumn(name="Ready", path='.status.conditions[?(@.type=="Ready")].status'),
    PrinterColumn(name="Message", path='.status.conditions[?(@.type=="Ready")].message', priority=1),
    AGE,
)
"""Of a kind with the condition Ready."""
EVENTS = grant("events.k8s.io", "events", "create patch", "no Event is sent")


@dataclass(frozen=True, slots=True)
class _NoSettings:
    """An operator of this kind alone has no settings of its own."""


_NO_SETTINGS = SettingsTable(_NoSettings(), ())


@dataclass(frozen=True, slots=True, kw_only=True)
class StepKind(Generic[K]):
    """A kind with the condition Ready whose passes decide by steps."""

    name: str
    """Of its controller and field manager."""
    collection: Collection[K]
    decide: Callable[[K, View], Step[Any]]
    """What an object needs next. Pure and synchronous. Raises NotReady, NotKnown."""
    uses: tuple[Use[Any], ...] = ()
    """What passes ask about and write, besides the objects of the kind."""
    remote_uses: tuple[Use[Any], ...] = ()
    """The same in other clusters, whose logins have the rights."""
    requests: tuple[Grant, ...] = ()
    """The rights that loads need."""
    writes: tuple[type[Write], ...] = ()
    """What steps write of the object itself besides its status."""
    reasons: Mapping[str, Meaning[ReadyState]] = field(default_factory=dict)
    columns: tuple[PrinterColumn, ...] = COLUMNS
    short_names: tuple[str, ...] = ()
    workers: int = 1

    @property
    def kind(self) -> type[K]:
        """The class of the objects."""
        return view_of(self.collection.target).shape

    def grants(self) -> tuple[Grant, ...]:
        """The rights that a process needs for the kind, derived from what its passes ask and write."""
        own = Use(self.collection, f"no {self.collection.resource.kind} is seen, or shows its state", self.writes)
        return (*rights_of(own, self.uses), *self.requests, EVENTS)

    def help(self) -> KindHelp:
        """The reasons of the kind."""
        return KindHelp(catalogue=catalogue({**self.reasons}))

    def insight(self, settings: tuple[object, ...] = ()) -> KindInsight:
        """`why` and `diff` of the kind. `settings`: as those of the process, as far as users know them."""
        preview = StepPreview(logic=self._logic(SystemClock()), field_manager=self.name)
        by_steps = _BySteps(self, preview, settings)
        return KindInsight(diagnostician=by_steps, previewer=lambda: by_steps)

    def install(self, parts: Parts, settings: tuple[object, ...] = ()) -> None:
        """Give a controller of the kind to a process. `settings`: what `View.setting` finds."""
        engine = self.add(parts.manager, settings, recorder=parts.recorder)
        if self.remote_uses:
            remote = [each.collection for each in self.remote_uses]
            engine.clusters = parts.remote_clusters(
                lambda cluster, _: RemoteSources(cluster, remote),
                field_manager=self.name,
                wake=engine.controller.queue.add,
            )

    def add(
        self, manager: Manager, settings: tuple[object, ...] = (), *, recorder: EventSink | None = None
    ) -> Deciding[K, Any]:
        """The same for a manager, without other clusters."""
        clock, client = manager.clock, manager.client.with_field_manager(self.name)
        primary = manager.informer(self.collection.target, labels=self.collection.labels, required=True)
        sources = InformerSources(manager, [self.collection, *(each.collection for each in self.uses)])
        loads = Loads(client, clock, sources.wakes)
        engine = Deciding(
            logic=self._logic(clock), sources=sources, client=client, clock=clock, settings=settings, loads=loads
        )
        controller: Controller[K, Any] = Controller(
            self.name,
            primary,
            engine,
            write_status=StatusWriter(client=client, clock=clock),
            workers=self.workers,
            recorder=recorder,
            metrics=manager.metrics,
            clock=clock,
        )
        engine.serve(controller)
        manager.add_controller(loads)
        manager.add_controller(controller)
        return engine

    def operator(self, title: str = "") -> OperatorSpec:
        """An operator of this kind alone, without settings: for a program of its own."""
        resource = self.collection.resource
        version = Version(kind=self.kind, columns=self.columns)
        installation = Installation(
            namespace=self.name,
            account=self.name,
            lease=self.name,
            definitions=(Definition(versions=[version], short_names=self.short_names),),
            grants=self.grants(),
            home_grants=(LEASES,),
        )
        return OperatorSpec(
            name=self.name,
            title=title or self.name.capitalize(),
            kinds=(OwnKind(self.short_names[0] if self.short_names else resource.kind.lower(), resource),),
            settings=lambda: _NO_SETTINGS,
            start=lambda *_: Launch(installation.identity(), self.install),
            installation=lambda: installation,
            help=lambda: {resource.kind: self.help()},
            insight=lambda: {resource.kind: self.insight()},
        )

    def _logic(self, clock: Clock) -> ReadyLogic[K]:
        return ReadyLogic(clock, self.collection, self.decide)


@dataclass(frozen=True, slots=True)
class _BySteps(Generic[K]):
    """`diff` and `why` by the `decide` of the controller, on what the user may read."""

    declared: StepKind[K]
    steps: StepPreview[K, Any]
    settings: tuple[object, ...]
    accepts_image: bool = False

    @property
    def kind(self) -> type[Kind]:
        """As `Previewer.kind`."""
        return self.declared.kind

    async def preview(self, subject: K, request: PreviewRequest) -> Preview:
        """As `Previewer.preview`."""
        return await self.steps.preview(subject, request.client, datetime.now(UTC), self.settings)

    async def diagnose(self, client: Client, subject: Unstructured) -> Diagnosis:
        """As `Diagnostician.diagnose`: the condition, and below it what a pass would wait for now."""
        diagnosis = await ConditionDiagnosis(self.declared.help().catalogue).diagnose(client, subject)
        if not diagnosis.findings:
            return diagnosis
        try:
            obj = lenient.convert(subject.body, self.declared.kind)
            awaited = await self.steps.awaited(obj, client, datetime.now(UTC), self.settings)
        except (*UNREADABLE, PreviewFailed):
            return diagnosis
        (finding,) = diagnosis.findings
        because = tuple(
            Finding(text, is_root_cause=True)
            for each in awaited.waits
            if (text := each.text.removesuffix(".")) and text not in finding.text
        )
        finding = replace(finding, because=because, is_root_cause=not because)
        return replace(diagnosis, findings=(finding,), hidden=awaited.hidden)
