"""Whether the processes of operators answer, since when they do not, and which command shows their pods and logs.

What costs least is asked first: a process of the local system by its probes; else the Lease of the operator, one small
object; and only if no process renews that, the Deployments and their pods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from stellwerk.cli.objects.cluster import ClusterSession
from stellwerk.cli.shell import text
from stellwerk.delivery import workloads
from stellwerk.delivery.operator_spec import OperatorSpec, ProcessSpec
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import Unstructured
from stellwerk.lazy_imports import lazy_imports
from stellwerk.local.errors import LocalError
from stellwerk.local.host.names import has_systems
from stellwerk.runtime.insight.diagnosis import ClusterReader, Diagnosis, Finding
from stellwerk.runtime.insight.reason_catalog import YOURS

with lazy_imports(__name__):  # an object that no operator of ours looks after needs none of them
    from stellwerk.cli.objects import check_rules, installations, served_addresses
    from stellwerk.local import cluster as local_clusters

if TYPE_CHECKING:
    from stellwerk.cli.objects.check_rules import Found, OperatorDeployment
    from stellwerk.local.cluster import LocalCluster, ProcessStatus

REASON = "OperatorSilent"
"""Why an object is not looked at, in a tree of findings."""
UNSEEN = ("NotSeenYet", "ChangeNotSeenYet", "DeletionRequested")
"""Reasons of objects that wait for their operator alone."""
_NOT_KNOWN = "whether the {} runs is not known, because you may not read Leases and Deployments"


@dataclass(slots=True)
class OperatorProcesses:
    """Asks about each operator once in a call."""

    cluster: ClusterSession
    _known: dict[str, Found] = field(default_factory=dict)

    async def of(self, operator: OperatorSpec) -> Found:
        """Whether the process of its controllers answers."""
        if operator.name not in self._known:
            self._known[operator.name] = await state_of(self.cluster, operator)
        return self._known[operator.name]


async def state_of(cluster: ClusterSession, operator: OperatorSpec) -> Found:
    """Whether the process of an operator's controllers answers: good, bad, or unsure where nothing shows it."""
    now = datetime.now(UTC)
    if (local := local_state(cluster, operator, now)) is not None:
        return local
    reader = ClusterReader(cluster.client)
    leases = await installations.leases(reader, operator)
    for led in (check_rules.of_leases([lease], now) for lease in leases):
        if led.verdict == "good":
            return replace(led, subject=operator.title)
    deployments = installations.by_process(operator, await installations.deployments(cluster))[operator.name]
    if not deployments and reader.hidden:
        return check_rules.Found(operator.title, "unsure", _NOT_KNOWN.format(operator.title))
    causes = {
        each.body.key: workloads.in_one_line(await workloads.read_first(reader, each.body))
        for each in deployments
        if each.available < each.replicas
    }
    return of_cluster(operator, leases, deployments, causes, now)


def of_cluster(
    operator: OperatorSpec,
    leases: Sequence[Unstructured],
    deployments: Sequence[OperatorDeployment],
    causes: Mapping[ObjectKey, str],
    now: datetime,
) -> Found:
    """What Deployments show of an operator whose Lease no process renews. Pure.

    `causes`: why the pods of a Deployment are not available.
    """
    held = [lease for lease in leases if lease.at("spec", "holderIdentity")]
    lease = check_rules.of_leases(held[:1], now).detail if held else ""
    if not deployments:
        if not held:
            what = f"no process holds the Lease of the {operator.title}, no Deployment runs it"
            detail = f"no operator seems to be running: {what}"
            return check_rules.Found(
                operator.title, "unsure", detail, f"see whether the operator runs: stellwerk check {operator.name}"
            )
        fix = f"kubectl get pods -n {held[0].key.namespace} (then: stellwerk logs)"
        return check_rules.Found(operator.title, "bad", f"no answer from the {operator.title}: {lease}", fix)
    if (running := [each for each in deployments if each.available]) and not lease:
        return check_rules.Found(operator.title, "good", str(running[0].body.ref))  # it runs without --leader-elect
    dead = next((each for each in running or deployments if each.replicas), deployments[0])
    seen = check_rules.of_deployments([dead], causes)[0]
    shown = "; ".join(filter(None, (lease, seen.detail)))
    fix = seen.fix or dead.look
    if not dead.replicas:
        fix = f"kubectl scale deployment {dead.body.key.name} -n {dead.body.key.namespace} --replicas=1"
    return check_rules.Found(operator.title, "bad", f"no answer from the {operator.title}: {shown}", fix)


def local_state(cluster: ClusterSession, process: ProcessSpec, now: datetime) -> Found | None:
    """The state of a process of the local system; None where the cluster is none, or was started without it."""
    system = local_clusters.at_address(cluster.client.config.server) if has_systems() else None
    try:
        status = system.companion(served_addresses.process_name(process.name)) if system is not None else None
    except LocalError:
        return None
    if system is None or status is None:
        return None
    return of_local(process, status, system, now)


def of_local(process: ProcessSpec, status: ProcessStatus, system: LocalCluster, now: datetime) -> Found:
    """Whether a process of the local system runs and answers its readiness probe."""
    if status.runs_elsewhere:
        where = f"process {status.name} runs in another container or on another machine"
        return check_rules.Found(process.title, "unsure", where, f"tail -n 50 {status.log}")
    start = local_clusters.command_line("up", system.folder.name)
    if status.pid is None:
        ended = _written(status, now)
        what = f"no answer from the {process.title}: process {status.name} of the local system does not run{ended}"
        return check_rules.Found(
            process.title, "bad", what, f"start it again: {start} (its last words: tail -n 50 {status.log})"
        )
    served = served_addresses.served(status.arguments)
    if served is None or served.is_ready:
        return check_rules.Found(process.title, "good", f"process {status.pid}")
    what = f"no answer from the {process.title}: the readiness probe of process {status.pid} fails"
    return check_rules.Found(
        process.title, "bad", f"{what}{_written(status, now)}", f"see its log: tail -n 50 {status.log}"
    )


def _written(status: ProcessStatus, now: datetime) -> str:
    """How old the last line of its log is, as far as that is known."""
    try:
        written = datetime.fromtimestamp(status.log.stat().st_mtime, UTC)
    except OSError:
        return ""
    return f", its log ends {text.age(written, now)} ago"


def with_silence(diagnosis: Diagnosis, reason: str, message: str, operator: Found) -> Diagnosis:
    """The diagnosis of an object with what its operator's process shows. Pure.

    An operator that does not answer is the cause where the object waits for it alone (`reason`). Elsewhere it is a
    remark: what is shown may be old.
    """
    if operator.verdict == "good" or (operator.verdict == "unsure" and reason not in UNSEEN):
        return diagnosis
    if reason not in UNSEEN:
        remark = f"{operator.detail}, so that what is shown may be old. {operator.fix}"
        return replace(diagnosis, remarks=(*diagnosis.remarks, remark))
    is_dead = operator.verdict == "bad"
    cause = Finding(operator.detail, REASON if is_dead else "", is_root_cause=is_dead)
    first = diagnosis.findings[0] if diagnosis.findings else Finding(message, reason)
    unseen = replace(first, because=(*first.because, cause), is_root_cause=first.is_root_cause and not is_dead)
    next_step = operator.fix or diagnosis.next_step
    return replace(
        diagnosis,
        findings=(unseen, *diagnosis.findings[1:]),
        next_step=next_step,
        turn=YOURS if is_dead else diagnosis.turn,
    )
