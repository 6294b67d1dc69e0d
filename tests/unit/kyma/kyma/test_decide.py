"""What a Kyma needs next, in a world of values: two clusters, and API servers that keep what is written."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from tests.unit.kyma.kyma.worlds import (
    DELETED,
    HOME,
    LOGIN,
    PREFIX,
    a_kyma,
    a_meta,
    a_template,
    access,
    component,
    contents,
    metadata,
    seen_of,
)

from stellwerk.api.core import Namespace
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import PartialObjectMetadata, Unreadable, Unstructured
from stellwerk.kube.types.object_meta import Condition, FieldManager
from stellwerk.operators.kyma import collections as known
from stellwerk.operators.kyma.api import Kyma
from stellwerk.operators.kyma.api_manifest import Manifest, ManifestStatus
from stellwerk.operators.kyma.api_module import ModuleReleaseMeta, ModuleTemplate
from stellwerk.operators.kyma.api_status import LastOperation, State
from stellwerk.operators.kyma.collections import MANIFESTS, RUNTIME_KYMAS
from stellwerk.operators.kyma.kyma.decide import KymaLogic, KymaSettings
from stellwerk.operators.kyma.kyma.sync import DEFINITIONS
from stellwerk.operators.kyma.module.resolution import Offers, manifest_name
from stellwerk.runtime.clock import SystemClock
from stellwerk.runtime.control.executor import next_step
from stellwerk.runtime.control.step import Apply, Create, Delete, Patch, Released, Show, Step, Write
from stellwerk.runtime.reading.loads import PlainLoads
from stellwerk.runtime.reading.questions import NOT_LISTED, Collection, PlainSource
from stellwerk.runtime.reading.view import Overlay, PlainClusters, PlainSources, View

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LOGIC = KymaLogic(SystemClock())
KEY = ObjectKey(HOME, "k")
THERE = ObjectKey("kyma-system", "default")
HELD: dict[str, Any] = {"finalizers": [f"{PREFIX}/Kyma"]}
FQDN = "kyma-project.io/module/amod"
AMOD = manifest_name("k", FQDN, "amod")
BEGAN = ["Patch Kyma kcp-system/k", "status Processing: started processing"]
"""What each new Kyma gets."""
PREPARED = [
    "Apply Namespace kyma-system",
    *(f"Apply CustomResourceDefinition {name}" for name in DEFINITIONS),
    "Create Kyma kyma-system/default",
]

DEFINED: dict[str, Collection[Any]] = {
    DEFINITIONS[0]: known.RUNTIME_KYMAS,
    DEFINITIONS[1]: known.RUNTIME_TEMPLATES,
    DEFINITIONS[2]: known.RUNTIME_METAS,
}


@dataclass
class World:
    """Both clusters."""

    kyma: Kyma | None = field(default_factory=a_kyma)
    settings: dict[str, Any] = field(default_factory=dict)
    metas: Sequence[ModuleReleaseMeta] = ()
    templates: Sequence[ModuleTemplate] = ()
    secrets: Sequence[PartialObjectMetadata] = field(default_factory=lambda: [access()])
    definitions: Sequence[str] = DEFINITIONS
    here: dict[Collection[Any], dict[ObjectKey, Any]] = field(default_factory=dict)
    there: dict[Collection[Any], dict[ObjectKey, Any]] = field(default_factory=dict)
    hidden: dict[Collection[Any], str] = field(default_factory=dict)
    """Collections that are not listed, and why."""
    unreadable: dict[Collection[Any], Unreadable] = field(default_factory=dict)
    trouble: str = ""
    events: list[str] = field(default_factory=list)
    now: datetime = NOW

    def view(self) -> View:
        """What a pass sees."""
        definitions = [seen_of(name, "", generation=3) for name in self.definitions]
        home = self._sources(
            {
                known.KYMAS: [self.kyma] if self.kyma else [],
                known.ACCESS_SECRETS: self.secrets,
                known.METAS: self.metas,
                known.TEMPLATES: self.templates,
                known.HOME_DEFINITIONS: definitions,
                known.OTHER_SECRETS: [seen_of("pull")],
                MANIFESTS: self.here.get(MANIFESTS, {}).values(),
            }
        )
        remote = PlainSources(self.trouble)
        for collection in known.RUNTIME_COLLECTIONS:
            remote.add(collection, self._source(collection, self.there.get(collection, {}).values()))
        settings = KymaSettings(offers=lambda view: Offers(component=component), **self.settings)
        return View(
            sources=home,
            now=self.now,
            settings=(settings,),
            loads=PlainLoads(contents(self.definitions)),
            clusters=PlainClusters({LOGIN: remote}),
        )

    def _sources(self, objects: dict[Collection[Any], Any]) -> PlainSources:
        sources = PlainSources()
        for collection, each in objects.items():
            sources.add(collection, self._source(collection, each))
        return sources

    def _source(self, collection: Collection[Any], objects: Any) -> PlainSource[Any]:
        unreadable = [self.unreadable[collection]] if collection in self.unreadable else []
        return PlainSource(list(objects), unreadable, why=self.hidden.get(collection, ""))

    # ---- what passes do

    def step(self) -> Step[Any]:
        assert self.kyma is not None
        return next_step(LOGIC, self.kyma, self.view())

    def run(self, most: int = 100) -> list[str]:
        """What is done until the Kyma rests, or after so many writes and statuses."""
        found: list[str] = []
        while self.kyma is not None:
            step = self.step()
            assert step.failure is None, step.failure
            is_new = step.status is not None and step.status != self.kyma.status
            if not step.writes and not is_new:
                return found
            for write in step.writes:
                if len(found) >= most:
                    return found
                found.append(named(write))
                if not self.perform(write):
                    self.events += [each.reason for each in step.events]
                    return found
            self.events += [each.reason for each in step.events]
            if is_new and self.kyma is not None:
                if len(found) >= most:
                    return found
                assert step.status is not None
                self.kyma = msgspec.structs.replace(self.kyma, status=step.status)
                if not step.writes:
                    found.append(f"status {self.kyma.status.state}: {self.operation}")
            assert len(found) < 100, found
        return found

    def perform(self, write: Write) -> bool:
        """Do what the API servers would do. Returns whether the Kyma is still held."""
        overlay = Overlay()
        try:
            write.rehearse(overlay, NOW)
        except Released:
            self.kyma = None
            return False
        self._keep(self.here, overlay, write)
        for other in overlay.clusters.values():
            self._keep(self.there, other, write)
        return True

    def _keep(self, cluster: dict[Collection[Any], dict[ObjectKey, Any]], overlay: Overlay, write: Write) -> None:
        for collection, answers in overlay.answers.items():
            objects = cluster.setdefault(collection, {})
            for key, answer in answers.items():
                if collection is known.KYMAS:
                    self.kyma = answer if answer.metadata.finalizers or not answer.metadata.is_terminating else None
                    continue
                kept = self._as_kept(collection, answer, objects.get(key), write)
                if kept is None:
                    objects.pop(key, None)
                    if collection is known.RUNTIME_DEFINITIONS:
                        self.there.pop(DEFINED[key.name], None)
                else:
                    objects[key] = kept

    def _as_kept(self, collection: Collection[Any], answer: Any, former: Any, write: Write) -> Any:
        if isinstance(write, Delete):  # what was seen of it may be a part
            gone = msgspec.structs.replace(former.metadata, deletion_timestamp=answer.metadata.deletion_timestamp)
            return (
                msgspec.structs.replace(former, metadata=gone)
                if gone.finalizers and not isinstance(former, Unstructured)
                else None
            )
        seen = answer.metadata
        if seen.is_terminating and not seen.finalizers:
            return None
        if isinstance(answer, Unstructured):
            conditions: Any = [{"type": "Established", "status": "True"}]
            return Unstructured.of({**answer.body, "status": {"conditions": conditions}})
        changed = {"uid": seen.uid or f"uid-of-{seen.name}", "resource_version": "8"}
        if isinstance(write, Apply) and write.field_manager == "catalog-sync":
            changed["managers"] = (FieldManager(manager="catalog-sync", operation="Apply"),)
        if collection is MANIFESTS:
            changed["finalizers"] = ("declarative.kyma-project.io/finalizer",)
            changed["generation"] = 1
            if former is not None:
                changed["generation"] = former.metadata.generation + (answer.spec != former.spec)
                answer = msgspec.structs.replace(answer, status=former.status)
        return msgspec.structs.replace(answer, metadata=msgspec.structs.replace(seen, **changed))

    # ---- what is looked at, and what others do

    @property
    def operation(self) -> str:
        assert self.kyma is not None
        last = self.kyma.status.last_operation
        return last.operation if last is not None else ""

    @property
    def state(self) -> State:
        assert self.kyma is not None
        return self.kyma.status.state

    @property
    def user(self) -> Kyma:
        """The Kyma of the remote cluster."""
        found: Kyma = self.there[RUNTIME_KYMAS][THERE]
        return found

    def edit(self, **spec: Any) -> None:
        """The user edits the Kyma of the remote cluster."""
        changed = msgspec.convert({"channel": "regular", **spec}, type(self.user.spec))
        self.there[RUNTIME_KYMAS][THERE] = msgspec.structs.replace(self.user, spec=changed)

    @property
    def manifest(self) -> Manifest:
        (found,) = self.here[MANIFESTS].values()
        assert isinstance(found, Manifest)
        return found

    def become(self, state: State, operation: str = "") -> None:
        """The controller of Manifests does its work."""
        about = Condition(type="Installation", status="True", observed_generation=self.manifest.metadata.generation)
        status = ManifestStatus(state=state, conditions=(about,), last_operation=LastOperation(operation=operation))
        changed = msgspec.structs.replace(self.manifest, status=status)
        self.here[MANIFESTS] = {changed.key: changed}

    def due(self) -> datetime | None:
        """When the Kyma looks again without a change."""
        view = self.view()
        assert self.kyma is not None
        next_step(LOGIC, self.kyma, view)
        return view.due

    def delete(self) -> None:
        """Somebody deletes the Kyma."""
        assert self.kyma is not None
        gone = msgspec.structs.replace(self.kyma.metadata, deletion_timestamp=datetime.fromisoformat(DELETED))
        self.kyma = msgspec.structs.replace(self.kyma, metadata=gone)

    def modules(self) -> dict[str, str]:
        """The states of the modules."""
        assert self.kyma is not None
        return {each.name: each.state for each in self.kyma.status.modules}


def named(write: Write) -> str:
    return f"{type(write).__name__} {write.about}"


def with_amod(**spec: Any) -> World:
    """A Kyma whose user wants a module with two channels."""
    return World(
        kyma=a_kyma(spec={"modules": [{"name": "amod", "managed": True}], **spec}),
        metas=[a_meta("amod", regular="1.0.0", fast="2.0.0")],
        templates=[a_template("amod", "1.0.0"), a_template("amod", "2.0.0")],
    )


def installed() -> World:
    """The same, Ready and at rest."""
    world = with_amod()
    world.run()
    world.become(State.Ready)
    world.run()
    assert (world.state, world.modules()) == (State.Ready, {"amod": "Ready"})
    world.events.clear()
    return world


# ---- a Kyma and its cluster


@pytest.mark.req("KYMA-01", "KYMA-62")
def test_a_kyma_without_modules_prepares_its_cluster_and_is_ready() -> None:
    """Each part in its turn, the state at the end, and then nothing."""
    world = World()

    assert world.run() == [
        *BEGAN,
        *PREPARED,
        "status Ready: kyma is ready",
        "Show the status of Kyma kyma-system/default",
    ]

    assert world.kyma is not None
    assert {(each.type, each.status, each.reason) for each in world.kyma.status.conditions} == {
        (each, "True", "Ready") for each in ("CRDsSync", "Modules", "ModuleCatalog")
    }
    assert world.user.status == world.kyma.status
    space: Namespace = world.there[known.RUNTIME_NAMESPACES][ObjectKey("", "kyma-system")]
    assert space.metadata.labels["istio-injection"] == "enabled"
    assert world.events == ["MetricsError", "RemoteInstallation"]
    assert world.run() == []


@pytest.mark.req("KYMA-02", "KYMA-03", "KYMA-46")
def test_a_kyma_without_a_usable_cluster_names_the_cause_and_works_as_soon_as_it_has_one() -> None:
    """Nothing is written, and every module shows it."""
    for spoil, cause, mend in TROUBLES:
        world = installed()
        spoil(world)
        done = world.run()
        assert [each.split(":")[0] for each in done] == ["status Error"]
        assert cause in world.operation
        assert world.kyma is not None
        assert [(each.state, cause in each.message) for each in world.kyma.status.modules] == [(State.Error, True)]
        assert world.kyma.status.modules[0].manifest is not None
        assert world.run() == []
        mend(world)
        assert world.run()[-2:] == ["status Ready: kyma is ready", "Show the status of Kyma kyma-system/default"]


CLUSTER = f"{PREFIX}/cluster-uid"


def a_cluster(uid: str) -> dict[ObjectKey, Namespace]:
    """What tells a cluster from others."""
    system = msgspec.convert({"metadata": {**metadata("kube-system", ""), "uid": uid}}, Namespace)
    return {system.key: system}


@pytest.mark.req("R-210")
def test_a_kyma_notes_its_cluster_before_anything_is_written_there() -> None:
    world = World(there={known.RUNTIME_NAMESPACES: a_cluster("one")})

    assert world.run()[:4] == [*BEGAN, "Patch Kyma kcp-system/k", PREPARED[0]]

    assert world.kyma is not None
    assert world.kyma.metadata.annotations == {CLUSTER: "one"}
    assert world.run() == []


@pytest.mark.req("R-210")
@pytest.mark.parametrize("is_leaving", [False, True], ids=["stays", "is deleted"])
@pytest.mark.parametrize("is_former", [False, True], ids=["in steps", "in the former order"])
def test_nothing_is_written_to_another_cluster_until_it_is_confirmed(is_leaving: bool, is_former: bool) -> None:
    """Neither the Kyma nor its end; what is confirmed is what the user was told, and the new cluster is noted."""
    world = with_amod()
    world.settings = {"is_deleted_as_before": is_former}
    world.there[known.RUNTIME_NAMESPACES] = a_cluster("one")
    world.run()
    world.become(State.Ready)
    world.run()
    assert world.state is State.Ready
    world.there = {known.RUNTIME_NAMESPACES: a_cluster("two")}  # an empty one
    if is_leaving:
        world.delete()

    done = world.run()

    assert {each.split(":")[0] for each in done} == {"status Deleting" if is_leaving else "status Error"}
    assert "Secret kcp-system/access leads to another cluster than before" in world.operation
    assert f"kubectl annotate kyma -n kcp-system k {CLUSTER}-" in world.operation
    assert [*world.there] == [known.RUNTIME_NAMESPACES], "nothing was written"
    assert not world.manifest.metadata.is_terminating
    assert world.run() == []
    assert world.kyma is not None
    confirmed = msgspec.structs.replace(world.kyma.metadata, annotations={})
    world.kyma = msgspec.structs.replace(world.kyma, metadata=confirmed)
    world.run()
    if is_leaving:
        assert world.manifest.metadata.is_terminating
    else:
        assert world.kyma.metadata.annotations == {CLUSTER: "two"}
        assert (world.state, THERE in world.there[RUNTIME_KYMAS]) == (State.Ready, True)


def _no_secret(world: World) -> None:
    world.secrets = []


def _two_secrets(world: World) -> None:
    world.secrets = [access(), access("another")]


def _silent(world: World) -> None:
    world.trouble = "it does not answer"


def _mended(world: World) -> None:
    world.secrets, world.trouble = [access()], ""


TROUBLES: tuple[tuple[Callable[[World], None], str, Callable[[World], None]], ...] = (
    (_no_secret, "access secret not found", _mended),
    (_two_secrets, "more than one secret found", _mended),
    (_silent, "it does not answer", _mended),
)


@pytest.mark.parametrize("collection", [*known.RUNTIME_COLLECTIONS, MANIFESTS, known.ACCESS_SECRETS, known.METAS,
                                        known.TEMPLATES, known.HOME_DEFINITIONS],
                         ids=lambda each: each.resource.plural)  # fmt: skip
@pytest.mark.parametrize("is_leaving", [False, True], ids=["stays", "is deleted"])
def test_what_is_not_listed_is_never_taken_for_absent(collection: Collection[Any], is_leaving: bool) -> None:
    """Nothing is written or released while it is not known what there is; the status of a Ready Kyma stays."""
    world = installed()
    objects = {**world.here, **world.there}
    if is_leaving:
        world.delete()
        assert world.kyma is not None
        world.kyma = msgspec.structs.replace(
            world.kyma, status=msgspec.structs.replace(world.kyma.status, state=State.Deleting)
        )
        unread = (known.RUNTIME_NAMESPACES, known.RUNTIME_SECRETS, known.RUNTIME_TEMPLATES, known.RUNTIME_METAS,
                  known.METAS, known.TEMPLATES, known.HOME_DEFINITIONS)  # fmt: skip
        if collection in unread:
            return
    elif collection is known.RUNTIME_SECRETS:
        world.settings["pull_secret"] = "pull"
    if collection is known.ACCESS_SECRETS:
        world.secrets = []
    if collection is known.HOME_DEFINITIONS:
        world.definitions = ()
    world.there.pop(collection, None)
    world.here.pop(collection, None)
    world.hidden[collection] = NOT_LISTED
    step = world.step()
    assert (step.writes, step.status, step.failure) == ((), None, None)
    assert [wait.message or wait.on for wait in step.waits]
    assert objects


@pytest.mark.req("KYMA-46")
@pytest.mark.parametrize("collection", [known.RUNTIME_NAMESPACES, known.RUNTIME_KYMAS, known.RUNTIME_TEMPLATES])
def test_a_cluster_that_lastingly_answers_nothing_of_use_is_an_error_with_its_cause(
    collection: Collection[Any],
) -> None:
    """Such as one that does not permit to list, or whose answer is no list."""
    world = installed()
    world.hidden[collection], former = "not permitted to list them", world.there.pop(collection)
    step = world.step()
    assert (step.writes, step.failure) == ((), None)
    assert step.status is not None
    assert step.status.state is State.Error
    assert step.status.last_operation.operation.endswith(
        "in the cluster of Secret kcp-system/access: not permitted to list them"
    )
    assert [each.state for each in step.status.modules] == [State.Error]
    world.hidden.clear()
    world.there[collection] = former
    world.delete()
    world.run(1)
    del world.there[known.RUNTIME_KYMAS]
    world.hidden[known.RUNTIME_KYMAS] = "not permitted to list them"
    left = world.step()
    assert (left.writes, left.status is not None and left.status.state) == ((), State.Deleting)


def test_what_the_control_plane_does_not_answer_changes_no_status() -> None:
    world = installed()
    world.hidden[known.METAS] = "not permitted to list them"
    assert (world.step().writes, world.step().status) == ((), None)


@pytest.mark.req("KYMA-59")
def test_whatever_a_crash_leaves_out_the_same_end_is_reached() -> None:
    """A process that dies between any two writes and statuses, with a module, a catalog and a pull Secret."""
    settings = {"pull_secret": "pull"}
    whole = with_amod()
    whole.settings = settings
    length = len(whole.run())
    for cut in range(1, length):
        world = with_amod()
        world.settings = settings
        world.run(cut)
        world.run()
        assert world.kyma == whole.kyma, cut
        assert {each: {*objects} for each, objects in world.there.items()} == {
            each: {*objects} for each, objects in whole.there.items()
        }
        assert world.here.keys() == whole.here.keys()
        assert world.run() == []


@pytest.mark.req("KYMA-42")
def test_a_kyma_that_is_skipped_or_unmanaged_is_left_alone() -> None:
    for kyma in (
        a_kyma(labels={f"{PREFIX}/skip-reconciliation": "True"}),
        a_kyma(status={"state": "Unmanaged"}, labels={f"{PREFIX}/managed-by": "x"}, **HELD),
    ):
        assert World(kyma=kyma).run() == []


def test_a_definition_or_a_pull_secret_that_is_missing_here_is_named_there_too() -> None:
    for spoil, cause, condition in (
        (lambda world: setattr(world, "definitions", DEFINITIONS[:2]), DEFINITIONS[2], "CRDsSync"),
        (lambda world: world.settings.update(pull_secret="other"), "Secret kcp-system/other does not exist",
         "SKRImagePullSecretSync"),
    ):  # fmt: skip
        world = installed()
        spoil(world)
        world.run()
        assert world.state is State.Error
        assert cause in world.operation
        assert world.kyma is not None
        broken = [each.type for each in world.kyma.status.conditions if each.status == "False"]
        assert broken == [condition]
        assert world.user.status.state is State.Error


@pytest.mark.req("KYMA-53")
def test_the_pull_secret_is_copied_and_its_condition_is_shown() -> None:
    world = World(settings={"pull_secret": "pull"})
    assert "Apply Secret kyma-system/pull" in world.run()
    assert world.kyma is not None
    assert {each.type: each.status for each in world.kyma.status.conditions}["SKRImagePullSecretSync"] == "True"
    assert world.there[known.RUNTIME_SECRETS][ObjectKey("kyma-system", "pull")].data == {"a": "e30="}


def test_a_kyma_is_looked_at_again_after_the_interval_of_its_state() -> None:
    world, moments = with_amod(), []
    world.run()
    for state in (State.Processing, State.Ready, State.Warning, State.Error):
        world.become(state)
        world.now += timedelta(seconds=3)
        world.run()
        due = world.due()
        assert due is not None
        moments.append((due - world.now).total_seconds())
    assert moments == [5, 300, 30, 30]


def test_modules_that_make_progress_are_shown_together_and_the_last_one_at_once() -> None:
    world = with_amod()
    world.run()
    world.become(State.Processing)
    assert world.run() == [], "it is Processing as before"
    assert world.due() == NOW + timedelta(seconds=2)
    world.now += timedelta(seconds=2)
    shown = ["status Processing: waiting for all modules to become ready"]
    assert world.run() == [*shown, "Show the status of Kyma kyma-system/default"]
    assert world.modules() == {"amod": "Processing"}
    world.become(State.Error, "it fails")
    assert world.run()[0].startswith("status Error"), "what a user may have to know waits for nothing"
    world.become(State.Ready)
    assert world.run()[0] == "status Ready: kyma is ready"


def test_a_clock_that_was_put_back_holds_no_status_back() -> None:
    world = with_amod()
    world.run()
    world.become(State.Processing)
    world.now -= timedelta(hours=1)
    assert world.run()[0] == "status Processing: waiting for all modules to become ready"


def test_a_kyma_is_created_when_its_definition_is_established_and_marked_as_the_one_that_was_seen() -> None:
    world = World()
    world.run(5)
    definitions = world.there[known.RUNTIME_DEFINITIONS]
    key = ObjectKey("", DEFINITIONS[0])
    established, definitions[key] = definitions[key], Unstructured.of({**definitions[key].body, "status": {}})
    assert world.run()[-1] == f"Apply CustomResourceDefinition {DEFINITIONS[2]}"
    assert [wait.on for wait in world.step().waits] == [(known.RUNTIME_DEFINITIONS, key)]
    definitions[key] = established
    world.run()
    assert world.kyma is not None
    marks = {**world.kyma.metadata.labels, "kyma-project.io/runtime-id": "r"}
    world.kyma = msgspec.structs.replace(
        world.kyma, metadata=msgspec.structs.replace(world.kyma.metadata, labels=marks)
    )
    (marking,) = world.step().writes
    assert isinstance(marking, Apply)
    assert marking.field_manager == "kyma-sync-context"
    assert marking.body["metadata"] == {
        "name": "default",
        "namespace": "kyma-system",
        "uid": "uid-of-default",
        "labels": {"kyma-project.io/runtime-id": "r"},
    }


# ---- modules


@pytest.mark.req("KYMA-04", "KYMA-06", "KYMA-08", "KYMA-09")
def test_a_module_becomes_a_manifest_and_its_state_is_shown_on_both_sides() -> None:
    world = with_amod()
    done = world.run()
    assert done[len(BEGAN) + len(PREPARED) :] == [
        "Apply ModuleTemplate kyma-system/amod-1.0.0",
        "Apply ModuleTemplate kyma-system/amod-2.0.0",
        "Apply ModuleReleaseMeta kyma-system/amod",
        "status Processing: started processing",
        f"Apply Manifest kcp-system/{AMOD}",
        "status Processing: waiting for all modules to become ready",
        "Show the status of Kyma kyma-system/default",
    ]
    assert [each.name for each in world.user.spec.modules] == ["amod"]
    made = world.manifest.metadata
    assert made.labels[f"{PREFIX}/kyma-name"] == "k"
    assert made.controller is not None
    assert made.controller.name == "k"
    world.become(State.Ready)
    assert world.run() == ["status Ready: kyma is ready", "Show the status of Kyma kyma-system/default"]
    (here,), (there,) = world.kyma.status.modules, world.user.status.modules  # type: ignore[union-attr]
    assert (here.state, here.version, here.channel) == (State.Ready, "1.0.0", "regular")
    assert here.manifest is not None
    assert there.manifest is None
    assert there.template is not None
    assert there.template.metadata.namespace == "kyma-system"


@pytest.mark.req("KYMA-04", "KYMA-05", "KYMA-20", "KYMA-21")
def test_what_the_user_edits_is_followed_and_the_default_list_is_not() -> None:
    world = installed()
    assert world.kyma is not None
    world.kyma = msgspec.structs.replace(world.kyma, spec=a_kyma(spec={"modules": []}).spec)
    assert world.run() == []
    world.edit(channel="fast", modules=[{"name": "amod"}])
    assert world.run()[0] == f"Apply Manifest kcp-system/{AMOD}"
    assert world.manifest.spec.version == "2.0.0"
    world.become(State.Ready)
    world.run()
    assert world.kyma.status.active_channel == "fast"
    world.edit(channel="regular", modules=[{"name": "amod"}])
    world.run()
    assert (world.state, world.manifest.spec.version) == (State.Warning, "2.0.0")
    assert "ignore channel skew" in world.user.status.modules[0].message
    del world.there[RUNTIME_KYMAS][THERE]
    assert world.run()[0] == "Create Kyma kyma-system/default"
    assert world.user.spec.modules == ()


@pytest.mark.req("KYMA-34")
def test_wherever_a_pass_is_cut_off_a_module_that_is_removed_then_leaves_no_manifest() -> None:
    """A Manifest that no status names would be nobody's: a status names it before it is created."""
    for cut in range(len(BEGAN) + len(PREPARED), 20):
        world = with_amod()
        world.run(cut)
        world.edit(modules=[])
        world.run()
        if world.here.get(MANIFESTS):
            assert world.manifest.metadata.is_terminating
            assert [each.text for each in world.step().waits] == ["module amod is being removed"]
            world.here[MANIFESTS] = {}
            world.run()
        assert (world.state, world.modules(), world.user.status.modules) == (State.Ready, {}, ())


