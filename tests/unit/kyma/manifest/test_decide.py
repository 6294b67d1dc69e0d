"""What a Manifest needs next, on worlds of plain values."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, cast

import msgspec
import pytest

from stellwerk.api.core import Namespace, Secret
from stellwerk.apply.set.model.confirmation import Live
from stellwerk.apply.set.model.desired_set import DesiredObject
from stellwerk.kube.client import discovery
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, Resource
from stellwerk.kube.types.model import JsonObject, PartialObjectMetadata, Unstructured, dig, unstructured
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import Kyma
from stellwerk.operators.kyma.api_manifest import InstallInfo, Manifest, ManifestSpec, ManifestStatus, SyncedResource
from stellwerk.operators.kyma.api_module import Manager
from stellwerk.operators.kyma.api_status import State
from stellwerk.operators.kyma.collections import (
    ACCESS_SECRETS,
    KYMAS,
    MANIFESTS,
    RUNTIME_NAMESPACES,
    is_of_modules,
    manager_pods,
    module_objects,
    module_resources,
)
from stellwerk.operators.kyma.manifest.decide import ManifestLogic, ManifestSettings
from stellwerk.operators.kyma.manifest.objects import DISCLAIMER
from stellwerk.operators.kyma.manifest.writes import ApplyModule
from stellwerk.operators.kyma.sources.descriptors import ModuleObjects
from stellwerk.operators.kyma.sources.links import Links
from stellwerk.operators.kyma.sources.loads import InlineObjects, Sources
from stellwerk.runtime.cache.remote_clusters import Kubeconfig
from stellwerk.runtime.conditions import is_true
from stellwerk.runtime.control.executor import Course, rehearse
from stellwerk.runtime.control.step import Create, Delete, Patch
from stellwerk.runtime.reading.known import Known, NotKnown, Unknown
from stellwerk.runtime.reading.loads import Load, PlainLoads, SecretData, ServedKind
from stellwerk.runtime.reading.questions import NOT_LISTED, Collection, PlainSource
from stellwerk.runtime.reading.view import Overlay, PlainClusters, PlainSources, View
from stellwerk.testing.clock import FakeClock

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
NAME, KYMA = "k-template-operator-1", "k"
LOGIN = ObjectKey(labels.KCP_NAMESPACE, "login")
SOURCES = Sources(None, cast("Links", None))
FAR = Kubeconfig(LOGIN, b"far")
SAMPLE = Resource("operator.example.org", "v1", "Sample", "samples", True)
MODULE = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: ours}
data: {colour: red}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader, namespace: astray}
rules: []
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: manager}
spec:
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec: {containers: [{name: m, image: "registry.example.org/x/manager:1.0"}]}
"""
DEFINITION = """
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: samples.operator.example.org}
spec:
  group: operator.example.org
  scope: Namespaced
  names: {kind: Sample, plural: samples}
  versions: [{name: v1, served: true, storage: true}]
---
apiVersion: operator.example.org/v1
kind: Sample
metadata: {name: example, namespace: ours}
"""


def built_in(api_version: str, kind: str) -> Resource:
    found = discovery.built_in(GroupVersionKind.parse(api_version, kind))
    assert found is not None
    return found


CONFIG_MAPS, DEPLOYMENTS, ROLES = (
    built_in("v1", "ConfigMap"),
    built_in("apps/v1", "Deployment"),
    built_in("rbac.authorization.k8s.io/v1", "ClusterRole"),
)
SYNCED = (
    SyncedResource(group="", version="v1", kind="ConfigMap", name="settings", namespace="ours"),
    SyncedResource(group="apps", version="v1", kind="Deployment", name="manager", namespace="default"),
    SyncedResource(group="rbac.authorization.k8s.io", version="v1", kind="ClusterRole", name="reader", namespace=""),
)
WORKS: JsonObject = {
    "observedGeneration": 1,
    "conditions": [
        {"type": kind, "status": "True", "reason": "NewReplicaSetAvailable"} for kind in ("Progressing", "Available")
    ],
}
"""The status of a Deployment."""
FINALIZERS = (labels.MANIFEST_FINALIZER, labels.LABEL_REMOVAL_FINALIZER)


