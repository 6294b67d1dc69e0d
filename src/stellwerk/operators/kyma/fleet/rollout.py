"""How many clusters get a new version of a module at a time: a turn for each Kyma, given by one who counts.

A Kyma that has the module in another version asks for a turn before it changes its Manifest (`has_turn`), and shows
that it waits. Turns are in one ConfigMap for each version of a module, which only `decide` writes, and only as it was
seen. So there are never more than were given, whatever has crashed, and whatever a cache does not show yet.

| a turn | becomes |
| --- | --- |
| whose Manifest has the version, is Ready, and has applied its layer | done: another Kyma gets one |
| whose Manifest has the version, and not more after `patience` | failed: it counts for the share that stops all |
| whose Kyma is gone | nothing |
| that its Kyma has not begun after `patience` | withdrawn; it counts for as long again, until no cache shows it |

Kymas with the canary label come first: others get a turn when each canary that is to have the version has it and is
Ready. A rollout of which too large a share has failed gives no turn until the annotation to resume is set. A user who
deletes the ConfigMap loses what has failed; the Manifests that are being changed are counted from the cluster.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import ClassVar, NamedTuple

import msgspec

from stellwerk.api.core import ConfigMap
from stellwerk.delivery.step_rights import Use
from stellwerk.kube.types.errors import StatusError
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import JsonObject, Kind, owner_reference, plain_json
from stellwerk.kube.types.object_meta import ObjectMeta, Record, kubernetes_time
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import Kyma
from stellwerk.operators.kyma.api_manifest import Manifest
from stellwerk.operators.kyma.api_module import ModuleReleaseMeta, ModuleTemplate
from stellwerk.operators.kyma.api_status import State
from stellwerk.operators.kyma.collections import KYMAS, MANIFESTS, METAS
from stellwerk.operators.kyma.reasons import ModuleEvent
from stellwerk.runtime.control.step import Create, Delete, Failure, Patch, Step, Wait
from stellwerk.runtime.reading.known import Absent, NotKnown
from stellwerk.runtime.reading.questions import Collection, Index
from stellwerk.runtime.reading.view import View, exists

WAITING = "waiting for its turn to get version "
"""How the message of a module begins that waits; the version follows."""
_SHOWN = 3
"""How many names a message has."""

_log = logging.getLogger(__name__)


class TurnState(StrEnum):
    """What has become of a turn."""

    UNDER_WAY = "UnderWay"
    FAILED = "Failed"
    WITHDRAWN = "Withdrawn"


class Turn(Record, frozen=True, kw_only=True):
    """The right of one Kyma to get the version."""

    since: datetime
    """When it got its state."""
    state: TurnState = TurnState.UNDER_WAY


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutSettings:
    """What the process is started with, as far as rollouts depend on it."""

    at_once: int
    """How many clusters get a version at a time, at least one."""
    stop_share: float = 0.1
    """A larger share of turns that have failed stops a rollout."""
    patience: timedelta = timedelta(minutes=10)
    """How long a cluster may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """The state of one."""

    turns: Mapping[str, Turn] = field(default_factory=dict)
    """By the name of the Kyma."""
    done: int = 0
    forgiven: int = 0
    """Turns that had failed when the rollout was resumed."""
    is_stopped: bool = False

    @property
    def given(self) -> int:
        """How many turns were given since the rollout began, or was resumed."""
        return self.done + len(self.turns)

    def of(self, state: TurnState) -> list[str]:
        """The Kymas whose turn has a state."""
        return sorted(name for name, turn in self.turns.items() if turn.state is state)


class ModuleVersion(Kind, frozen=True, kw_only=True):
    """A ModuleTemplate, of which a rollout needs its identity and channel alone."""

    resource: ClassVar[Resource] = ModuleTemplate.resource

    class Spec(Record, frozen=True, kw_only=True):
        """What a rollout depends on."""

        module_name: str = ""
        version: str = ""
        channel: str = ""

    spec: Spec = Spec()
    status: Record = Record()
    """ModuleTemplates have none."""


