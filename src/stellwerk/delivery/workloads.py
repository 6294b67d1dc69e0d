"""Why a Deployment, StatefulSet or DaemonSet is not ready, as findings: for every operator that runs one.

`stellwerk.apply.readiness.deployment_diagnosis` finds the cause for a condition, in which pods must not be named. A
user of `why` wants to know the pod, so this module looks for the pods to which the cause applies.
"""

from __future__ import annotations

import asyncio
import json
import shlex
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from stellwerk.api.apps import ReplicaSet
from stellwerk.api.core import Event, Pod
from stellwerk.apply.readiness import deployment_diagnosis, readiness
from stellwerk.apply.readiness.deployment_diagnosis import DeploymentCause, Surroundings
from stellwerk.apply.readiness.kstatus import container_statuses
from stellwerk.kube.types.model import Unstructured, dig
from stellwerk.runtime.insight.diagnosis import AwaitedObject, ClusterReader, Diagnosis, Finding

if TYPE_CHECKING:
    from stellwerk.kube.client.client import Client


KINDS = (("apps", "Deployment"), ("apps", "StatefulSet"), ("apps", "DaemonSet"))
"""Kinds whose pods show why they are not ready."""
OWNERS_OF_PODS = (*KINDS, ("batch", "Job"))
"""The same with Jobs, whose pods show why they fail."""
FATE = "stellwerk.local/fate"
"""Annotation or label by which the local system gives a pod another course."""


_LONGEST_CAUSE = 120
"""Of a cause in a condition, so that the next step behind it is not cut off."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A Deployment, StatefulSet or DaemonSet, and what was read around it."""

    deployment: Unstructured
    around: Surroundings = field(default_factory=Surroundings)

    @property
    def name(self) -> str:
        """Kind, namespace and name."""
        return str(self.deployment.ref)


async def read(reader: ClusterReader, deployment: Unstructured) -> Workload:
    """Read the replica sets, pods and Events around a Deployment."""
    namespace = deployment.key.namespace
    labels = selector(deployment)
    replica_sets, pods, events = await asyncio.gather(
        reader.list(ReplicaSet.resource, namespace, labels=labels),
        reader.list(Pod.resource, namespace, labels=labels),
        reader.list(Event.resource, namespace, fields="involvedObject.kind=Pod"),
    )
    return Workload(deployment, Surroundings(replica_sets, pods, events))


async def read_first(reader: ClusterReader, deployment: Unstructured) -> Workload:
    """The same by at most three requests: a page of each list, and Events of the first pod that is not ready only.

    Events are read where the pods alone do not show the cause.
    """
    namespace, labels = deployment.key.namespace, selector(deployment)
    replica_sets, pods = await asyncio.gather(
        reader.first(ReplicaSet.resource, namespace, labels=labels),
        reader.first(Pod.resource, namespace, labels=labels),
    )
    around = Surroundings(replica_sets, pods)
    waiting = deployment_diagnosis.unready_pod(deployment, around)
    if waiting is not None:
        fields = f"involvedObject.kind=Pod,involvedObject.name={waiting.key.name}"
        around = replace(around, events=await reader.first(Event.resource, namespace, fields=fields))
    return Workload(deployment, around)


def selector(deployment: Unstructured) -> str:
    """The Deployment's pods as a label selector; expressions are left out, owners are followed anyway."""
    wanted = deployment.at("spec", "selector", "matchLabels")
    return ",".join(f"{name}={value}" for name, value in wanted.items()) if isinstance(wanted, dict) else ""


def lacks(workload: Workload, now: datetime) -> str:
    """What the Deployment lacks, in a few words; empty when it is ready."""
    return _lacking(workload.deployment, now)


def _lacking(obj: Unstructured, now: datetime) -> str:
    seen = readiness.assess(obj, now=now)
    return "" if seen.is_ready else seen.why


def findings(workload: Workload, now: datetime) -> tuple[Finding, ...]:
    """Why the Deployment is not ready, down to the root cause; nothing when it is ready. Pure."""
    missing = lacks(workload, now)
    if not missing:
        return ()
    cause = deployment_diagnosis.explain(workload.deployment, workload.around)
    if cause is None:
        return (Finding(f"{workload.name}: {missing}", is_root_cause=True),)
    pod = culprit(workload, cause)
    where = f"Pod {pod.key}" if pod else workload.name
    root = Finding(f"{where}: {cause.what}", _waiting_reason(pod) if pod else "", is_root_cause=True)
    return (Finding(f"{workload.name}: {missing}", because=(root,)),)