def manifest(text: str = MODULE, **changes: Any) -> Manifest:
    """A Manifest of the module, five minutes old at most."""
    digest = InlineObjects(text).digest
    metadata: dict[str, Any] = {
        "name": NAME,
        "namespace": labels.KCP_NAMESPACE,
        "uid": "m1",
        "generation": 1,
        "creation_timestamp": NOW - timedelta(seconds=30),
        "labels": {labels.KYMA_NAME_LABEL: KYMA, labels.MODULE_NAME_LABEL: "template-operator"},
        "annotations": {},
        **{
            key: changes.pop(key)
            for key in ("labels", "annotations", "finalizers", "deletion_timestamp", "creation_timestamp")
            if key in changes
        },
    }
    source: JsonObject = {"type": "raw-inline", "manifest": text}
    status = changes.pop("status", ManifestStatus())
    spec = ManifestSpec(install=InstallInfo(name="raw-manifest", source=source), version="1.0.0", **changes)
    del digest
    return Manifest(metadata=ObjectMeta(**metadata), spec=spec, status=status)


def installed(text: str = MODULE, **changes: Any) -> Manifest:
    """A Manifest whose objects are listed and whose layer was applied."""
    return manifest(
        text,
        **{
            "finalizers": FINALIZERS,
            "annotations": {labels.SYNCED_LAYER_ANNOTATION: InlineObjects(text).digest},
            "status": ManifestStatus(state=State.Processing, synced=SYNCED),
            **changes,
        },
    )


def leaving(**changes: Any) -> Manifest:
    return installed(**{"deletion_timestamp": NOW, **changes})


def live(resource: Resource, name: str, namespace: str = "", **body: Any) -> Unstructured:
    """An object of the module as it is in the remote cluster."""
    metadata: dict[str, Any] = {
        "name": name,
        "uid": f"uid-{name}",
        "labels": {labels.MANAGED_BY_LABEL: labels.KYMA, labels.PART_OF_LABEL: labels.PART_OF},
        "annotations": {labels.OWNED_BY_ANNOTATION: f"{labels.KCP_NAMESPACE}/{NAME}"},
        **({"namespace": namespace} if namespace else {}),
        **body.pop("metadata", {}),
    }
    return Unstructured.of({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **body})


EVERYTHING = (
    (CONFIG_MAPS, live(CONFIG_MAPS, "settings", "ours")),
    (DEPLOYMENTS, live(DEPLOYMENTS, "manager", "default")),
    (ROLES, live(ROLES, "reader")),
)


class _Loads(PlainLoads):
    def __init__(self, values: dict[Any, Any], unknown: dict[Any, Unknown]) -> None:
        super().__init__(values)
        self._unknown = unknown

    def get(self, load: Load[Any]) -> Known[Any]:
        return self._unknown.get(load) or super().get(load)


@dataclass
class World:
    """Both clusters."""

    kyma: Kyma | None = field(
        default_factory=lambda: Kyma(metadata=ObjectMeta(name=KYMA, namespace=labels.KCP_NAMESPACE, uid="k1"))
    )
    has_login: bool = True
    there: list[tuple[Resource, Live]] = field(default_factory=list)
    resources: list[tuple[Resource, PartialObjectMetadata]] = field(default_factory=list)
    served: tuple[Resource, ...] = ()
    texts: tuple[str, ...] = (MODULE,)
    trouble: str = ""
    pods: list[Unstructured] = field(default_factory=list)
    """Of the manager."""
    unlisted: tuple[Resource, ...] = ()
    """Kinds of modules whose watch has only just begun."""
    pull_secret: str = ""
    unknown: dict[Any, Unknown] = field(default_factory=dict)
    """Loads without an answer."""
    cluster: str = "one"
    """The uid of the other cluster."""
    now: datetime = NOW

    def course(self, subject: Manifest) -> Course[ManifestStatus]:
        return rehearse(ManifestLogic(FakeClock()), subject, partial(self.view, subject))

    def view(self, subject: Manifest, overlay: Overlay) -> View:
        home = PlainSources().add(KYMAS, PlainSource([self.kyma] if self.kyma is not None else []))
        home.add(MANIFESTS, PlainSource([subject]))
        metadata = ObjectMeta(
            name=LOGIN.name, namespace=LOGIN.namespace, resource_version="7", labels={labels.KYMA_NAME_LABEL: KYMA}
        )
        home.add(ACCESS_SECRETS, PlainSource([PartialObjectMetadata(metadata=metadata)] if self.has_login else []))
        secret = Secret(metadata=metadata, data={"config": base64.b64encode(FAR.content).decode()})
        loads: dict[Any, Any] = {SecretData(LOGIN, "7"): secret}
        loads.update({InlineObjects(text): ModuleObjects.of(text) for text in self.texts})
        loads.update(
            {ServedKind("", each.gvk, any_version=any_): each for each in self.served for any_ in (False, True)}
        )
        far = PlainSources(self.trouble)
        system = Namespace(metadata=ObjectMeta(name=labels.SYSTEM_NAMESPACE, uid=self.cluster))
        far.add(RUNTIME_NAMESPACES, PlainSource([system]))
        for resource in {each for each, _ in self.there}:
            found = [obj for each, obj in self.there if each == resource]
            far.add(module_objects(resource), PlainSource(found))
        far.add(manager_pods("default", "a=b"), PlainSource(self.pods))
        for resource in self.unlisted:
            far.add(module_objects(resource), PlainSource(why=NOT_LISTED))
        for resource in {each for each, _ in self.resources}:
            far.add(module_resources(resource), PlainSource([obj for each, obj in self.resources if each == resource]))
        return View(
            sources=home,
            now=self.now,
            settings=(SOURCES, ManifestSettings(pull_secret=self.pull_secret)),
            overlay=overlay,
            loads=_Loads(loads, self.unknown),
            clusters=PlainClusters({FAR: far}),
        )


