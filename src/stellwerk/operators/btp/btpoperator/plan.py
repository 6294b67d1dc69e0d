"""From what is seen of a BtpOperator to the next step (pure).

The states and who comes next:

    (none) ──► Processing ──► Ready ◄──────────────┐
                  ▲  │          │ drift, failure   │
                  │  ▼          ▼                  │
                  └─ Error, Warning ──► Processing ┘        a user or the clock removes the cause
    Ready, Error ──► Processing/UpdateCheck ──► Ready       a module from a chart, once after each start
    Ready ──► Error/InconsistentChart ──► Processing        a module from a chart that a client has changed
    any ──► Deleting/HardDeleting ──► (gone)
                │      ▲     └──► Deleting/SoftDeleting ──► (gone)
                ▼      │ the last instance and binding went, or the force label came
          Warning/ServiceInstancesAndBindingsNotCleaned
    Deleting ──► Error/ResourceRemovalFailed ──► Deleting/HardDeleting     the pause is over (`FailedRemoval`)

A step that only changes the status (`SetStatus`) is a pass of its own, because Lifecycle Manager and users follow the
states by a watch. Everything else is decided from what is there, so a pass may be repeated after a crash at any point.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import nsmallest
from typing import TypeAlias

from stellwerk.kube.types import duration
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.object_meta import rfc3339
from stellwerk.operators.btp import api
from stellwerk.operators.btp.api import BtpOperator, State
from stellwerk.operators.btp.credentials.credentials import BtpCredentials, CredentialsComparison, SecretProblem
from stellwerk.operators.btp.errors import RemovalFailed
from stellwerk.operators.btp.reasons import Reason
from stellwerk.runtime.control import finalizer
from stellwerk.runtime.control.controller import asked_changes

CHART_UPDATED = "Resource has been updated"
"""The message of `Updated` where the module comes from a chart; alerts compare it."""
WAITING = ". Waiting for "
"""Separates the condition's own message and what is waited for."""
CLOCK_SKEW = timedelta(minutes=5)
"""How far the clocks of API server and operator may be apart."""
BINDINGS_FIRST = 0.5
"""For which share of the time limit of a hard deletion bindings go alone; what is left of it is for instances, too."""
NAMED_BLOCKERS = 5
"""How many service instances and bindings a message names; the counts are always complete."""


@dataclass(frozen=True, slots=True)
class Blockers:
    """What users still have in the cluster, each by namespace and name, in no order: there may be very many."""

    instances: tuple[ObjectKey, ...] = ()
    bindings: tuple[ObjectKey, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.instances or self.bindings)

    @property
    def counts(self) -> str:
        """How many there are of each."""
        return f"{len(self.instances)} instance(s) and {len(self.bindings)} binding(s)"

    def __str__(self) -> str:
        named = [f"ServiceInstance {key}" for key in nsmallest(NAMED_BLOCKERS, self.instances)]
        named += [f"ServiceBinding {key}" for key in nsmallest(NAMED_BLOCKERS, self.bindings)]
        more = len(self.instances) + len(self.bindings) - NAMED_BLOCKERS
        rest = f" and {more} more" if more > 0 else ""
        return f"{', '.join(named[:NAMED_BLOCKERS])}{rest}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedRemoval:
    """A removal that failed after it may have taken a part of the module away, and that waits for its next try.

    What it deleted, and what is put back meanwhile, wakes the CR: that it was woken must not end the pause. A user who
    acts does end it: by a change of the CR, or by deleting the last service instance and binding. The end of some of
    them does not, because then the operand is at work, which ends the services of the others, too.
    """

    failure: RemovalFailed
    due: float
    """When it is tried again at the latest, on the clock's seconds."""
    operator: BtpOperator
    """The CR as it was."""
    users_had_objects: bool
    brings_back: bool
    """Whether the module is brought back during the pause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One BtpOperator and all that decides about it. `required_secret` is its content, or what is wrong with it."""

    operator: BtpOperator
    leader: BtpOperator | None
    """The CR that represents the module; None when no CR qualifies."""
    fixed: bool
    """Whether only the CR in the standard place may lead."""
    required_secret: BtpCredentials | SecretProblem
    comparison: CredentialsComparison | None
    """What the required Secret asks for, compared with what the operand has; None while the Secret is of no use."""
    blockers: Blockers
    hides_users: bool = False
    """Whether users may have service instances and bindings though `blockers` names none: their watch shows nothing."""
    now: datetime
    hard_delete_timeout: timedelta
    home: str = api.STANDARD_NAMESPACE
    """The namespace whose BtpOperator may ask for what concerns all users (`Settings.home_namespace`)."""
    from_chart: bool = False
    """Whether the module comes from a chart."""
    update_unchecked: bool = False
    """Whether this process has not looked yet if the chart is another version than the one that is applied."""
    failed_removal: FailedRemoval | None = None
    """The last try of a removal, where it failed and the next one is not due yet."""

    @property
    def state(self) -> State | None:
        """What the CR shows; None when it was never reconciled."""
        return self.operator.status.state if self.operator.status else None

    @property
    def reason(self) -> str:
        """The reason of the CR's condition; empty when there is none."""
        status = self.operator.status
        return status.conditions[0].reason if status and status.conditions else ""

    @property
    def message(self) -> str:
        """The message of the CR's condition; empty when there is none."""
        status = self.operator.status
        return status.conditions[0].message if status and status.conditions else ""

    @property
    def leads(self) -> bool:
        """Whether this CR represents the module."""
        return self.leader is not None and self.leader.metadata.uid == self.operator.metadata.uid

    @property
    def is_held(self) -> bool:
        """Whether a finalizer of ours, or of the original's first releases, keeps the CR from going."""
        return is_held(self.operator)

    @property
    def is_at_home(self) -> bool:
        """Whether the CR may ask for what concerns all users."""
        return is_at_home(self.operator, self.home)

    @property
    def is_forced(self) -> bool:
        """Whether an administrator of the module asked to delete service instances and bindings of all users too."""
        return self.is_at_home and self.operator.metadata.labels.get(api.FORCE_DELETE_LABEL) == "true"


