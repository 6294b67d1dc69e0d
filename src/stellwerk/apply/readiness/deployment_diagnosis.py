"""Why a Deployment is not ready: the first cause, in one sentence.

Kubernetes knows, but shows it in four places: no pod can be made (condition ReplicaFailure), no node takes it
(condition PodScheduled), a container does not start or ends (container statuses), a probe or a volume fails (only an
Event). The first of these that applies explains the ones behind it, so it is the one to report.

Names of pods and numbers of tries are left out: the sentence ends up in conditions, which must not flap.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from stellwerk.apply.readiness.kstatus import container_statuses, scheduling_gates
from stellwerk.kube.types.model import JsonObject, JsonValue, Unstructured, dig

SEE_LOG = "see its log"
_MAX_WORDS = 300


@dataclass(frozen=True, slots=True)
class DeploymentCause:
    """Why something is not ready, and what a person can do."""

    what: str
    fix: str = ""

    def __str__(self) -> str:
        return f"{self.what} ({self.fix})" if self.fix else self.what


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What was read around a Deployment. More than belongs to it does no harm: owners are followed."""

    replica_sets: Sequence[Unstructured] = ()
    pods: Sequence[Unstructured] = ()
    events: Sequence[Unstructured] = ()
    """Core Events of the namespace, in any order."""


def explain(deployment: Unstructured, around: Surroundings) -> DeploymentCause | None:
    """Why a Deployment, or a workload that owns its pods itself, is not ready; None where nothing shows it. Pure."""
    newest, pods = _newest_pods(deployment, around)
    return next(_causes(deployment, newest, pods, around.events), None)


def unready_pod(deployment: Unstructured, around: Surroundings) -> Unstructured | None:
    """The first pod of the newest revision that is not ready and does not show why itself. Pure."""
    _, pods = _newest_pods(deployment, around)
    unready = [pod for pod in pods if _condition(pod, "Ready", "False")]
    if any(_unscheduled(pod) or next(_containers(pod), None) for pod in unready):
        return None
    return next(iter(unready), None)


def _causes(
    deployment: Unstructured, newest: Unstructured | None, pods: Sequence[Unstructured], events: Sequence[Unstructured]
) -> Iterator[DeploymentCause]:
    if deployment.at("spec", "paused") is True:
        yield DeploymentCause("its rollout is paused", "set spec.paused to false")
    for owner in (deployment, newest):
        if message := _condition(owner, "ReplicaFailure", "True"):
            yield no_pod(message, deployment.key.namespace)
    yield from (cause for pod in pods if (cause := _unscheduled(pod)))
    yield from (cause for pod in pods for cause in _containers(pod))
    yield from (cause for pod in pods for cause in _from_events(pod, events))
    yield from (_unready_for_now(pod) for pod in pods if _runs_unready(pod))
    if message := _condition(deployment, "Progressing", "False"):
        yield DeploymentCause(_tidy(message))


# ---- no pod can be made

_REFUSED_POD = re.compile(r'^pods? "[^"]*" is forbidden: |^Pod "[^"]*" is invalid: |^Error creating: ')
_NO_PRIORITY_CLASS = re.compile(r"no PriorityClass with name (\S+) was found")
_NO_SERVICE_ACCOUNT = re.compile(r"error looking up service account ([^:\s]+)")
_QUOTA = re.compile(r"exceeded quota: ([^,]+)")
_POD_SECURITY = re.compile(r'violates PodSecurity "([^"]+)"')


def no_pod(message: str, namespace: str) -> DeploymentCause:
    """What keeps a ReplicaSet from making a pod, from the message of its condition ReplicaFailure."""
    if match := _NO_PRIORITY_CLASS.search(message):
        return DeploymentCause(f"PriorityClass {match.group(1)} does not exist", "create it")
    if match := _NO_SERVICE_ACCOUNT.search(message):
        return DeploymentCause(f"ServiceAccount {match.group(1)} does not exist", "create it")
    if match := _QUOTA.search(message):
        return DeploymentCause(
            f"ResourceQuota {namespace}/{match.group(1)} is used up", "raise the quota or free some of it"
        )
    if match := _POD_SECURITY.search(message):
        return DeploymentCause(
            f"Namespace {namespace} refuses its pods: PodSecurity {match.group(1)}",
            "change the namespace's pod-security labels or the pods' security contexts",
        )
    return DeploymentCause(f"no pod can be created: {_tidy(message)}")


# ---- no node takes the pod

_PREEMPTION = re.compile(r"\.? *(?:no new claims to deallocate, *)?preemption: .*$")


def _unscheduled(pod: Unstructured) -> DeploymentCause | None:
    message = _condition(pod, "PodScheduled", "False")
    if not message:
        return None
    if gates := scheduling_gates(pod):
        return DeploymentCause(f"scheduling gates: {gates}", "check that the controller that removes them runs")
    # The tail about preemption repeats the text and hides the reason.
    return DeploymentCause(f"no node takes its pod: {_PREEMPTION.sub('', _tidy(message))}")


# ---- a container does not start, or ends

