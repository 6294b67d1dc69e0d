"""Sets of objects, and a cluster in memory that does at once what it is told: for tests of decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import msgspec
from tests.unit.apply.given import overlaid

from stellwerk.apply.objects.desired import Address, Desired
from stellwerk.apply.objects.manifests import read_text
from stellwerk.apply.set.model.confirmation import Confirmation, Live, confirm
from stellwerk.apply.set.model.desired_set import DesiredObject, is_definition, prepared
from stellwerk.apply.set.model.inventory import Inventory, InventoryEntry, ObjectIdentity
from stellwerk.apply.set.model.owner import Owner
from stellwerk.apply.set.model.policy import Policies, UpdatePolicy
from stellwerk.apply.set.plan import plan_apply, plan_prune
from stellwerk.apply.set.plan.actions import Action, Create, LookUp, Remove, RemoveFinalizer, Update
from stellwerk.apply.set.plan.inventory_update import register
from stellwerk.apply.set.plan.plan_input import ApplyOptions, LiveObject, PlanInput
from stellwerk.apply.set.plan.stage import Stage
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, Resource
from stellwerk.kube.types.model import JsonObject, PartialObjectMetadata, Unstructured, dig
from stellwerk.kube.types.object_meta import FieldManager, ObjectMeta

R = "component-operator.cs.sap.com"
US, THEM = Owner(R, "uid/there/one"), Owner(R, "uid/there/other")
NOW = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)
SSA = Policies(update=UpdatePolicy.SSA_OVERRIDE)
APPLIED = FieldManager(manager=R, operation="Apply")
KUBECTL = FieldManager(manager="kubectl-edit", operation="Update")

_KINDS = {
    "v1": "Namespace/ ConfigMap Secret Service ServiceAccount",
    "apps/v1": "Deployment",
    "batch/v1": "Job",
    "rbac.authorization.k8s.io/v1": "Role ClusterRole/",
    "apiextensions.k8s.io/v1": "CustomResourceDefinition/",
    "apiregistration.k8s.io/v1": "APIService/",
    "example.org/v1": "Thing",
    "metrics.example.org/v1": "Measure",
    "elsewhere.org/v1": "Alien",
    "services.cloud.sap.com/v1": "ServiceBinding",
}
RESOURCES = {
    gvk: Resource(*gvk, f"{gvk.kind.lower()}s", not word.endswith("/"))
    for api_version, words in _KINDS.items()
    for word in words.split()
    for gvk in [GroupVersionKind.parse(api_version, word.rstrip("/"))]
}


def document(kind: str, name: str, content: str = "", /, **annotations: object) -> str:
    """The YAML of an object. Annotations are named without our prefix, `apply_order=1` for `.../apply-order: "1"`."""
    (gvk,) = (gvk for gvk in RESOURCES if gvk.kind == kind)
    marks = ", ".join(f'"{R}/{suffix.replace("_", "-")}": "{value}"' for suffix, value in annotations.items())
    metadata = f"{{name: {name}, annotations: {{{marks}}}}}"
    return f"apiVersion: {gvk.api_version}\nkind: {kind}\nmetadata: {metadata}\n{content}\n---\n"


def definition(name: str = "things.example.org", kind: str = "Thing", /, **annotations: object) -> str:
    """A CustomResourceDefinition."""
    group, plural = name.partition(".")[2], name.partition(".")[0]
    spec = (
        f"spec: {{group: {group}, scope: Namespaced, names: {{kind: {kind}, plural: {plural}}},"
        " versions: [{name: v1, served: true, storage: true}]}"
    )
    return document("CustomResourceDefinition", name, spec, **annotations)


def api_service(group: str = "metrics.example.org", /, **annotations: object) -> str:
    """An APIService."""
    spec = f"spec: {{group: {group}, version: v1, groupPriorityMinimum: 1, versionPriority: 1}}"
    return document("APIService", f"v1.{group}", spec, **annotations)


def wanted(
    text: str,
    *,
    policies: Policies = SSA,
    owner: Owner = US,
    set_digest: str = "s1",
    served: Callable[[GroupVersionKind], Resource | None] = RESOURCES.get,
) -> tuple[DesiredObject, ...]:
    """The objects of a YAML text."""
    documents = read_text(text)
    return prepared(documents, served, namespace="there", owner=owner, policies=policies, set_digest=set_digest)


def one(text: str, *, policies: Policies = SSA, owner: Owner = US, set_digest: str = "s1") -> DesiredObject:
    """The single object of a YAML text."""
    (found,) = wanted(text, policies=policies, owner=owner, set_digest=set_digest)
    return found


def config_map(name: str = "c", *, value: str = "1", **annotations: object) -> str:
    """A ConfigMap with one key."""
    return document("ConfigMap", name, f'data: {{A: "{value}"}}', **annotations)


def live(
    desired: Desired,
    *managers: FieldManager,
    uid: str = "u1",
    version: str = "1",
    more: JsonObject | None = None,
    without_marks: bool = False,
) -> Live:
    """The object as the server has it after our apply, with `more` laid over it."""
    body = overlaid(desired.body, more or {})
    metadata = dig(body, "metadata")
    assert isinstance(metadata, dict)
    if without_marks:
        metadata = {name: value for name, value in metadata.items() if name not in ("labels", "annotations")}
        body = {**body, "metadata": metadata}
    kept = {name: value for name, value in metadata.items() if name in ("name", "namespace", "labels", "annotations")}
    meta = msgspec.structs.replace(
        msgspec.convert(kept, ObjectMeta),
        uid=uid,
        resource_version=version,
        managers=(APPLIED, *managers),
        creation_timestamp=NOW,
        finalizers=tuple(str(name) for name in _listed(dig(body, "metadata", "finalizers"))),
    )
    return PartialObjectMetadata(metadata=meta) if desired.address.is_secret else Unstructured(body, meta)


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def ending(obj: Live) -> Live:
    """The object while it is being deleted."""
    metadata = msgspec.structs.replace(obj.metadata, deletion_timestamp=NOW)
    return (
        Unstructured(obj.body, metadata) if isinstance(obj, Unstructured) else PartialObjectMetadata(metadata=metadata)
    )


def registered(objects: Sequence[DesiredObject], inventory: Inventory | None = None) -> Inventory:
    """The inventory with the objects; nothing of them existed before."""
    return register(objects, inventory or Inventory(), {}, US).inventory


@dataclass
class World:
    """A cluster that does at once what it is told, and what is known of it."""

    policies: Policies = SSA
    options: ApplyOptions = field(default_factory=ApplyOptions)
    owner: Owner = US
    now: datetime = NOW
    clock: float = 100.0
    seen: dict[ObjectIdentity, LiveObject] = field(default_factory=dict)
    confirmations: dict[Address, Confirmation] = field(default_factory=dict)
    checked: dict[Address, datetime] = field(default_factory=dict)
    absent: set[ObjectIdentity] = field(default_factory=set)
    in_use: dict[ObjectIdentity, str] = field(default_factory=dict)
    unserved: set[GroupVersionKind] = field(default_factory=set)
    hidden: set[ObjectIdentity] = field(default_factory=set)
    """Objects that are there, and that the caches do not show."""
    lingering: set[ObjectIdentity] = field(default_factory=set)
    """Objects that take their time to go."""
    status: dict[str, JsonObject] = field(default_factory=dict)
    """The status that objects of a kind have as soon as they are written."""
    carried: list[Action] = field(default_factory=list)
    before: Callable[[Stage], None] = lambda stage: None
    """Looks at each stage before it is carried out."""
    _versions: int = 0

    def state(self, inventory: Inventory) -> PlanInput:
        """What decides."""
        resources = {entry.identity: RESOURCES[entry.gvk] for entry in inventory if entry.gvk not in self.unserved}
        return PlanInput(
            owner=self.owner,
            policies=self.policies,
            options=self.options,
            seen={identity: seen for identity, seen in self.seen.items() if identity not in self.hidden},
            resources=resources,
            absent=self.absent,
            in_use=self.in_use,
            confirmations=self.confirmations,
            checked=self.checked,
            now=self.now,
            clock=self.clock,
        )

    def passes(self, seconds: float) -> None:
        """Time goes on."""
        self.now += timedelta(seconds=seconds)
        self.clock += seconds

    def put(self, obj: DesiredObject, found: Live) -> None:
        """An object is there."""
        self.seen[obj.identity] = LiveObject(obj.address, found)

    def stage(self, objects: Sequence[DesiredObject], inventory: Inventory) -> Stage:
        """What would be done now."""
        return plan_apply.next_stage(objects, inventory, self.state(inventory))

    def roll(self, objects: Sequence[DesiredObject], inventory: Inventory) -> tuple[Inventory, Stage]:
        """Stage after stage until nothing is left that could be done; what has to be saved is."""
        return self.run(inventory, lambda now: self.stage(objects, now))

    def take_away(self, inventory: Inventory) -> tuple[Inventory, Stage]:
        """Delete the whole set as far as it goes."""
        return self.run(inventory, lambda now: plan_prune.of_set(now, self.state(now)))

    def run(self, inventory: Inventory, decide: Callable[[Inventory], Stage]) -> tuple[Inventory, Stage]:
        """Stage after stage."""
        for _ in range(20 * (len(inventory) + 1)):
            stage = decide(inventory)
            inventory = self.carry_out(stage)
            if stage.done or not (stage.groups or stage.again or stage.must_be_saved):
                return inventory, stage
        raise AssertionError("never comes to rest")

    def carry_out(self, stage: Stage) -> Inventory:
        """Do what a stage says. The inventory after it."""
        self.before(stage)
        self.checked.update(dict.fromkeys(stage.checked, self.now))
        changes: dict[ObjectIdentity, InventoryEntry | None] = {}
        known = stage.inventory.by_identity()
        for action in stage.actions:
            self.carried.append(action)
            identity = ObjectIdentity.of(action.address.ref)
            if identity in self.hidden:
                self.hidden.remove(identity)  # the server shows what it has
                continue
            match action:
                case Create() | Update():
                    self._write(identity, action)
                    changes[identity] = replace(known[identity], last_applied_at=self.now)
                case Remove():
                    self._remove(identity)
                case RemoveFinalizer():
                    self._release(identity)
                case LookUp():
                    if identity not in self.seen:
                        self.absent.add(identity)
        return stage.inventory.changed(changes)

    def gone(self, identity: ObjectIdentity) -> None:
        """The object is no more."""
        self.seen.pop(identity, None)
        self.absent.add(identity)

    def finish(self) -> None:
        """What took its time to go is gone."""
        for identity in [*self.lingering]:
            if identity in self.seen and self.seen[identity].live.metadata.is_terminating:
                self.gone(identity)
        self.lingering.clear()

    def _write(self, identity: ObjectIdentity, action: Create | Update) -> None:
        desired = action.desired
        self._versions += 1
        status = self.status.get(desired.resource.kind)
        uid = f"u{self._versions}" if isinstance(action, Create) else action.uid
        assert isinstance(action, Update) or identity not in self.seen, f"{action} twice"
        found = live(desired, uid=uid, version=str(self._versions), more={"status": status} if status else None)
        self.seen[identity] = LiveObject(desired.address, found)
        self.absent.discard(identity)
        before = self.confirmations.get(desired.address)
        restored_at = self.clock if action.restores else (before.restored_at if before is not None else None)
        memory = confirm(desired, found, R, restored_at=restored_at)
        self.confirmations[desired.address] = replace(memory, written_at=self.clock)

    def _remove(self, identity: ObjectIdentity) -> None:
        seen = self.seen[identity]
        if identity in self.lingering or is_definition(seen.address.resource.gvk):
            self.seen[identity] = LiveObject(seen.address, ending(seen.live))
        else:
            self.gone(identity)

    def _release(self, identity: ObjectIdentity) -> None:
        seen = self.seen[identity]
        kept = tuple(name for name in seen.live.metadata.finalizers if name != R)
        if seen.live.metadata.is_terminating and not kept:
            self.gone(identity)
            return
        metadata = msgspec.structs.replace(seen.live.metadata, finalizers=kept)
        assert isinstance(seen.live, Unstructured)
        self.seen[identity] = LiveObject(seen.address, Unstructured(seen.live.body, metadata))


def names(actions: Iterable[Action]) -> list[str]:
    """The names of the objects that something is done to, in order."""
    return [action.address.key.name for action in actions]


READY_DEFINITION: JsonObject = {
    "conditions": [{"type": "Established", "status": "True"}, {"type": "NamesAccepted", "status": "True"}]
}
AVAILABLE: JsonObject = {"conditions": [{"type": "Available", "status": "True"}]}
COMPLETE: JsonObject = {"conditions": [{"type": "Complete", "status": "True"}]}
NO_STATUS: JsonObject = {}


def calm_world(**status: JsonObject) -> World:
    """A world in which definitions are established and jobs complete at once."""
    ready = {"CustomResourceDefinition": READY_DEFINITION, "APIService": AVAILABLE, "Job": COMPLETE}
    quiet: JsonObject = {"phase": "fine"}
    return World(status={**ready, "Thing": quiet, "Measure": quiet, "Alien": quiet, "ServiceBinding": quiet, **status})


def entry_of(inventory: Inventory, name: str) -> InventoryEntry:
    """The entry of the object with a name."""
    (found,) = (entry for entry in inventory if entry.key.name == name)
    return found


def key(name: str) -> ObjectKey:
    """The key of an object in the set's namespace."""
    return ObjectKey("there", name)