class Progress(NamedTuple):
    """An aspect of a Manifest: how far it is."""

    version: str
    is_finished: bool


class Candidate(NamedTuple):
    """An aspect of a Kyma: what decides about its turn."""

    name: str
    is_canary: bool
    acts: bool
    """Whether it changes its Manifests: it is neither being deleted nor skipped."""
    entries: tuple[tuple[str, str, str], ...]
    """Name, channel and version of its modules."""


# ---- what is read


def _value(namespace: str, module: str, version: str) -> str:
    return f"{namespace}/{module}-{version}"


def _awaited(kyma: Kyma) -> Iterator[str]:
    for module in kyma.status.modules:
        if module.message.startswith(WAITING):
            yield _value(kyma.metadata.namespace, module.name, module.message.removeprefix(WAITING))


def _modules_of_canary(kyma: Kyma) -> Iterator[str]:
    if kyma.metadata.labels.get(labels.CANARY_LABEL) == "true":
        for module in kyma.status.modules:
            yield f"{kyma.metadata.namespace}/{module.name}"


def _module_and_kyma(metadata: ObjectMeta) -> Iterable[str]:
    module, kyma = (metadata.labels.get(each, "") for each in (labels.MODULE_NAME_LABEL, labels.KYMA_NAME_LABEL))
    return (f"{metadata.namespace}/{kyma}/{module}",) if module and kyma and not _is_mandatory(metadata) else ()


def _is_mandatory(metadata: ObjectMeta) -> bool:
    return labels.MANDATORY_MODULE_LABEL in metadata.labels


def _changing(manifest: Manifest) -> Iterable[str]:
    seen = manifest.metadata
    if _is_mandatory(seen) or _is_finished(manifest):
        return ()
    return (_value(seen.namespace, seen.labels.get(labels.MODULE_NAME_LABEL, ""), manifest.spec.version),)


def _is_finished(manifest: Manifest) -> bool:
    """Whether a Manifest is Ready as it is now: its state alone may be that of the former version.

    The pass of a Manifest notes the layer when it has applied it and has saved the state that follows from that.
    """
    applied = manifest.metadata.annotations.get(labels.SYNCED_LAYER_ANNOTATION, "")
    wanted = manifest.spec.install.source.get("ref", "")
    return manifest.status.state is State.Ready and (not wanted or applied == wanted)


def _kyma_of(manifest: Manifest) -> str:
    return manifest.metadata.labels.get(labels.KYMA_NAME_LABEL, "")


def _takers(shown: ConfigMap) -> Iterator[str]:
    """Under which values a turn is found: that of each Kyma that may begin it, or has."""
    for name, turn in _turns(shown.data.get("turns", "")).items():
        if turn.state is not TurnState.WITHDRAWN:
            yield f"{shown.key}/{name}"


ROLLOUTS = Collection(ConfigMap, labels=labels.ROLLOUT_LABEL)
VERSIONS = Collection(ModuleVersion)
USES = (
    Use(
        ROLLOUTS,
        "no rollout is limited",
        (Create, Patch, Delete),
        {"patch": "a rollout goes from some clusters to the next ones"},
    ),
    Use(VERSIONS, "no version of a module is known"),
    Use(METAS, "no module has a channel"),
    Use(KYMAS, "no rollout knows who waits for a version"),
    Use(MANIFESTS, "no rollout knows which clusters have a version"),
)
"""What passes ask about and steps write, for the rights."""
TURN_OF = Index(ROLLOUTS, "kyma", _takers)
AWAITING = Index(KYMAS, "awaited version", _awaited)
CANARIES_WITH = Index(KYMAS, "module of a canary", _modules_of_canary)
MANIFEST_OF = Index(MANIFESTS, "kyma and module", lambda each: _module_and_kyma(each.metadata), _module_and_kyma)
CHANGING_TO = Index(MANIFESTS, "version that is being installed", _changing)