_PULL = {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"}
_CONFIG = {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}


def _containers(pod: Unstructured) -> Iterator[DeploymentCause]:
    for status in container_statuses(pod):
        waiting, ended = dig(status, "state", "waiting"), dig(status, "state", "terminated")
        if isinstance(waiting, dict) and (cause := _does_not_start(status, waiting)):
            yield cause
        elif isinstance(ended, dict) and dig(ended, "exitCode") != 0:
            yield DeploymentCause(f"container {_text(status, 'name')} {_ending(ended)}", SEE_LOG)


def _runs_unready(pod: Unstructured) -> bool:
    """Whether all containers run, and the pod is not ready all the same."""
    running = [isinstance(dig(status, "state", "running"), dict) for status in container_statuses(pod)]
    return pod.at("status", "phase") == "Running" and all(running) and _condition(pod, "Ready", "False") != ""


def _does_not_start(status: JsonObject, waiting: JsonObject) -> DeploymentCause | None:
    container, reason, message = _text(status, "name"), _text(waiting, "reason"), _text(waiting, "message")
    if reason in _PULL:
        fix = "check the image's name, and the pull secret if the registry asks for one"
        return DeploymentCause(f"image {_text(status, 'image') or 'of ' + container} cannot be pulled", fix)
    if reason == "CrashLoopBackOff":
        return _crash(status)
    if reason in _CONFIG:
        return DeploymentCause(f"container {container} cannot be started: {_tidy(message)}")
    return None


def _crash(status: JsonObject) -> DeploymentCause:
    last = dig(status, "lastState", "terminated")
    ending = _ending(last) if isinstance(last, dict) else "ends soon after its start"
    return DeploymentCause(f"container {_text(status, 'name')} crashes again and again: it {ending}", SEE_LOG)


def _unready_for_now(pod: Unstructured) -> DeploymentCause:
    """Why a pod that runs is not ready: between two crashes of a container this is still the crash."""
    crashes = (
        status
        for status in container_statuses(pod)
        if dig(status, "lastState", "terminated", "exitCode") not in (None, 0)
    )
    crashed = next(crashes, None)
    return _crash(crashed) if crashed is not None else DeploymentCause("its containers run, but are not ready", SEE_LOG)


def _ending(ended: JsonObject) -> str:
    if _text(ended, "reason") == "OOMKilled":
        return "was killed for using more memory than its limit"
    code = dig(ended, "exitCode")
    return f"ended with exit code {code}" if isinstance(code, int) else "ended"


# ---- what only Events show

_PROBE = re.compile(r"^(Readiness|Liveness|Startup) probe (?:failed|errored)", re.IGNORECASE)


def _from_events(pod: Unstructured, events: Sequence[Unstructured]) -> Iterator[DeploymentCause]:
    about = sorted((event for event in events if event.at("involvedObject", "uid") == pod.metadata.uid), key=_last_seen)
    for event in reversed(about):
        reason, message = _text(event.body, "reason"), _text(event.body, "message")
        if reason in ("FailedMount", "FailedAttachVolume"):
            yield DeploymentCause(f"a volume of its pod cannot be mounted: {_tidy(message)}")
        elif reason == "Unhealthy" and (match := _PROBE.search(message)):
            yield DeploymentCause(f"its {match.group(1).lower()} probe fails: {_tidy(_after(message))}", SEE_LOG)
        elif reason == "FailedCreatePodSandBox":
            yield DeploymentCause("the network or runtime of its node cannot start the pod", "see the node")


def _last_seen(event: Unstructured) -> str:
    for path in (("series", "lastObservedTime"), ("lastTimestamp",), ("eventTime",)):
        if isinstance(value := event.at(*path), str):
            return value  # one format, so text sorts as time does
    return ""


def _after(message: str) -> str:
    return message.partition(":")[2].strip() or message


# ---- reading


def _owned(objects: Iterable[Unstructured], owners: set[str]) -> list[Unstructured]:
    return [obj for obj in objects if any(owner.uid in owners for owner in obj.metadata.owner_references)]


def _newest_pods(deployment: Unstructured, around: Surroundings) -> tuple[Unstructured | None, list[Unstructured]]:
    """The replica set of the latest revision, and its pods; the numbers are counted up in an annotation."""

    def revision(obj: Unstructured) -> tuple[int, str]:
        number = obj.metadata.annotations.get("deployment.kubernetes.io/revision", "")
        return (int(number) if number.isdecimal() and len(number) <= 18 else 0, obj.metadata.name)

    newest = max(_owned(around.replica_sets, {deployment.metadata.uid}), key=revision, default=None)
    return newest, _owned(around.pods, {newest.metadata.uid if newest is not None else deployment.metadata.uid})


def _condition(owner: Unstructured | None, type_: str, status: str) -> str:
    """The message of a condition that has this status; empty where it has not."""
    conditions = owner.at("status", "conditions") if owner is not None else None
    for condition in conditions if isinstance(conditions, list) else []:
        if dig(condition, "type") == type_ and dig(condition, "status") == status:
            return str(dig(condition, "message") or dig(condition, "reason") or f"{type_} is {status}")
    return ""


def _text(body: JsonValue, name: str) -> str:
    value = dig(body, name)
    return value if isinstance(value, str) else ""


def _tidy(message: str) -> str:
    line = _REFUSED_POD.sub("", " ".join(message.split()))
    return line if len(line) <= _MAX_WORDS else f"{line[: _MAX_WORDS - 3]}..."