WISHES: dict[str, list[dict[str, Any]]] = {
    "regular": [{"name": "amod"}],
    "fast": [{"name": "amod", "channel": "fast"}],
    "nowhere": [{"name": "amod", "channel": "nowhere"}],
    "let go": [{"name": "amod", "managed": False}],
    "leave": [],
}


@pytest.mark.req("R-109", "KYMA-34")
@pytest.mark.parametrize("seed", range(40))
def test_a_kyma_that_rests_has_what_its_user_wants_or_names_what_it_waits_for(seed: int) -> None:
    """Whatever the user wanted before, and however far the Manifest has come with that."""
    chance, world = random.Random(seed), with_amod()
    world.run()
    for _ in range(8):
        wish = chance.choice([*WISHES])
        world.edit(modules=WISHES[wish])
        for _ in range(chance.randint(0, 3)):
            world.run(most=chance.choice([1, 2, 100]))
            _manifest_acts(world, chance)
        world.run()
        world.now += timedelta(seconds=3)  # progress is shown now and then
        world.run()
        found = list(world.here.get(MANIFESTS, {}).values())
        is_settled = all(_is_settled(each) for each in found)
        shown = {"leave": "", "let go": "Unmanaged"}.get(wish, "Ready")
        is_met = is_settled and list(world.modules().values()) == [shown][: bool(shown)]
        assert bool(world.step().waits) is not is_met, (wish, found, world.modules())
        is_left_behind = any(not each.metadata.is_terminating and not _is_let_go(each) for each in found)
        assert not (wish == "leave" and is_left_behind)


