"""What clm has done already is not done again where the release is what it was, and is where it has changed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stellwerk.apply.objects.manifests import read_text
from stellwerk.apply.set.model.desired_set import DesiredObject, prepared
from stellwerk.apply.set.model.inventory import Inventory, InventoryEntry, ObjectIdentity, Phase
from stellwerk.apply.set.model.policy import Policies, UpdatePolicy
from stellwerk.apply.set.plan.inventory_update import register
from stellwerk.apply.set.plan.plan_input import LiveObject
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, Resource
from stellwerk.kube.types.model import Unstructured
from stellwerk.releases import takeover
from stellwerk.releases.release import RECONCILER, Release

RELEASE = Release(key=ObjectKey("shop", "web"), revision=8)
SERVED = {
    gvk: Resource(*gvk, plural, namespaced=True)
    for gvk, plural in {
        GroupVersionKind("", "v1", "ConfigMap"): "configmaps",
        GroupVersionKind("batch", "v1", "Job"): "jobs",
    }.items()
}
CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: config}\ndata: {a: b}\n"
THEIRS = "5" * 64


def job(**asked: str) -> str:
    """A Job that goes when it has done its work."""
    marks = {"purge-order": "0", **{name.replace("_", "-"): word for name, word in asked.items()}}
    annotations = ", ".join(f'{RECONCILER}/{name}: "{word}"' for name, word in marks.items())
    return f"---\napiVersion: batch/v1\nkind: Job\nmetadata: {{name: migrate, annotations: {{{annotations}}}}}\n"


def wanted(text: str) -> tuple[DesiredObject, ...]:
    return prepared(
        read_text(text),
        SERVED,
        namespace="shop",
        owner=RELEASE.owner,
        policies=Policies(update=UpdatePolicy.SSA_OVERRIDE),
        set_digest=RELEASE.digest,
    )


def left_by_clm(objects: tuple[DesiredObject, ...]) -> Inventory:
    """What its store says when all is done."""
    entries = register(objects, Inventory(), {}, RELEASE.owner).inventory
    return Inventory(tuple(_left(entry) for entry in entries))


def _left(entry: InventoryEntry) -> InventoryEntry:
    is_job = entry.gvk.kind == "Job"
    digest = THEIRS + entry.digest[entry.digest.find("@") :] if "@" in entry.digest else THEIRS
    return replace(entry, digest=digest, phase=Phase.COMPLETED if is_job else Phase.READY)


def seen(objects: tuple[DesiredObject, ...]) -> dict[ObjectIdentity, LiveObject]:
    """What is there: Jobs are gone."""
    return {
        one.identity: LiveObject(one.address, Unstructured.of(one.desired.body))
        for one in objects
        if one.identity.kind != "Job"
    }


def runs_again(before: str, now: str, there: str | None = None) -> bool:
    """Whether the Job of a release is made again at its first run here."""
    former, asked = wanted(before), wanted(now)
    found = takeover.settled(asked, left_by_clm(former), seen(wanted(there or before)), RELEASE.owner)
    (entry,) = (one for one in register(asked, found, {}, RELEASE.owner).inventory if one.gvk.kind == "Job")
    return entry.phase is Phase.SCHEDULED_FOR_APPLICATION


def test_work_that_was_done_under_clm_is_done_where_nothing_else_has_changed() -> None:
    assert not runs_again(CONFIG + job(), CONFIG + job())


@pytest.mark.parametrize(
    ("now", "there"),
    [
        (CONFIG.replace("a: b", "a: c") + job(), None),
        (CONFIG + CONFIG.replace("config}", "more}").replace("apiVersion", "---\napiVersion", 1) + job(), None),
        (job(), None),
        (CONFIG + job(), CONFIG.replace("a: b", "a: by hand")),
    ],
    ids=["changed", "more", "less", "changed by others"],
)
def test_work_is_done_again_for_another_content(now: str, there: str | None) -> None:
    assert runs_again(CONFIG + job(), now, there)


def test_work_is_done_again_where_nothing_is_left_to_compare_with() -> None:
    assert runs_again(job(), job())


def test_what_is_meant_for_each_revision_runs_at_each_run() -> None:
    each = job(reconcile_policy="on-object-or-component-change")

    assert not takeover.done(wanted(CONFIG + each), left_by_clm(wanted(CONFIG + each)))
    assert runs_again(CONFIG + each, CONFIG + each)


def test_a_release_of_our_own_is_nothing_to_take_over() -> None:
    objects = wanted(CONFIG + job())
    ours = Inventory(
        tuple(
            replace(entry, phase=Phase.COMPLETED)
            for entry in register(objects, Inventory(), {}, RELEASE.owner).inventory
        )
    )

    assert takeover.done(objects, ours) == ()
