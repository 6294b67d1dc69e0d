"""A set goes in order, leaves what is not its own, and says what is in the way."""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from tests.cluster.apply.object_sets import CONFIG_MAPS, DEFINITIONS, Place, R, annotated, joined
from tests.cluster.apply.sets import CONFIG, DEFINITION, INSTANCE, SECRET

from stellwerk.apply.errors import InvalidSet, Obstacle
from stellwerk.apply.set.checks.resource_lookup import resources_of
from stellwerk.apply.set.model.policy import DeletePolicy, Policies, TypePattern, UpdatePolicy
from stellwerk.apply.set.object_set import SetProgress
from stellwerk.apply.set.plan.actions import Remove
from stellwerk.kube.client.patch import JsonPatch, MergePatch, replace
from stellwerk.kube.types.errors import Unexplained
from stellwerk.kube.types.model import metadata_of, unstructured
from stellwerk.testing.eventually import eventually

FOREIGN = INSTANCE.replace("name: one", "name: foreign")


def named(name: str, **annotations: object) -> str:
    """A ConfigMap with a name."""
    return annotated(f"\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n", **annotations)


def removed(progress: SetProgress) -> list[str]:
    """What was asked to go, in order."""
    return [each.address.key.name for each in progress.carried if isinstance(each.action, Remove)]


async def hold(place: Place, name: str, *finalizers: str, namespace: str = "") -> None:
    """Somebody holds a ConfigMap; nobody any more without finalizers."""
    patch = MergePatch({"metadata": {"finalizers": [*finalizers] or None}})
    await place.others.patch(unstructured(CONFIG_MAPS), name, namespace or place.namespace, patch)


# ---- order


async def test_a_set_goes_with_one_request_for_each_object(place: Place) -> None:
    kept = place.new_set()
    await kept.rolled_out(joined(named("a"), named("b"), SECRET))
    place.audit.mark()
    assert (await kept.delete()).done
    assert place.asked() == ["delete configmaps a", "delete configmaps b", "delete secrets secret"]
    assert not len(kept.inventory)


async def test_waves_of_deletion_wait_for_each_other_and_the_blocker_is_named(place: Place) -> None:
    kept = place.new_set()
    await kept.rolled_out(joined(named("late", delete_order=1), named("early", delete_order=-1), named("middle")))
    await hold(place, "middle", "example.org/hold")
    progress = await kept.delete()
    assert removed(progress) == ["early", "middle"]
    assert str(progress.waits[0]).endswith("middle: is being deleted and waits for finalizers example.org/hold")
    progress = await kept.delete()
    assert (removed(progress), progress.done) == ([], False)
    await hold(place, "middle")
    await kept.deleted()


async def test_instances_go_before_their_definition(place: Place) -> None:
    kept = place.new_set()
    await kept.rolled_out(joined(DEFINITION, INSTANCE, CONFIG))
    progress = await kept.delete()
    assert [each.address.resource.kind for each in progress.carried[:2]] == ["Thing", "CustomResourceDefinition"]
    await kept.deleted()
    assert await place.find("CustomResourceDefinition", f"things.{place.namespace}.example.org", namespace="") is None
    assert await place.find("ConfigMap", "config") is None


async def test_what_the_manifest_no_longer_has_goes_after_everything_new_is_ready(place: Place) -> None:
    kept = place.new_set()
    await kept.rolled_out(named("old"))
    job = """
apiVersion: batch/v1
kind: Job
metadata: {name: slow}
spec:
  suspend: true
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: registry.example.org/job:1}]
"""
    await kept.passing(job)
    assert await place.find("ConfigMap", "old") is not None
    await kept.rolled_out(job.replace("suspend: true", "suspend: false"))
    assert await place.find("ConfigMap", "old") is None


# ---- what others use


@pytest.mark.req("R-112")
async def test_a_set_whose_kind_others_use_must_not_go(place: Place) -> None:
    kept = place.new_set()
    await kept.rolled_out(joined(DEFINITION, INSTANCE))
    assert await kept.obstacle() == ""
    await place.discovery_tells_of_things()
    place.kubectl("apply", "-f", "-", stdin=FOREIGN)
    definition = f"things.{place.namespace}.example.org"
    assert await kept.obstacle() == f"crd {definition} is still in use (instances exist)"
    place.kubectl("delete", f"things.{place.namespace}.example.org", "foreign")
    assert await kept.obstacle() == ""
    await kept.deleted()


