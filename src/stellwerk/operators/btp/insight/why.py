"""Why a BtpOperator is not ready: what is read around it, and what that means.

`observe` reads and decides nothing, `explain` decides and reads nothing. A person may not be allowed to read all of it
(Secrets, most of all): what was left out is named in the answer, because "the Secret was not found" and "you may not
look" lead to different people. Of a Secret only the names of its keys leave `observe`, never a value.

The operator's own condition is the first line of the tree and not the last word: it shows what was wrong when the
operator looked, and the cluster may have moved on since.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from stellwerk.api.apps import Deployment
from stellwerk.api.btp import ServiceBinding, ServiceInstance
from stellwerk.api.core import ConfigMap, Secret
from stellwerk.apply.failures import advice_in
from stellwerk.delivery import workloads
from stellwerk.delivery.workloads import Workload
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import Kind, Unstructured, dig
from stellwerk.operators.btp import api
from stellwerk.operators.btp.api import BtpOperator, State
from stellwerk.operators.btp.btpoperator import plan
from stellwerk.operators.btp.credentials.credentials import REQUIRED_KEYS, is_for_us
from stellwerk.operators.btp.errors import NOT_READY_IN_TIME, WAITED_FOR
from stellwerk.operators.btp.insight.help_topics import CATALOGUE
from stellwerk.operators.btp.reasons import Reason
from stellwerk.operators.btp.settings import TABLE, CrSelection, Settings
from stellwerk.runtime.insight.diagnosis import AwaitedObject, ClusterReader, Diagnosis, Finding, root_causes

if TYPE_CHECKING:
    from stellwerk.kube.client.client import Client

WITHOUT_FORCE = "delete the service instances and bindings, bindings first: stellwerk instance list -A"
"""What lets a deletion go on that waits for users, where the label for force does not count."""

NAMED = 10
"""How many service instances and bindings are named; the counts are always complete."""


@dataclass(frozen=True, slots=True)
class RequiredSecret:
    """The Secret with the credentials, as far as it may be shown: where it is, and the names of its keys."""

    key: ObjectKey
    exists: bool = False
    labelled: bool = True
    absent_keys: tuple[str, ...] = ()
    empty_keys: tuple[str, ...] = ()

    @property
    def is_good(self) -> bool:
        """Whether the operator would take it."""
        return self.exists and self.labelled and not self.absent_keys and not self.empty_keys


@dataclass(frozen=True, slots=True, kw_only=True)
class BtpSurroundings:
    """All that the answer rests on. `hidden` is what the user may not read; those parts are then empty."""

    subject: Unstructured
    operators: tuple[Unstructured, ...] = ()
    secret: RequiredSecret | None = None
    operand_key: ObjectKey
    home: str = api.STANDARD_NAMESPACE
    """The namespace whose BtpOperator may ask for what concerns all users (`Settings.home_namespace`)."""
    fixed: bool = False
    """Whether only the CR in the standard place may lead."""
    operand: Workload | None = None
    instances: tuple[Unstructured, ...] = ()
    bindings: tuple[Unstructured, ...] = ()
    hidden: tuple[str, ...] = ()
    now: datetime

    @property
    def condition(self) -> Mapping[str, str]:
        """The fields of the CR's condition Ready; empty when it was never reconciled."""
        listed = self.subject.at("status", "conditions")
        for condition in listed if isinstance(listed, list) else []:
            if isinstance(condition, dict) and condition.get("type") == api.READY:
                return {name: str(value) for name, value in condition.items()}
        return {}

    @property
    def reason(self) -> str:
        """The condition's reason."""
        return self.condition.get("reason", "")

    @property
    def state(self) -> str:
        """The value of `status.state`."""
        return str(self.subject.at("status", "state") or "")


# Reading


class BtpDiagnostician:
    """Explains why a BtpOperator is not ready."""

    async def diagnose(self, client: Client, subject: Unstructured) -> Diagnosis:
        """Read what is needed, and explain."""
        return explain(await observe(ClusterReader(client), subject, datetime.now(UTC)))


