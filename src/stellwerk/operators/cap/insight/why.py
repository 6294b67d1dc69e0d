"""Why an object of the CAP Operator is not ready: from its own condition to the object that is the cause.

An application waits for domains, versions and tenants, a tenant for its operation, an operation for its version, and a
version for its Deployments. Each of them reports its own part, so the cause is at the end of that chain.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from stellwerk.api.apps import Deployment
from stellwerk.delivery import workloads
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonValue, Unstructured, dig
from stellwerk.operators.cap.insight.help_topics import HELP
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.domain import ClusterDomain, Domain
from stellwerk.operators.cap.kinds.status import READY
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOperation, OperationState
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.semantic_version import precedence
from stellwerk.runtime import conditions
from stellwerk.runtime.insight.diagnosis import ClusterReader, Diagnosis, Finding

if TYPE_CHECKING:
    from stellwerk.kube.client.client import Client

_DELETING = "Deleting"
"""The state of each kind while an object is being deleted."""
MOST_CAUSES = 3
"""Objects that are followed from one object: an application may have a thousand tenants that fail alike."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What an object reports about itself."""

    reason: str
    message: str


def problem_of(obj: Unstructured) -> Problem | None:
    """What keeps an object from being ready, by its own status; None where nothing does (pure).

    An operation that has ended is Ready also where it failed, and so is a tenant whose upgrade failed: see the states.
    Versions and tenants that are being deleted may be Ready as well.
    """
    shown = conditions.find(conditions.listed_in(obj.body), READY)
    state = str(obj.at("status", "state") or "")
    has_failed = state == OperationState.FAILED or state.endswith("Error")
    if shown is None:
        return Problem("", "it was not looked at so far")
    if obj.metadata.is_terminating and shown.is_true and not conditions.shows_deletion(obj, shown):
        return Problem("", "its deletion was not looked at so far")
    if shown.is_true and not has_failed and not obj.metadata.is_terminating:
        return None
    return Problem(shown.reason, (shown.message or "it is not ready").removesuffix("."))


class CapDiagnostician:
    """Explains why an object is not ready."""

    async def diagnose(self, client: Client, subject: Unstructured) -> Diagnosis:
        """See `Diagnostician`."""
        reader = ClusterReader(client)
        problem = problem_of(subject)
        if problem is None:
            return Diagnosis()
        chain = await _follow(reader, subject, problem, frozenset())
        next_step, turn = _advice(chain.last, chain.last_problem)
        return Diagnosis((chain.finding,), chain.advice or next_step, turn, hidden=reader.hidden)


@dataclass(frozen=True, slots=True)
class _Chain:
    """A finding, and the object at its end, which is the first cause."""

    finding: Finding
    last: Unstructured
    last_problem: Problem
    advice: str = ""


@dataclass(frozen=True, slots=True)
class _Unready:
    """A Deployment that is not ready, and what helps."""

    findings: tuple[Finding, ...]
    advice: str


async def _follow(reader: ClusterReader, obj: Unstructured, problem: Problem, above: frozenset[str]) -> _Chain:
    """The finding of an object with those of its causes. `above` has the uids of the objects that it explains."""
    text = f"{obj.ref}: {problem.message}" if above else problem.message
    causes_of = _CAUSES.get(obj.gvk.kind)
    found = await causes_of(reader, obj) if causes_of is not None else []
    followed = above | {obj.metadata.uid}
    causes = [(cause, its) for cause in found if cause.metadata.uid not in followed and (its := problem_of(cause))]
    chains = [await _follow(reader, cause, its, followed) for cause, its in causes[:MOST_CAUSES]]
    if chains:
        finding = Finding(text, problem.reason, tuple(chain.finding for chain in chains))
        return _Chain(finding, chains[0].last, chains[0].last_problem, chains[0].advice)
    unready = await _deployments(reader, obj) if obj.gvk.kind == CAPApplicationVersion.resource.kind else None
    if unready is not None:
        return _Chain(Finding(text, problem.reason, unready.findings), obj, problem, unready.advice)
    return _Chain(Finding(text, problem.reason, is_root_cause=True), obj, problem)


