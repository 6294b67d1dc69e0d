"""Of everything that breaks, `why`, `status`, `unstick` and their JSON name the one true cause and the next step.

Every Component of the table also has a Deployment whose image cannot be pulled and one that does not exist. Where
another step has failed they are a consequence or a coincidence, and must not be blamed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import msgspec
import pytest

from stellwerk.apply.errors import InvalidSet, Problem, WriteFailure
from stellwerk.apply.failures import failure_of as refused
from stellwerk.apply.objects.desired import Address
from stellwerk.apply.readiness.deployment_diagnosis import Surroundings
from stellwerk.cli.look import status
from stellwerk.cli.objects import findings, health
from stellwerk.cli.objects.object_summary import ObjectSummary
from stellwerk.cli.shell.text import Style
from stellwerk.delivery.sets.unsettled_objects import UnsettledObject
from stellwerk.delivery.workloads import Workload
from stellwerk.kube.types.errors import NotServed, Status, StatusCause, StatusDetails, Unreachable, refusal
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, ObjectRef, Resource
from stellwerk.kube.types.model import JsonObject, JsonValue, Unstructured
from stellwerk.operators.component import errors
from stellwerk.operators.component.api import Component
from stellwerk.operators.component.insight import why as component_why
from stellwerk.operators.component.insight.why import ComponentSurroundings
from stellwerk.operators.component.reasons import Cause, PassReport, Reason
from stellwerk.render.errors import TemplateFailed, Unavailable
from stellwerk.runtime.insight.diagnosis import Diagnosis, root_causes

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
KEY = ObjectKey("shop", "web")
DEPLOYMENT = Address(Resource("apps", "v1", "Deployment", "deployments", True), ObjectKey("shop", "app"))
SERVICE = Address(Resource("", "v1", "Service", "services", True), ObjectKey("shop", "app"))
WIDGET = Address(Resource("example.com", "v1", "Widget", "widgets", True), ObjectKey("shop", "w"))
ACCOUNT = "system:serviceaccount:shop:deployer"


def an_object(ref: ObjectRef, **parts: JsonValue) -> Unstructured:
    given = parts.pop("metadata", {})
    assert isinstance(given, dict)
    metadata: JsonObject = {"name": ref.key.name, "namespace": ref.key.namespace, "uid": ref.key.name, "generation": 1}
    body: JsonObject = {"apiVersion": ref.gvk.api_version, "kind": ref.gvk.kind, "metadata": {**metadata, **given}}
    return Unstructured.of({**body, **parts})


def ref(api_version: str, kind: str, name: str, namespace: str = "shop") -> ObjectRef:
    return ObjectRef(GroupVersionKind.parse(api_version, kind), ObjectKey(namespace, name))


def without_image(kind: str = "Deployment") -> UnsettledObject:
    """A workload with a pod whose image cannot be pulled."""
    owned_by: JsonObject = {"apiVersion": "apps/v1", "kind": "X", "controller": True}
    parts: JsonObject = {"spec": {"replicas": 1}, "status": {"observedGeneration": 1, "replicas": 1}}
    live = an_object(ref("apps/v1", kind, "app"), **parts)
    container: JsonObject = {"name": "main", "image": "app:99", "state": {"waiting": {"reason": "ErrImagePull"}}}
    direct = kind != "Deployment"
    owner: JsonObject = {**owned_by, "name": "app", "uid": "app"}
    replica_set = an_object(ref("apps/v1", "ReplicaSet", "app-1"), metadata={"ownerReferences": [owner]})
    pod = an_object(
        ref("v1", "Pod", "app-1-a"),
        metadata={"ownerReferences": [owner if direct else {**owned_by, "name": "app-1", "uid": "app-1"}]},
        status={"containerStatuses": [container]},
    )
    around = Surroundings(replica_sets=() if direct else (replica_set,), pods=(pod,))
    return UnsettledObject(live.ref, live, Workload(live, around))


ABSENT = UnsettledObject(ref("apps/v1", "Deployment", "absent"), None)


def a_component(key: ObjectKey = KEY, *, deleted: bool = False, generation: int = 1, **spec: JsonValue) -> Component:
    metadata: JsonObject = {"name": key.name, "namespace": key.namespace, "uid": "u", "generation": generation}
    if deleted:
        metadata["deletionTimestamp"] = "2026-05-01T11:50:00Z"
    return msgspec.convert({"metadata": metadata, "spec": spec}, Component)


def showing(component: Component, report: PassReport) -> Component:
    """The Component with the status that the operator writes."""
    status = report.shown_on(component.status, generation=1, now=NOW)
    return msgspec.structs.replace(component, status=status)


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakage:
    """What the operator shows, what the cluster has, and what a user must read."""

    shown: errors.ComponentFailed | PassReport
    root: str
    """The text of the root cause; empty: the whole message of the condition."""
    names: str
    """The object or field that the root cause names."""
    step: str
    """How the next step begins."""
    reason: str
    """The word in the column REASON."""
    deleted: bool = False
    timed_out: bool = False
    graph: dict[str, object] = field(default_factory=dict)

    @property
    def report(self) -> PassReport:
        if isinstance(self.shown, PassReport):
            return self.shown
        return self.shown.report(deleting=self.deleted, timed_out=self.timed_out)

    def seen(self) -> ComponentSurroundings:
        component = showing(a_component(deleted=self.deleted), self.report)
        graph = ComponentSurroundings(component=component, dependents=(without_image(), ABSENT), now=NOW)
        return replace(graph, **self.graph)  # type: ignore[arg-type]


def refusal_of(
    code: int, message: str, *causes: StatusCause, address: Address = DEPLOYMENT, verb: str = "apply"
) -> WriteFailure:
    error = refusal(Status(code=code, message=message, details=StatusDetails(name="app", causes=causes)))
    return refused(address, verb, error)


def applying(
    code: int, message: str, *causes: StatusCause, address: Address = DEPLOYMENT, verb: str = "apply"
) -> errors.ComponentFailed:
    return errors.writes_failed([refusal_of(code, message, *causes, address=address, verb=verb)])


def forbidden(verb: str) -> str:
    attempted = f'cannot {verb} resource "deployments" in API group "apps"'
    return f'deployments.apps "app" is forbidden: User "{ACCOUNT}" {attempted}'


def waiting(late: bool = False) -> PassReport:
    message = "Waiting for dependent resources: Deployment shop/app: 0 of 1 replicas available"
    return PassReport(
        reason=Reason.Timeout if late else Reason.Processing, message=message, cause=Cause.ObjectsNotReady
    )


def leaving() -> PassReport:
    return PassReport(
        reason=Reason.DeletionProcessing, message="Deleting dependent resources: Widget shop/w: still exists"
    )


def blocked(why: str, cause: Cause) -> PassReport:
    return PassReport(reason=Reason.DeletionBlocked, message=f"deletion blocked: {why}", cause=cause)


def held(finalizers: list[JsonValue]) -> UnsettledObject:
    going: JsonObject = {"deletionTimestamp": "2026-05-01T11:50:00Z", "finalizers": finalizers}
    live = an_object(WIDGET.ref, metadata=going)
    return UnsettledObject(live.ref, live)


def a_source(**parts: JsonValue) -> Unstructured:
    return an_object(ref("source.toolkit.fluxcd.io/v1", "GitRepository", "source"), **parts)


def a_dependency(report: PassReport, **parts: object) -> ComponentSurroundings:
    component = showing(a_component(ObjectKey("shop", "database")), report)
    return replace(ComponentSurroundings(component=component, now=NOW), **parts)  # type: ignore[arg-type]


WAITS = errors.DependencyNotReady(ObjectKey("shop", "database"), "is not ready")
NO_SOURCE = errors.SourceNotReady("GitRepository shop/source", "is not ready")
POD = "Pod shop/app-1-a: image app:99 cannot be pulled"
PULL = "check the image's name, and the pull secret if the registry asks for one"
UNKNOWN = StatusCause(field="spec.replicass", message='unknown field "spec.replicass"')
IMMUTABLE = StatusCause(field="spec.selector", message="Invalid value: field is immutable")

TABLE: dict[str, Breakage] = {
    "a right to patch is missing": Breakage(
        shown=applying(403, forbidden("patch")),
        root="",
        names="Deployment shop/app",
        step="grant verb patch on deployments.apps in namespace shop",
        reason="ApplyFailed",
    ),
    "a right to create is missing": Breakage(
        shown=applying(403, forbidden("create")),
        root="",
        names=ACCOUNT,
        step="grant verb create on deployments.apps in namespace shop",
        reason="ApplyFailed",
    ),
    "a right is missing for longer than the timeout": Breakage(
        shown=applying(403, forbidden("patch")),
        root="",
        names="Deployment shop/app",
        step="grant verb patch on deployments.apps",
        reason="ApplyFailed",
        timed_out=True,
    ),
    "a role would grant more than its author has": Breakage(
        shown=applying(403, f'user "{ACCOUNT}" is attempting to grant RBAC permissions not currently held'),
        root="",
        names="Deployment shop/app",
        step="grant it those rights",
        reason="ApplyFailed",
    ),
    "a field is immutable": Breakage(
        shown=applying(422, "spec.selector: Invalid value: {}: field is immutable", IMMUTABLE),
        root="",
        names="spec.selector",
        step="restore the former value, or have the object recreated by update-policy: recreate",
        reason="ApplyFailed",
    ),
    "a field is misspelt": Breakage(
        shown=applying(400, 'strict decoding error: unknown field "spec.replicass"', UNKNOWN),
        root="",
        names="spec.replicass",
        step="correct the manifest",
        reason="ApplyFailed",
    ),
    "a namespace is missing": Breakage(
        shown=applying(404, 'namespaces "shop" not found'),
        root="",
        names="Namespace shop",
        step="create the namespace",
        reason="ApplyFailed",
    ),
    "a namespace is being deleted": Breakage(
        shown=applying(403, "forbidden", StatusCause(reason="NamespaceTerminating")),
        root="",
        names="Namespace shop",
        step="wait until the namespace is gone",
        reason="ApplyFailed",
    ),
    "a quota is used up": Breakage(
        shown=applying(403, 'services "app" is forbidden: exceeded quota: small, requested: 1', address=SERVICE),
        root="",
        names="ResourceQuota shop/small",
        step="raise the quota",
        reason="ApplyFailed",
    ),
    "a webhook refuses": Breakage(
        shown=applying(403, 'admission webhook "policy.example.org" denied the request: (a) no label; (b) none'),
        root="",
        names="policy.example.org",
        step="change the object or the rules of that webhook",
        reason="ApplyFailed",
    ),
    "a webhook does not answer": Breakage(
        shown=applying(500, 'failed calling webhook "policy.example.org": connection refused'),
        root="",
        names="policy.example.org",
        step="repair the service behind the webhook",
        reason="ApplyFailed",
    ),
    "a kind is not served": Breakage(
        shown=errors.writes_failed([refused(WIDGET, "apply", NotServed("Widget"))]),
        root="",
        names="Widget shop/w",
        step="install its CustomResourceDefinition",
        reason="ApplyFailed",
    ),
    "the cluster does not answer": Breakage(
        shown=errors.writes_failed([refused(DEPLOYMENT, "apply", Unreachable("https://x: connection refused"))]),
        root="",
        names="Deployment shop/app",
        step="bring the cluster back, or correct the kubeconfig",
        reason="ClusterUnreachable",
    ),
    "a template fails": Breakage(
        shown=errors.failure_of(TemplateFailed("templates/app.yaml:3: nil pointer: .Values.image")),
        root="",
        names="templates/app.yaml",
        step="correct the file or the values that the message names, and try it without the cluster (",
        reason="RenderingFailed",
    ),
    "an archive cannot be had": Breakage(
        shown=errors.failure_of(Unavailable("https://example.com/a.tgz: 404 Not Found", status=404)),
        root="",
        names="https://example.com/a.tgz",
        step="correct the path of the URL in spec.sourceRef.httpRepository, or have flux fetch its source again (",
        reason="SourceUnusable",
    ),
    "objects must not be applied together": Breakage(
        shown=errors.failure_of(InvalidSet([Problem("ConfigMap shop/a", "appears twice")])),
        root="",
        names="ConfigMap shop/a",
        step="correct the object that the message names, and look at the outcome (stellwerk explain InvalidObjects)",
        reason="InvalidObjects",
    ),
    "a referenced Secret is missing": Breakage(
        shown=errors.ReferencesUnresolved("spec.valuesFrom[0]: secret shop/values not found"),
        root="",
        names="secret shop/values",
        step="create the object or key that the message names (stellwerk explain ReferenceNotFound)",
        reason="ReferenceNotFound",
    ),
    "a kubeconfig cannot be used": Breakage(
        shown=errors.InvalidKubeConfig(ObjectKey("shop", "remote"), "it runs a plugin"),
        root="",
        names="secret shop/remote",
        step="put a kubeconfig into the Secret",
        reason="InvalidKubeConfig",
    ),
    "a pin waits for another revision": Breakage(
        shown=errors.WaitingForPin("revision", "v2", "v1"),
        root="",
        names="revision (v1)",
        step="have the source deliver that revision",
        reason="WaitingForPin",
    ),
    "a dependency cycle": Breakage(
        shown=errors.DependencyCycle([ObjectKey("shop", "web"), ObjectKey("shop", "db")]),
        root="",
        names="shop/web -> shop/db -> shop/web",
        step="remove the entry from spec.dependencies",
        reason="DependencyCycle",
    ),
    "it is suspended": Breakage(
        shown=PassReport(reason=Reason.Suspended, message="suspended: change freeze"),
        root="",
        names="change freeze",
        step="resume it: stellwerk resume comp/web -n shop",
        reason="Suspended",
    ),
    "an image cannot be pulled": Breakage(
        shown=waiting(), root=POD, names="Pod shop/app-1-a", step=PULL, reason="ObjectsNotReady"
    ),
    "an image cannot be pulled for longer than the timeout": Breakage(
        shown=waiting(late=True), root=POD, names="Pod shop/app-1-a", step=PULL, reason="Timeout"
    ),
    "the image of a StatefulSet cannot be pulled": Breakage(
        shown=waiting(),
        root=POD,
        names="Pod shop/app-1-a",
        step=PULL,
        reason="ObjectsNotReady",
        graph={"dependents": (without_image("StatefulSet"),)},
    ),
    "an object was deleted while it was waited for": Breakage(
        shown=waiting(),
        root="Deployment shop/absent does not exist",
        names="Deployment shop/absent",
        step="look at the objects that are not ready, and correct what their messages name: stellwerk tree comp/web",
        reason="ObjectsNotReady",
        graph={"dependents": (ABSENT,)},
    ),
    "an object that may not be read": Breakage(
        shown=waiting(),
        root="",
        names="Deployment shop/app",
        step="look at the objects that are not ready, and correct what their messages name: stellwerk tree comp/web",
        reason="ObjectsNotReady",
        graph={"dependents": (replace(ABSENT, is_hidden=True),)},
    ),
    "a dependency does not exist": Breakage(
        shown=WAITS,
        root="Component shop/database does not exist",
        names="Component shop/database",
        step="create Component shop/database, or take it out of spec.dependencies: kubectl edit component web -n shop",
        reason="DependencyNotReady",
        graph={"dependencies": (ObjectKey("shop", "database"),)},
    ),
    "a dependency is suspended": Breakage(
        shown=WAITS,
        root="Suspended: change freeze",
        names="change freeze",
        step="resume it: stellwerk resume comp/database -n shop",
        reason="DependencyNotReady",
        graph={
            "dependencies": (a_dependency(PassReport(reason=Reason.Suspended, message="suspended: change freeze")),)
        },
    ),
    "a dependency lacks a right": Breakage(
        shown=WAITS,
        root=applying(403, forbidden("patch")).report().text,
        names="Deployment shop/app",
        step="grant verb patch on deployments.apps in namespace shop",
        reason="DependencyNotReady",
        graph={"dependencies": (a_dependency(applying(403, forbidden("patch")).report(), dependents=(ABSENT,)),)},
    ),
    "a dependency waits for an image": Breakage(
        shown=WAITS,
        root=POD,
        names="Pod shop/app-1-a",
        step=PULL,
        reason="DependencyNotReady",
        graph={"dependencies": (a_dependency(waiting(), dependents=(without_image(),)),)},
    ),
    "a dependency has become ready meanwhile": Breakage(
        shown=WAITS,
        root="",
        names="shop/database",
        step="correct the Component that the message names",
        reason="DependencyNotReady",
    ),
    "a source fails": Breakage(
        shown=NO_SOURCE,
        root="GitRepository shop/source: cannot clone",
        names="GitRepository shop/source",
        step="see its conditions and Events: kubectl describe gitrepository.source.toolkit.fluxcd.io/source -n shop",
        reason="SourceNotReady",
        graph={
            "source": a_source(
                status={
                    "conditions": [{"type": "Ready", "status": "False", "reason": "Failed", "message": "cannot clone"}]
                }
            )
        },
    ),
    "a source is suspended": Breakage(
        shown=NO_SOURCE,
        root="GitRepository shop/source is suspended",
        names="GitRepository shop/source",
        step="resume it: kubectl patch gitrepository.source.toolkit.fluxcd.io/source -n shop",
        reason="SourceNotReady",
        graph={"source": a_source(spec={"suspend": True})},
    ),
    "a source is ready and has nothing for its present spec": Breakage(
        shown=NO_SOURCE,
        root="",
        names="GitRepository shop/source",
        step="correct spec.sourceRef, or the source",
        reason="SourceNotReady",
        graph={"source": a_source(status={"conditions": [{"type": "Ready", "status": "True", "message": "stored"}]})},
    ),
    "a deletion lacks a right": Breakage(
        shown=applying(403, forbidden("delete"), verb="delete"),
        root="",
        names="Deployment shop/app",
        step="grant verb delete on deployments.apps in namespace shop",
        reason="ApplyFailed",
        deleted=True,
    ),
    "a deletion is needed by others": Breakage(
        shown=errors.StillNeeded([ObjectKey("shop", "front")]),
        root="",
        names="shop/front",
        step="delete the Components that the message names",
        reason="DependantsExist",
        deleted=True,
    ),
    "a deletion waits for instances of its kinds": Breakage(
        shown=blocked("2 widgets.example.com exist (shop/w and 1 more)", Cause.TypesInUse),
        root="",
        names="shop/w",
        step="delete the instances that the message names",
        reason="TypesInUse",
        deleted=True,
    ),
    "a deletion waits for a finalizer on the Component": Breakage(
        shown=blocked("finalizers of others: example.com/guard", Cause.ForeignFinalizers),
        root="",
        names="example.com/guard",
        step="see that the controller that owns the finalizer runs and removes it",
        reason="ForeignFinalizers",
        deleted=True,
    ),
    "a deletion waits for a finalizer on an object": Breakage(
        shown=leaving(),
        root="Widget shop/w is being deleted, held by finalizer example.com/wait",
        names="Widget shop/w",
        step="check that the controller behind finalizer example.com/wait runs: "
        "kubectl describe widget.example.com/w -n shop",
        reason="DeletionProcessing",
        deleted=True,
        graph={"dependents": (held(["example.com/wait"]), ABSENT)},
    ),
}


def diagnosed(breakage: Breakage) -> tuple[ObjectSummary, Diagnosis]:
    seen = breakage.seen()
    diagnosis = component_why.explain(seen)
    live = Unstructured.of(msgspec.to_builtins(seen.component))
    body: JsonObject = {"apiVersion": "core.cs.sap.com/v1alpha1", "kind": "Component", **live.body}
    live = Unstructured.of(body)
    return ObjectSummary(live.ref, health.of(live), diagnosis), diagnosis


@pytest.mark.parametrize("name", TABLE)
def test_the_cause_its_object_and_the_next_step_are_named(name: str) -> None:
    breakage = TABLE[name]
    _, diagnosis = diagnosed(breakage)
    root = breakage.root or breakage.report.text
    assert [one.text for one in root_causes(diagnosis.findings)] == [root]
    assert breakage.names in root
    assert diagnosis.next_step.startswith(breakage.step)


@pytest.mark.parametrize("name", TABLE)
def test_the_sentence_of_the_condition_is_shown_whole(name: str) -> None:
    breakage = TABLE[name]
    verdict, _ = diagnosed(breakage)
    lines = findings.told(verdict, Style(), NOW)
    assert breakage.report.text in lines[1]
    assert sum(line.endswith("<- root cause") for line in lines) == 1
    assert lines[-1].startswith(f"Next: {breakage.step}")


@pytest.mark.parametrize("name", TABLE)
def test_status_and_json_say_the_same(name: str) -> None:
    breakage = TABLE[name]
    verdict, diagnosis = diagnosed(breakage)
    sheet = status.Sheet(verdict)
    lines = status.shown(sheet, Style(), NOW)
    assert f"  Reason:   {breakage.reason}" in lines
    assert f"  Next:     {diagnosis.next_step}" in lines
    assert any(breakage.report.text in line for line in lines)
    as_json = status.as_json(sheet)
    assert (as_json["reason"], as_json["nextStep"]) == (breakage.reason, diagnosis.next_step)
    is_about_objects = breakage.reason in ("ObjectsNotReady", "Timeout", "DeletionProcessing", "DependencyNotReady")
    assert is_about_objects or as_json["notReady"] == []


def test_the_table_is_long_enough_to_be_a_class() -> None:
    assert len(TABLE) >= 25


# ---- states that are no breakage of the Component


def roots(graph: ComponentSurroundings) -> list[str]:
    return [one.text for one in root_causes(component_why.explain(graph).findings)]


def test_a_deletion_that_has_not_begun_is_not_explained_by_the_success_before() -> None:
    ready = showing(a_component(deleted=True), PassReport(reason=Reason.Ready))
    seen = ComponentSurroundings(component=ready, dependents=(without_image(),), now=NOW)
    assert roots(seen) == ["its deletion has been requested, and the operator has not begun it yet"]
    assert component_why.explain(seen).next_step == "check that the operator runs: stellwerk status"


def test_a_change_that_was_not_looked_at_yet_comes_before_what_was_wrong_with_the_former_spec() -> None:
    failed = applying(403, forbidden("patch")).report()
    component = showing(a_component(generation=2), failed)
    told = component_why.explain(ComponentSurroundings(component=component, now=NOW))
    assert [one.reason for one in root_causes(told.findings)] == ["ChangeNotSeenYet"]
    assert told.findings[0].because[0].text == f"before the change: {failed.text}"


def test_objects_that_are_ready_meanwhile_are_not_blamed() -> None:
    live = an_object(ref("v1", "ConfigMap", "fine"))
    seen = ComponentSurroundings(
        component=showing(a_component(), waiting()), dependents=(UnsettledObject(live.ref, live),), now=NOW
    )
    assert roots(seen) == [waiting().text]


def test_a_component_that_is_ready_needs_no_answer() -> None:
    seen = ComponentSurroundings(
        component=showing(a_component(), PassReport(reason=Reason.Ready)), dependents=(ABSENT,), now=NOW
    )
    assert component_why.explain(seen) == Diagnosis()