def _is_let_go(manifest: Manifest) -> bool:
    return f"{PREFIX}/is-unmanaged" in manifest.metadata.annotations


def _is_settled(manifest: Manifest) -> bool:
    """Whether it stays as it is: it is Ready and not being deleted; or it goes by itself and nothing waits for that."""
    metadata = manifest.metadata
    is_about = all(each.observed_generation == metadata.generation for each in manifest.status.conditions)
    return _is_let_go(manifest) or (manifest.status.state is State.Ready and is_about and not metadata.is_terminating)


def _manifest_acts(world: World, chance: random.Random) -> None:
    """The controller of Manifests goes one step."""
    if not world.here.get(MANIFESTS):
        return
    if _is_let_go(world.manifest) or world.manifest.metadata.is_terminating:
        if chance.random() < 0.5:
            world.here[MANIFESTS] = {}
        elif world.manifest.metadata.is_terminating:
            world.become(State.Deleting, "waiting for module crs deletion")
        return
    world.become(chance.choice([State.Ready, State.Ready, State.Processing, State.Error]), "why")


@pytest.mark.req("KYMA-21")
def test_a_module_with_a_new_version_is_not_ready_before_its_manifest_is_so_about_that_version() -> None:
    """However far the pass has come, and whoever reads the status on the way: on both sides, in each step."""
    world = installed()
    world.edit(channel="fast", modules=[{"name": "amod"}])
    assert world.kyma is not None
    while world.run(most=1):
        for module in (*world.kyma.status.modules, *world.user.status.modules):
            assert (module.version, module.state) != ("2.0.0", "Ready")
    assert (world.state, world.modules()) == (State.Processing, {"amod": "Processing"})
    world.become(State.Ready)
    world.run()
    assert [(each.version, each.state) for each in world.user.status.modules] == [("2.0.0", State.Ready)]