def advice(workload: Workload) -> str:
    """What a person can do about it, always with a command; empty where nothing is known."""
    cause = deployment_diagnosis.explain(workload.deployment, workload.around)
    if cause is None:
        return ""
    if cause.fix == deployment_diagnosis.SEE_LOG:
        return _fix(workload, cause)
    pod, owner = culprit(workload, cause), workload.deployment
    shown = f"pod {pod.key.name}" if pod else f"{owner.gvk.kind.lower()} {owner.key.name}"
    look = f"kubectl describe {shown} -n {owner.key.namespace}"
    return f"{cause.fix or 'correct what its Events and conditions name'}: {look}"


def _fix(workload: Workload, cause: DeploymentCause) -> str:
    pod = culprit(workload, cause) if cause.fix == deployment_diagnosis.SEE_LOG else None
    return f"{cause.fix}: kubectl logs {pod.key.name} -n {pod.key.namespace}" if pod else cause.fix


def in_one_line(workload: Workload) -> str:
    """The cause with its pod and the next step, as a condition shows it; empty where nothing is known. Pure."""
    cause = deployment_diagnosis.explain(workload.deployment, workload.around)
    if cause is None:
        return ""
    pod, step = culprit(workload, cause), _fix(workload, cause)
    what = cause.what if len(cause.what) <= _LONGEST_CAUSE else f"{cause.what[: _LONGEST_CAUSE - 3]}..."
    return "; ".join(filter(None, (f"Pod {pod.key}: {what}" if pod else what, step)))


def culprit(workload: Workload, cause: DeploymentCause) -> Unstructured | None:
    """The first pod that has this cause; None where the Deployment has it even without pods."""
    around = workload.around
    if deployment_diagnosis.explain(workload.deployment, replace(around, pods=())) == cause:
        return None
    alone = (
        pod
        for pod in around.pods
        if deployment_diagnosis.explain(workload.deployment, replace(around, pods=(pod,))) == cause
    )
    return next(alone, None)


def _waiting_reason(pod: Unstructured) -> str:
    """The CamelCase word of the first container that waits: ErrImagePull, CrashLoopBackOff."""
    for status in container_statuses(pod):
        reason = dig(status, "state", "waiting", "reason")
        if isinstance(reason, str) and reason not in ("ContainerCreating", "PodInitializing"):
            return reason
    return ""


def misplaced_fate(owner: Unstructured) -> str:
    """The remark about a fate on an owner of pods, which acts on nothing: pods get it from the template. Pure."""
    kind, key = owner.gvk.kind, owner.key
    for place, shown in (("annotations", owner.metadata.annotations), ("labels", owner.metadata.labels)):
        fate = shown.get(FATE, "")
        if not fate or owner.at("spec", "template", "metadata", place, FATE) == fate:
            continue
        text = f"{FATE}={fate} of {owner.ref} has no effect: the local system reads the fate of pods."
        if kind == "Job":  # its template cannot be changed
            see = f"kubectl get job {key.name} -n {key.namespace} -o yaml"
            return f"{text} Create the Job again with it in spec.template.metadata.{place}: {see}"
        patch = json.dumps({"spec": {"template": {"metadata": {place: {FATE: fate}}}}})
        command = f"kubectl patch {kind.lower()} {key.name} -n {key.namespace} --type merge -p {shlex.quote(patch)}"
        return f"{text} Give it to its pods with: {command}"
    return ""


class DeploymentDiagnostician:
    """Diagnoses any owner of pods that is not ready."""

    async def diagnose(self, client: Client, subject: Unstructured) -> Diagnosis:
        """Read the pods and explain."""
        reader = ClusterReader(client)
        workload = await read(reader, subject)
        found = findings(workload, datetime.now(UTC))
        unready = tuple(
            AwaitedObject(pod.ref, lacking)
            for pod in workload.around.pods
            if (lacking := _lacking(pod, datetime.now(UTC)))
        )
        next_step = advice(workload) if found else ""
        remarks = tuple(filter(None, (misplaced_fate(subject),)))
        return Diagnosis(found, next_step, unready=unready, hidden=reader.hidden, remarks=remarks)


diagnostician = DeploymentDiagnostician()