@dataclass(frozen=True, slots=True)
class Rest:
    """Nothing to do until something changes."""


@dataclass(frozen=True, slots=True)
class NotLeader:
    """Not the leader: report that, and keep no finalizer. Next: Turn, once this CR leads."""

    reason: Reason
    message: str
    release: bool
    """Whether our finalizer is on it, from an earlier version, and it is to go."""


@dataclass(frozen=True, slots=True)
class Adopt:
    """Put our finalizer on the CR, so that it cannot go before the module is removed. Next: Turn."""


@dataclass(frozen=True, slots=True)
class SetStatus:
    """Show another state; the pass after it acts on it."""

    reason: Reason
    message: str = ""
    """Empty: the reason's own text."""


@dataclass(frozen=True, slots=True)
class ReportSecretProblem:
    """The required Secret is missing or wrong; only a change of it helps."""

    problem: SecretProblem


@dataclass(frozen=True, slots=True)
class Provision:
    """Bring the module up to date; one that is Ready is inspected first. Next: Ready, or an error."""

    credentials: BtpCredentials


@dataclass(frozen=True, slots=True)
class Wait:
    """Users still have instances: keep the module working so that they can delete them. Next: Turn to HardDeleting."""

    message: str


@dataclass(frozen=True, slots=True)
class HardDelete:
    """Delete all bindings, then all instances, and wait. Next: RemoveModule, or Turn to SoftDeleting.

    The operand cannot delete an instance that is still bound, so bindings go first. A binding that does not go must not
    keep the instances of others from a clean deletion: they follow when bindings have had their share of the time.
    """

    remaining: timedelta
    bindings_alone: timedelta
    """For how much longer instances wait for bindings; zero when they do not wait any more."""

    @property
    def until_next(self) -> timedelta:
        """When to look again although nothing changes: instances are due, or the time is over."""
        return self.bindings_alone or self.remaining


@dataclass(frozen=True, slots=True)
class SoftDelete:
    """Take the operand away and cut the finalizers of bindings and instances. Next: RemoveModule."""


@dataclass(frozen=True, slots=True)
class RemoveModule:
    """Users have nothing left: remove the module, then our finalizer."""


@dataclass(frozen=True, slots=True)
class Pause:
    """The removal failed, and its next try is not due: keep the module up meanwhile. Next: Turn to HardDeleting."""

    failed: FailedRemoval


Step: TypeAlias = (
    Rest
    | NotLeader
    | Adopt
    | SetStatus
    | ReportSecretProblem
    | Provision
    | Wait
    | HardDelete
    | SoftDelete
    | RemoveModule
    | Pause
)


def is_held(operator: BtpOperator) -> bool:
    """Whether a finalizer of ours, or of the original's first releases, keeps a CR from going."""
    return any(finalizer.present(operator, name) for name in (api.FINALIZER, api.CHART_ERA_FINALIZER))