@pytest.mark.req("KYMA-27")
def test_the_channel_none_is_an_error_that_the_user_reads() -> None:
    world = installed()
    world.edit(channel="none")
    assert world.run() == [
        'status Error: invalid kyma spec: value "none" is not allowed in spec.channel',
        "Show the status of Kyma kyma-system/default",
    ]
    assert world.user.status.state is State.Error


@pytest.mark.req("KYMA-34")
def test_a_module_that_its_user_removes_goes_with_its_manifest() -> None:
    world = installed()
    world.edit(modules=[])
    assert world.run()[0] == f"Delete Manifest kcp-system/{AMOD}"
    world.become(State.Deleting)
    world.run()
    assert (world.state, world.modules()) == (State.Processing, {"amod": "Deleting"})
    del world.here[MANIFESTS][ObjectKey(HOME, AMOD)]
    world.run()
    assert (world.state, world.modules()) == (State.Ready, {})


@pytest.mark.req("KYMA-38", "KYMA-39", "KYMA-40")
def test_a_module_that_its_user_manages_is_left_to_them() -> None:
    world = installed()
    world.edit(modules=[{"name": "amod", "managed": False}])
    world.run()
    assert world.manifest.metadata.annotations[f"{PREFIX}/is-unmanaged"] == "true"
    assert (world.state, world.modules()) == (State.Ready, {"amod": "Unmanaged"})
    del world.here[MANIFESTS][ObjectKey(HOME, AMOD)]
    assert world.run() == []
    world.edit(modules=[{"name": "amod", "managed": True}])
    assert world.run()[0] == f"Apply Manifest kcp-system/{AMOD}"