def as_candidate(kyma: Kyma) -> Candidate:
    """An aspect."""
    seen = kyma.metadata
    is_skipped = seen.labels.get(labels.SKIP_RECONCILIATION_LABEL, "").lower() == "true"
    return Candidate(
        name=seen.name,
        is_canary=seen.labels.get(labels.CANARY_LABEL) == "true",
        acts=not seen.is_terminating and not is_skipped,
        entries=tuple((each.name, each.channel, each.version) for each in kyma.status.modules),
    )


def as_progress(manifest: Manifest) -> Progress:
    """An aspect."""
    return Progress(manifest.spec.version, _is_finished(manifest))


def _channels(meta: ModuleReleaseMeta) -> tuple[tuple[str, str], ...]:
    return tuple((each.channel, each.version) for each in meta.spec.channels)


# ---- for the passes of Kymas


def has_turn(view: View, kyma: ObjectKey, template: ObjectKey) -> bool:
    """Whether a Kyma that has a module in another version may change to that of a ModuleTemplate now.

    Costs one question, whose answer wakes this Kyma alone.
    """
    return bool(view.by(TURN_OF, f"{_rollout_key(template)}/{kyma.name}", exists).values)


def waiting_message(version: str) -> str:
    """The message of the module while it waits. Its Kyma is found by it, so it is in `status.modules`."""
    return f"{WAITING}{version}"


# ---- the decision


class Seen(NamedTuple):
    """What a rollout depends on."""

    waiting: Sequence[Candidate]
    begun: Mapping[str, Progress | None]
    """By Kyma with a turn: its Manifest, if it has the version."""
    gone: frozenset[str] = frozenset()
    """Kymas with a turn that will not use it."""
    blocking: Sequence[str] = ()
    """Canaries that are to have the version first."""


def advance(rollout: Rollout, seen: Seen, settings: RolloutSettings, now: datetime) -> Rollout:
    """The next state of a rollout."""
    moment, done, turns = kubernetes_time(now), rollout.done, dict[str, Turn]()
    for name, turn in rollout.turns.items():
        progress, is_late = seen.begun.get(name), now - turn.since >= settings.patience
        state = _next_state(turn.state, progress, is_late=is_late, is_gone=name in seen.gone)
        if state is not None:
            turns[name] = turn if state is turn.state else Turn(since=moment, state=state)
        elif progress is not None:
            done += 1
    found = replace(rollout, turns=turns, done=done)
    failed = len(found.of(TurnState.FAILED))
    if failed and failed > settings.stop_share * found.given:
        return replace(found, is_stopped=True)
    if found.is_stopped:
        return found
    free = settings.at_once - (len(turns) - failed)
    chosen = sorted(
        (
            each
            for each in seen.waiting
            if each.acts and each.name not in turns and (each.is_canary or not seen.blocking)
        ),
        key=lambda each: (not each.is_canary, each.name),
    )
    given = {each.name: Turn(since=moment) for each in chosen[: max(free, 0)]}
    return replace(found, turns={**turns, **given})


def _next_state(state: TurnState, progress: Progress | None, *, is_late: bool, is_gone: bool) -> TurnState | None:
    """What becomes of a turn; None: it is over."""
    if progress is not None and progress.is_finished:
        return None
    if progress is not None:
        is_failed = state is TurnState.FAILED or (state is TurnState.UNDER_WAY and is_late)
        return TurnState.FAILED if is_failed else TurnState.UNDER_WAY
    if is_gone or state is TurnState.FAILED:  # the Manifest of the latter has another version, or is gone
        return None
    if is_late:
        return None if state is TurnState.WITHDRAWN else TurnState.WITHDRAWN
    return state