def operation(status: ManifestStatus) -> str:
    return status.last_operation.operation if status.last_operation is not None else ""


def applied(course: Course[ManifestStatus]) -> tuple[DesiredObject, ...]:
    """The objects of the only apply."""
    (apply,) = [each for each in course.writes if isinstance(each, ApplyModule)]
    return apply.objects.wanted


def deleted(course: Course[ManifestStatus]) -> list[str]:
    return [each.seen.metadata.name for each in course.writes if isinstance(each, Delete)]


# ---- install


def test_a_new_manifest_gets_finalizers_lists_its_objects_and_then_applies_them() -> None:
    course = World().course(manifest())
    first, *rest = course.writes
    assert isinstance(first, Patch)
    assert first.fields == {
        "metadata": {
            "finalizers": [*FINALIZERS],
            "annotations": {labels.SYNCED_LAYER_ANNOTATION: InlineObjects(MODULE).digest},
        }
    }
    assert [type(each).__name__ for each in rest] == ["ApplyModule"]
    listed = next(number for number, step in enumerate(course.steps) if step.status and step.status.synced == SYNCED)
    applied = next(number for number, step in enumerate(course.steps) if rest[0] in step.writes)
    assert listed < applied, "a crash in between leaves nothing that is not listed"
    assert course.status.state is State.Processing
    assert is_true(course.status.conditions, "Resources")


def test_a_new_module_needs_a_patch_two_statuses_and_an_apply_for_each_object() -> None:
    """One status lists the objects before they are written, one shows the state at the end."""
    course = World().course(manifest())
    saved, is_draft, status = 0, False, ManifestStatus()
    for step in course.steps:
        saved += is_draft and bool(step.writes)
        is_draft = is_draft and not step.writes
        if step.status is not None and step.status != status:
            status, is_draft = step.status, True
    assert saved + is_draft == 2
    assert [type(each).__name__ for each in course.writes] == ["Patch", "ApplyModule"]
    assert len(applied(course)) == len(SYNCED)


def test_the_conditions_of_a_manifest_name_the_generation_that_its_state_is_about() -> None:
    """Also if the state is the same as before; while objects are brought up to date they name the former one."""
    world = World(there=after_the_first_pass(MODULE, WORKS))
    ready = installed(status=world.course(installed()).status)
    assert ready.status.state is State.Ready
    newer = MODULE.replace("red", "blue")
    spec = manifest(newer).spec
    moved = msgspec.structs.replace(
        ready, spec=spec, metadata=msgspec.structs.replace(ready.metadata, generation=2, resource_version="9")
    )
    world.texts = (MODULE, newer)
    course = world.course(moved)
    (applying,) = [each for each in course.steps if any(isinstance(write, ApplyModule) for write in each.writes)]
    for status, expected in ((applying.status, {1}), (course.status, {2})):
        assert status is not None
        assert {each.observed_generation for each in status.conditions} == expected
    world.trouble = "it is silent"
    failed = world.course(moved).status
    assert (failed.state, {each.observed_generation for each in failed.conditions}) == (State.Error, {2})


def test_a_manifest_that_waits_for_an_answer_after_its_finalizers_shows_no_status_for_that() -> None:
    world = World()
    world.unlisted = (CONFIG_MAPS,)
    course = world.course(manifest())
    assert [type(each).__name__ for each in course.writes] == ["Patch"]
    assert course.is_unknown
    assert course.status == ManifestStatus()


def test_a_default_resource_whose_kind_is_being_looked_for_is_no_error() -> None:
    gvk = SAMPLE.gvk
    body: JsonObject = {"apiVersion": SAMPLE.api_version, "kind": SAMPLE.kind, "metadata": {"name": "a"}}
    subject = installed(resource=body, finalizers=(*FINALIZERS, labels.RESOURCE_FINALIZER))
    world = World(there=[*EVERYTHING])
    for why, is_refused, state in (("it is being loaded", False, State.Processing), ("not served", True, State.Error)):
        world.unknown = {ServedKind("", gvk): Unknown(why, is_refused)}
        assert world.course(subject).status.state is state