@pytest.mark.req("KYMA-32")
def test_the_catalog_is_restored_and_objects_of_the_user_stay() -> None:
    world = installed()
    templates = world.there[known.RUNTIME_TEMPLATES]
    mine = a_template("mine", "1.0.0")
    templates[mine.key] = mine
    del templates[ObjectKey("kyma-system", "amod-2.0.0")]
    assert world.run() == ["Apply ModuleTemplate kyma-system/amod-2.0.0"]
    world.metas, world.templates = [a_meta("amod", regular="1.0.0")], world.templates[:1]
    assert world.run() == [
        "Apply ModuleReleaseMeta kyma-system/amod",
        "Delete ModuleTemplate kyma-system/amod-2.0.0",
    ]
    assert mine.key in templates
    assert world.kyma is not None
    labelled = msgspec.structs.replace(
        world.kyma.metadata, labels={**world.kyma.metadata.labels, f"{PREFIX}/sync": "False"}
    )
    world.kyma = msgspec.structs.replace(world.kyma, metadata=labelled)
    del templates[ObjectKey("kyma-system", "amod-1.0.0")]
    assert world.run() == []


def test_a_catalog_with_an_object_that_cannot_be_read_is_left_and_modules_go_on() -> None:
    for collection in (known.TEMPLATES, known.METAS, known.RUNTIME_TEMPLATES, known.RUNTIME_METAS):
        world = with_amod()
        meta = seen_of("other-1.0.0").metadata
        world.unreadable[collection] = Unreadable(collection.resource, meta, "spec is no object")
        done = world.run()
        assert f"Apply Manifest kcp-system/{AMOD}" in done
        assert not [each for each in done if each.startswith(("Apply ModuleT", "Apply ModuleR", "Delete"))]
        assert world.kyma is not None
        assert {each.type: each.status for each in world.kyma.status.conditions}["ModuleCatalog"] == "False"
        assert any("cannot be read" in str(wait.on) for wait in world.step().waits)


