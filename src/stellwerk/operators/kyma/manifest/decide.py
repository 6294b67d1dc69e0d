"""What a Manifest needs next, as a value: its module installed in the cluster of its Kyma, kept so, and removed.

| the Manifest | needs |
| --- | --- |
| is to be left alone (label) | nothing |
| is unmanaged | the marks taken off its objects, then to be deleted without them |
| belongs to no Kyma, or to one that does not know it | to show that; its objects stay as they are |
| has no finalizers | them, and the layer that it begins with |
| has objects that its layer does not have | those deleted, the workload last, unless the layer was read incompletely |
| has objects that are not as in the layer | them listed in its status, and then applied |
| has a default custom resource that was never there | it created once |
| has all of that | the state of its manager shown |
| is being deleted | its custom resources gone, then its objects, then its finalizers |

Only objects that `status.synced` lists are ever deleted; an object is listed before it is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from stellwerk.apply.errors import InvalidSet, UnreadableStatus
from stellwerk.apply.objects.desired import Address, Desired
from stellwerk.apply.set.model.confirmation import Live
from stellwerk.apply.set.model.owner import Standing
from stellwerk.apply.set.observed_state import ObservedState
from stellwerk.delivery import workloads
from stellwerk.delivery.step_rights import Use
from stellwerk.kube.types.errors import StatusError
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, Resource
from stellwerk.kube.types.model import JsonObject, PartialObjectMetadata, Unstructured, dig
from stellwerk.operators.kyma import access, labels
from stellwerk.operators.kyma.api import Kyma
from stellwerk.operators.kyma.api_manifest import Manifest, ManifestStatus, SyncedResource
from stellwerk.operators.kyma.api_status import State
from stellwerk.operators.kyma.collections import ALL as ALL_OBJECTS
from stellwerk.operators.kyma.collections import (
    DEPLOYER_SECRETS,
    KYMAS,
    MANIFESTS,
    every,
    manager_pods,
    module_objects,
    module_resources,
)
from stellwerk.operators.kyma.manifest import readiness, status
from stellwerk.operators.kyma.manifest.objects import (
    DEPLOYER,
    Additions,
    InjectionRefused,
    ModuleOwner,
    Rendered,
    rendered,
)
from stellwerk.operators.kyma.manifest.removal import Hold, Removal, held_by, plan_removal
from stellwerk.operators.kyma.manifest.status import ConditionType
from stellwerk.operators.kyma.manifest.workloads import VariableTaken
from stellwerk.operators.kyma.manifest.writes import ApplyModule, ModuleSet
from stellwerk.operators.kyma.sources.loads import Sources
from stellwerk.render.errors import SourceError
from stellwerk.runtime.cache.remote_clusters import Kubeconfig
from stellwerk.runtime.clock import Clock
from stellwerk.runtime.conditions import is_true
from stellwerk.runtime.control.memo import Memos
from stellwerk.runtime.control.step import Create, Delete, Failure, Patch, Step, Wait, Write
from stellwerk.runtime.reading.known import NotKnown, Present, Unknown
from stellwerk.runtime.reading.loads import LOADING
from stellwerk.runtime.reading.questions import NOT_LISTED, Collection
from stellwerk.runtime.reading.view import View

ManifestStep: TypeAlias = Step[ManifestStatus]
_Place: TypeAlias = tuple[Collection[Any], ObjectKey]

OWN = Use(MANIFESTS, "no Manifest is seen, or held until its module is gone", (Patch, Delete))
USES = (
    Use(KYMAS, "no Manifest finds the Kyma that it belongs to"),
    Use(DEPLOYER_SECRETS, "Secrets of the deployer get no data"),
)
"""What passes ask about and steps write in the control plane, for the rights."""

REFERENCED_WITHIN = timedelta(minutes=5)
"""How long a Manifest may be unknown to its Kyma, whose status is written after it."""
BUSY_SECONDS, WARNING_SECONDS, ERROR_SECONDS = 5.0, 30.0, 30.0
"""When to look again at what sends no events."""
_NAMED = 3
"""How many objects are named of those that hold something up."""
_DEFINITION = ("apiextensions.k8s.io", "CustomResourceDefinition")


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestSettings:
    """What the process is started with, as far as Manifests depend on it."""

    pull_secret: str = ""
    """As `Additions.pull_secret`."""
    injects_data: bool = False
    """Whether Secrets of the deployer get data of the control plane: it is a restricted module."""


class Problem(Exception):
    """Why a module cannot be brought further now; the message names the cause."""

    def __init__(self, message: str, state: State = State.Error, seconds: float = ERROR_SECONDS) -> None:
        super().__init__(message)
        self.state, self.seconds = state, seconds


def decide(manifest: Manifest, view: View, memory: ObservedState) -> ManifestStep:
    """What the Manifest needs next. `memory`: of its objects, which may be lost."""
    if manifest.metadata.labels.get(labels.SKIP_RECONCILIATION_LABEL) == "true":
        return Step(waits=(Wait(f"it is left alone: label {labels.SKIP_RECONCILIATION_LABEL} is true"),))
    return _Decision(manifest, view, memory).step()


def module_names(kyma: Kyma) -> frozenset[str]:
    """An aspect: the Manifests that a Kyma knows."""
    return frozenset(each.manifest.metadata.name for each in kyma.status.modules if each.manifest is not None)


class _There(NamedTuple):
    """What of a module is in the cluster."""

    live: Mapping[Address, Live]
    ready: tuple[Desired, ...]
    """What can be applied."""
    held: tuple[Desired, ...]
    """Objects whose definition the API server has yet to establish."""


@dataclass(slots=True)
class _Decision:
    manifest: Manifest
    view: View
    memory: ObservedState
    shown: ManifestStatus = field(init=False)
    """The status as far as the decision has come."""

    def __post_init__(self) -> None:
        self.shown = status.begun(self.manifest, self.view.now)

    def step(self) -> ManifestStep:
        if self.manifest.metadata.is_terminating:
            return self._leave()
        try:
            return self._install()
        except Problem as problem:
            return self._step(problem.state, str(problem), seconds=problem.seconds)

    # ---- parts of a step

    def _step(
        self,
        state: State | None = None,
        operation: str = "",
        *,
        writes: Iterable[Write] = (),
        seconds: float = 0.0,
        on: Iterable[_Place] = (),
        there: View | None = None,
    ) -> ManifestStep:
        """A step with the status so far, whose writes are independent.

        With `operation`, its cause is waited for, which are the objects `on`.
        """
        if state is not None:
            self.shown = status.shown(self.manifest, self.shown, state, operation, self.view.now)
        waits: tuple[Wait, ...] = ()
        if operation and not writes:
            objects = [Wait(each, operation, seconds, there.cluster if there is not None else None) for each in on]
            waits = (*objects,) or (Wait(operation, operation, seconds),)
        return Step(status=self.shown, writes=tuple(writes), waits=waits, is_independent=True)

    def _patch(self, metadata: JsonObject) -> Patch[Manifest]:
        return Patch(MANIFESTS, self.manifest, {"metadata": metadata}, _refused)

    def _with_finalizers(self, finalizers: Iterable[str], annotations: JsonObject | None = None) -> ManifestStep:
        # Without a status, which would be saved alone if the next step waits: the next step shows the same and more.
        metadata: JsonObject = {"finalizers": [*finalizers]}
        patch = self._patch({**metadata, **({"annotations": annotations} if annotations else {})})
        return Step(writes=(patch,))

    @property
    def _finalizers(self) -> tuple[str, ...]:
        return self.manifest.metadata.finalizers

    def _without_finalizers(self, gone: Iterable[str] | None = None) -> ManifestStep:
        """Take finalizers off; without `gone`, all of them."""
        left = () if gone is None else tuple(each for each in self._finalizers if each not in set(gone))
        return Step() if left == self._finalizers else self._with_finalizers(left)

    # ---- where, and what

    @property
    def _kyma(self) -> ObjectKey:
        name = self.manifest.metadata.labels.get(labels.KYMA_NAME_LABEL, "")
        return ObjectKey(self.manifest.metadata.namespace, name)

    @property
    def _is_unmanaged(self) -> bool:
        return self.manifest.metadata.annotations.get(labels.IS_UNMANAGED_ANNOTATION) == "true"

    def _remote(self) -> View:
        """The cluster of the Kyma. Raises Problem, AccessSecretNotFound."""
        try:
            return access.runtime(self.view, self._kyma)
        except access.AccessSecretNotFound:
            raise
        except access.AccessUnclear as error:
            raise Problem(str(error)) from None

    def _layer(self, remote: View) -> tuple[str, Rendered]:
        """The digest of the layer, and the objects of the module for the cluster. Raises Problem, NotKnown."""
        spec = self.manifest.spec
        try:
            load = self.view.setting(Sources).objects(self.view, self.manifest)
            found = self.view.load(load)
            if isinstance(found, Unknown) and found.why != LOADING:
                raise Problem(found.why)
            if not isinstance(found, Present):
                raise NotKnown(load.about, LOADING)
            settings = self.view.setting(ManifestSettings)
            additions = Additions(
                pull_secret=settings.pull_secret, injected=self._injected if settings.injects_data else None
            )
            return load.digest, rendered(found.value, self.manifest, additions, remote.kind)
        except (SourceError, InvalidSet, VariableTaken, InjectionRefused) as error:
            raise Problem(f"module {spec.version} cannot be rendered: {error}") from None

    def _injected(self, name: str) -> JsonObject:
        key = ObjectKey(self.manifest.metadata.namespace, name)
        secret = self.view.find(DEPLOYER_SECRETS, key)
        if secret is None:
            raise InjectionRefused(
                f"Secret {key} with the label {labels.MODULE_NAME_LABEL}={DEPLOYER} does not exist; create it, or "
                f"remove the annotation {labels.INJECT_DATA_ANNOTATION} from the module"
            )
        return {**access.content_of(self.view, secret).data}

    def _live(self, remote: View, resource: Resource, key: ObjectKey) -> Live | None:
        return remote.find(module_objects(resource), key)

    # ---- install

    def _install(self) -> ManifestStep:
        self._refuse_orphan()
        try:
            remote = self._remote()
        except access.AccessSecretNotFound as error:
            raise Problem(str(error)) from None
        if self._is_unmanaged:
            return self._unmanage(remote)
        digest, module = self._layer(remote)
        where = self._place_of_resource(remote)
        was_elsewhere = where and labels.CLUSTER_ANNOTATION in self.manifest.metadata.annotations
        if was_elsewhere and is_true(self.shown.conditions, ConditionType.MODULE_CR):
            # Saved before the cluster is noted, so that a crash in between forgets nothing.
            return Step(status=status.lost_resource(self.manifest, self.shown, self.view.now))
        needed = [labels.MANIFEST_FINALIZER, labels.LABEL_REMOVAL_FINALIZER, *self._finalizer_of_resource]
        if missing := [each for each in needed if each not in self._finalizers]:
            annotations = self.manifest.metadata.annotations
            first = {} if labels.SYNCED_LAYER_ANNOTATION in annotations else {labels.SYNCED_LAYER_ANNOTATION: digest}
            return self._with_finalizers((*self._finalizers, *missing), {**first, **where})
        if was_elsewhere:
            return self._step(writes=(self._patch({"annotations": where}),))
        self.shown = status.met(self.manifest, self.shown, ConditionType.RESOURCES, self.view.now)
        is_same = self.manifest.metadata.annotations.get(labels.SYNCED_LAYER_ANNOTATION) == digest
        step = self._bring(remote, module, same_layer=is_same)
        if step is not None:
            return step
        if (step := self._with_default_resource(remote)) is not None:
            return step
        last = self._with_state(remote, module)
        if is_same or last.status != self.manifest.status:
            return last
        # The state is saved before the layer is noted, so that Ready with a layer is never that of a former one.
        return self._step(writes=(self._patch({"annotations": {labels.SYNCED_LAYER_ANNOTATION: digest, **where}}),))

    def _refuse_orphan(self) -> None:
        """Raises Problem for a Manifest that no Kyma answers for: nothing is applied, and nothing deleted."""
        known = self.view.find(KYMAS, self._kyma, module_names) if self._kyma.name else None
        look = f"see kubectl get kyma -n {self._kyma.namespace} {self._kyma.name}".rstrip()
        if known is None:
            raise Problem(f"{status.ORPHAN_WITHOUT_KYMA}; {look}")
        metadata = self.manifest.metadata
        if labels.MANDATORY_MODULE_LABEL in metadata.labels or metadata.name in known:
            return
        if self.view.is_past((metadata.creation_timestamp or self.view.now) + REFERENCED_WITHIN):
            raise Problem(f"{status.ORPHAN_NOT_REFERENCED}; {look}")

    def _bring(self, remote: View, module: Rendered, *, same_layer: bool) -> ManifestStep | None:
        """What brings the objects to what is rendered; None if they are there. Raises Problem."""
        synced, wanted = self.manifest.status.synced, module.synced
        # What is there of a kind that is wanted and not served, perhaps in another version, stays as it is.
        unserved = {(each.group, each.kind) for each in module.unserved}
        wanted = (*wanted, *(each for each in synced if (each.group, each.kind) in unserved))
        removal = plan_removal(synced, wanted, self.manifest.spec.manager, same_layer=same_layer)
        if removal.refused:
            raise Problem(removal.refused, State.Warning, WARNING_SECONDS)
        # All is asked for before anything is waited for, so that no watch ends in between.
        there = self._there(remote, module)
        self.shown = status.with_synced(self.shown, (*synced, *wanted))
        if (step := self._take_away(remote, removal)) is not None:
            return step
        self.shown = status.with_synced(self.shown, wanted)
        if set(wanted) - set(synced):
            # Saved before an object is written for the first time, so that a crash leaves nothing that is not listed.
            return self._step(State.Processing, status.CHANGED)
        return self._apply(remote, module, there)

    def _there(self, remote: View, module: Rendered) -> _There:
        """What of the module is in the cluster. A kind whose definition is new has no objects, and cannot be asked."""
        live: dict[Address, Live] = {}
        pending: set[tuple[str, str]] = set()
        for each in module.objects:
            if (each.resource.group, each.resource.kind) == _DEFINITION:
                found = self._live(remote, each.resource, each.key)
                live.update({each.address: found} if found is not None else {})
                if not _is_established(found):
                    spec = each.body.get("spec")
                    pending.add((str(dig(spec, "group")), str(dig(spec, "names", "kind"))))
        ready = [each for each in module.objects if (each.resource.group, each.resource.kind) not in pending]
        for each in ready:
            if each.address not in live and (found := self._live(remote, each.resource, each.key)) is not None:
                live[each.address] = found
        held = tuple(each for each in module.objects if (each.resource.group, each.resource.kind) in pending)
        return _There(live, tuple(ready), held)

    def _apply(self, remote: View, module: Rendered, there: _There) -> ManifestStep | None:
        objects = ModuleSet.of(ModuleOwner(self.manifest.key), there.ready, there.live, self.memory)
        stage = objects.stage(self.view.now)
        if actions := stage.actions:
            digests = {each.address: each.desired.digest for each in objects.wanted}
            why = tuple((each.address, digests.get(each.address, "")) for each in actions)
            cluster = _cluster_of(remote)
            return Step(status=self.shown, writes=(ApplyModule(objects, cluster, why),))
        if module.unserved:
            raise Problem("; ".join(sorted(module.unserved.values())))
        if there.held:
            names = ", ".join(sorted({each.resource.group_resource for each in there.held}))
            waiting = f"{status.WAITING}: the API server begins to serve {names}"
            return Step(status=self.shown, waits=(Wait(waiting, waiting),))  # that takes a moment
        if stage.again_at is not None and stage.throttled:
            seconds = max(stage.again_at - self.view.now.timestamp(), 0.001)
            fought = "; ".join(f"{each.ref} is changed by others" for each in stage.throttled)
            return self._step(State.Processing, f"{status.WAITING}: {fought}", seconds=seconds)
        return None

    def _with_default_resource(self, remote: View) -> ManifestStep | None:
        """The default custom resource created once; None if nothing is left to be done."""
        if not status.has_default_resource(self.manifest.spec):
            return None
        if not is_true(self.shown.conditions, ConditionType.MODULE_CR):
            resource, body = self._default_resource(remote)
            collection, key = module_resources(resource), _key_of(resource, body)
            if remote.find(collection, key) is None:
                create = Create(collection, body, _refused, _cluster_of(remote), labels.RESOURCE_MANAGER)
                return self._step(writes=(create,))
            self.shown = status.met(self.manifest, self.shown, ConditionType.MODULE_CR, self.view.now)
        return None

    def _place_of_resource(self, remote: View) -> JsonObject:
        """The annotation that the Manifest lacks about the cluster where its default custom resource is created. One
        that was installed before there was such an annotation gets it with another write."""
        found = access.identity(remote) if status.has_default_resource(self.manifest.spec) else ""
        is_noted = self.manifest.metadata.annotations.get(labels.CLUSTER_ANNOTATION) == found
        return {labels.CLUSTER_ANNOTATION: found} if found and not is_noted else {}

    @property
    def _finalizer_of_resource(self) -> tuple[str, ...]:
        return (labels.RESOURCE_FINALIZER,) if status.has_default_resource(self.manifest.spec) else ()

    def _default_resource(self, remote: View) -> tuple[Resource, JsonObject]:
        """Where the default custom resource is served, and what it is. Raises Problem while its kind is not served."""
        body = self.manifest.spec.resource or {}
        gvk = GroupVersionKind.parse(str(body.get("apiVersion") or ""), str(body.get("kind") or ""))
        found = remote.kind(gvk)
        if isinstance(found, Unknown) and not found.is_refused:
            raise NotKnown(f"where {gvk} is served", found.why)
        if not isinstance(found, Present):
            why = found.why if isinstance(found, Unknown) else f"the API server serves no {gvk}"
            raise Problem(f"the default custom resource cannot be created: {why}", seconds=BUSY_SECONDS)
        key = _key_of(found.value, body)
        metadata = dict(body["metadata"]) if isinstance(body.get("metadata"), dict) else {}
        metadata.pop("namespace", None)
        named: JsonObject = {**metadata, "name": key.name, **({"namespace": key.namespace} if key.namespace else {})}
        return found.value, {**body, "metadata": named}

    def _with_state(self, remote: View, module: Rendered) -> ManifestStep:
        """The state of the module's manager."""
        state, cause, on = self._state(remote, module)
        if state is State.Ready:
            self.shown = status.met(self.manifest, self.shown, ConditionType.INSTALLATION, self.view.now)
            self.shown = status.shown(self.manifest, self.shown, State.Ready, status.READY, self.view.now)
            return Step(status=self.shown)
        return self._step(state, cause, on=on, there=remote)

    def _state(self, remote: View, module: Rendered) -> tuple[State, str, tuple[_Place, ...]]:
        """The state, its cause, and the object that it depends on, if there is one."""
        manager, created = self.manifest.spec.manager, self.manifest.metadata.creation_timestamp or self.view.now
        if manager is None:
            guessed = (each for each in module.objects if readiness.may_be_manager(each.resource))
            named = next(((each.resource, each.key) for each in guessed), None)
            if named is None:
                return State.Ready, status.READY, ()
        else:
            found = remote.kind(GroupVersionKind(manager.group, manager.version, manager.kind))
            if not isinstance(found, Present):
                return *self._missing(created, f"no {manager.kind} is served"), ()
            named = found.value, found.value.key(manager.namespace or "default", manager.name)
        resource, key = named
        on, live = ((module_objects(resource), key),), self._live(remote, resource, key)
        if not isinstance(live, Unstructured):
            return *self._missing(created, f"{resource.kind} {key} does not exist"), on
        try:
            state = readiness.state_of(live, self._pods(remote, live), self.view.now)
        except UnreadableStatus as error:
            return State.Error, f"{status.MANAGER_FAILS}: {error}", on
        where = f"{resource.kind} {key}"
        if state is State.Error:
            why = readiness.cause_of(live)
            return state, f"{status.MANAGER_FAILS}: {where}{': ' if why else ''}{why}", on
        return state, f"{status.WAITING}: {where}", on

    def _pods(self, remote: View, manager: Unstructured) -> tuple[Unstructured, ...]:
        """The pods of a manager, as far as its state depends on them. Raises UnreadableStatus, NotKnown."""
        selector = workloads.selector(manager)
        if not selector or not readiness.asks_for_pods(manager, self.view.now):
            return ()
        return remote.all(every(manager_pods(manager.metadata.namespace, selector)), ALL_OBJECTS)

    def _missing(self, created: datetime, why: str) -> tuple[State, str]:
        is_late = self.view.is_past(created + readiness.MISSING_FOR)
        return (
            (State.Error, f"{status.MANAGER_FAILS}: {why}")
            if is_late
            else (State.Processing, f"{status.WAITING}: {why}")
        )

    # ---- unmanage

    def _unmanage(self, remote: View) -> ManifestStep:
        """Take our marks off the objects, which stay, and then delete the Manifest."""
        if labels.LABEL_REMOVAL_FINALIZER not in self._finalizers:
            return self._step(writes=(Delete(MANIFESTS, self.manifest, _refused, "it is unmanaged"),))
        cluster, marked = _cluster_of(remote), self._present(remote, self.manifest.status.synced)
        ours = (labels.MANAGED_BY_LABEL, labels.WATCHED_BY_LABEL)
        changes: list[Write] = [
            Patch(collection, live, {"metadata": {"labels": dict.fromkeys(unmarked)}}, _refused, cluster)
            for collection, live in marked
            if (unmarked := [each for each in ours if live.metadata.labels.get(each) == labels.KYMA])
        ]
        if changes:
            return self._step(writes=changes)
        return self._without_finalizers((labels.LABEL_REMOVAL_FINALIZER,))

    # ---- leave

    def _leave(self) -> ManifestStep:
        if not self._finalizers:
            return Step()
        if self._is_unmanaged:
            return self._without_finalizers()
        try:
            remote = self._remote()
            return self._remove(remote)
        except access.AccessSecretNotFound:
            return self._without_finalizers()  # what is there cannot be reached any more
        except Problem as problem:
            return self._step(problem.state, str(problem), seconds=problem.seconds)

    def _remove(self, remote: View) -> ManifestStep:
        spec, found = self.manifest.spec, self._custom_resources(remote)
        resources = [each for _, each in found]
        is_namespaced = all(collection.resource.namespaced for collection, _ in found)
        holding = held_by(spec, [each.key for each in resources], namespaced=is_namespaced)
        if holding.hold is Hold.USERS_RESOURCES:
            users = [(collection, each.key) for collection, each in found]
            return self._step(State.Deleting, holding.operation, on=users[:_NAMED], there=remote)
        if holding.hold is Hold.DEFAULT_RESOURCE:
            return self._remove_default_resource(remote, found)
        removal = plan_removal(self.manifest.status.synced, (), spec.manager, same_layer=False)
        if (step := self._take_away(remote, removal)) is not None:
            return step
        ours = labels.MANIFEST_FINALIZERS
        if foreign := [each for each in self._finalizers if each not in ours]:
            if any(each in self._finalizers for each in ours):
                return self._without_finalizers(ours)
            return self._step(State.Deleting, f"{status.OTHER_FINALIZERS}: {foreign}")
        return self._without_finalizers(ours)

    def _custom_resources(self, remote: View) -> list[tuple[Collection[PartialObjectMetadata], PartialObjectMetadata]]:
        """All custom resources of the module's kind, from one reading. Raises Problem, NotKnown."""
        body = self.manifest.spec.resource
        if body is None:
            return []
        gvk = GroupVersionKind.parse(str(body.get("apiVersion") or ""), str(body.get("kind") or ""))
        resource = _served(remote, gvk)
        if resource is None:
            return []
        collection = module_resources(resource)
        if not remote.serves(collection):
            return []
        return [(collection, each) for each in remote.all(every(collection), ALL_OBJECTS)]

    def _remove_default_resource(
        self, remote: View, found: list[tuple[Collection[PartialObjectMetadata], PartialObjectMetadata]]
    ) -> ManifestStep:
        """The default custom resource goes first, while its controller works, which may still be brought up to date."""
        cluster = _cluster_of(remote)
        going = [
            Delete(collection, each, _refused, cluster=cluster)
            for collection, each in found
            if not each.metadata.is_terminating
        ]
        if going:
            return self._step(writes=going)
        collection, last = found[0]
        waiting = f"waiting for {collection.resource.kind} {last.key} to be deleted"
        if last.metadata.finalizers:
            waiting += f", which is held by its finalizers {', '.join(last.metadata.finalizers)}"
        try:
            _, module = self._layer(remote)
            step = self._bring(remote, module, same_layer=False)
        except (Problem, NotKnown):
            step = None  # an update is worth it only if it can be had; what is there stays
        if step is not None and step.writes:
            return step
        return self._step(State.Deleting, waiting, on=((collection, last.key),), there=remote)

    # ---- objects in the cluster

    def _present(self, remote: View, listed: Iterable[SyncedResource]) -> list[tuple[Collection[Live], Live]]:
        """Those of the listed objects that are there, with our label. Raises NotKnown."""
        found: list[tuple[Collection[Live], Live]] = []
        for each in listed:
            gvk = GroupVersionKind(each.group, each.version, each.kind)
            resource = _served(remote, gvk)
            if resource is None:
                continue  # with its kind, the object has gone
            collection = module_objects(resource)
            live = remote.find(collection, ObjectKey(each.namespace, each.name))
            if live is not None:
                found.append((collection, live))
        return found

    def _take_away(self, remote: View, removal: Removal) -> ManifestStep | None:
        """What is to be deleted, deleted in order; None if all is gone."""
        return self._delete_objects(remote, removal.first) or self._delete_objects(remote, removal.last)

    def _delete_objects(self, remote: View, obsolete: Sequence[SyncedResource]) -> ManifestStep | None:
        """Objects deleted as far as they are ours; None if none is left."""
        if not obsolete:
            return None
        owner, cluster = ModuleOwner(self.manifest.key), _cluster_of(remote)
        ours = [
            (collection, live)
            for collection, live in self._present(remote, obsolete)
            if owner.standing(live.metadata) is Standing.OURS
        ]
        state = State.Deleting if self.manifest.metadata.is_terminating else State.Processing
        going: list[Write] = [
            Delete(collection, live, _refused, "the module does not have it any more", "Background", cluster)
            for collection, live in ours
            if not live.metadata.is_terminating
        ]
        if going:
            return self._step(writes=going)
        if ours:
            on = [(collection, live.key) for collection, live in ours[:_NAMED]]
            named = ", ".join(f"{collection.resource.kind} {key}" for collection, key in on)
            more = f" and {len(ours) - _NAMED} more" if len(ours) > _NAMED else ""
            return self._step(state, f"waiting for the deletion of {named}{more}", on=on, there=remote)
        return None