def after_the_first_pass(text: str, status: JsonObject) -> list[tuple[Resource, Live]]:
    """The objects of a module as the API server has them, and a status of its manager."""
    overlay = Overlay()
    World(texts=(text,)).course(manifest(text)).writes[-1].rehearse(overlay, NOW)
    there: list[tuple[Resource, Live]] = []
    for collection, objects in overlay.on(FAR).answers.items():
        for each in objects.values():
            body = {**each.body, "metadata": msgspec.to_builtins(each.metadata)}
            if collection.resource.group == "apps":
                body |= {"metadata": {**body["metadata"], "generation": 1}, "status": status}
            there.append((collection.resource, Unstructured(body, each.metadata)))
    return there


@pytest.mark.req("KYMA-08", "KYMA-62")
def test_a_module_whose_manager_works_is_ready_and_needs_nothing_more() -> None:
    world = World(there=after_the_first_pass(MODULE, WORKS))
    course = world.course(installed())
    assert course.writes == []
    assert (course.status.state, operation(course.status)) == (State.Ready, "resources are ready")
    assert is_true(course.status.conditions, "Installation")
    again = world.course(installed(status=course.status))
    assert (again.writes, again.status) == ([], course.status)
    in_another_order = msgspec.structs.replace(course.status, synced=course.status.synced[::-1])
    again = world.course(installed(status=in_another_order))
    assert (again.writes, again.status) == ([], in_another_order)


@pytest.mark.req("KYMA-13", "KYMA-14")
def test_the_objects_carry_the_marks_of_kyma_and_their_namespaces() -> None:
    course = World().course(installed())
    bodies = {each.desired.key.name: each.desired.body for each in applied(course)}
    assert dig(bodies["manager"], "metadata", "namespace") == "default"
    assert dig(bodies["reader"], "metadata", "namespace") is None
    for body in bodies.values():
        assert dig(body, "metadata", "labels") == {
            labels.MANAGED_BY_LABEL: "kyma",
            labels.COMPONENT_LABEL: NAME,
            labels.PART_OF_LABEL: "Kyma",
        }
        assert dig(body, "metadata", "annotations") == {
            labels.OWNED_BY_ANNOTATION: f"kcp-system/{NAME}",
            labels.DISCLAIMER_ANNOTATION: DISCLAIMER,
        }


@pytest.mark.req("KYMA-52", "KYMA-53")
def test_images_are_those_of_the_landscape_and_workloads_get_the_pull_secret() -> None:
    image = "local.example.org/y/manager:1.0@sha256:" + "0" * 64
    subject = installed(localized_images=(image,))
    course = World(pull_secret="pull").course(subject)
    body = next(each.desired.body for each in applied(course) if each.desired.key.name == "manager")
    pod = dig(body, "spec", "template", "spec")
    assert dig(pod, "imagePullSecrets") == [{"name": "pull"}]
    assert dig(pod, "containers") == [
        {"name": "m", "image": image, "env": [{"name": "SKR_IMG_PULL_SECRET", "value": "pull"}]}
    ]


def test_custom_resources_wait_until_their_definition_is_established() -> None:
    world = World(texts=(MODULE + DEFINITION,))
    course = world.course(manifest(MODULE + DEFINITION))
    assert "Sample" not in {each.address.resource.kind for each in applied(course)}
    assert [each.message for each in course.steps[-1].waits] == [
        "waiting for resources to become ready: the API server begins to serve samples.operator.example.org"
    ]
    assert course.status.state is State.Processing


def test_a_kind_that_the_cluster_does_not_serve_holds_back_no_other_object() -> None:
    text = MODULE + "---\napiVersion: a.b/v1\nkind: Unknown\nmetadata: {name: x}\n"
    course = World(texts=(text,)).course(manifest(text))
    assert [type(each).__name__ for each in course.writes] == ["Patch", "ApplyModule"]
    assert (course.status.state, operation(course.status)) == (State.Error, "the API server serves no a.b/v1 Unknown")


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        pytest.param("apiVersion: v1\nkind: ConfigMap\nmetadata: {}\n", "has no metadata.name", id="no name"),
        pytest.param(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {b: 1}}\n", "is not text", id="number"
        ),
    ],
)
def test_a_module_that_cannot_be_rendered_is_an_error_with_its_cause(text: str, cause: str) -> None:
    course = World(texts=(text,)).course(manifest(text))
    assert course.writes == []
    assert course.status.state is State.Error
    assert cause in operation(course.status)