# ---- writes that are refused


def refused(step: Step[Any], about: str) -> Any:
    """The failure if the write about an object is refused."""
    (write,) = [each for each in step.writes if each.about == about]
    assert isinstance(write, Apply | Create | Patch | Delete | Show)
    return write.refused("it is refused", None)


def test_a_manifest_that_is_refused_fails_its_module_alone_and_is_tried_again() -> None:
    world = installed()
    world.metas = [a_meta("amod", regular="1.0.0", fast="2.0.0"), a_meta("bmod", regular="1.0.0")]
    world.templates = [*world.templates, a_template("bmod", "1.0.0")]
    world.edit(channel="fast", modules=[{"name": "amod"}, {"name": "bmod", "channel": "regular"}])
    world.run(most=1)
    step = world.step()
    assert step.is_independent
    failure = refused(step, f"Manifest kcp-system/{AMOD}")
    shown = {each.name: (each.state, each.message) for each in failure.status.modules}
    assert shown == {"amod": (State.Error, "it is refused"), "bmod": (State.Unset, "")}
    assert (failure.status.state, failure.message) == (State.Error, "it is refused")
    assert world.kyma is not None
    world.kyma = msgspec.structs.replace(world.kyma, status=failure.status)
    assert named(world.step().writes[0]) == "Show the status of Kyma kyma-system/default", "the user reads it first"
    world.perform(world.step().writes[0])
    assert f"Manifest kcp-system/{AMOD}" in [each.about for each in world.step().writes]


