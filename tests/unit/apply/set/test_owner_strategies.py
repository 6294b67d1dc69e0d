"""Sets with other owners than an id: what a custom resource controls, with a hash, and sets that only list objects."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime

import msgspec
import pytest
from tests.unit.apply.given import applied, config_map

from stellwerk.apply.objects.desired import Desired
from stellwerk.apply.set.model import reference_inventory
from stellwerk.apply.set.model.confirmation import FIGHT_SECONDS, Live, confirm
from stellwerk.apply.set.model.desired_set import DesiredObject, uniform
from stellwerk.apply.set.model.inventory import Inventory, InventoryEntry, ObjectIdentity
from stellwerk.apply.set.model.owner import ControllerOwner, LabelOwner, Ownership, Standing
from stellwerk.apply.set.model.policy import AdoptionPolicy, Directive, UpdatePolicy
from stellwerk.apply.set.model.reference_inventory import InventoryReference
from stellwerk.apply.set.observed_state import ObservedState
from stellwerk.apply.set.plan import plan_apply
from stellwerk.apply.set.plan.actions import Create, LookUp, Remove, Update
from stellwerk.apply.set.plan.inventory_update import of_wanted, register
from stellwerk.apply.set.plan.plan_input import ApplyOptions, LiveObject, PlanInput
from stellwerk.apply.set.plan.stage import Stage
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey
from stellwerk.kube.types.model import JsonObject, JsonValue, Unstructured, dig
from stellwerk.kube.types.object_meta import FieldManager, ObjectMeta, OwnerReference

HASH = "sme.sap.com/resource-hash"
DOMAIN = OwnerReference(api_version="sme.sap.com/v1alpha1", kind="Domain", name="d", uid="domain-1", controller=True)
OTHER = msgspec.structs.replace(DOMAIN, name="other", uid="domain-2")
US = ControllerOwner("capoperator", DOMAIN, {"owner": "d"}, HASH)
REPLACED = Directive(adoption=AdoptionPolicy.NEVER, update=UpdatePolicy.REPLACE)
KYMA = LabelOwner("declarative.kyma-project.io/applier", {"operator.kyma-project.io/managed-by": "kyma"})
FORCED = Directive(adoption=AdoptionPolicy.ALWAYS, update=UpdatePolicy.SSA_OVERRIDE)
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
GO_CLIENT = FieldManager(manager="controller", operation="Update")


def recipe(desired: Desired) -> str:
    """A hash of the content alone, as the originals make them."""
    return hashlib.sha256(json.dumps(desired.body["data"], separators=(",", ":")).encode()).hexdigest()


def hashed(**data: str) -> DesiredObject:
    (found,) = uniform([config_map(**data)], US, REPLACED, recipe)
    return found


def live_of(obj: DesiredObject, *managers: FieldManager, more: JsonObject | None = None, version: str = "1") -> Live:
    """The object as the server has it, whoever wrote it."""
    found = applied(obj.desired, version=version, more=more)
    metadata = dig(found.body, "metadata")
    assert isinstance(metadata, dict)
    kept: JsonObject = {key: metadata[key] for key in ("annotations", "ownerReferences") if key in metadata}
    read = msgspec.convert(kept, ObjectMeta)
    meta = msgspec.structs.replace(
        found.metadata,
        annotations=read.annotations,
        owner_references=read.owner_references,
        managers=managers or found.metadata.managers,
    )
    return Unstructured(found.body, meta)


def plan(
    obj: DesiredObject,
    live: Live | None,
    owner: Ownership = US,
    memory: ObservedState | None = None,
    clock: float = 0.0,
) -> Stage:
    seen = {obj.identity: LiveObject(obj.address, live)} if live is not None else {}
    state = PlanInput(
        owner=owner,
        options=ApplyOptions(repairs_drift=True),
        seen=seen,
        resources={obj.identity: obj.address.resource},
        confirmations=(memory or ObservedState()).confirmations,
        now=NOW,
        clock=clock,
    )
    return plan_apply.next_stage([obj], of_wanted([obj]), state)


# ---- a controller, and a hash


def test_an_object_of_a_controller_carries_its_reference_the_labels_and_the_hash() -> None:
    obj = hashed(a="1")
    assert dig(obj.desired.body, "metadata", "annotations", HASH) == obj.digest == recipe(config_map(a="1"))
    assert dig(obj.desired.body, "metadata", "labels") == {"app": "x", "owner": "d"}
    expected: JsonValue = [
        {"apiVersion": "sme.sap.com/v1alpha1", "kind": "Domain", "name": "d", "uid": "domain-1", "controller": True}
    ]
    assert dig(obj.desired.body, "metadata", "ownerReferences") == expected


@pytest.mark.req("R-108")
def test_an_object_whose_hash_is_as_wanted_is_left_alone_even_by_a_new_process() -> None:
    obj = hashed(a="1")
    assert plan(obj, live_of(obj, GO_CLIENT)).done


def test_a_hash_alone_decides_so_that_changes_by_others_stay() -> None:
    obj = hashed(a="1")
    assert plan(obj, live_of(obj, GO_CLIENT, more={"data": {"a": "theirs"}})).done


def test_another_hash_is_written_and_the_write_is_meant_for_the_object_that_was_seen() -> None:
    before, after = hashed(a="1"), hashed(a="2")
    (update,) = plan(after, live_of(before, GO_CLIENT)).actions
    assert isinstance(update, Update)
    assert (update.update, update.uid, update.resource_version) == (UpdatePolicy.REPLACE, "u1", "1")
    assert update.why == "its manifest has changed"


def test_an_object_without_a_hash_is_written() -> None:
    obj = hashed(a="1")
    live = live_of(obj)
    bare = Unstructured(obj.desired.body, msgspec.structs.replace(live.metadata, annotations={}))
    (update,) = plan(obj, bare).actions
    assert isinstance(update, Update)


@pytest.mark.req("R-110")
def test_a_hash_that_another_client_changes_again_and_again_is_restored_every_ten_seconds_only() -> None:
    obj = hashed(a="1")
    live = live_of(obj)
    memory = ObservedState({obj.address: confirm(obj.desired, live, US.prefix, restored_at=100)})
    changed = Unstructured(obj.desired.body, msgspec.structs.replace(live.metadata, annotations={HASH: "theirs"}))
    assert plan(obj, changed, memory=memory, clock=105).throttled[0].until == 100 + FIGHT_SECONDS
    assert plan(obj, changed, memory=memory, clock=100 + FIGHT_SECONDS).actions


@pytest.mark.req("R-111")
@pytest.mark.parametrize("references", [(OTHER,), ()])
def test_an_object_of_another_controller_or_of_none_is_never_touched(references: tuple[OwnerReference, ...]) -> None:
    obj = hashed(a="1")
    found = live_of(obj)
    theirs = Unstructured(obj.desired.body, msgspec.structs.replace(found.metadata, owner_references=references))
    stage = plan(obj, theirs)
    assert (stage.actions, len(stage.refused)) == ((), 1)


def test_a_missing_object_is_created_only_where_there_is_none() -> None:
    (create,) = plan(hashed(a="1"), None).actions
    assert isinstance(create, Create)
    assert not create.takes_all


def test_an_owner_that_is_not_stored_yet_has_no_reference() -> None:
    unstored = replace(US, owner=msgspec.structs.replace(DOMAIN, uid=""))
    (obj,) = uniform([config_map(a="1")], unstored, REPLACED, recipe)
    assert dig(obj.desired.body, "metadata", "ownerReferences") is None


def test_the_standing_follows_the_controller_and_not_any_other_owner() -> None:
    plain = msgspec.structs.replace(DOMAIN, controller=None)
    assert US.standing(ObjectMeta(owner_references=(DOMAIN,))) is Standing.OURS
    assert US.standing(ObjectMeta(owner_references=(plain,))) is Standing.UNOWNED
    assert US.standing(ObjectMeta(owner_references=(plain, OTHER))) is Standing.FOREIGN
    assert US.owner_named_on(ObjectMeta(owner_references=(OTHER,))) == "Domain other"


def test_an_object_with_the_owners_label_is_left_alone_while_its_hash_is_right() -> None:
    owner = LabelOwner("capoperator", {"owner": "d"}, takes_all=False, hash_key=HASH)
    (obj,) = uniform([config_map(a="1")], owner, REPLACED, recipe)
    (changed,) = uniform([config_map(a="2")], owner, REPLACED, recipe)
    live = live_of(obj, GO_CLIENT)
    assert dig(obj.desired.body, "metadata", "ownerReferences") is None
    assert plan(obj, live, owner).actions == ()
    (update,) = plan(changed, live, owner).actions
    assert isinstance(update, Update)


def test_a_label_owner_without_labels_is_refused() -> None:
    with pytest.raises(ValueError, match="every object"):
        LabelOwner("us", {})


# ---- a list of references

LISTED = (
    InventoryReference(group="", version="v1", kind="ConfigMap", name="kept", namespace="there"),
    InventoryReference(group="", version="v1", kind="ConfigMap", name="left", namespace="there"),
)


def test_a_list_is_read_and_written_back_each_object_once_and_sorted() -> None:
    inventory = reference_inventory.read([LISTED[1], LISTED[0], LISTED[1]], FORCED)
    assert reference_inventory.write(inventory) == LISTED
    assert msgspec.to_builtins(reference_inventory.write(inventory)[0])["namespace"] == "there"


def test_the_empty_namespace_of_a_cluster_scoped_object_is_written() -> None:
    role = InventoryReference(
        group="rbac.authorization.k8s.io", version="v1", kind="ClusterRole", name="r", namespace=""
    )
    (written,) = reference_inventory.write(reference_inventory.read([role], FORCED))
    assert json.loads(msgspec.json.encode(written))["namespace"] == ""


@pytest.mark.req("R-401")
@pytest.mark.parametrize("field", ["kind", "version", "name"])
def test_an_entry_that_names_nothing_is_ignored(field: str) -> None:
    assert len(reference_inventory.read([msgspec.structs.replace(LISTED[0], **{field: ""})], FORCED)) == 0


def pruned(labels: dict[str, str] | None, *, uid: str = "u9") -> Stage:
    """What becomes of the listed object that is no longer rendered, where it looks like this."""
    (kept,) = uniform([config_map("kept", a="1")], KYMA, FORCED)
    inventory = register([kept], reference_inventory.read(LISTED, FORCED), {}, KYMA).inventory
    left = ObjectIdentity("", "ConfigMap", ObjectKey("there", "left"))
    address = replace(kept.address, key=left.key)
    seen = {kept.identity: LiveObject(kept.address, applied_by_kyma(kept))}
    if labels is not None:
        metadata = ObjectMeta(name="left", namespace="there", uid=uid, resource_version="3", labels=labels)
        seen[left] = LiveObject(address, Unstructured({"kind": "ConfigMap"}, metadata))
    memory = ObservedState({kept.address: confirm(kept.desired, applied_by_kyma(kept), KYMA.prefix)})
    state = PlanInput(
        owner=KYMA,
        seen=seen,
        resources={kept.identity: kept.address.resource, left: kept.address.resource},
        confirmations=memory.confirmations,
        now=NOW,
        clock=0.0,
    )
    return plan_apply.next_stage([kept], inventory, state)


def applied_by_kyma(obj: DesiredObject) -> Live:
    found = applied(obj.desired)
    manager = FieldManager(manager=KYMA.prefix, operation="Apply")
    return Unstructured(found.body, msgspec.structs.replace(found.metadata, managers=(manager,)))


def test_what_is_listed_and_no_longer_rendered_is_deleted_as_it_was_seen() -> None:
    (remove,) = pruned(dict(KYMA.labels)).actions
    assert isinstance(remove, Remove)
    assert (remove.address.key.name, remove.uid, remove.resource_version) == ("left", "u9", "3")


@pytest.mark.req("R-104")
def test_what_no_longer_carries_the_label_is_left_and_leaves_the_list() -> None:
    stage = pruned({})
    assert stage.actions == ()
    assert [reference.name for reference in reference_inventory.write(stage.inventory)] == ["kept"]


def test_what_the_caches_do_not_show_is_looked_up_before_it_leaves_the_list() -> None:
    (look_up,) = pruned(None).actions
    assert isinstance(look_up, LookUp)


def test_an_unchanged_list_needs_no_save() -> None:
    both = uniform([config_map("kept"), config_map("left")], KYMA, FORCED)
    assert not register(both, reference_inventory.read(LISTED, FORCED), {}, KYMA).must_be_saved
    assert register(both, Inventory(), {}, KYMA).must_be_saved


def test_an_entry_keeps_the_policies_of_its_set() -> None:
    (entry, _) = reference_inventory.read(LISTED, FORCED)
    assert entry == InventoryEntry(
        gvk=GroupVersionKind("", "v1", "ConfigMap"),
        key=ObjectKey("there", "kept"),
        adoption=AdoptionPolicy.ALWAYS,
        update=UpdatePolicy.SSA_OVERRIDE,
    )