@pytest.mark.parametrize(
    ("started", "ready", "state"),
    [(True, True, State.Ready), (True, False, State.Processing), (False, False, State.Error)],
)
def test_a_stateful_set_that_is_not_ready_is_judged_by_its_first_pod(started: bool, ready: bool, state: State) -> None:
    text = MODULE.replace("kind: Deployment", "kind: StatefulSet")
    synced = [msgspec.structs.replace(each, kind=each.kind.replace("Deployment", "StatefulSet")) for each in SYNCED]
    subject = installed(text, status=ManifestStatus(state=State.Processing, synced=tuple(sorted(synced))))
    there = after_the_first_pass(text, {"observedGeneration": 1, "replicas": 1})
    containers = [{"name": "m", "started": started, "ready": ready}]
    pod = live(built_in("v1", "Pod"), "manager-0", "default", status={"containerStatuses": containers})
    course = World(there=there, pods=[pod], texts=(text,)).course(subject)
    assert (course.writes, course.status.state) == ([], state)


def test_only_pods_of_managers_are_declared() -> None:
    assert is_of_modules(manager_pods("ours", "a=b"))
    assert not is_of_modules(Collection(unstructured(built_in("v1", "Pod"))))


# ---- what leaves a module


def test_objects_that_a_new_layer_does_not_have_go_before_it_is_applied() -> None:
    former = SyncedResource(group="", version="v1", kind="ConfigMap", name="former", namespace="ours")
    subject = installed(
        annotations={labels.SYNCED_LAYER_ANNOTATION: "sha256:former"},
        status=ManifestStatus(state=State.Ready, synced=(former,)),
    )
    course = World(there=[(CONFIG_MAPS, live(CONFIG_MAPS, "former", "ours"))]).course(subject)
    assert deleted(course) == ["former"]
    assert not [each for each in course.writes if isinstance(each, ApplyModule)]
    assert former in course.status.synced
    gone = World().course(msgspec.structs.replace(subject, status=course.status))
    assert [type(each).__name__ for each in gone.writes] == ["ApplyModule", "Patch"], "the new layer is noted last"
    assert gone.status.synced == SYNCED


def test_a_new_layer_is_noted_when_the_state_that_follows_from_it_is_saved() -> None:
    """Else Ready of the former layer would be taken for that of the new one."""
    subject = installed(
        annotations={labels.SYNCED_LAYER_ANNOTATION: "sha256:former"},
        status=ManifestStatus(state=State.Ready, synced=SYNCED),
    )
    course = World().course(subject)
    noted = next(
        number for number, step in enumerate(course.steps) if any(isinstance(each, Patch) for each in step.writes)
    )
    before = [step.status.state for step in course.steps[:noted] if step.status is not None]
    assert before[-1] is course.status.state is State.Processing


def test_nothing_is_deleted_if_the_same_layer_lacks_objects() -> None:
    former = SyncedResource(group="", version="v1", kind="ConfigMap", name="former", namespace="ours")
    subject = installed(status=ManifestStatus(state=State.Ready, synced=(*SYNCED, former)))
    course = World(there=[(CONFIG_MAPS, live(CONFIG_MAPS, "former", "ours"))]).course(subject)
    assert course.writes == []
    assert course.status.state is State.Warning
    assert operation(course.status).startswith("resource syncTarget diff detected but in same oci layer")
    assert former in course.status.synced


LATER = SyncedResource(group="a.b", version="v1", kind="Later", name="precious", namespace="ours")
WITH_LATER = MODULE + "---\napiVersion: a.b/v2\nkind: Later\nmetadata: {name: precious, namespace: ours}\n"


@pytest.mark.parametrize("is_refused", [False, True], ids=["unknown", "not served"])
def test_an_object_stays_if_its_kind_cannot_be_found(is_refused: bool) -> None:
    """A new layer wants it in a version that the cluster does not serve, or that it is not known to serve yet."""
    subject = installed(
        WITH_LATER,
        annotations={labels.SYNCED_LAYER_ANNOTATION: "sha256:former"},
        status=ManifestStatus(state=State.Ready, synced=(*SYNCED, LATER)),
    )
    resource = Resource("a.b", "v1", "Later", "laters", True)
    world = World(
        texts=(WITH_LATER,), served=(resource,), there=[*EVERYTHING, (resource, live(resource, "precious", "ours"))]
    )
    asked = GroupVersionKind("a.b", "v2", "Later")
    world.unknown = {ServedKind("", asked): Unknown("it cannot be asked", is_refused)}
    course = world.course(subject)
    assert deleted(course) == []
    assert bool(course.writes) is is_refused, "as long as nothing is known, nothing is written"
    assert LATER in course.status.synced
    assert "it cannot be asked" in operation(course.status)