def decide(template: ModuleVersion, view: View) -> Step[Record]:
    """What the rollout of a version needs next. Raises NotKnown."""
    settings, key = view.setting(RolloutSettings), _rollout_key(template.key)
    shown = view.find(ROLLOUTS, key)
    if template.metadata.is_terminating:  # the ConfigMap goes with it
        return Step()
    if shown is not None and shown.metadata.is_terminating:
        return Step(waits=(Wait((ROLLOUTS, key), f"{shown.ref} is being deleted"),))
    namespace, spec = template.metadata.namespace, template.spec
    value = _value(namespace, spec.module_name, spec.version)
    waiting = view.by(AWAITING, value, as_candidate).values
    if shown is None:
        if not waiting:
            return Step()
        moment = kubernetes_time(view.now)
        under_way = view.by(CHANGING_TO, value, _kyma_of).values
        rollout = Rollout(turns={name: Turn(since=moment) for name in under_way if name})
    else:
        try:
            rollout = read(shown)
        except ValueError as error:
            return _unreadable(shown, str(error))
    resumes = shown is not None and shown.metadata.annotations.get(labels.RESUME_ANNOTATION) == "true"
    if resumes:
        rollout = resumed(rollout)
    found = advance(rollout, _seen(template, rollout, waiting, view), settings, view.now)
    for turn in found.turns.values():
        if turn.state is not TurnState.FAILED:
            view.is_past(turn.since + settings.patience)
    if shown is None:
        return Step(writes=(Create(ROLLOUTS, _body(template, found), _refused),))
    if not waiting and not found.turns and not found.is_stopped:
        return Step(writes=(Delete(ROLLOUTS, shown, _refused, "the rollout is over"),))
    fields: JsonObject = {"data": {**_data(found)}} if found != rollout or resumes else {}
    if resumes:
        fields["metadata"] = {"annotations": {labels.RESUME_ANNOTATION: None}}
    if fields:
        return Step(writes=(Patch(ROLLOUTS, shown, fields, _refused),))
    return Step(waits=(Wait(message(found)),))


def resumed(rollout: Rollout) -> Rollout:
    """A rollout that goes on: what has failed counts no more."""
    failed = rollout.of(TurnState.FAILED)
    left = {name: turn for name, turn in rollout.turns.items() if name not in failed}
    return replace(rollout, turns=left, done=0, forgiven=rollout.forgiven + len(failed), is_stopped=False)


def _seen(template: ModuleVersion, rollout: Rollout, waiting: Sequence[Candidate], view: View) -> Seen:
    namespace, spec = template.metadata.namespace, template.spec
    begun, gone = dict[str, Progress | None](), set[str]()
    for name in rollout.turns:
        manifests = view.by(MANIFEST_OF, f"{namespace}/{name}/{spec.module_name}", as_progress).values
        begun[name] = next((each for each in manifests if each.version == spec.version), None)
        if isinstance(view.get(KYMAS, ObjectKey(namespace, name), exists), Absent):
            gone.add(name)
    return Seen(waiting, begun, frozenset(gone), _blocking(template, rollout, view))


def _blocking(template: ModuleVersion, rollout: Rollout, view: View) -> tuple[str, ...]:
    """The canaries that are to have the version and do not have it, or are getting it."""
    namespace, spec = template.metadata.namespace, template.spec
    canaries = view.by(CANARIES_WITH, f"{namespace}/{spec.module_name}", as_candidate).values
    meta = view.find(METAS, ObjectKey(namespace, spec.module_name), _channels) if canaries else None
    channels = {channel for channel, version in meta if version == spec.version} if meta else {spec.channel}
    wanted = [
        each.name
        for each in canaries
        if each.acts
        and any(name == spec.module_name and channel in channels for name, channel, _ in each.entries)
        and (each.name in rollout.turns or (spec.module_name, spec.version) not in {(n, v) for n, _, v in each.entries})
    ]
    return tuple(wanted)


def _unreadable(shown: ConfigMap, why: str) -> Step[Record]:
    """Without its state a rollout gives no turn: it cannot know how many there are."""
    text = f"{shown.ref} cannot be read, so that no cluster gets a turn: {why}; correct it, or delete it to count again"
    return Step(waits=(Wait((ROLLOUTS, shown.key), text),))