@pytest.mark.req("R-112")
async def test_a_definition_that_came_into_use_at_the_last_moment_stays_with_all_instances(place: Place) -> None:
    kept = place.new_set()
    await kept.rolled_out(joined(DEFINITION, INSTANCE, CONFIG))
    await place.discovery_tells_of_things()
    place.kubectl("apply", "-f", "-", stdin=FOREIGN)
    await kept.delete()
    progress = await kept.delete()
    assert (progress.done, removed(progress)) == (False, [])
    assert [str(each.why) for each in progress.waits] == [
        f"crd things.{place.namespace}.example.org is still in use (instances exist)"
    ]
    found = await place.body("CustomResourceDefinition", f"things.{place.namespace}.example.org", namespace="")
    assert not found.metadata.is_terminating
    assert await place.find("Thing", "foreign") is not None
    place.kubectl("delete", f"things.{place.namespace}.example.org", "foreign")
    await kept.deleted()


@pytest.mark.req("R-112")
async def test_a_kind_of_a_later_wave_that_came_into_use_keeps_a_set_that_goes_only_unused(place: Place) -> None:
    kept = place.new_set()
    await kept.rolled_out(joined(annotated(DEFINITION, delete_order=1), CONFIG))
    await place.discovery_tells_of_things()
    place.kubectl("apply", "-f", "-", stdin=FOREIGN)
    progress = await kept.delete(only_unused=True)
    assert (progress.done, removed(progress)) == (False, [])
    assert [each.ref.gvk.kind for each in progress.waits] == ["CustomResourceDefinition"]
    place.kubectl("delete", f"things.{place.namespace}.example.org", "foreign")
    assert removed(await kept.delete(only_unused=True)) != []
    await kept.deleted()


@pytest.mark.req("R-112")
async def test_a_set_must_not_go_while_others_use_a_kind_that_it_is_said_to_manage(place: Place) -> None:
    group = f"{place.namespace}.example.org"
    place.new_set("definition")
    await place.sets[0].rolled_out(joined(DEFINITION, FOREIGN))
    policies = Policies(update=UpdatePolicy.SSA_OVERRIDE, managed_types=(TypePattern(f"*.{group}", "*"),))
    kept = place.new_set(policies=policies)
    await kept.rolled_out(CONFIG)
    assert await kept.obstacle() == ""
    exact = Policies(update=UpdatePolicy.SSA_OVERRIDE, managed_types=(TypePattern(group, "*"),))
    other = place.new_set("two", policies=exact)
    assert await other.obstacle() == f"type *.{group} is still in use (instances exist)"


async def test_a_set_of_orphans_may_go_whoever_uses_it(place: Place) -> None:
    kept = place.new_set(policies=Policies(update=UpdatePolicy.SSA_OVERRIDE, delete=DeletePolicy.ORPHAN_ON_DELETE))
    await kept.rolled_out(joined(DEFINITION, INSTANCE))
    await place.discovery_tells_of_things()
    place.kubectl("apply", "-f", "-", stdin=FOREIGN)
    assert await kept.obstacle() == ""
    await kept.deleted()
    name = f"things.{place.namespace}.example.org"
    left = await place.body("CustomResourceDefinition", name, namespace="")
    assert R not in left.metadata.finalizers
    assert left.metadata.labels[f"{R}/owner-id"] == kept.owner.label_value
    assert await place.find("Thing", "one") is not None
    place.kubectl("delete", "crd", name)


@pytest.mark.req("R-110", "R-112")
async def test_a_definition_that_somebody_deletes_is_made_anew_with_its_instances(place: Place) -> None:
    kept = place.new_set()
    text = joined(DEFINITION, INSTANCE)
    await kept.rolled_out(text)
    name = f"things.{place.namespace}.example.org"
    before = (await place.body("CustomResourceDefinition", name, namespace="")).metadata.uid
    place.kubectl("delete", "crd", name, "--wait=false")

    async def is_made_anew() -> bool:
        with suppress(Unexplained):  # the API server still lists the kind, and no longer serves it
            await kept.apply(text)
        found = await place.find("CustomResourceDefinition", name, namespace="")
        return found is not None and found.metadata.uid != before

    await eventually(is_made_anew, describe="a new definition")

    async def is_done() -> bool:
        with suppress(Unexplained):
            return (await kept.apply(text)).done
        return False

    await eventually(is_done, describe="the set to be whole again")
    assert await place.find("Thing", "one") is not None