@pytest.mark.req("R-505")
@pytest.mark.parametrize(
    "marks",
    [{"labels": {}}, {"annotations": {labels.OWNED_BY_ANNOTATION: "kcp-system/another"}}],
    ids=["bare", "of another"],
)
def test_an_object_that_is_not_ours_any_more_stays(marks: dict[str, Any]) -> None:
    former = SyncedResource(group="", version="v1", kind="ConfigMap", name="former", namespace="ours")
    subject = leaving(status=ManifestStatus(state=State.Ready, synced=(former,)))
    course = World(there=[(CONFIG_MAPS, live(CONFIG_MAPS, "former", "ours", metadata=marks))]).course(subject)
    assert deleted(course) == []


# ---- whose it is


@pytest.mark.req("KYMA-47")
def test_a_manifest_without_its_kyma_is_an_orphan_and_its_objects_stay() -> None:
    course = World(kyma=None, there=[*EVERYTHING]).course(installed())
    assert (course.writes, course.status.state) == ([], State.Error)
    assert operation(course.status).startswith("orphaned manifest detected: parent Kyma does not exist")


@pytest.mark.req("KYMA-47")
@pytest.mark.parametrize(
    ("age", "mandatory", "is_orphan"), [(299, False, False), (300, False, True), (300, True, False)]
)
def test_a_manifest_that_its_kyma_does_not_know_is_an_orphan_after_five_minutes(
    age: int, mandatory: bool, is_orphan: bool
) -> None:
    marks = {labels.KYMA_NAME_LABEL: KYMA, **({labels.MANDATORY_MODULE_LABEL: "true"} if mandatory else {})}
    subject = manifest(creation_timestamp=NOW - timedelta(seconds=age), labels=marks)
    course = World().course(subject)
    assert (course.writes == []) is is_orphan
    assert ("not referenced in Kyma status" in operation(course.status)) is is_orphan


@pytest.mark.req("KYMA-42")
def test_a_manifest_that_is_to_be_left_alone_needs_nothing_even_if_it_is_deleted() -> None:
    marks = {labels.KYMA_NAME_LABEL: KYMA, labels.SKIP_RECONCILIATION_LABEL: "true"}
    for subject in (manifest(labels=marks), leaving(labels=marks)):
        course = World().course(subject)
        assert (course.writes, course.status) == ([], subject.status)


def test_a_missing_login_is_an_error_and_a_silent_cluster_names_its_cause() -> None:
    assert "access secret not found" in operation(World(has_login=False).course(manifest()).status)
    course = World(trouble="it does not answer").course(installed())
    assert (course.writes, course.status.state) == ([], State.Error)
    assert "it does not answer" in operation(course.status)


@pytest.mark.req("R-210")
def test_nothing_is_written_to_another_cluster_than_the_one_of_the_kyma() -> None:
    noted = ObjectMeta(
        name=KYMA, namespace=labels.KCP_NAMESPACE, uid="k1", annotations={labels.CLUSTER_ANNOTATION: "one"}
    )
    for subject in (
        manifest(),
        installed(),
        leaving(),
        installed(annotations={labels.IS_UNMANAGED_ANNOTATION: "true"}),
    ):
        course = World(kyma=Kyma(metadata=noted), there=[*EVERYTHING], cluster="two").course(subject)
        assert (course.writes, course.status.state) == ([], State.Error)
        assert "leads to another cluster than before" in operation(course.status)
        assert World(kyma=Kyma(metadata=noted), there=[*EVERYTHING]).course(subject).writes


def test_a_moment_in_which_nothing_is_known_shows_nothing_and_missing_rights_are_an_error() -> None:
    logic, subject = ManifestLogic(FakeClock()), installed()
    view = World().view(subject, Overlay())
    for why, state in ((NOT_LISTED, None), ("not permitted to list and watch configmaps", State.Error)):
        step = logic.unknown(subject, view, NotKnown("ConfigMap ours/settings", why))
        assert (step.status.state if step.status is not None else None) is state


# ---- the default custom resource

DEFAULT: JsonObject = {
    "apiVersion": "operator.example.org/v1",
    "kind": "Sample",
    "metadata": {"name": "s", "namespace": "ours"},
}


def a_resource(name: str, namespace: str = "ours", finalizers: tuple[str, ...] = ()) -> PartialObjectMetadata:
    metadata = ObjectMeta(name=name, namespace=namespace, uid=f"uid-{name}", finalizers=finalizers)
    return PartialObjectMetadata(metadata=metadata)