def may_lead(operator: BtpOperator, *, fixed: bool) -> bool:
    """Whether a CR can represent the module.

    One under deletion that we do not hold has no module any more, and can have none: it takes no finalizer. A finalizer
    of another client may keep it for long, so it must not be in the way of others, also after a restart.
    """
    return (not fixed or operator.key == api.STANDARD_KEY) and (
        not operator.metadata.is_terminating or is_held(operator)
    )


def is_at_home(operator: BtpOperator, home: str) -> bool:
    """Whether a CR is in the namespace whose BtpOperator may ask for what concerns all (`Settings.home_namespace`).

    In any other namespace its tenants may edit it. There it may ask for the module only.
    """
    return operator.metadata.namespace == home


def network_policies_wanted(operator: BtpOperator, home: str) -> bool:
    """Whether the module has network policies. Only a CR at home can switch them off: by `true` in any case."""
    value = operator.metadata.annotations.get(api.DISABLE_NETWORK_POLICIES_ANNOTATION, "")
    return value.lower() != "true" or not is_at_home(operator, home)


def leader(operators: list[BtpOperator], *, fixed: bool) -> BtpOperator | None:
    """The CR that represents the module.

    Oldest first. Creation times have whole seconds, so ties fall to the standard place, then to namespace and name. A
    CR under deletion leads until we release it: it may still hold the module.
    """
    return min((cr for cr in operators if may_lead(cr, fixed=fixed)), key=_age, default=None)


def _age(operator: BtpOperator) -> tuple[float, bool, str, str]:
    created = operator.metadata.creation_timestamp
    return (
        created.timestamp() if created else 0.0,
        operator.key != api.STANDARD_KEY,
        operator.metadata.namespace,
        operator.metadata.name,
    )


def next_step(seen: Snapshot) -> Step:
    """What to do now. Every state has an answer; see the picture above."""
    if not seen.leads:
        return _aside(seen)
    if seen.operator.metadata.is_terminating:
        return _deletion(seen)
    if not finalizer.present(seen.operator, api.FINALIZER):
        return Adopt()
    if seen.reason == Reason.OlderCRExists:
        return SetStatus(Reason.Processing, f"{seen.operator.metadata.name} is the new leader")
    match seen.state:
        case None:
            return SetStatus(Reason.Initialized)
        case State.Processing:
            return _with_secret(seen)
        case State.Ready if seen.update_unchecked:
            return SetStatus(Reason.UpdateCheck)
        case State.Ready:
            drift = seen.comparison.drift if seen.comparison else None
            return SetStatus(drift.reason, drift.message) if drift else _with_secret(seen)
        case State.Warning | State.Error | State.Deleting:
            return _recovery(seen)


def _aside(seen: Snapshot) -> Step:
    release = seen.operator.metadata.is_terminating
    if release and not seen.is_held:
        return Rest()  # it is going; this may also be the former leader, whose module is gone
    if seen.fixed:
        return NotLeader(Reason.WrongNamespaceOrName, "", release)
    if seen.leader is None:
        return Rest()  # the only CR has gone, or cannot be decoded any more, since this pass read it
    return NotLeader(Reason.OlderCRExists, older_cr_message(seen.leader, seen.operator), release)


def older_cr_message(leading: BtpOperator, redundant: BtpOperator) -> str:
    """The message of a redundant CR: which one leads, how to delete this one, and how to change the leader."""
    name, namespace = leading.metadata.name, leading.metadata.namespace
    delete = f"kubectl delete {BtpOperator.resource.plural} {redundant.metadata.name} -n {redundant.metadata.namespace}"
    return (
        f"'{name}' BtpOperator CR in '{namespace}' namespace reconciles the module. "
        f"Delete this BtpOperator, which has no effect: {delete}; or, to let it reconcile the module instead, delete "
        f"BtpOperator {namespace}/{name}, with which its module is removed first"
    )


def _with_secret(seen: Snapshot) -> Step:
    if isinstance(seen.required_secret, SecretProblem):
        return ReportSecretProblem(seen.required_secret)
    return Provision(seen.required_secret)


def _recovery(seen: Snapshot) -> Step:
    """Start over, unless the required Secret has the same problem still."""
    match seen.required_secret:
        case SecretProblem(reason, message, may_pass=False) if (reason, message) == (seen.reason, seen.message):
            return Rest()
    if seen.state is State.Error and seen.update_unchecked:
        return SetStatus(Reason.UpdateCheck)
    if seen.reason == Reason.InconsistentChart:
        return SetStatus(Reason.Initialized)
    return SetStatus(Reason.Updated, CHART_UPDATED if seen.from_chart else "")


