"""Why a Kyma, a module or one of the other kinds is not ready: from its own words down to the object that holds it up.

    Kyma -> module -> Manifest -> object in the remote cluster -> its pods

What an operator has found is in the statuses; each message is shown once, at the lowest level that has it. The remote
cluster is read only for what the statuses do not have: pods, and what holds up a deletion. `surroundings` reads,
everything here is pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from stellwerk.api.core import ConfigMap
from stellwerk.delivery import workloads
from stellwerk.delivery.sets.unsettled_objects import UnsettledObject, judged
from stellwerk.kube.types import lenient
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, ObjectRef
from stellwerk.kube.types.model import Unstructured
from stellwerk.kube.types.object_meta import Condition, rfc3339
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import Kyma, ModuleStatus
from stellwerk.operators.kyma.api_manifest import Manifest
from stellwerk.operators.kyma.api_module import ModuleReleaseMeta, ModuleTemplate
from stellwerk.operators.kyma.api_status import LastOperation, State
from stellwerk.operators.kyma.api_watcher import Watcher
from stellwerk.operators.kyma.fleet import rollout
from stellwerk.operators.kyma.insight import surroundings
from stellwerk.operators.kyma.insight.help_topics import HELP
from stellwerk.operators.kyma.insight.surroundings import KymaSurroundings, ManifestSurroundings
from stellwerk.operators.kyma.kyma.deletion import DELETING_MODULES, MANIFESTS_LEFT
from stellwerk.operators.kyma.kyma.status import WAITING, ConditionType
from stellwerk.operators.kyma.manifest import status as manifest_status
from stellwerk.operators.kyma.manifest.removal import WAITING_FOR_USERS
from stellwerk.operators.kyma.reasons import KymaCause
from stellwerk.runtime.insight.diagnosis import AwaitedObject, ClusterReader, Diagnosis, Finding, root_causes

if TYPE_CHECKING:
    from stellwerk.kube.client.client import Client

_NAME = r"[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?"
_GENERAL = (WAITING, DELETING_MODULES, MANIFESTS_LEFT, "")
"""Operations that name no cause."""
_WELL = (State.Ready, State.Unmanaged)
REMOTE = "in the remote cluster"
"""Where a command is for."""
_EDIT = f"kubectl edit kyma -n {labels.SKR_KYMA.namespace} {labels.SKR_KYMA.name}"
_CHECK_OPERATOR = "check that the operator runs: stellwerk status"
_CLUSTER = re.compile(rf"the cluster of Secret ({_NAME})/({_NAME})")
_MISSING_SECRET = re.compile(r"access secret not found")
_COMMAND = re.compile(r"(?:.*[.;] )?([^;]{0,200}?(?:: |see )kubectl (?:get|edit|label) [\w./=, -]+?)\.?$", re.DOTALL)
"""The step that a message of ours ends with. What reads or asks, without a letter that a shell reads: a part of the
message may come from the remote cluster."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """A finding, and the step that removes its root cause."""

    finding: Finding
    step: str = ""

    @property
    def has_root(self) -> bool:
        return next(root_causes((self.finding,)), None) is not None


def _root(text: str, step: str = "", reason: str = "") -> _Answer:
    return _Answer(Finding(text.removesuffix("."), reason, is_root_cause=True), step)


def _above(text: str, below: Sequence[_Answer], step: str = "", reason: str = "") -> _Answer:
    """What others explain; its own root cause if none does."""
    explains = next((each for each in below if each.has_root), None)
    because = tuple(each.finding for each in below)
    finding = Finding(text.removesuffix("."), reason, because, is_root_cause=explains is None)
    return _Answer(finding, (explains.step if explains is not None else "") or step)


_OF_KYMA, _OF_MANIFEST = HELP["Kyma"].catalogue, HELP["Manifest"].catalogue


def _word(said: str) -> str:
    """The word by which a message is explained."""
    return str(_OF_MANIFEST.word_of(said) or _OF_KYMA.word_of(said) or "")


def _with_page(step: str, said: str, kyma: ObjectKey, manifest: ObjectKey | None = None) -> str:
    """A step with the page about its cause, whose first step it is if there is none."""
    of_manifest, of_kyma = _OF_MANIFEST.word_of(said), _OF_KYMA.word_of(said)
    if of_manifest is not None:
        step, page = step or _OF_MANIFEST.meanings[of_manifest].next_step(manifest or kyma), str(of_manifest)
    elif of_kyma is not None:
        step, page = step or _OF_KYMA.meanings[of_kyma].next_step(kyma), str(of_kyma)
    else:
        return step
    return f"{step} (stellwerk explain {page})" if step else ""


# ---- Kyma


def explain_kyma(seen: KymaSurroundings) -> Diagnosis:
    """Why a Kyma is not ready; of one that is, what waits."""
    kyma, remarks = seen.kyma, _remarks(seen)
    if kyma.status.state is State.Unset:
        return _not_seen_yet(kyma)
    if _is_well(kyma):
        return Diagnosis(hidden=seen.hidden, remarks=remarks)
    answers = _leaving_kyma(seen) if kyma.metadata.is_terminating else _staying_kyma(seen)
    step = next((each.step for each in answers if each.has_root and each.step), "")
    if seen.unreached and not any("remote cluster" in each or "the cluster of" in each for each in _texts(answers)):
        remarks = (*remarks, f"the remote cluster was not looked at: {seen.unreached}")
    unready = tuple(
        AwaitedObject(each.manifest.ref, _operation(each.manifest.status.last_operation) or "has no state yet")
        for each in seen.manifests
        if each.manifest.status.state not in _WELL or kyma.metadata.is_terminating
    )
    return Diagnosis(
        tuple(each.finding for each in answers), step, unready=unready, hidden=seen.hidden, remarks=remarks
    )


def _is_well(kyma: Kyma) -> bool:
    return kyma.status.state in _WELL and not kyma.metadata.is_terminating


def _not_seen_yet(kyma: Kyma) -> Diagnosis:
    if kyma.metadata.labels.get(labels.SKIP_RECONCILIATION_LABEL, "").lower() == "true":
        return _diagnosis(_skipped(kyma.ref))
    return _diagnosis(_root("no operator has looked at it yet", _CHECK_OPERATOR, "NotSeenYet"))


def _skipped(ref: ObjectRef) -> _Answer:
    kind, key = ref.gvk.kind.lower(), ref.key
    step = f"take the label off: kubectl label {kind} -n {key.namespace} {key.name} {labels.SKIP_RECONCILIATION_LABEL}-"
    return _root(f"{ref} is left alone: label {labels.SKIP_RECONCILIATION_LABEL} is true", step)


def _staying_kyma(seen: KymaSurroundings) -> list[_Answer]:
    kyma = seen.kyma
    if kyma.metadata.labels.get(labels.SKIP_RECONCILIATION_LABEL, "").lower() == "true":
        return [_skipped(kyma.ref)]
    said = _operation(kyma.status.last_operation)
    modules = [each for each in kyma.status.modules if each.state not in _WELL and each.message != said]
    below = [_of_module(seen, each) for each in modules]
    found = [each for each in kyma.status.conditions if each.type != ConditionType.MODULES and not each.is_true]
    if said not in _GENERAL:
        return [_of_whole(kyma, said), *below]
    return [*below, *(_of_condition(each) for each in found)] or [_root(said or "it names no cause")]


def _of_whole(kyma: Kyma, said: str) -> _Answer:
    """What concerns the whole Kyma."""
    step = _with_page(_step_for(kyma, said), said, kyma.key)
    return _root(_since(said, kyma.status.last_operation), step, _word(said))


def _of_condition(condition: Condition) -> _Answer:
    return _root(f"condition {condition.type} is {condition.status}: {condition.message}", reason=condition.type)


def _leaving_kyma(seen: KymaSurroundings) -> list[_Answer]:
    kyma, said = seen.kyma, _operation(seen.kyma.status.last_operation)
    if said not in _GENERAL:
        return [_of_whole(kyma, said)]
    held = [_held(each) for each in seen.remains]
    left = [_of_manifest(each, seen) for each in seen.manifests]
    return [_above(said or "its deletion has been requested, and the operator has not begun it yet", [*left, *held])]


def _held(obj: Unstructured) -> _Answer:
    """An object of the remote cluster that goes with the Kyma."""
    names = ", ".join(obj.metadata.finalizers)
    text = f"{obj.ref} in the remote cluster is being deleted, held by finalizers {names}"
    if obj.gvk.kind == "CustomResourceDefinition":
        kind = obj.key.name
        return _root(text, f"see what is left of it, {REMOTE}: kubectl get {kind} -A")
    free = '--type merge -p \'{"metadata":{"finalizers":null}}\''
    patch = f"kubectl patch {_place(obj.ref)} {free}"
    return _root(text, f"check that the controllers behind them run, or free it, {REMOTE}: {patch}")


def _of_module(seen: KymaSurroundings, module: ModuleStatus) -> _Answer:
    shown = seen.manifest_of(module)
    version = f" {module.version}" if module.version else ""
    head = f"module {module.name}{version} is {module.state or 'new'}"
    cause = _operation(shown.manifest.status.last_operation) if shown is not None else ""
    if shown is None or (module.message and module.message != cause):
        step = _with_page(_step_of_module(seen, module), module.message, seen.kyma.key)
        return _root(f"{head}: {module.message}" if module.message else head, step, _word(module.message))
    return _above(head, [_of_manifest(shown, seen)])


# ---- Manifest


def explain_manifest(seen: KymaSurroundings) -> Diagnosis:
    """Why a Manifest is not ready."""
    (own,) = seen.manifests
    manifest = own.manifest
    if manifest.metadata.labels.get(labels.SKIP_RECONCILIATION_LABEL) == "true":
        return replace(_diagnosis(_skipped(manifest.ref)), hidden=seen.hidden)
    if manifest.status.state is State.Unset:
        return _diagnosis(_root("no operator has looked at it yet", _CHECK_OPERATOR, "NotSeenYet"))
    if manifest.status.state is State.Ready and not manifest.metadata.is_terminating:
        return Diagnosis(hidden=seen.hidden)
    answer = _of_manifest(own, seen, is_subject=True)
    remarks = (f"the remote cluster was not looked at: {seen.unreached}",) if seen.unreached else ()
    unready = tuple(AwaitedObject(each.ref, _lacks(each, seen.now)) for each in own.objects)
    return Diagnosis((answer.finding,), answer.step, unready=unready, hidden=seen.hidden, remarks=remarks)


def _of_manifest(seen: ManifestSurroundings, around: KymaSurroundings, *, is_subject: bool = False) -> _Answer:
    manifest, last = seen.manifest, seen.manifest.status.last_operation
    said = _operation(last)
    text = _since(said or "it has no state yet", last)
    head = text if is_subject else f"{manifest.ref}: {text}"
    if said.startswith(WAITING_FOR_USERS):
        step = _step_for_users_resources(manifest, said)
        return _root(head, _with_page(step, said, around.kyma.key, manifest.key), _word(said))
    looks = (
        said.startswith((manifest_status.WAITING, manifest_status.MANAGER_FAILS)) or manifest.metadata.is_terminating
    )
    below = [_of_object(each, seen.now) for each in seen.objects] if looks else []
    step = _with_page(_step_for(around.kyma, said), said, around.kyma.key, manifest.key) or _look_at(manifest)
    return _above(head, below, step, _word(said))


def _look_at(manifest: Manifest) -> str:
    if manifest.status.state in (State.Processing, State.Deleting):
        return ""
    return f"see what it is made of: kubectl describe manifest {_place(manifest.ref)}"


def _of_object(each: UnsettledObject, now: datetime) -> _Answer:
    """An object of the module in the remote cluster."""
    ref = f"{each.ref} in the remote cluster"
    if each.live is not None and each.live.metadata.is_terminating:
        names = ", ".join(each.live.metadata.finalizers)
        text = f"{ref} is being deleted" + (f", held by finalizers {names}" if names else "")
        step = f"check that the controllers behind them run, {REMOTE}: kubectl describe {_for_kubectl(each.ref)}"
        return _root(text, step if names else "")
    if each.is_hidden or each.odd or each.live is None:
        return _root(f"{ref}: {_lacks(each, now)}")
    if each.hold is not None:
        return _root(f"{ref}: {each.hold.what}", each.hold.step)
    if each.workload is not None and (found := workloads.findings(each.workload, now)):
        step = workloads.advice(each.workload) or f"see its Events: kubectl describe {_for_kubectl(each.ref)}"
        return _Answer(replace(found[0], text=found[0].text.replace(str(each.ref), ref, 1)), f"{REMOTE}, {step}")
    return _root(
        f"{ref}: {_lacks(each, now)}",
        f"see its Events, {REMOTE}: kubectl describe {_for_kubectl(each.ref)}",
    )


def _lacks(each: UnsettledObject, now: datetime) -> str:
    if each.is_hidden:
        return "you may not read it"
    if each.odd:
        return f"it cannot be read: {each.odd}"
    if each.live is None:
        return "it does not exist"
    verdict = judged(each.live, now)
    return verdict.why or verdict.verdict.value


def _step_for_users_resources(manifest: Manifest, said: str) -> str:
    resource = manifest.spec.resource or {}
    gvk = GroupVersionKind.parse(str(resource.get("apiVersion") or ""), str(resource.get("kind") or ""))
    kind = f"{gvk.kind.lower()}.{gvk.group}" if gvk.group else gvk.kind.lower()
    named = re.findall(rf"({_NAME})/({_NAME})(?=,| and |$)", said.partition(": ")[2])
    if len(named) == 1 and f": 1 {gvk.kind}:" in said:
        namespace, name = named[0]
        return f"delete it, {REMOTE}: kubectl delete {kind} -n {namespace} {name}"
    return f"delete all of them, {REMOTE}: kubectl delete {kind} --all -A"


# ---- steps


def _step_for(kyma: Kyma, said: str) -> str:
    """The step for a cause that concerns the whole cluster; else the command that the message itself ends with."""
    namespace, name = kyma.metadata.namespace, kyma.metadata.name
    if _MISSING_SECRET.search(said):
        secret, label = f"-n {namespace} access-{name}", f"{labels.KYMA_NAME_LABEL}={name}"
        return (
            f"create it: kubectl create secret generic {secret} --from-file={labels.KUBECONFIG_KEY}=FILE, and label "
            f"it: kubectl label secret {secret} {label}"
        )
    if found := _CLUSTER.search(said):
        place = f"-n {found[1]} {found[2]}"
        look = f"kubectl get secret {place} -o jsonpath='{{.data.{labels.KUBECONFIG_KEY}}}' | base64 -d > remote.yaml"
        step = f"try the login: {look} && kubectl --kubeconfig remote.yaml get --raw /readyz"
        if kyma.metadata.is_terminating:
            step += f"; if the cluster is gone for good, delete the Secret: kubectl delete secret {place}"
        return step
    command = _COMMAND.match(said)
    return f"{command[1][:1].lower()}{command[1][1:]}" if command is not None else ""


_Step = Callable[[KymaSurroundings, ModuleStatus], str]


def _step_of_module(seen: KymaSurroundings, module: ModuleStatus) -> str:
    """The step for the message of a module. A name that a shell could read is put into no command."""
    if not re.fullmatch(_NAME, module.name):
        return f"correct its name, {REMOTE}: {_EDIT}"
    word = _OF_KYMA.word_of(module.message)
    step = _STEPS.get(word) if word is not None else None
    return step(seen, module) if step is not None else _step_for(seen.kyma, module.message)


def _for_channel(seen: KymaSurroundings, module: ModuleStatus) -> str:
    channels = dict(seen.channels).get(module.name, ())
    offered = f"of {', '.join(channels)}, " if channels else ""
    return f"set another channel, {offered}{REMOTE}: {_EDIT}"


def _for_admission(seen: KymaSurroundings, module: ModuleStatus) -> str:
    metadata = seen.kyma.metadata
    for word, mark in (("beta", labels.BETA_LABEL), ("internal", labels.INTERNAL_LABEL)):
        if module.message.endswith(f": {word} module"):
            allow = f"kubectl label kyma -n {metadata.namespace} {metadata.name} {mark}=true"
            return f"allow it: {allow}, or remove the module, {REMOTE}: {_EDIT}"
    selector = "-o jsonpath='{.spec.kymaSelector}'"
    return f"see which labels the Kyma needs: kubectl get mrm -n {metadata.namespace} {module.name} {selector}"


def _for_unknown(seen: KymaSurroundings, module: ModuleStatus) -> str:
    offered = f"kubectl get mrm -n {seen.kyma.metadata.namespace}"
    return f"remove it, {REMOTE}: {_EDIT}; see which modules there are: {offered}"


def _for_downgrade(seen: KymaSurroundings, module: ModuleStatus) -> str:
    return f"go back to channel {module.channel}, or remove the module and add it again, {REMOTE}: {_EDIT}"


def _for_window(seen: KymaSurroundings, module: ModuleStatus) -> str:
    metadata, patch = seen.kyma.metadata, '{"spec":{"skipMaintenanceWindows":true}}'
    return f"do not wait for one: kubectl patch kyma -n {metadata.namespace} {metadata.name} --type merge -p '{patch}'"


_STEPS: Mapping[object, _Step] = {
    KymaCause.NO_VERSION: _for_channel,
    KymaCause.NO_CHANNEL: _for_channel,
    KymaCause.NOT_ALLOWED: _for_admission,
    KymaCause.NO_META: _for_unknown,
    KymaCause.MANDATORY: _for_unknown,
    KymaCause.FORMER_MANDATORY: _for_unknown,
    KymaCause.DOWNGRADE: _for_downgrade,
    KymaCause.NO_WINDOW: _for_window,
}
"""What to do about a module, if more is known than on the page of its cause."""


# ---- what waits although the Kyma may be ready


def _remarks(seen: KymaSurroundings) -> tuple[str, ...]:
    found: list[str] = []
    for module in seen.kyma.status.modules:
        if module.maintenance:
            found.append(f"module {module.name} waits for a maintenance window: {seen.window}")
        elif module.message.startswith(rollout.WAITING):
            version = module.message.removeprefix(rollout.WAITING)
            shown = next(
                (each for each in seen.rollouts if each.metadata.name == f"rollout-{module.name}-{version}"), None
            )
            found.append(f"module {module.name} is {module.message}{_of_rollout(shown)}")
    return tuple(found)


def _of_rollout(shown: ConfigMap | None) -> str:
    """How the rollout is, and how it goes on."""
    if shown is None:
        return ""
    try:
        state = rollout.read(shown)
    except ValueError as error:
        return f"; {shown.ref} cannot be read: {error}"
    if not state.is_stopped:
        return f"; {rollout.message(state)}"
    place = f"-n {shown.metadata.namespace} {shown.metadata.name}"
    resume = f"kubectl annotate configmap {place} {labels.RESUME_ANNOTATION}=true"
    failed = ", ".join(state.of(rollout.TurnState.FAILED)[:3])
    return f"; the rollout has stopped, because it has failed for {failed or 'too many'}. Resume it: {resume}"


# ---- the other kinds


def explain_watcher(watcher: Watcher) -> Diagnosis:
    """Why a Watcher is not ready: its condition has the cause, and what to do behind it."""
    if watcher.status.state is State.Ready and not watcher.metadata.is_terminating:
        return Diagnosis()
    shown = next((each for each in watcher.status.conditions if not each.is_true), None)
    if shown is None:
        return _diagnosis(_root("no operator has looked at it yet", _CHECK_OPERATOR, "NotSeenYet"))
    cause, _, step = shown.message.partition("; ")
    return _diagnosis(_root(cause, step))


def explain_meta(
    meta: ModuleReleaseMeta, templates: Iterable[str], manifests: Sequence[Manifest], hidden: tuple[str, ...] = ()
) -> Diagnosis:
    """What a ModuleReleaseMeta lacks: templates of its versions; while it is being deleted, what is left of it."""
    if meta.metadata.is_terminating:
        left = [_root(f"{each.ref} still exists") for each in manifests]
        found = _above("the Manifests of the module are deleted first", left)
        return replace(_diagnosis(found), hidden=hidden)
    if f"moduletemplates in {meta.metadata.namespace}" in hidden:
        return Diagnosis(hidden=hidden)
    known, name = set(templates), meta.metadata.name
    wanted = [(f"channel {each.channel}", each.version) for each in meta.spec.channels]
    wanted += [("the mandatory version", meta.spec.mandatory.version)] if meta.spec.mandatory is not None else []
    missing = [
        Finding(f"{what}: ModuleTemplate {meta.metadata.namespace}/{name}-{version} does not exist", is_root_cause=True)
        for what, version in wanted
        if f"{name}-{version}" not in known
    ]
    step = f"create it, or correct the version: kubectl edit mrm -n {meta.metadata.namespace} {name}" if missing else ""
    return Diagnosis(tuple(missing), step, hidden=hidden)


# ---- who asks


class KymaDiagnostician:
    """Explains why a Kyma is not ready."""

    async def diagnose(self, client: Client, subject: Unstructured) -> Diagnosis:
        """As `Diagnostician.diagnose`."""
        return explain_kyma(await surroundings.of_kyma(ClusterReader(client), subject, datetime.now(UTC)))


class ManifestDiagnostician:
    """Explains why a Manifest is not ready."""

    async def diagnose(self, client: Client, subject: Unstructured) -> Diagnosis:
        """As `Diagnostician.diagnose`."""
        return explain_manifest(await surroundings.of_manifest(ClusterReader(client), subject, datetime.now(UTC)))


class WatcherDiagnostician:
    """Explains why a Watcher is not ready."""

    async def diagnose(self, client: Client, subject: Unstructured) -> Diagnosis:
        """As `Diagnostician.diagnose`. Reads nothing."""
        return explain_watcher(lenient.convert(subject.body, Watcher))


class MetaDiagnostician:
    """Explains what a ModuleReleaseMeta lacks."""

    async def diagnose(self, client: Client, subject: Unstructured) -> Diagnosis:
        """As `Diagnostician.diagnose`."""
        reader, meta = ClusterReader(client), lenient.convert(subject.body, ModuleReleaseMeta)
        namespace, name = meta.metadata.namespace, meta.metadata.name
        templates = [] if meta.metadata.is_terminating else await reader.list(ModuleTemplate.resource, namespace)
        marked = f"{labels.MODULE_NAME_LABEL}={name}"
        left = await reader.list(Manifest.resource, namespace, labels=marked) if meta.metadata.is_terminating else []
        manifests = [lenient.convert(each.body, Manifest) for each in left]
        return explain_meta(meta, (each.key.name for each in templates), manifests, reader.hidden)


class TemplateDiagnostician:
    """A ModuleTemplate has no status that could be explained."""

    async def diagnose(self, client: Client, subject: Unstructured) -> Diagnosis:
        """As `Diagnostician.diagnose`. Reads nothing."""
        return Diagnosis()


# ---- words


def _diagnosis(answer: _Answer) -> Diagnosis:
    return Diagnosis((answer.finding,), answer.step)


def _operation(last: LastOperation | None) -> str:
    return last.operation if last is not None else ""


def _since(text: str, last: LastOperation | None) -> str:
    """What lasts, with its beginning."""
    moment = rfc3339(last.last_update_time) if last is not None else ""
    return f"{text.removesuffix('.')} (since {moment})" if moment and _CLUSTER.search(text) else text


def _texts(answers: Iterable[_Answer]) -> Iterable[str]:
    def below(finding: Finding) -> Iterable[str]:
        yield finding.text
        for each in finding.because:
            yield from below(each)

    for answer in answers:
        yield from below(answer.finding)


def _place(ref: ObjectRef) -> str:
    kind = ref.gvk.kind.lower() if ref.gvk.kind in ("Kyma",) else ""
    return f"{kind} -n {ref.key.namespace} {ref.key.name}".strip()


def _for_kubectl(ref: ObjectRef) -> str:
    group = f".{ref.gvk.group}" if ref.gvk.group else ""
    namespace = f" -n {ref.key.namespace}" if ref.key.namespace else ""
    return f"{ref.gvk.kind.lower()}{group}/{ref.key.name}{namespace}"