def _refused(text: str, _: StatusError | None) -> Failure:
    return Failure(message=text, event_reason=ModuleEvent.ROLLOUT)


# ---- the ConfigMap


def _rollout_key(template: ObjectKey) -> ObjectKey:
    return ObjectKey(template.namespace, f"rollout-{template.name}")


def version_of_rollout(shown: ConfigMap) -> str:
    """The version that is rolled out, from the name of its ModuleTemplate."""
    module = shown.metadata.labels.get(labels.ROLLOUT_LABEL, "")
    return shown.metadata.name.removeprefix(f"rollout-{module}-")


def read(shown: ConfigMap) -> Rollout:
    """The state that a ConfigMap shows. Raises ValueError."""
    state = shown.data.get("state")
    if state not in ("Running", "Stopped"):
        raise ValueError("its state is neither Running nor Stopped")
    try:
        turns = msgspec.json.decode(shown.data.get("turns", ""), type=dict[str, Turn])
    except RecursionError:
        raise ValueError("its turns are nested too deeply") from None
    if any(each.since.tzinfo is None for each in turns.values()):
        raise ValueError("the time of a turn has no zone")
    numbers = (int(shown.data.get(name, "")) for name in ("done", "forgiven"))
    done, forgiven = (max(each, 0) for each in numbers)
    return Rollout(turns=turns, done=done, forgiven=forgiven, is_stopped=state == "Stopped")


def _turns(text: str) -> Mapping[str, Turn]:
    try:
        return msgspec.json.decode(text, type=dict[str, Turn])
    except (ValueError, RecursionError):  # no Kyma has a turn by it
        return {}


def _data(rollout: Rollout) -> dict[str, str]:
    return {
        "state": "Stopped" if rollout.is_stopped else "Running",
        "message": message(rollout),
        "done": str(rollout.done),
        "forgiven": str(rollout.forgiven),
        "turns": msgspec.json.format(msgspec.json.encode(rollout.turns, order="sorted"), indent=1).decode(),
    }


def message(rollout: Rollout) -> str:
    """How a rollout is, for people."""
    failed, under_way = rollout.of(TurnState.FAILED), rollout.of(TurnState.UNDER_WAY)
    names = ", ".join(failed[:_SHOWN]) + (", ..." if len(failed) > _SHOWN else "")
    text = f"{rollout.done} done, {len(under_way)} under way, {len(failed)} failed" + (f": {names}" if names else "")
    if rollout.is_stopped:
        text += f". Stopped: correct what has failed, then set the annotation {labels.RESUME_ANNOTATION}=true here"
    return text


def _body(template: ModuleVersion, rollout: Rollout) -> JsonObject:
    key, resource = _rollout_key(template.key), ConfigMap.resource
    metadata: JsonObject = {
        "name": key.name,
        "namespace": key.namespace,
        "labels": {labels.ROLLOUT_LABEL: template.spec.module_name},
        "ownerReferences": [plain_json(owner_reference(template))],
    }
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": metadata,
        "data": {**_data(rollout)},
    }


@dataclass(slots=True)
class RolloutLogic:
    """The rollout of each version of a module, for the engine. Its state is in the ConfigMap, so it has no status."""

    collection: Collection[ModuleVersion] = VERSIONS

    def decide(self, template: ModuleVersion, view: View) -> Step[Record]:
        """As `Logic.decide`."""
        return decide(template, view)

    def unknown(self, template: ModuleVersion, view: View, missing: NotKnown) -> Step[Record]:
        """As `Logic.unknown`: no turn is given."""
        return Step(waits=(Wait(str(missing)),))

    def failed(self, template: ModuleVersion, failure: Failure) -> Record:
        """As `Logic.failed`."""
        _log.error("the rollout of %s does not go on: %s", template.ref, failure.message)
        return template.status

    def unexpected(self, template: ModuleVersion, message: str) -> Record:
        """As `Logic.unexpected`."""
        return template.status