def _deletion(seen: Snapshot) -> Step:
    if not seen.is_held:
        return Rest()
    if seen.failed_removal is not None and not end_of_pause(seen, seen.failed_removal):
        return Pause(seen.failed_removal)
    was_blocked = seen.reason == Reason.ServiceInstancesAndBindingsNotCleaned
    if seen.state is not State.Deleting and not was_blocked:
        return SetStatus(Reason.HardDeleting)
    if seen.blockers and not seen.is_forced:
        return Wait(blocked_message(seen.blockers, "" if seen.is_at_home else seen.home))
    if was_blocked:
        return SetStatus(
            Reason.HardDeleting, "BtpOperator is to be deleted after cleaning service instance and binding resources"
        )
    if not seen.blockers:
        return RemoveModule()
    if seen.reason == Reason.SoftDeleting:
        return SoftDelete()
    used = seen.now - (noted_time(seen.operator, api.HARD_DELETE_STARTED_ANNOTATION, seen.now) or seen.now)
    # Once the sweep is given up, the operand may be gone, and without it nothing that the sweep deletes would go.
    given_up = noted_time(seen.operator, api.SOFT_DELETE_STARTED_ANNOTATION, seen.now) is not None
    if given_up or used >= seen.hard_delete_timeout:
        return SetStatus(Reason.SoftDeleting)
    bindings_alone = seen.hard_delete_timeout * BINDINGS_FIRST - used if seen.blockers.bindings else timedelta()
    return HardDelete(seen.hard_delete_timeout - used, max(bindings_alone, timedelta()))


def end_of_pause(seen: Snapshot, failed: FailedRemoval) -> str:
    """What lets a removal be tried again before its time, for the log; empty while nothing does."""
    if seen.blockers and not seen.is_forced:
        return f"{seen.blockers.counts} block it, and no label forces it"
    if seen.blockers and not failed.users_had_objects:
        return f"{seen.blockers.counts} came"
    if failed.users_had_objects and not seen.blockers and not seen.hides_users:
        return "the last service instance and binding went"
    if changes := asked_changes(failed.operator, seen.operator):
        return f"the BtpOperator was changed ({', '.join(changes)})"
    return ""


def blocked_message(blockers: Blockers, home: str = "") -> str:
    """Why the deletion waits: how many, the first by name, and what to do.

    `home` is the namespace in which the label counts, where the CR is in another one. Its readers may be tenants, who
    learn how many objects of others there are, and not their names.
    """
    label = f'{api.FORCE_DELETE_LABEL}="true"'
    if home:
        way_out = f"Delete them; the label {label} counts only on a BtpOperator in the namespace {home}"
    else:
        way_out = f"Still there: {blockers}. Delete them, or label the BtpOperator {label} to have them deleted"
    return f"All service instances and bindings must be removed: {blockers.counts}. {way_out}"


def forced_message(blockers: Blockers, timeout: timedelta) -> str:
    """What is deleted with the module, because of which label, and for how long it is waited for."""
    return (
        f'The label {api.FORCE_DELETE_LABEL}="true" is on the BtpOperator, so {blockers.counts} are deleted with the '
        f"module. Those that are still there after {duration.format(timeout)} (HardDeleteTimeout) lose their "
        f"finalizers (soft deletion): {blockers}"
    )


def soft_deletion_message(blockers: Blockers, at: datetime) -> str:
    """When the hard deletion ends at the latest, and what is left of users."""
    return f"soft deletion removes their finalizers from {rfc3339(at)} on; {blockers}"


def waiting_message(shown: str, what: str, why: str) -> str:
    """The condition's message with what is waited for; what was waited for until now is left out."""
    return f"{shown.partition(WAITING)[0]}{WAITING}{what}: {why}"


def noted_time(operator: BtpOperator, annotation: str, now: datetime) -> datetime | None:
    """The time of a step of the deletion; None where it was not noted.

    A step begins after the CR was deleted, and has begun before now. A time that is none, or another one, was not
    written by us: it would cut the users' time short, or never let it end.
    """
    text = operator.metadata.annotations.get(annotation, "")
    try:
        start = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    deleted = operator.metadata.deletion_timestamp
    if start is None or start.tzinfo is None or deleted is None:
        return None
    return start if deleted - CLOCK_SKEW <= start <= now + CLOCK_SKEW else None