def _served(remote: View, gvk: GroupVersionKind) -> Resource | None:
    """Where objects of a kind are, in whichever version; None if the cluster has none. Raises NotKnown."""
    kind = remote.kind(gvk, any_version=True)
    if isinstance(kind, Unknown) and not kind.is_refused:
        raise NotKnown(f"where {gvk} is served", kind.why)
    return kind.value if isinstance(kind, Present) else None


def _cluster_of(remote: View) -> Kubeconfig:
    assert remote.cluster is not None, "this is another cluster"
    return remote.cluster


def _key_of(resource: Resource, body: JsonObject) -> ObjectKey:
    """The key of a default custom resource; the Kyma has filled in its name and namespace."""
    metadata = body.get("metadata")
    return resource.key(str(dig(metadata, "namespace") or "default"), str(dig(metadata, "name") or ""))


def _is_established(definition: Live | None) -> bool:
    if not isinstance(definition, Unstructured):
        return False
    found = definition.at("status", "conditions")
    return any(
        dig(each, "type") == "Established" and dig(each, "status") == "True"
        for each in (found if isinstance(found, list) else ())
    )


def _refused(message: str, _: StatusError | None) -> Failure:
    return Failure(message=message)


@dataclass(slots=True)
class ManifestLogic:
    """A Manifest, for the engine."""

    clock: Clock
    memos: Memos[ObservedState] = field(default_factory=partial(Memos, ObservedState))
    collection: Collection[Manifest] = MANIFESTS

    def decide(self, manifest: Manifest, view: View) -> ManifestStep:
        """As `Logic.decide`."""
        return decide(manifest, view, self.memos.of(manifest.key))

    def unknown(self, manifest: Manifest, view: View, missing: NotKnown) -> ManifestStep:
        """As `Logic.unknown`: a moment shows nothing; what lasts, such as missing rights, is an error."""
        if missing.why in (LOADING, NOT_LISTED):
            return Step(waits=(Wait(str(missing)),))
        shown = status.shown(manifest, status.begun(manifest, view.now), State.Error, str(missing), view.now)
        return Step(status=shown, waits=(Wait(str(missing)),))

    def failed(self, manifest: Manifest, failure: Failure) -> ManifestStatus:
        """As `Logic.failed`."""
        return self.unexpected(manifest, failure.message)

    def unexpected(self, manifest: Manifest, message: str) -> ManifestStatus:
        """As `Logic.unexpected`."""
        now = self.clock.now()
        return status.shown(manifest, status.begun(manifest, now), State.Error, message, now)