def _advice(obj: Unstructured, problem: Problem) -> tuple[str, str]:
    """The next step, and who has to act."""
    catalogue = HELP[obj.gvk.kind].catalogue
    meaning = next((each for word, each in catalogue.meanings.items() if word == problem.reason), None)
    if meaning is None or (obj.metadata.is_terminating and meaning.state != _DELETING):
        return "", ""  # a tenant keeps the reason that it had before its deletion
    return meaning.next_step(obj.key), catalogue.turn_of(meaning)


# ---- what an object waits for


async def _of_application(reader: ClusterReader, obj: Unstructured) -> Sequence[Unstructured]:
    """Its domains, its newest version and its tenants, in this order."""
    namespace = obj.key.namespace
    references = obj.at("spec", "domainRefs")
    domains = [await _domain(reader, each, namespace) for each in (references if isinstance(references, list) else [])]
    versions = await _of(reader, CAPApplicationVersion.resource, obj)
    newest = max(versions, key=lambda each: precedence(str(each.at("spec", "version"))), default=None)
    tenants = await _of(reader, CAPTenant.resource, obj)
    return [each for each in (*domains, newest, *tenants) if each is not None]


async def _domain(reader: ClusterReader, reference: JsonValue, namespace: str) -> Unstructured | None:
    is_cluster_wide = dig(reference, "kind") == ClusterDomain.resource.kind
    resource = ClusterDomain.resource if is_cluster_wide else Domain.resource
    name = str(dig(reference, "name") or "")
    return await reader.find(resource, name, "" if is_cluster_wide else namespace)


async def _of(reader: ClusterReader, resource: Resource, application: Unstructured) -> list[Unstructured]:
    """The objects of a kind that name an application."""
    found = await reader.list(resource, application.key.namespace)
    return [each for each in found if each.at("spec", "capApplicationInstance") == application.key.name]


async def _of_tenant(reader: ClusterReader, obj: Unstructured) -> Sequence[Unstructured]:
    """Its newest operation; without one, its application."""
    operations = [
        each
        for each in await reader.list(CAPTenantOperation.resource, obj.key.namespace)
        if each.metadata.controller is not None and each.metadata.controller.uid == obj.metadata.uid
    ]
    if operations:
        return [max(operations, key=lambda each: str(each.metadata.creation_timestamp))]
    name = str(obj.at("spec", "capApplicationInstance") or "")
    application = await reader.find(CAPApplication.resource, name, obj.key.namespace)
    return [] if application is None else [application]


async def _of_operation(reader: ClusterReader, obj: Unstructured) -> Sequence[Unstructured]:
    """Its version, while it has not ended."""
    if obj.at("status", "state") == OperationState.FAILED:
        return []
    name = str(obj.at("spec", "capApplicationVersionInstance") or "")
    version = await reader.find(CAPApplicationVersion.resource, name, obj.key.namespace)
    return [] if version is None else [version]


_CAUSES: Mapping[str, Callable[[ClusterReader, Unstructured], Awaitable[Sequence[Unstructured]]]] = {
    CAPApplication.resource.kind: _of_application,
    CAPTenant.resource.kind: _of_tenant,
    CAPTenantOperation.resource.kind: _of_operation,
}


async def _deployments(reader: ClusterReader, version: Unstructured) -> _Unready | None:
    """Why Deployments of a version are not ready, and what helps; None where all are."""
    now = datetime.now(UTC)
    for deployment in await reader.list(Deployment.resource, version.key.namespace):
        controller = deployment.metadata.controller
        if controller is None or controller.uid != version.metadata.uid:
            continue
        workload = await workloads.read_first(reader, deployment)
        if found := workloads.findings(workload, now):
            return _Unready(found, workloads.advice(workload))
    return None
