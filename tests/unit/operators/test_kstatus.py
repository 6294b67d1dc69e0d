"""For each state of each kind: Ready, the condition beside it, the word of kstatus, the series, and the alert.

The table is the page `docs/reference/states.md`. kstatus' rules are written down here once more, as its documentation
has them, so that they are not those of our own engine.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.unit.cap import given

from stellwerk.assembly import OPERATORS
from stellwerk.cli import kinds
from stellwerk.cli.objects import health
from stellwerk.delivery.monitoring import alerts
from stellwerk.delivery.sets import inventory_status
from stellwerk.delivery.sets.pass_report import SetReport
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, Kind, Unstructured, to_json_object
from stellwerk.kube.types.object_meta import Condition
from stellwerk.operators.btp import reasons as btp
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.operators.btp.api import State as BtpState
from stellwerk.operators.cap import kstatus
from stellwerk.operators.cap.kinds.application import CAPApplication, UpgradePhase
from stellwerk.operators.cap.kinds.domain import ClusterDomain, Domain
from stellwerk.operators.cap.kinds.status import ReconciledStatus, condition
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOperation, CAPTenantOutput, TenantStatus
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.requests import Answering
from stellwerk.operators.cap.tenant.networking import NetworkingFailed
from stellwerk.operators.cap_manager import reasons as cap_manager
from stellwerk.operators.cap_manager.api import CAPOperator
from stellwerk.operators.cap_manager.reasons import PassReport as CapOperatorReport
from stellwerk.operators.component import reasons as component
from stellwerk.operators.component.api import Component
from stellwerk.operators.component.reasons import PassReport as ComponentReport
from stellwerk.runtime import conditions
from stellwerk.runtime.clock import SystemClock
from stellwerk.runtime.control.outcome import Unexpected
from stellwerk.runtime.reconciler import Next, Pass, ReconcileError
from stellwerk.runtime.telemetry.metrics import Metrics

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "states.md"
NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
SUPERSEDED = Condition(type="Superseded", status="True", reason="Superseded", last_transition_time=NOW)


# ---- worlds


@dataclass(frozen=True)
class Standing:
    """What a pass on an object of the CAP Operator comes to."""

    answer: Next[ReconciledStatus]
    failure: ReconcileError | None = None

    async def run(self) -> Next[ReconciledStatus]:
        return self.answer

    def report(self, failure: ReconcileError) -> ReconciledStatus | None:
        return self.answer.status


@dataclass(frozen=True)
class Standings:
    """A reconciler whose passes come to this."""

    standing: Standing

    def begin(self, obj: Kind) -> Pass[ReconciledStatus]:
        return self.standing

    async def forget(self, key: ObjectKey) -> None: ...


@dataclass(frozen=True)
class At(SystemClock):
    """A clock that stands."""

    moment: datetime

    def now(self) -> datetime:
        return self.moment


def seen(obj: Kind, status: ReconciledStatus, failure: ReconcileError | None = None, now: datetime = NOW) -> Kind:
    """The object after a pass that shows this status, or fails with this."""
    current = Answering(Standings(Standing(Next.done(status))), At(now)).begin(obj)
    shown = current.report(failure) if failure is not None else asyncio.run(current.run()).status
    return msgspec.structs.replace(obj, status=shown)


@dataclass(frozen=True, kw_only=True)
class Case:
    """How an object of the CAP Operator comes into a state: as the original shows it, and what is special."""

    state: StrEnum
    is_ready: bool = False
    special: str = ""
    reason: str = "Some"
    failure: ReconcileError | None = None
    more: tuple[Condition, ...] = ()
    fields: Mapping[str, object] = field(default_factory=dict)


def of_cap(obj: Kind, cases: list[Case]) -> Iterator[tuple[str, str, Kind]]:
    for case in cases:
        current = obj
        if case.state == "Deleting":
            current = msgspec.structs.replace(
                obj, metadata=msgspec.structs.replace(obj.metadata, deletion_timestamp=NOW)
            )
        ready = condition(current, case.is_ready, case.reason, "m")
        status: ReconciledStatus = current.status  # type: ignore[attr-defined]
        status = msgspec.convert({**msgspec.to_builtins(status), "state": case.state, **case.fields}, type(status))
        status = msgspec.structs.replace(
            status, conditions=(ready, *case.more), observed_generation=current.metadata.generation
        )
        yield case.state or "(empty)", case.special, seen(current, status, case.failure)


def states(obj: Kind, *special: Case, ready: frozenset[str]) -> list[Case]:
    """The states of the kind, then the special cases."""
    plain = [Case(state=StateOf[type(obj)](each), is_ready=each in ready) for each in kstatus.BY_STATE[type(obj)]]
    return [*plain, *special]


def state_enum(kind: type[Kind]) -> type[StrEnum]:
    """The states of a kind, as its CRD names them."""
    return type(next(iter(kstatus.BY_STATE[kind])))  # type: ignore[return-value]


StateOf = {kind: state_enum(kind) for kind in kstatus.BY_STATE}


def told(special: str, reason: str, type_: str = "IdentityProved") -> Case:
    """A condition besides Ready that shows what the state does not."""
    proved = Condition(type=type_, status="False", reason=reason, message="m", last_transition_time=NOW)
    return Case(state=StateOf[CAPApplication]("Consistent"), is_ready=True, special=special, more=(proved,))


def lacks(reason: str, type_: str = "Stalled") -> Condition:
    """What the decision about a tenant in use shows besides Ready."""
    return Condition(type=type_, status="True", reason=reason, message="m", last_transition_time=NOW)


def upgrade(phase: UpgradePhase) -> Case:
    counts = {"version": "2", "phase": phase, "upgraded": 0, "upgrading": 0, "failed": 1, "waiting": 7}
    far = Condition(type="AllTenantsReady", status="False", reason="R")
    return Case(
        state=StateOf[CAPApplication]("Consistent"),
        is_ready=True,
        special=f"upgrade of tenants is {phase}",
        more=(far,),
        fields={"tenantUpgrade": counts},
    )


def worlds() -> Iterator[tuple[str, str, str, Kind]]:
    """Each kind, state and special case, with an object that is so."""
    application, version, tenant, operation = given.application(), given.version(), given.tenant(), given.operation()
    domain = msgspec.convert(
        {"metadata": {"name": "d", "namespace": "n"}, "spec": {"domain": "a.b", "ingressSelector": {}}}, Domain
    )
    consistent, in_use = StateOf[CAPApplication]("Consistent"), StateOf[CAPTenant]("Ready")
    everything = [
        (
            application,
            states(
                application,
                *map(upgrade, UpgradePhase),
                told("identity claimed twice", "IdentityShared"),
                told("identity not proved", "IdentityUnproved"),
                told("a callback was given up", "CallbackGivenUp", "CallbacksDelivered"),
                told("a Secret is being deleted", "SecretBeingDeleted", "SecretsAvailable"),
                Case(state=consistent, special="waits for Secrets", reason="ProcessingSecrets"),
                ready=frozenset({"Consistent"}),
            ),
        ),
        (
            version,
            states(
                version,
                Case(
                    state=StateOf[CAPApplicationVersion]("Ready"),
                    is_ready=True,
                    special="application does not exist",
                    reason="InvalidReference",
                ),
                Case(state=StateOf[CAPApplicationVersion]("Error"), special="superseded", more=(SUPERSEDED,)),
                ready=frozenset({"Ready"}),
            ),
        ),
        (
            tenant,
            states(
                tenant,
                Case(
                    state=in_use,
                    is_ready=True,
                    special="another object has its host",
                    failure=NetworkingFailed("a has the host h before b"),
                ),
                Case(
                    state=in_use,
                    is_ready=True,
                    special="unexpected exception",
                    failure=Unexpected(ValueError("secret")),
                ),
                Case(
                    state=in_use, is_ready=True, special="its version does not exist", more=(lacks("InvalidReference"),)
                ),
                Case(
                    state=in_use,
                    is_ready=True,
                    special="its version is not Ready",
                    more=(lacks("ProcessingStarted", "Reconciling"),),
                ),
                Case(
                    state=StateOf[CAPTenant]("Deleting"), special="deprovisioning failed", reason="DeprovisioningFailed"
                ),
                ready=frozenset({"Ready", "Upgrading", "UpgradeError"}),
            ),
        ),
        (
            operation,
            states(
                operation,
                Case(
                    state=StateOf[CAPTenantOperation]("Failed"),
                    is_ready=True,
                    special="superseded",
                    more=(SUPERSEDED,),
                ),
                ready=frozenset({"Completed", "Failed"}),
            ),
        ),
        (
            domain,
            states(
                domain,
                Case(state=StateOf[Domain]("Deleting"), special="applications refer to it", reason="DeletionBlocked"),
                ready=frozenset({"Ready"}),
            ),
        ),
    ]
    for obj, cases in everything:
        for state, special, shown in of_cap(obj, cases):
            yield obj.resource.kind, state, special, shown
    yield from of_sets()
    yield from of_btp()


def of_btp() -> Iterator[tuple[str, str, str, Kind]]:
    shown = dict.fromkeys(BtpState, btp.Reason.ReconcileSucceeded)
    for reason in btp.Reason:
        shown[reason.facts.state] = reason
    special = {btp.Reason.InconsistentChart: "InconsistentChart, which is put right at once"}
    for reason in {**dict.fromkeys(shown.values()), **dict.fromkeys(special), btp.Reason.ReconcileFailed: None}:
        status = btp.status_for(None, reason, "m", 1, NOW)
        metadata = given.metadata("btpoperator", **deleted(status.state == "Deleting"))
        obj = msgspec.convert({"metadata": metadata}, BtpOperator)
        yield "BtpOperator", status.state, special.get(reason, ""), msgspec.structs.replace(obj, status=status)


def deleted(is_deleted: bool) -> JsonObject:
    return {"deletionTimestamp": "2026-01-31T12:00:00Z"} if is_deleted else {}


def of_sets() -> Iterator[tuple[str, str, str, Kind]]:
    for kind, reports, words in (
        (Component, ComponentReport, component),
        (CAPOperator, CapOperatorReport, cap_manager),
    ):
        by_state: dict[str, tuple[str, SetReport]] = {}
        for reason in words.Reason:
            usual = reports(reason=reason, message="m")
            if not usual.is_paused:
                by_state[usual.effective_state.value] = ("", usual)
        timeout = reports(reason=words.Reason.Timeout, message="m", cause=words.Cause.ObjectsNotReady)
        wrong = reports(reason=words.Reason.Error, message="m", cause=words.Cause.InvalidSpec)
        outage = reports(reason=words.Reason.Error, message="m", cause=words.Cause.ApplyFailed)
        rows = [*((state, *row) for state, row in by_state.items() if state != "Error")]
        rows += [
            ("Error", "it is tried again", outage),
            ("Error", "waiting does not help", wrong),
            ("Error", "timeout", timeout),
        ]
        if kind is Component:
            rows.append(("Pending", "suspended", ComponentReport(reason=component.Reason.Suspended, message="m")))
        for state, special, report in rows:
            spec: JsonObject = {"suspend": True} if special == "suspended" else {}
            if kind is CAPOperator:
                spec = {"subscriptionServer": {"subDomain": "cop"}}
            obj = msgspec.convert({"metadata": given.metadata("x", **deleted("Delet" in state)), "spec": spec}, kind)
            status = report.shown_on(obj.status, generation=1, now=NOW)  # type: ignore[attr-defined]
            yield kind.resource.kind, state, special, msgspec.structs.replace(obj, status=status)


# ---- what others make of an object


def kstatus_of(obj: Kind) -> str:
    """The rules that kstatus publishes: first what all kinds have in common, then what a custom resource has."""
    status: Any = obj.status  # type: ignore[attr-defined]
    listed: tuple[Condition, ...] = status.conditions
    if obj.metadata.deletion_timestamp is not None:
        return "Terminating"
    if status.observed_generation != obj.metadata.generation:
        return "InProgress"
    for each in listed:
        if (each.type, each.status) == ("Reconciling", "True"):
            return "InProgress"
        if (each.type, each.status) == ("Stalled", "True"):
            return "Failed"
    ready = [each.status for each in listed if each.type == "Ready"]
    return "Current" if ready in ([], ["True"]) else "InProgress"


def series_of(obj: Kind) -> dict[str, dict[str, str]]:
    metrics = Metrics()
    metrics.objects.show(type(obj), lambda: [obj])
    families = text_string_to_metric_families(metrics.exposition().decode())
    return {each.name: each.labels for family in families for each in family.samples if "name" in each.labels}


def alert_of(series: Mapping[str, Mapping[str, str]]) -> str:
    """The alert about the object that matches after a while, by the selectors of the rules."""
    rules = {rule.name: rule.expr for rule in alerts.SHARED}
    if "stellwerk_resource_deletion_timestamp_seconds" in series:
        return "StellwerkDeletionStuck"
    info = series["stellwerk_resource_info"]
    for selector in re.findall(r"stellwerk_resource_info\{(.*?)\}", rules["StellwerkObjectNotReady"]):
        terms = re.findall(r'(\w+)(!?=)"(\w+)"', selector)
        if all((info[label] == value) == (operator == "=") for label, operator, value in terms):
            return "StellwerkObjectNotReady"
    return ""


def verdicts(obj: Kind) -> tuple[str, str, str, str, str]:
    """Ready, the condition beside it, the word of kstatus, that of the series, and the alert."""
    listed: tuple[Condition, ...] = obj.status.conditions  # type: ignore[attr-defined]
    ready = next(each for each in listed if each.type == "Ready")
    causes = [each for each in listed if each.type in ("Stalled", "Reconciling")]
    assert len(causes) <= 1
    assert all(each.is_true and each.reason and each.message for each in causes)
    series = series_of(obj)
    stalled = ["Stalled"] if "stellwerk_resource_stalled_timestamp_seconds" in series else []
    assert stalled == [each.type for each in causes if each.type == "Stalled"]
    beside = next((each.type for each in causes), "")
    status = series["stellwerk_resource_info"]["status"]
    return ready.status, beside, kstatus_of(obj), status, alert_of(series)


WORLDS = [*worlds()]


def as_line(kind: str, state: str, special: str, obj: Kind) -> str:
    """The row of the page."""
    ready, beside, word, status, alert = verdicts(obj)
    own = ("Failed", "Stalled") if word == "Terminating" else ("Superseded", "")
    assert status == word or (status, beside) == own
    marked = [f"`{each}`" if each else "" for each in (ready, beside, status, alert)]
    return " | ".join((f"| `{kind}`", f"`{state}`", special, *marked)) + " |"


def test_the_page_has_a_row_for_each_state_of_each_kind_and_no_other() -> None:
    wanted = [as_line(*world) for world in WORLDS]
    written = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert written == wanted, "the page has to have:\n" + "\n".join(wanted)


def test_each_state_of_each_kind_that_has_a_status_is_tried() -> None:
    tried = {(kind, state) for kind, state, _, _ in WORLDS}
    own = {row.resource.kind for row in kinds.OWN}
    of_kyma = {kind.resource.kind for kind in OPERATORS["kyma"].kinds}  # with the conditions of the original alone
    assert own - {kind for kind, _ in tried} - of_kyma == {"ClusterDomain", "CAPTenantOutput"}
    assert "status" not in CAPTenantOutput.__struct_fields__
    assert kstatus.BY_STATE[ClusterDomain] == kstatus.BY_STATE[Domain]
    enums: dict[str, type[StrEnum]] = {kind.resource.kind: StateOf[kind] for kind in kstatus.BY_STATE}
    enums |= {"BtpOperator": BtpState, "Component": inventory_status.State, "CAPOperator": inventory_status.State}
    del enums["ClusterDomain"]
    assert tried == {(kind, state or "(empty)") for kind, states in enums.items() for state in states}


@pytest.mark.parametrize("obj", [pytest.param(obj, id=" ".join(named)) for *named, obj in WORLDS])
def test_an_object_has_the_age_of_the_state_that_is_shown(obj: Kind) -> None:
    long_ago, just_now = NOW - timedelta(minutes=45), NOW - timedelta(seconds=9)
    status: Any = obj.status  # type: ignore[attr-defined]
    aged = tuple(
        msgspec.structs.replace(each, last_transition_time=long_ago if each.type == "Ready" else just_now)
        for each in status.conditions
    )
    shown = msgspec.structs.replace(obj, status=msgspec.structs.replace(status, conditions=aged))
    has_cause = any(each.type in ("Stalled", "Reconciling", "Superseded") for each in aged)
    is_suspended = getattr(getattr(obj, "spec", None), "suspend", False)
    assert health.of(shown).since == (None if is_suspended else just_now if has_cause else long_ago)


@pytest.mark.parametrize("state", ["Ready", "Upgrading", "UpgradeError"])
def test_a_state_that_no_condition_of_the_original_shows_has_no_age(state: str) -> None:
    ready: JsonObject = {"type": "Ready", "status": "True", "reason": "R", "lastTransitionTime": "2026-01-31T11:15:00Z"}
    kind: JsonObject = {"apiVersion": "sme.sap.com/v1alpha1", "kind": "CAPTenant"}
    body = to_json_object(given.tenant()) | kind | {"status": {"state": state, "conditions": [ready]}}
    known = NOW - timedelta(minutes=45) if state == "Ready" else None
    assert health.of(Unstructured.of(body)).since == known


def test_another_cause_begins_anew_and_the_same_one_goes_on() -> None:
    def failed(obj: Kind, reason: str, seconds: int) -> CAPTenant:
        ready = condition(obj, True, reason, f"m{seconds}")
        status = TenantStatus(state="UpgradeError", conditions=(ready, *obj.status.conditions[1:]))  # type: ignore[attr-defined]
        return seen(obj, status, now=NOW + timedelta(seconds=seconds))  # type: ignore[return-value]

    first = failed(given.tenant(), "UpgradeFailed", 0)
    same = failed(first, "UpgradeFailed", 60)
    other = failed(same, "RecoveredPanic", 90)
    stalled = [conditions.find(each.status.conditions, "Stalled") for each in (first, same, other)]
    assert [(each.last_transition_time, each.message) for each in stalled if each is not None] == [
        (NOW, "m0"),
        (NOW, "m60"),
        (NOW + timedelta(seconds=90), "m90"),
    ]


@pytest.mark.parametrize("state", ["Ready", "UpgradeError"])
def test_an_object_of_the_original_is_written_once_and_a_calm_one_not_at_all(state: str) -> None:
    status = TenantStatus(state=state, conditions=(condition(given.tenant(), True, "R", "m"),), observed_generation=1)
    former = msgspec.structs.replace(given.tenant(), status=status)
    at_rest = Answering(Standings(Standing(Next.done())), At(NOW))
    first = asyncio.run(at_rest.begin(former).run()).status
    assert (first is not None) == (state == "UpgradeError")
    again = msgspec.structs.replace(former, status=first or status)
    assert asyncio.run(at_rest.begin(again).run()).status is None


def test_an_object_without_a_status_is_not_written_by_a_pass_that_shows_none() -> None:
    assert asyncio.run(Answering(Standings(Standing(Next.done())), At(NOW)).begin(given.tenant()).run()).status is None