@pytest.mark.parametrize(
    ("cut", "about", "message", "reason", "broken"),
    [
        (3, f"CustomResourceDefinition {DEFINITIONS[0]}", "failed to sync CRDs to SKR: it is refused", "PatchStatus",
         {"CRDsSync"}),
        (6, "Kyma kyma-system/default", "it is refused", "MetadataSynchronization", set[str]()),
        (8, "ModuleReleaseMeta kyma-system/amod", "catalog sync: Could not apply ModuleTemplates: it is refused",
         "PatchStatus", {"ModuleCatalog"}),
        (13, "the status of Kyma kyma-system/default", "it is refused", "StatusSynchronization", set[str]()),
    ],
)  # fmt: skip
def test_what_the_cluster_refuses_is_an_error_with_its_condition(
    cut: int, about: str, message: str, reason: str, broken: set[str]
) -> None:
    world = with_amod()
    world.run(cut)
    if not world.step().writes:
        world.run(most=1)
    failure = refused(world.step(), about)
    assert (failure.message, failure.event_reason, failure.status.state) == (message, reason, State.Error)
    assert {each.type for each in failure.status.conditions if each.status == "False"} >= broken
    assert world.kyma is not None
    world.kyma = msgspec.structs.replace(world.kyma, status=failure.status)
    again = world.step()
    if any(each.about == about for each in again.writes):
        assert refused(again, about).status == failure.status, "the same failure is no other status"


# ---- the end


@pytest.mark.req("KYMA-43")
def test_a_kyma_is_deleted_in_the_steps_that_its_events_name() -> None:
    world = installed()
    hidden: list[str] = []
    world.settings = {
        "has_series": lambda kyma: not hidden,
        "hide_series": lambda kyma: hidden.append(kyma.metadata.name),
    }
    world.delete()
    done = _run_hiding(world, hidden)
    assert done == [
        "status Deleting: waiting for modules to be deleted",
        "Show the status of Kyma kyma-system/default",
        f"Delete Manifest kcp-system/{AMOD}",
        f"Delete CustomResourceDefinition {DEFINITIONS[1]}",
        f"Delete CustomResourceDefinition {DEFINITIONS[2]}",
        "Delete Kyma kyma-system/default",
        f"Delete CustomResourceDefinition {DEFINITIONS[0]}",
        "HideSeries the series of Kyma kcp-system/k",
    ]
    step = world.step()
    assert [wait.on for wait in step.waits] == [(MANIFESTS, ObjectKey(HOME, AMOD))]
    world.here[MANIFESTS] = {}
    world.run()
    assert world.kyma is None
    assert world.events == [
        "SetKcpKymaStateDeleting",
        "SetSkrKymaStateDeleting",
        "DeleteManifests",
        "DeleteSkrModuleTemplateCrd",
        "DeleteSkrModuleReleaseMetaCrd",
        "DeleteSkrKyma",
        "DeleteSkrKymaCrd",
        "DeleteMetrics",
        "DropKymaFinalizer",
    ]
    assert known.RUNTIME_NAMESPACES in world.there, "the namespace stays"


def _run_hiding(world: World, hidden: list[str]) -> list[str]:
    """As `run`; the series end as the process would end them."""
    former = world.perform

    def perform(write: Write) -> bool:
        if type(write).__name__ == "HideSeries":
            hidden.append("k")
        return former(write)

    world.perform = perform  # type: ignore[method-assign]
    return world.run()


