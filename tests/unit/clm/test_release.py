"""How a release is stored, and read again."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import msgspec
import pytest
import yaml

from stellwerk.api.core import ConfigMap
from stellwerk.apply.set.model import inventory_codec
from stellwerk.apply.set.model.inventory import EntryStatus, Inventory, InventoryEntry, ManagedType, Phase
from stellwerk.apply.set.model.owner import hash_of
from stellwerk.apply.set.model.policy import DeletePolicy, UpdatePolicy
from stellwerk.kube import yaml as kube_yaml
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, ObjectRef
from stellwerk.kube.types.model import Listing, dig
from stellwerk.kube.types.object_meta import ObjectMeta, OwnerReference
from stellwerk.releases import release as releases
from stellwerk.releases.errors import TooLate, TooManyObjects, UnreadableRelease
from stellwerk.releases.release import Release, ReleaseState

NOW = datetime(2026, 5, 1, 12, 30, 15, 123456, tzinfo=UTC)
KEY = ObjectKey("shop", "web.front")
ENTRIES = (
    InventoryEntry(
        gvk=GroupVersionKind("", "v1", "ConfigMap"),
        key=ObjectKey("shop", "one"),
        update=UpdatePolicy.SSA_OVERRIDE,
        digest="d1",
        phase=Phase.READY,
        status=EntryStatus.CURRENT,
        last_applied_at=datetime(2026, 5, 1, 12, tzinfo=UTC),
    ),
    InventoryEntry(
        gvk=GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
        key=ObjectKey("", "widgets.example.com"),
        delete=DeletePolicy.ORPHAN_ON_DELETE,
        apply_order=-3,
        delete_order=5,
        managed_types=(ManagedType("example.com", "*", "Widget"),),
        digest="d2",
        phase=Phase.COMPLETED,
    ),
)
RELEASE = Release(key=KEY, inventory=Inventory(ENTRIES)).begun(NOW)


def stored(release: Release, **changes: str) -> ConfigMap:
    found = msgspec.convert(releases.written(release), ConfigMap)
    return msgspec.structs.replace(found, data={**found.data, **changes})


def test_a_release_is_read_as_it_was_written() -> None:
    assert releases.read(stored(RELEASE)) == RELEASE
    assert (RELEASE.objects, RELEASE.ready_objects, RELEASE.completed_objects) == (2, 1, 1)


def test_a_release_keeps_why_it_has_failed_until_it_goes_on() -> None:
    failed = replace(RELEASE, stored=stored(RELEASE)).now(ReleaseState.Error, NOW, error="no room" + "x" * 2000)
    kept = stored(failed)
    assert len(kept.metadata.annotations[releases.ERROR]) == 1024
    assert releases.read(kept).error.startswith("no room")
    assert releases.read(stored(failed, state="Ready")).error == "", "clm has ended it, and keeps our annotation"
    again = stored(releases.read(kept).begun(NOW))
    assert releases.ERROR not in again.metadata.annotations


def test_only_an_object_whose_label_and_annotation_agree_names_its_former_release() -> None:
    def marked(owner: str, label: str) -> ObjectMeta:
        key = "clm.cs.sap.com/owner-id"
        return ObjectMeta(name="crd", labels={key: label}, annotations={key: owner})

    owner = "clm.cs.sap.com/shop/web"
    assert releases.former_owner(marked(owner, hash_of(owner))) == ObjectKey("shop", "web")
    assert releases.former_owner(marked(owner, hash_of("clm.cs.sap.com/shop/other"))) is None
    assert releases.former_owner(marked("uid/shop/web", hash_of("uid/shop/web"))) is None
    assert releases.former_owner(marked("clm.cs.sap.com/web", hash_of("clm.cs.sap.com/web"))) is None
    assert releases.former_owner(ObjectMeta(name="crd")) is None


NUMBER_LIKE = ("089", "1e3", "12e45", "0o17", "y", "n", "no", "null", "1.0", "0x1f", "1-2-3", "2026-05-01", "1.5e3")


def test_a_name_that_yaml_takes_for_another_value_is_read_as_it_was_written_by_every_reader() -> None:
    entries = tuple(replace(ENTRIES[0], key=ObjectKey("shop", name), digest=name) for name in NUMBER_LIKE)
    kept = stored(replace(RELEASE, inventory=Inventory(entries)))
    assert releases.read(kept).inventory == Inventory(entries)
    text = kept.data["inventory"]
    expected = json.loads(text)
    assert [item["name"] for item in expected] == [*NUMBER_LIKE]
    assert yaml.safe_load(text) == kube_yaml.read_value(text) == expected


def test_an_inventory_takes_no_more_room_than_in_the_yaml_of_clm() -> None:
    entry = replace(ENTRIES[0], uid="u" * 36)
    text = stored(replace(RELEASE, inventory=Inventory((entry,)))).data["inventory"]
    whole = msgspec.to_builtins(inventory_codec.write(Inventory((entry,))))
    assert len(text) < len(yaml.safe_dump(whole, sort_keys=False))
    assert releases.read(stored(RELEASE, inventory=text)).inventory == Inventory((entry,))


def test_an_inventory_in_the_yaml_of_clm_is_read() -> None:
    item = "{version: v1, kind: ConfigMap, name: one, digest: d}"
    for text in (f"- {item}\n", f"[{item}]\n"):
        (entry,) = releases.read(stored(RELEASE, inventory=text)).inventory
        assert entry.ref == ObjectRef(ENTRIES[0].gvk, ObjectKey("", "one"))


def test_what_others_have_put_on_the_config_map_of_a_release_stays() -> None:
    found = stored(RELEASE, note="theirs")
    reference = OwnerReference(api_version="v1", kind="ConfigMap", name="app", uid="u1")
    metadata = msgspec.structs.replace(
        found.metadata,
        uid="u2",
        resource_version="7",
        labels={**found.metadata.labels, "team": "shop"},
        annotations={"example.com/note": "x"},
        finalizers=("example.com/backup", *found.metadata.finalizers),
        owner_references=(reference,),
        creation_timestamp=NOW,
    )
    found = msgspec.structs.replace(found, metadata=metadata, binary_data={"logo": "AA=="})
    again = msgspec.convert(releases.written(releases.read(found).now(ReleaseState.Error, NOW)), ConfigMap)
    assert again.data == {**found.data, "state": "Error", "updateTimestamp": "2026-05-01T12:30:15Z"}
    assert again.binary_data == {"logo": "AA=="}
    annotations = {**metadata.annotations, releases.WRITER: again.metadata.annotations[releases.WRITER]}
    assert again.metadata == msgspec.structs.replace(metadata, annotations=annotations, creation_timestamp=None)
    over = replace(releases.read(found), inventory=Inventory(), is_deleting=True)
    assert dig(releases.written(over), "metadata", "finalizers") == ["example.com/backup"]


def test_a_release_is_stored_under_the_names_of_clm() -> None:
    kept = stored(RELEASE)
    assert kept.metadata.name == "com.sap.cs.clm.release.web.front"
    assert kept.metadata.labels == {"release.clm.cs.sap.com": "web.front"}
    assert kept.metadata.finalizers == ("clm.cs.sap.com/finalizer",)
    assert set(kept.data) == {"version", "creationTimestamp", "updateTimestamp", "revision", "inventory", "state"}
    assert (kept.data["revision"], kept.data["state"]) == ("1", "Processing")
    assert kept.data["creationTimestamp"] == "2026-05-01T12:30:15Z"


def test_a_release_may_have_dots_in_its_name() -> None:
    assert releases.read(stored(RELEASE)).key == KEY


@pytest.mark.req("R-505")
@pytest.mark.parametrize("name", ["com.sap.cs.clm.release.other", "web.front"])
def test_a_config_map_with_the_label_of_another_release_is_never_that_release(name: str) -> None:
    found = stored(RELEASE)
    renamed = msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, name=name))
    with pytest.raises(UnreadableRelease, match=r"has the label of release 'web\.front'"):
        releases.read(renamed)


def test_a_release_without_its_label_has_the_name_of_its_config_map() -> None:
    found = stored(RELEASE)
    bare = msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, labels={}))
    assert releases.read(bare).key == KEY


def test_a_release_without_objects_is_held_until_it_is_being_deleted() -> None:
    empty = replace(RELEASE, inventory=Inventory())
    assert stored(empty).metadata.finalizers
    assert not stored(replace(empty, is_deleting=True)).metadata.finalizers
    assert stored(replace(RELEASE, is_deleting=True)).metadata.finalizers


def test_the_marks_of_a_release_are_those_of_clm() -> None:
    assert RELEASE.owner.id == "clm.cs.sap.com/shop/web.front"
    assert RELEASE.owner.mark == "clm.cs.sap.com/owner-id"
    assert RELEASE.digest == "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b"


def test_a_next_revision_keeps_when_the_release_was_made() -> None:
    later = RELEASE.now(ReleaseState.Ready, NOW).begun(datetime(2026, 6, 1, tzinfo=UTC))
    assert (later.revision, later.created_at) == (2, RELEASE.created_at)
    assert later.updated_at == datetime(2026, 6, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"version": "2"}, "version '2'"),
        ({"revision": "x"}, "'x', which is no number"),
        ({"creationTimestamp": "yesterday"}, "'yesterday' is no time"),
        ({"inventory": "["}, "inventory cannot be read"),
        ({"inventory": "- kind: 3\n"}, "inventory cannot be read"),
        ({"inventory": "- {version: v1, kind: ConfigMap, name: a/../b}\n"}, "entry 1: its name cannot be 'a/../b'"),
        ({"inventory": '- {version: v1, kind: ConfigMap, name: "a\\e[2J"}\n'}, "its name cannot be 'a\\x1b[2J'"),
    ],
)
def test_a_store_that_holds_something_else_is_named(changes: dict[str, str], why: str) -> None:
    with pytest.raises(UnreadableRelease) as caught:
        releases.read(stored(RELEASE, **changes))
    assert str(caught.value).startswith("release shop/web.front cannot be read: ")
    assert why in str(caught.value)


def test_a_release_that_cannot_be_read_hides_no_other_in_a_list() -> None:
    other = replace(RELEASE, key=ObjectKey("shop", "api"))
    found = releases.listing(Listing([stored(RELEASE), stored(RELEASE, revision="x"), stored(other)], "1"))
    assert found.releases == (other, RELEASE)
    assert found.problems == ("release shop/web.front cannot be read: its revision is 'x', which is no number",)


def test_words_that_nobody_knows_never_make_an_object_one_that_may_be_deleted() -> None:
    item = "- {version: v1, kind: ConfigMap, name: one, deletePolicy: Shred, phase: Odd, digest: d}\n"
    (entry,) = releases.read(stored(RELEASE, inventory=item)).inventory
    assert entry.delete is DeletePolicy.ORPHAN
    assert entry.phase is Phase.SCHEDULED_FOR_APPLICATION


def test_an_empty_store_is_a_release_without_objects() -> None:
    assert releases.read(stored(RELEASE, inventory="")).objects == 0
    assert releases.read(stored(RELEASE, inventory="[]\n")).objects == 0


def test_too_late_names_what_was_waited_for_and_how_many_more() -> None:
    from stellwerk.apply.set.plan.stage import Unready

    waits = [Unready(entry.ref, "is not ready") for entry in ENTRIES * 4]
    told = str(TooLate(KEY, 60, waits))
    assert told.startswith("release shop/web.front was not done after 60 s: ConfigMap shop/one: is not ready; ")
    assert told.endswith("; and 3 more")


def test_a_release_whose_config_map_would_be_too_large_once_all_is_applied_is_refused_before_the_first_write() -> None:
    entry = InventoryEntry(
        gvk=GroupVersionKind("apps", "v1", "Deployment"), key=ObjectKey("shop", "x"), digest="d" * 43
    )

    def of(count: int, release: Release = RELEASE) -> Release:
        entries = (replace(entry, key=ObjectKey("shop", f"{number:0200}")) for number in range(count))
        return replace(release, inventory=Inventory(tuple(entries)))

    def size(release: Release) -> int:
        return sum(map(len, stored(release).data.values()))

    with pytest.raises(TooManyObjects, match=r"has 2000 objects, and its ConfigMap has room for about (\d+)") as caught:
        releases.check_size(of(2000))
    most = int(str(caught.value).split()[-3])
    releases.check_size(of(most))
    with pytest.raises(TooManyObjects):
        releases.check_size(of(most + 5))
    assert size(of(most + 5)) < 2**20, "without uids and times it would be stored"
    applied = [replace(each, uid="u" * 36, last_applied_at=NOW.replace(microsecond=0)) for each in of(most).inventory]
    assert size(replace(RELEASE, inventory=Inventory(tuple(applied)))) <= 2**20

    full = replace(RELEASE, stored=stored(RELEASE, note="x" * 2**19))
    with pytest.raises(TooManyObjects):
        releases.check_size(of(most, full))
    releases.check_size(replace(full, inventory=Inventory(tuple(applied))))  # nothing is added to what was stored