diagnostician = BtpDiagnostician()


async def observe(reader: ClusterReader, subject: Unstructured, now: datetime) -> BtpSurroundings:
    """Read the neighbourhood of a BtpOperator, as much at a time as can be."""
    settings = await _settings(reader)
    operand_key, secret_key = places(settings)
    secret, operand, operators, instances, bindings = await asyncio.gather(
        _secret(reader, secret_key),
        _operand_at(reader, operand_key),
        reader.list(BtpOperator.resource),
        reader.list(ServiceInstance.resource),
        reader.list(ServiceBinding.resource),
    )
    return BtpSurroundings(
        subject=subject,
        operators=tuple(operators),
        secret=secret,
        operand_key=operand_key,
        home=settings.home_namespace,
        fixed=settings.cr_selection is CrSelection.FIXED,
        operand=operand,
        instances=tuple(instances),
        bindings=tuple(bindings),
        hidden=reader.hidden,
        now=now,
    )


def settings_of(tunables: Mapping[str, str]) -> Settings:
    """The settings as the operator reads its tunables; flags of the operator are not seen (pure)."""
    return TABLE.overridden(Settings(), Settings(), tunables).settings


def places(settings: Settings) -> tuple[ObjectKey, ObjectKey]:
    """Where the operand's Deployment and the required Secret lie (pure)."""
    namespace = settings.chart_namespace
    return ObjectKey(namespace, settings.deployment_name), ObjectKey(namespace, settings.secret_name)


async def home_namespace(client: Client) -> str:
    """`Settings.home_namespace`, as far as the user may read the tunables; else the default. Raises ApiError."""
    return (await _settings(ClusterReader(client))).home_namespace


async def _operand_at(reader: ClusterReader, key: ObjectKey) -> Workload | None:
    deployment = await reader.find(Deployment.resource, key.name, key.namespace)
    return await workloads.read(reader, deployment) if deployment else None


async def _settings(reader: ClusterReader) -> Settings:
    found = await reader.find(ConfigMap.resource, api.TUNABLES_NAME, api.STANDARD_NAMESPACE)
    data = found.at("data") if found else None
    return settings_of({key: str(value) for key, value in data.items()} if isinstance(data, dict) else {})


async def _secret(reader: ClusterReader, key: ObjectKey) -> RequiredSecret | None:
    found = await reader.find(Secret.resource, key.name, key.namespace)
    if found is None:
        return None if reader.may_not_see(Secret.resource, key.namespace) else RequiredSecret(key)
    data = found.at("data")
    values = data if isinstance(data, dict) else {}
    return RequiredSecret(
        key,
        exists=True,
        labelled=is_for_us(found.metadata.labels),
        absent_keys=tuple(name for name in REQUIRED_KEYS if name not in values),
        empty_keys=tuple(name for name in REQUIRED_KEYS if values.get(name, "x") in ("", None)),
    )


# Explaining

_Answer = tuple[tuple[Finding, ...], str]
"""The findings below the condition, and the next step."""


_BTP_OPERATOR = BtpOperator.resource.kind.lower()
"""How kubectl names the kind."""
_LOOK_AT_OPERATOR = "check that the operator runs: stellwerk status"


def explain(seen: BtpSurroundings) -> Diagnosis:
    """Why the BtpOperator is not ready, and the one step that would mend it. Pure."""
    if seen.condition.get("status") == "True":
        return _asked_to_go(seen) if seen.subject.metadata.is_terminating else Diagnosis((), hidden=seen.hidden)
    if not seen.condition:
        never = Finding("no operator has looked at it yet", "NotSeenYet", is_root_cause=True)
        return Diagnosis((never,), _LOOK_AT_OPERATOR, hidden=seen.hidden)
    causes, next_step = _EXPLAINERS.get(seen.reason, _failed)(seen)
    is_explained = next(root_causes(causes), None) is not None
    is_own_cause = not causes or (seen.state == State.Error and not is_explained)
    condition = Finding(seen.condition.get("message") or seen.reason, seen.reason, causes, is_root_cause=is_own_cause)
    return Diagnosis((condition,), next_step, _turn(seen.reason), _unready(seen), seen.hidden)