@pytest.mark.req("KYMA-16")
def test_the_default_custom_resource_is_created_once() -> None:
    subject = manifest(resource=DEFAULT)
    course = World(served=(SAMPLE,)).course(subject)
    (create,) = [each for each in course.writes if isinstance(each, Create)]
    assert (create.body, create.field_manager) == (DEFAULT, labels.RESOURCE_MANAGER)
    assert is_true(course.status.conditions, "ModuleCR")
    after = installed(resource=DEFAULT, finalizers=(*FINALIZERS, labels.RESOURCE_FINALIZER), status=course.status)
    again = World(served=(SAMPLE,), there=[*EVERYTHING]).course(after)
    assert not [each for each in again.writes if isinstance(each, Create)], "its users have deleted it"


@pytest.mark.req("R-210")
def test_the_default_custom_resource_is_created_once_in_each_cluster_of_the_kyma() -> None:
    """The cluster is noted with the finalizers, and a new one when the status says that nothing was created there."""
    first = World(served=(SAMPLE,)).course(manifest(resource=DEFAULT))
    (noted, *_) = first.writes
    assert isinstance(noted, Patch)
    assert dig(noted.fields, "metadata", "annotations", labels.CLUSTER_ANNOTATION) == "one"
    layer = {labels.SYNCED_LAYER_ANNOTATION: InlineObjects(MODULE).digest}
    there: dict[str, Any] = {
        "resource": DEFAULT,
        "finalizers": (*FINALIZERS, labels.RESOURCE_FINALIZER),
        "status": first.status,
    }
    before = installed(**there, annotations={**layer, labels.CLUSTER_ANNOTATION: "one"})
    moved = World(served=(SAMPLE,), cluster="two").course(before)
    assert [type(each).__name__ for each in moved.writes] == ["Patch", "ApplyModule", "Create"]
    note = next(
        number for number, step in enumerate(moved.steps) if any(isinstance(each, Patch) for each in step.writes)
    )
    assert any(step.status and not is_true(step.status.conditions, "ModuleCR") for step in moved.steps[:note])
    assert is_true(moved.status.conditions, "ModuleCR")
    after = installed(**{**there, "status": moved.status}, annotations={**layer, labels.CLUSTER_ANNOTATION: "two"})
    assert World(served=(SAMPLE,), there=after_the_first_pass(MODULE, WORKS), cluster="two").course(after).writes == []
    former = World(served=(SAMPLE,), there=after_the_first_pass(MODULE, WORKS)).course(installed(**there))
    assert former.writes == [], "a Manifest that does not say where is left as it is"


@pytest.mark.req("KYMA-17")
def test_a_policy_that_ignores_it_creates_none() -> None:
    course = World(served=(SAMPLE,)).course(manifest(resource=DEFAULT, custom_resource_policy="Ignore"))
    assert not [each for each in course.writes if isinstance(each, Create)]
    assert [each.type for each in course.status.conditions] == ["Resources", "Installation"]


# ---- leaving


@pytest.mark.req("KYMA-19", "KYMA-34")
def test_a_module_goes_with_its_workload_last_and_then_its_finalizers() -> None:
    course = World(there=[*EVERYTHING]).course(leaving())
    assert deleted(course) == ["settings", "manager", "reader"] or set(deleted(course)) == {
        "settings",
        "manager",
        "reader",
    }
    gone = World().course(leaving())
    (patch,) = gone.writes
    assert isinstance(patch, Patch)
    assert patch.fields == {"metadata": {"finalizers": []}}


@pytest.mark.req("KYMA-36")
def test_users_custom_resources_keep_everything() -> None:
    subject = leaving(resource=DEFAULT)
    world = World(there=[*EVERYTHING], served=(SAMPLE,), resources=[(SAMPLE, a_resource("theirs", "elsewhere"))])
    course = world.course(subject)
    assert (course.writes, course.status.state) == ([], State.Deleting)
    assert operation(course.status) == "waiting for module crs deletion: 1 Sample: elsewhere/theirs"


@pytest.mark.req("KYMA-34")
def test_the_default_custom_resource_goes_first() -> None:
    subject = leaving(resource=DEFAULT)
    world = World(there=[*EVERYTHING], served=(SAMPLE,), resources=[(SAMPLE, a_resource("s", finalizers=("theirs",)))])
    course = world.course(subject)
    assert deleted(course)[0] == "s"
    assert not set(deleted(course)) & {"settings", "manager", "reader"}
    assert course.status.state is State.Deleting
    assert "held by its finalizers theirs" in operation(course.status)