# ---- orphans


@pytest.mark.parametrize(
    ("policy", "stays_on_apply", "stays_on_delete"),
    [
        ("delete", False, False),
        ("orphan", True, True),
        ("orphan-on-apply", True, False),
        ("orphan-on-delete", False, True),
    ],
)
async def test_an_orphan_stays_in_the_cases_that_its_policy_names(
    place: Place, policy: str, stays_on_apply: bool, stays_on_delete: bool
) -> None:
    kept = place.new_set()
    await kept.rolled_out(joined(named("dropped", delete_policy=policy), named("kept", delete_policy=policy)))
    await kept.rolled_out(named("kept", delete_policy=policy))
    assert bool(await place.find("ConfigMap", "dropped")) is stays_on_apply
    await kept.deleted()
    assert bool(await place.find("ConfigMap", "kept")) is stays_on_delete


# ---- others meddle


@pytest.mark.req("R-105", "R-505")
async def test_an_object_that_somebody_made_anew_while_we_waited_is_left_alone(place: Place) -> None:
    kept = place.new_set()
    await kept.rolled_out(CONFIG)
    await hold(place, "config", "example.org/hold")
    await kept.delete()
    await hold(place, "config")
    place.kubectl("create", "configmap", "config", "--from-literal=mine=1")
    await kept.deleted()
    assert (await place.body("ConfigMap", "config")).at("data") == {"mine": "1"}


@pytest.mark.req("R-105")
async def test_the_deletion_of_an_object_that_was_replaced_behind_our_cache_is_refused_by_the_server(
    place: Place,
) -> None:
    kept = place.new_set()
    await kept.rolled_out(CONFIG)
    resources = await kept.resources(())
    stale = await kept.seen(resources)
    place.kubectl("delete", "configmap", "config")
    place.kubectl("create", "configmap", "config", "--from-literal=mine=1")
    progress = await (await kept.object_set()).delete(kept.inventory, stale, resources)
    assert progress.done
    assert (await place.body("ConfigMap", "config")).at("data") == {"mine": "1"}


@pytest.mark.req("R-104", "R-105")
async def test_an_object_that_its_own_set_has_made_anew_behind_our_cache_is_not_deleted_for_the_former_one(
    place: Place,
) -> None:
    kept = place.new_set()
    await kept.rolled_out(CONFIG)
    resources = await kept.resources(())
    stale = await kept.seen(resources)
    place.kubectl("delete", "configmap", "config")
    await kept.rolled_out(CONFIG)
    made = (await place.body("ConfigMap", "config")).metadata.uid
    progress = await (await kept.object_set()).delete(kept.inventory, stale, resources)
    assert [failure.cause for failure in progress.failures] == ["it was created again in the meantime"]
    assert (await place.body("ConfigMap", "config")).metadata.uid == made
    await kept.deleted()
    assert await place.find("ConfigMap", "config") is None


@pytest.mark.req("R-505")
async def test_an_object_whose_label_was_taken_off_is_not_deleted(place: Place) -> None:
    kept = place.new_set()
    await kept.rolled_out(CONFIG)
    place.kubectl("label", "configmap", "config", f"{R}/owner-id-")
    await kept.deleted()
    assert await place.find("ConfigMap", "config") is not None


@pytest.mark.req("R-110")
async def test_a_label_that_was_taken_off_is_put_back_by_the_next_pass(place: Place) -> None:
    kept = place.new_set()
    await kept.rolled_out(CONFIG)
    place.kubectl("label", "configmap", "config", f"{R}/owner-id-")
    await kept.rolled_out(CONFIG)
    found = (await place.body("ConfigMap", "config")).metadata
    assert found.labels[f"{R}/owner-id"] == kept.owner.label_value
    place.audit.mark()
    assert (await kept.apply(CONFIG)).done
    assert place.requests() == []