def _asked_to_go(seen: BtpSurroundings) -> Diagnosis:
    text = "its deletion was requested, and the operator has not begun yet"
    return Diagnosis((_root(text),), _LOOK_AT_OPERATOR, unready=_unready(seen), hidden=seen.hidden)


def _turn(reason: str) -> str:
    return CATALOGUE.turn(Reason(reason)) if reason in Reason.__members__ else ""


def _required_secret(seen: BtpSurroundings) -> _Answer:
    secret, label = seen.secret, f"{api.MANAGED_BY_LABEL}={api.BROKER_NAME}"
    if secret is None:
        return (), "look at the Secret as a user who may read it, then: stellwerk explain MissingSecret"
    if not secret.exists:
        keys = f"the keys {', '.join(REQUIRED_KEYS)} and the label {label}"
        create = f"create it with {keys} (stellwerk explain MissingSecret)"
        return (_root(f"Secret {secret.key} does not exist"),), create
    if seen.reason == Reason.MissingSecret and not secret.labelled:
        step = f"kubectl label secret {_on_the_line(secret.key)} {label} --overwrite"
        return (_root(f"Secret {secret.key} is there, but has not the label {label}"),), step
    if secret.is_good:
        text = f"Secret {secret.key} is complete, and the operator has not looked at it again"
        return (_root(text),), _LOOK_AT_OPERATOR
    faults = [
        _root(f"Secret {secret.key} {fault}: {', '.join(keys)}")
        for fault, keys in (("lacks keys", secret.absent_keys), ("has empty values for keys", secret.empty_keys))
        if keys
    ]
    step = f"add the keys: kubectl edit secret {_on_the_line(secret.key)} (stellwerk explain InvalidSecret)"
    return tuple(faults), step


def _older_leads(seen: BtpSurroundings) -> _Answer:
    leader = plan.leader([BtpOperator(metadata=each.metadata) for each in seen.operators], fixed=seen.fixed)
    if leader is None or leader.key == seen.subject.key:
        text = "the BtpOperator that led is gone, and the operator has not looked again"
        return (_root(text),), _LOOK_AT_OPERATOR
    step = f"delete this one, which has no effect: kubectl delete {_BTP_OPERATOR} {_on_the_line(seen.subject.key)}"
    return (_root(f"BtpOperator {leader.key} is older and leads"),), step


def _wrong_place(seen: BtpSurroundings) -> _Answer:
    standard = api.STANDARD_KEY
    return (), (
        f"create BtpOperator {standard}, with which the module is installed, and delete this one, which has no "
        f"effect: kubectl delete {_BTP_OPERATOR} {_on_the_line(seen.subject.key)}"
    )


def _blocked(seen: BtpSurroundings) -> _Answer:
    left = [*seen.bindings, *seen.instances]
    if not left:
        text = "no ServiceInstance and no ServiceBinding is left"
        return (Finding(text),), "wait: the deletion goes on by itself."
    counts = f"{_count(seen.instances, ServiceInstance)} and {_count(seen.bindings, ServiceBinding)} still exist"
    named = [Finding(_remaining(obj)) for obj in left[:NAMED]]
    if len(left) > NAMED:
        named.append(Finding(f"and {len(left) - NAMED} more"))
    step = WITHOUT_FORCE
    if seen.subject.key.namespace == seen.home:
        step = (
            "delete them, bindings first; or have them deleted with all their data: "
            f"kubectl label {_BTP_OPERATOR} {_on_the_line(seen.subject.key)} {api.FORCE_DELETE_LABEL}=true"
        )
    return (Finding(counts, because=tuple(named), is_root_cause=True),), step


def _deleting(seen: BtpSurroundings) -> _Answer:
    left = [*seen.bindings, *seen.instances]
    if not left:
        return (), "wait: the module's own objects are being removed."
    held = tuple(_root(_remaining(obj)) for obj in left[:NAMED])
    operand = seen.operand_key
    return held, (
        "see what keeps them in the log of the SAP BTP service operator: "
        f"kubectl logs deployment/{operand.name} -n {operand.namespace}"
    )