@pytest.mark.req("KYMA-44")
@pytest.mark.parametrize("is_former", [False, True], ids=["in steps", "in the former order"])
def test_a_kyma_whose_cluster_does_not_answer_stays_until_its_secret_is_gone(is_former: bool) -> None:
    """Without the Secret what is in the cluster is left, and the Kyma does not wait for it."""
    world = installed()
    world.settings = {"is_deleted_as_before": is_former}
    world.delete()
    world.trouble = "it does not answer"
    world.run()
    assert world.state is State.Deleting
    assert "it does not answer" in world.operation
    assert world.run() == []
    assert world.manifest.metadata.is_terminating is False, "its finalizer would be dropped if the Secret were gone"
    world.secrets, world.trouble = [access(), access("another")], ""
    world.run()
    assert "more than one secret found" in world.operation
    world.secrets = []
    world.run()
    assert is_former or world.manifest.metadata.is_terminating
    world.here[MANIFESTS] = {}
    world.run()
    assert world.kyma is None
    assert world.there[known.RUNTIME_TEMPLATES], "nothing there was touched"


def test_in_the_former_order_a_kyma_is_deleted_with_its_catalog_and_its_definitions_stay() -> None:
    world = installed()
    world.settings = {"is_deleted_as_before": True}
    held = msgspec.structs.replace(world.user.metadata, finalizers=("others/one",))
    world.there[RUNTIME_KYMAS][THERE] = msgspec.structs.replace(world.user, metadata=held)
    mine = a_template("mine", "1.0.0")
    world.there[known.RUNTIME_TEMPLATES][mine.key] = mine
    world.delete()
    assert world.run() == [
        "Delete Kyma kyma-system/default",
        "status Deleting: waiting for modules to be deleted",
        "Delete ModuleTemplate kyma-system/amod-1.0.0",
        "Delete ModuleTemplate kyma-system/amod-2.0.0",
        "Delete ModuleReleaseMeta kyma-system/amod",
        "Patch Kyma kyma-system/default",
        f"Delete Manifest kcp-system/{AMOD}",
        "status Deleting: manifests still exist",
    ]
    assert [*world.there[known.RUNTIME_TEMPLATES]] == [mine.key]
    assert len(world.there[known.RUNTIME_DEFINITIONS]) == 3
    world.here[MANIFESTS] = {}
    world.run()
    assert world.kyma is None
    assert world.events == []


@pytest.mark.req("KYMA-59")
@pytest.mark.parametrize("is_former", [False, True], ids=["in steps", "in the former order"])
def test_whatever_a_crash_leaves_out_a_deletion_ends(is_former: bool) -> None:
    for cut in range(1, 12):
        world = installed()
        world.settings = {"is_deleted_as_before": is_former}
        world.delete()
        world.run(cut)
        world.run()
        world.here[MANIFESTS] = {}
        world.run()
        assert world.kyma is None, cut


@pytest.mark.req("KYMA-45")
def test_a_kyma_that_only_others_hold_names_them_once() -> None:
    world = World(kyma=a_kyma(finalizers=["others/one"], deletionTimestamp=DELETED))
    assert world.run() == ["status Deleting: waiting as other finalizers are present: [others/one]"]
    assert world.events == ["KymaDeletionStuck"]
    assert world.run() == []


def test_a_step_of_a_deletion_that_is_refused_is_named() -> None:
    world = installed()
    world.delete()
    world.run(2)
    failure = refused(world.step(), f"Manifest kcp-system/{AMOD}")
    assert (failure.message, failure.event_reason) == ("it is refused", "DeleteManifests")
    assert world.kyma is not None
    shown = LOGIC.failed(world.kyma, failure)
    assert (shown.state, shown.last_operation and shown.last_operation.operation) == (State.Deleting, "it is refused")


def test_a_kyma_of_which_metrics_can_be_made_gets_no_event_about_them() -> None:
    world = World(
        kyma=a_kyma(annotations={"skr-domain": "shoot.example.com"}, labels={"kyma-project.io/instance-id": "i"})
    )
    world.run()
    assert world.events == ["RemoteInstallation"]


def test_a_bug_of_ours_is_shown_and_does_not_end_a_deletion() -> None:
    world = installed()
    assert world.kyma is not None
    shown = LOGIC.unexpected(world.kyma, "a bug")
    assert (shown.state, shown.modules) == (State.Error, world.kyma.status.modules)
    assert {each.status for each in shown.conditions} == {"True"}


def test_what_holds_up_a_module_is_read_in_the_status_of_its_kyma() -> None:
    """Both if the module is removed and if the Kyma is; what a Manifest does while it is well is not repeated."""
    held = "waiting for module crs deletion: 2 Amod.g.io: a/one, b/two"
    removed = installed()
    removed.edit(modules=[])
    deleted = installed()
    deleted.delete()
    for world in (removed, deleted):
        world.run()
        world.become(State.Deleting, held)
        world.run()
        assert world.kyma is not None
        assert [(each.state, each.message) for each in world.kyma.status.modules] == [(State.Deleting, held)]
        assert any(held in (wait.message or str(wait.on)) for wait in world.step().waits)
    assert removed.user.status.modules[0].message == held
    failing = installed()
    for state, operation, message in (
        (State.Error, "cannot apply Deployment a/b: it is refused", "cannot apply Deployment a/b: it is refused"),
        (State.Processing, "waiting for resources to become ready", ""),
        (State.Ready, "resources are ready", ""),
    ):
        failing.become(state, operation)
        failing.run()
        assert failing.kyma is not None
        assert failing.kyma.status.modules[0].message == message