@pytest.mark.req("KYMA-35")
def test_a_module_whose_default_custom_resource_is_held_is_still_brought_up_to_date() -> None:
    """It may be the new version that lets go of it."""
    newer = MODULE.replace("manager:1.0", "manager:2.0").replace("colour: red", "colour: blue")
    former = {labels.SYNCED_LAYER_ANNOTATION: "sha256:former"}
    subject = installed(newer, deletion_timestamp=NOW, resource=DEFAULT, annotations=former)
    gone = PartialObjectMetadata(
        metadata=ObjectMeta(
            name="s", namespace="ours", uid="s1", finalizers=("example.org/theirs",), deletion_timestamp=NOW
        )
    )
    world = World(there=[*EVERYTHING], served=(SAMPLE,), resources=[(SAMPLE, gone)], texts=(newer,))
    course = world.course(subject)
    image = dig(
        next(each.desired.body for each in applied(course) if each.desired.key.name == "manager"),
        *("spec", "template", "spec", "containers"),
    )
    assert "manager:2.0" in str(image)
    assert deleted(course) == []
    assert course.status.state is not State.Ready


def test_a_module_goes_though_its_layer_cannot_be_read_any_more() -> None:
    """`status.synced` says what there is."""
    course = World(there=[*EVERYTHING], texts=()).course(leaving())
    assert set(deleted(course)) == {"settings", "manager", "reader"}


def test_a_kind_that_cannot_be_asked_for_is_not_taken_for_one_without_custom_resources() -> None:
    subject = leaving(resource=DEFAULT)
    asked = ServedKind("", SAMPLE.gvk, any_version=True)
    world = World(there=[*EVERYTHING], unknown={asked: Unknown("discovery fails")})
    course = world.course(subject)
    assert course.writes == []
    assert "discovery fails" in operation(course.status)


@pytest.mark.parametrize("marks", [{}, {labels.MODULE_NAME_LABEL: "template-operator"}], ids=["no module", "module"])
def test_without_a_login_all_finalizers_go_and_a_silent_cluster_keeps_them(marks: dict[str, str]) -> None:
    named = {labels.KYMA_NAME_LABEL: KYMA, **marks}
    (patch,) = World(has_login=False).course(leaving(labels=named)).writes
    assert isinstance(patch, Patch)
    assert patch.fields == {"metadata": {"finalizers": []}}
    course = World(trouble="it does not answer").course(leaving(labels=named))
    assert (course.writes, course.status.state) == ([], State.Error)


@pytest.mark.req("KYMA-45")
def test_finalizers_of_others_are_named() -> None:
    course = World().course(leaving(finalizers=(*FINALIZERS, "example.org/theirs")))
    (patch,) = course.writes
    assert isinstance(patch, Patch)
    assert patch.fields == {"metadata": {"finalizers": ["example.org/theirs"]}}
    assert operation(course.status) == "waiting as other finalizers are present: ['example.org/theirs']"


# ---- unmanaged


@pytest.mark.req("KYMA-38", "KYMA-41")
def test_an_unmanaged_module_loses_our_marks_and_keeps_its_objects() -> None:
    unmanaged = {labels.IS_UNMANAGED_ANNOTATION: "true"}
    watched = [
        {labels.MANAGED_BY_LABEL: labels.KYMA, labels.PART_OF_LABEL: labels.PART_OF, labels.WATCHED_BY_LABEL: each}
        for each in (labels.KYMA, "another")
    ]
    there: list[tuple[Resource, Live]] = [
        (CONFIG_MAPS, live(CONFIG_MAPS, "settings", "ours", metadata={"labels": watched[0]})),
        (DEPLOYMENTS, live(DEPLOYMENTS, "manager", "default", metadata={"labels": watched[1]})),
    ]
    course = World(there=there).course(installed(annotations=unmanaged))
    patches = [each for each in course.writes if isinstance(each, Patch)]
    managed, both = {labels.MANAGED_BY_LABEL: None}, {labels.MANAGED_BY_LABEL: None, labels.WATCHED_BY_LABEL: None}
    assert [each.fields for each in patches[:2]] == [{"metadata": {"labels": each}} for each in (both, managed)], (
        "the label of another watcher stays; the third object is gone, and holds nothing up"
    )
    assert deleted(course) == [NAME]
    (last,) = World().course(leaving(annotations=unmanaged)).writes
    assert isinstance(last, Patch)
    assert last.fields == {"metadata": {"finalizers": []}}


def test_the_manager_that_the_spec_names_may_be_missing_for_a_minute() -> None:
    manager = Manager(group="apps", version="v1", kind="Deployment", namespace="ours", name="other")
    for age, state in ((59, State.Processing), (60, State.Error)):
        subject = installed(manager=manager, creation_timestamp=NOW - timedelta(seconds=age))
        course = World().course(subject)
        assert course.status.state is state
        assert "Deployment ours/other does not exist" in operation(course.status)