def _failed(seen: BtpSurroundings) -> _Answer:
    """A step that failed is its own cause, unless it waited for the operand in vain."""
    if waited_for_operand(seen):
        causes, step = _operand(seen)
        return causes, step or _own_step(seen)
    return (), _own_step(seen)


def waited_for_operand(seen: BtpSurroundings) -> bool:
    """Whether the condition is about an operand that is not ready. Only its text shows that."""
    message = seen.condition.get("message", "")
    if seen.state == State.Processing or seen.reason in _WAITING:
        return True
    named = f"{WAITED_FOR} {seen.operand_key.name} {Deployment.resource.kind} "
    return NOT_READY_IN_TIME in message and (WAITED_FOR not in message or named in message)


def _operand(seen: BtpSurroundings) -> _Answer:
    """What the operand lacks, while the operator waits for it."""
    if seen.operand is None:
        is_hidden = Deployment.resource.plural in " ".join(seen.hidden)
        return ((), "") if is_hidden else ((Finding(f"Deployment {seen.operand_key} does not exist yet"),), "")
    found = workloads.findings(seen.operand, seen.now)
    return found, workloads.advice(seen.operand) if found else ""


def _own_step(seen: BtpSurroundings) -> str:
    """The fix that the message itself carries, else the first one of the reason's page."""
    page = f"stellwerk explain {seen.reason}"
    advised = advice_in(seen.condition.get("message", ""))
    if not advised and seen.reason in Reason.__members__:
        advised = CATALOGUE.meanings[Reason(seen.reason)].next_step(seen.subject.key)
    return f"{advised[:1].lower()}{advised[1:]} ({page})" if advised else page


_WAITING = tuple(reason for reason in Reason if reason.facts.state is State.Processing)
"""Reasons of an operator at work: nothing has failed, and the operand may not be ready yet."""

_EXPLAINERS: Mapping[str, Callable[[BtpSurroundings], _Answer]] = {
    Reason.MissingSecret: _required_secret,
    Reason.InvalidSecret: _required_secret,
    Reason.OlderCRExists: _older_leads,
    Reason.WrongNamespaceOrName: _wrong_place,
    Reason.ServiceInstancesAndBindingsNotCleaned: _blocked,
    Reason.HardDeleting: _deleting,
    Reason.SoftDeleting: _deleting,
}


def _root(text: str) -> Finding:
    return Finding(text, is_root_cause=True)


def _on_the_line(key: ObjectKey) -> str:
    return f"{key.name} -n {key.namespace}"


def _count(objects: Sequence[Unstructured], kind: type[Kind]) -> str:
    return f"{len(objects)} {kind.resource.kind}{'' if len(objects) == 1 else 's'}"


def _remaining(obj: Unstructured) -> str:
    """A service instance or binding that holds the deletion up, and its own message."""
    said = _own_words(obj)
    if not obj.metadata.is_terminating:
        return f"{obj.ref}"
    held = f", held by finalizer {', '.join(obj.metadata.finalizers)}" if obj.metadata.finalizers else ""
    return f"{obj.ref} is being deleted{held}{said}"


def _own_words(obj: Unstructured) -> str:
    listed = obj.at("status", "conditions")
    for condition in listed if isinstance(listed, list) else []:
        message = dig(condition, "message")
        if isinstance(message, str) and message:
            return f": {message}"
    return ""


def _unready(seen: BtpSurroundings) -> tuple[AwaitedObject, ...]:
    children: list[AwaitedObject] = []
    if waited_for_operand(seen) and seen.operand and (lacking := workloads.lacks(seen.operand, seen.now)):
        children.append(AwaitedObject(seen.operand.deployment.ref, lacking))
    if seen.subject.metadata.is_terminating:
        children += [AwaitedObject(obj.ref, "still exists") for obj in (*seen.bindings, *seen.instances)[:NAMED]]
    return tuple(children)