@pytest.mark.req("R-110")
async def test_a_label_taken_off_what_is_made_once_is_put_back_and_nothing_else(place: Place) -> None:
    kept = place.new_set()
    once = annotated(CONFIG, reconcile_policy="once")
    await kept.rolled_out(once)
    place.kubectl("patch", "configmap", "config", "--type=merge", "-p", '{"data":{"A":"mine"}}')
    place.kubectl("label", "configmap", "config", f"{R}/owner-id-")
    await kept.rolled_out(once)
    found = await place.body("ConfigMap", "config")
    assert (found.metadata.labels[f"{R}/owner-id"], found.at("data", "A")) == (kept.owner.label_value, "mine")


@pytest.mark.req("R-207")
async def test_a_definition_that_is_gone_with_its_instances_does_not_stop_the_deletion(place: Place) -> None:
    place.kubectl("apply", "-f", "-", stdin=DEFINITION)
    kept = place.new_set()

    async def is_served() -> bool:
        try:
            return len(await kept.wanted(INSTANCE)) == 1
        except InvalidSet:
            return False

    await eventually(is_served, describe="the kind to be served")
    await kept.rolled_out(joined(INSTANCE, CONFIG))
    resources = await kept.resources(())
    place.kubectl("delete", "crd", f"things.{place.namespace}.example.org")

    async def is_done() -> bool:
        with suppress(Unexplained):  # the API server still lists the kind, and no longer serves it
            progress = await (await kept.object_set()).delete(kept.inventory, await kept.seen(resources), resources)
            assert progress.done, [str(each) for each in (*progress.waits, *progress.failures)]
            return True
        return False

    await eventually(is_done, describe="a set without its definition to be gone")


@pytest.mark.req("R-207")
async def test_an_object_whose_version_is_no_longer_served_is_deleted_in_another_one(place: Place) -> None:
    schema = "schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}"
    second = f"\n  - {{name: v2, served: true, storage: false, {schema}}}\n"
    place.kubectl("apply", "-f", "-", stdin=DEFINITION.rstrip() + second)
    kept = place.new_set()

    async def is_served() -> bool:
        with suppress(InvalidSet):
            await kept.wanted(INSTANCE)
            return await place.others.mapper.other_versions(place.things) == ["v2"]
        return False

    await eventually(is_served, describe="the kind to be served")
    await kept.rolled_out(INSTANCE)
    former = await kept.resources(())
    seen = await kept.seen(former)
    unserved = JsonPatch([replace("/spec/versions/0/served", False)])
    await place.others.patch(metadata_of(DEFINITIONS), f"things.{place.group}", "", unserved)

    async def is_refused() -> bool:
        with suppress(Unexplained):  # the API server still lists the version, and no longer serves it
            progress = await (await kept.object_set()).delete(kept.inventory, seen, former)
            (failure,) = progress.failures
            assert (failure.obstacle, len(progress.inventory)) == (Obstacle.OUTAGE, 1)
            assert "as v2 now" in failure.cause
            return True
        return False

    async def is_unlisted() -> bool:
        return not await place.others.mapper.serves(place.things)

    await eventually(is_refused, describe="a deletion in the former version")
    await eventually(is_unlisted, describe="discovery without the former version")
    now = await resources_of((), kept.inventory, place.others, datetime.now(UTC))
    assert (await (await kept.object_set()).delete(kept.inventory, await kept.seen(now), now)).done
    view = unstructured(dataclasses.replace(place.things, version="v2"))
    assert await place.others.find(view, "one", place.namespace) is None


async def test_a_namespace_that_is_being_deleted_is_named(place: Place) -> None:
    kept = place.new_set()
    own = f"{place.namespace}-going"
    place.kubectl("create", "namespace", own)
    held, late = (named(name).replace("name: ", f"namespace: {own}, name: ", 1) for name in ("held", "late"))
    await kept.rolled_out(held)
    await hold(place, "held", "example.org/hold", namespace=own)
    place.kubectl("delete", "namespace", own, "--wait=false")
    await kept.apply(joined(held, late))
    progress = await kept.apply(joined(held, late))
    (failure,) = progress.failures
    assert (failure.obstacle, failure.ref.key.name) == (Obstacle.NAMESPACE_TERMINATING, "late")
    await hold(place, "held", namespace=own)
