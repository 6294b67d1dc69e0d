"""What the deletion of a release does with its objects."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from stellwerk.apply.objects.desired import Address
from stellwerk.apply.set.model.inventory import Inventory, InventoryEntry, ObjectIdentity, Phase
from stellwerk.apply.set.model.policy import DeletePolicy
from stellwerk.apply.set.plan.plan_input import LiveObject
from stellwerk.cli.releases.delete import removal_lines
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, Resource
from stellwerk.kube.types.model import JsonObject, Unstructured
from stellwerk.releases import removal
from stellwerk.releases.release import Release

NOW = datetime(2026, 5, 1, tzinfo=UTC)
KINDS = {
    kind: Resource("", "v1", kind, f"{kind.lower()}s", namespaced=kind != "Namespace")
    for kind in ("Namespace", "ConfigMap")
}
RELEASE = Release(key=ObjectKey("shop", "web"), is_deleting=True)


def entry(kind: str, name: str) -> InventoryEntry:
    namespace = "shop" if KINDS[kind].namespaced else ""
    gvk, key = GroupVersionKind("", "v1", kind), ObjectKey(namespace, name)
    return InventoryEntry(gvk=gvk, key=key, uid=f"uid of {name}", digest="d", phase=Phase.DELETING)


def live(
    of: InventoryEntry, *, going: bool = True, owner: str = RELEASE.owner.label_value, uid: str = ""
) -> LiveObject:
    metadata: JsonObject = {
        "name": of.key.name,
        "namespace": of.key.namespace,
        "uid": uid or of.uid,
        "labels": {RELEASE.owner.mark: owner},
        **({"deletionTimestamp": "2026-05-01T00:00:00Z"} if going else {}),
    }
    body = Unstructured.of({"apiVersion": "v1", "kind": of.gvk.kind, "metadata": metadata})
    return LiveObject(Address(KINDS[of.gvk.kind], of.key), body)


SPACE, CONFIG = entry("Namespace", "shop"), entry("ConfigMap", "one")


def left(seen: LiveObject | None, space: InventoryEntry = SPACE) -> tuple[InventoryEntry, ...]:
    release = replace(RELEASE, inventory=Inventory((CONFIG, space)))
    shown: dict[ObjectIdentity, LiveObject] = {space.identity: seen} if seen is not None else {}
    return removal.without_own_namespace(release, shown, NOW).inventory.entries


def test_a_release_does_not_wait_for_the_end_of_its_own_namespace() -> None:
    assert left(live(SPACE)) == (CONFIG,)


@pytest.mark.parametrize(
    "seen",
    [None, live(SPACE, going=False), live(SPACE, owner="theirs"), live(SPACE, uid="another")],
    ids=["unseen", "in use", "of another owner", "created again"],
)
def test_it_waits_for_its_namespace_unless_that_is_known_to_end(seen: LiveObject | None) -> None:
    assert left(seen) == (CONFIG, SPACE)


def test_it_waits_for_other_namespaces() -> None:
    other = entry("Namespace", "other")
    assert left(live(other), other) == (CONFIG, other)


def test_what_is_gone_is_not_listed_and_what_stays_is_listed_with_the_cause() -> None:
    ours, taken, again, orphan, gone = (entry("ConfigMap", name) for name in ("a", "b", "c", "d", "e"))
    orphan = replace(orphan, delete=DeletePolicy.ORPHAN)
    shown = [live(ours), live(taken, owner="theirs"), live(again, uid="another"), live(orphan)]
    seen = {ObjectIdentity.of(one.address.ref): one for one in shown}
    release = replace(RELEASE, inventory=Inventory((ours, taken, again, orphan, gone)))
    assert removal_lines(removal.departures(release, seen, NOW)) == [
        "- ConfigMap shop/a",
        "= ConfigMap shop/b will stay: not ours any more",
        "= ConfigMap shop/c will stay: not ours any more",
        "= ConfigMap shop/d will stay: delete policy Orphan",
    ]
