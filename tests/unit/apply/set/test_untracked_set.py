"""A plan is decided from caches and memory alone, and is right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st
from tests.unit.apply.given import OWNER, US, applied, applied_metadata, config_map, labelled, memory_of, secret

from stellwerk.apply.fields.managed_fields import Claims, all_but
from stellwerk.apply.objects.desired import Address, Desired
from stellwerk.apply.set.model import need_order
from stellwerk.apply.set.model.confirmation import FIGHT_SECONDS, Live, confirm
from stellwerk.apply.set.model.desired_set import uniform
from stellwerk.apply.set.model.inventory import ObjectIdentity
from stellwerk.apply.set.observed_state import ObservedState
from stellwerk.apply.set.plan import plan_apply, plan_prune
from stellwerk.apply.set.plan.actions import Create, Remove, Update
from stellwerk.apply.set.plan.inventory_update import of_live, of_wanted
from stellwerk.apply.set.plan.plan_input import LiveObject, PlanInput
from stellwerk.apply.set.plan.stage import Stage, Throttled, Unready
from stellwerk.apply.set.untracked_set import DIRECTIVE, EVERYTHING, apply_options
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import JsonObject, JsonValue, PartialObjectMetadata, Unstructured
from stellwerk.kube.types.object_meta import FieldManager

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
KUBECTL = FieldManager(manager="kubectl-edit", operation="Update")
DEFAULTS: JsonObject = {"spec": {"defaulted": 1}}


def state(
    live: Mapping[Address, Live], memory: ObservedState | None = None, now: float = 0.0, reclaims: Claims = EVERYTHING
) -> PlanInput:
    """The set as it looks now."""
    return PlanInput(
        owner=OWNER,
        options=apply_options(reclaims),
        seen={ObjectIdentity.of(address.ref): LiveObject(address, obj) for address, obj in live.items()},
        resources={ObjectIdentity.of(address.ref): address.resource for address in live},
        confirmations=(memory or ObservedState()).confirmations,
        now=NOW,
        clock=now,
    )


def plan(desired: Iterable[Desired], state: PlanInput) -> Stage:
    """What is written next."""
    objects = uniform(desired, OWNER, DIRECTIVE)
    return plan_apply.next_stage(objects, of_wanted(objects), state)


def plan_delete(live: Mapping[Address, Live]) -> Stage:
    """What is deleted next."""
    definitions = {address.key.name for address in live if need_order.is_definition(address.resource)}
    seen = state(live)
    inventory = of_live(seen.seen.values(), lambda resource: need_order.delete_wave(resource, definitions))
    return plan_prune.of_set(inventory, seen)


def decided(
    one: Desired, live: Live | None, memory: ObservedState | None = None, now: float = 0.0
) -> Create | Update | Throttled | None:
    """What becomes of a single object; None where nothing is written."""
    stage = plan([one], state({one.address: live} if live is not None else {}, memory, now))
    for action in stage.actions:
        assert isinstance(action, Create | Update)
        return action
    return next(iter(stage.throttled), None)


def what(update: object) -> tuple[str, bool]:
    """Why an object is changed, and whether that restores it."""
    assert isinstance(update, Update)
    return update.why, update.restores


# ---- first looks: nothing is remembered


def test_what_does_not_exist_is_created() -> None:
    assert isinstance(decided(config_map(), None), Create)


@pytest.mark.req("R-108")
def test_what_is_equal_and_ours_is_left_alone_even_by_a_new_process() -> None:
    one = config_map(a="1")
    assert decided(one, applied(one)) is None


@pytest.mark.parametrize(
    "more", [{"metadata": {"uid": "9", "generation": 4, "creationTimestamp": "x"}}, {"status": {"phase": "x"}}]
)
def test_what_the_server_keeps_for_itself_does_not_count(more: JsonObject) -> None:
    one = config_map(a="1")
    assert decided(one, applied(one, more=more)) is None


def test_what_carries_more_than_asked_is_applied_once_because_it_may_be_a_leftover() -> None:
    one = config_map(a="1")
    action = decided(one, applied(one, more=DEFAULTS))
    assert isinstance(action, Update)
    assert action.why == "not written by this process yet"


def test_what_is_equal_but_not_ours_is_applied_to_own_it() -> None:
    one = config_map(a="1")
    live = applied(one)
    unowned = nobodys(live)
    assert isinstance(decided(one, unowned), Update)


def nobodys(live: Unstructured) -> Unstructured:
    """The same object without any managedFields."""
    version = f"{live.metadata.resource_version} without"
    return Unstructured(live.body, msgspec.structs.replace(live.metadata, managers=(), resource_version=version))


def test_a_field_that_differs_is_named() -> None:
    one = config_map(a="1", b="2")
    action = decided(one, applied(one, more={"data": {"a": "x"}}))
    assert isinstance(action, Update)
    assert action.why == "data.a differs"


def test_many_differences_are_counted() -> None:
    one = config_map(**{f"k{number}": "1" for number in range(6)})
    action = decided(one, applied(one, more={"data": {f"k{number}": "2" for number in range(6)}}))
    assert isinstance(action, Update)
    assert action.why == "data.k0 differs, data.k1 differs, data.k2 differs and 3 more"


# ---- with memory


@pytest.mark.req("R-108")
def test_what_we_applied_is_left_alone_whatever_defaults_it_carries() -> None:
    one = config_map(a="1")
    live = {one.address: applied(one, more=DEFAULTS)}
    assert plan([one], state(live, memory_of(live, one))).done


@pytest.mark.req("R-108")
def test_what_the_server_made_of_our_write_is_settled() -> None:
    one = config_map(a="1000m")
    live = {one.address: applied(one, more={"data": {"a": "1"}})}
    assert plan([one], state(live, memory_of(live, one))).done


def test_what_was_settled_and_changes_again_is_a_difference() -> None:
    one = config_map(a="1000m")
    memory = memory_of({one.address: applied(one, more={"data": {"a": "1"}})}, one)
    action = decided(one, applied(one, more={"data": {"a": "2"}}), memory)
    assert isinstance(action, Update)
    assert action.restores


def test_a_status_written_after_our_apply_does_not_count() -> None:
    one = config_map(a="1")
    memory = memory_of({one.address: applied(one)}, one)
    later = applied(one, version="7", more={"status": {"x": 1}, "metadata": {"annotations": {"revision": "1"}}})
    assert decided(one, later, memory) is None


def test_a_new_manifest_is_applied() -> None:
    before, after = config_map(a="1", b="1"), config_map(a="1")
    live = {before.address: applied(before)}
    assert what(plan([after], state(live, memory_of(live, before))).actions[0]) == ("its manifest has changed", False)


@pytest.mark.req("R-110")
def test_an_owned_field_changed_by_others_is_restored() -> None:
    one = config_map(a="1")
    memory = memory_of({one.address: applied(one)}, one)
    action = decided(one, applied(one, more={"data": {"a": "x"}}), memory)
    assert isinstance(action, Update)
    assert action.restores


@pytest.mark.req("R-110")
def test_an_object_deleted_by_others_is_created_again() -> None:
    one = config_map(a="1")
    memory = memory_of({one.address: applied(one)}, one)
    created = decided(one, None, memory)
    assert isinstance(created, Create)
    assert created.restores


@pytest.mark.req("R-105")
def test_what_is_known_of_a_deleted_object_says_nothing_of_its_successor() -> None:
    one = config_map(a="1")
    memory = memory_of({one.address: applied(one, uid="old", more=DEFAULTS)}, one)
    found = decided(one, applied(one, uid="new", more=DEFAULTS), memory)
    assert what(found) == ("not written by this process yet", False)


def test_an_object_that_lost_the_record_of_our_ownership_is_applied() -> None:
    one = config_map(a="1")
    live = applied(one)
    memory = memory_of({one.address: live}, one)
    cleared = nobodys(live)
    assert what(decided(one, cleared, memory)) == ("its managedFields no longer name us", True)


def test_an_object_of_which_we_own_no_field_stays_calm() -> None:
    one = config_map()
    bare = nobodys(applied(one))
    memory = ObservedState({one.address: confirm(one, bare, US)})
    assert decided(one, bare, memory) is None


def test_an_object_of_which_we_own_no_field_is_watched_by_its_content() -> None:
    one = config_map()
    bare = nobodys(applied(one, more=DEFAULTS))
    memory = ObservedState({one.address: confirm(one, bare, US)})
    meddled = nobodys(applied(one, more={**DEFAULTS, "data": {"theirs": "1"}}))
    assert decided(one, bare, memory) is None
    assert what(decided(one, meddled, memory)) == ("data.theirs was added", True)


@pytest.mark.req("R-105")
def test_an_object_that_is_being_deleted_is_waited_for() -> None:
    one = config_map()
    body: JsonObject = {
        **one.body,
        "metadata": {"name": "one", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]},
    }
    stage = plan([one], state({one.address: Unstructured.of(body)}))
    assert (stage.actions, stage.waits) == ((), (Unready(one.ref, "is being deleted and waits for finalizers a/b"),))


# ---- metadata only


def test_a_secret_is_applied_by_a_new_process() -> None:
    assert isinstance(decided(secret(), applied_metadata(secret())), Update)


@pytest.mark.req("R-108")
def test_a_secret_we_applied_is_left_alone_while_its_version_stands() -> None:
    live = {secret().address: applied_metadata(secret())}
    assert plan([secret()], state(live, memory_of(live, secret()))).done


def test_a_secret_with_another_version_is_applied() -> None:
    memory = memory_of({secret().address: applied_metadata(secret())}, secret())
    action = decided(secret(), applied_metadata(secret(), version="2"), memory)
    assert what(action) == ("it was changed", True)


# ---- others


@pytest.mark.req("R-110")
@pytest.mark.parametrize(
    "manager", [KUBECTL, FieldManager(manager=US, operation="Update"), FieldManager(manager="x", operation="Apply")]
)
def test_an_object_that_others_wrote_to_is_reclaimed_and_they_are_named(manager: FieldManager) -> None:
    one = config_map(a="1")
    action = decided(one, applied(one, manager))
    assert isinstance(action, Update)
    assert action.claimed[0].startswith(manager.manager)


def test_a_secret_that_others_wrote_to_is_reclaimed() -> None:
    assert isinstance(decided(secret(), applied_metadata(secret(), KUBECTL)), Update)


@pytest.mark.parametrize(
    "manager",
    [
        FieldManager(manager="kube-controller-manager", operation="Update", subresource="status"),
        FieldManager(manager="kubectl", operation="Update", subresource="scale"),
        FieldManager(manager="kube-controller-manager", operation="Update"),
    ],
)
def test_status_scale_and_the_control_plane_are_no_strangers(manager: FieldManager) -> None:
    one = config_map(a="1")
    assert decided(one, applied(one, manager)) is None


def test_a_writer_can_be_tolerated() -> None:
    one = config_map(a="1")
    tolerant = all_but(frozenset({"kubectl-edit"}))
    assert plan([one], state({one.address: applied(one, KUBECTL)}, reclaims=tolerant)).done


# ---- fights


@pytest.mark.req("R-110")
def test_a_first_restoration_is_immediate_and_the_next_waits() -> None:
    one = config_map(a="1")
    drifted = applied(one, KUBECTL)
    memory = memory_of({one.address: applied(one)}, one)
    assert isinstance(decided(one, drifted, memory, now=100), Update)
    memory.confirmations[one.address] = replace(memory.confirmations[one.address], restored_at=100)
    held = decided(one, drifted, memory, now=100 + FIGHT_SECONDS - 0.1)
    assert held == Throttled(one.ref, 100 + FIGHT_SECONDS, ("kubectl-edit",))
    assert isinstance(decided(one, drifted, memory, now=100 + FIGHT_SECONDS), Update)


@pytest.mark.req("R-110")
def test_a_deletion_fight_is_held_as_well() -> None:
    one = config_map(a="1")
    memory = memory_of({one.address: applied(one)}, one, restored_at=100)
    assert decided(one, None, memory, now=105) == Throttled(one.ref, 110, ())


@pytest.mark.req("R-110")
def test_a_change_that_we_want_is_never_held() -> None:
    before, after = config_map(a="1"), config_map(a="2")
    memory = memory_of({before.address: applied(before)}, before, restored_at=100)
    assert isinstance(decided(after, applied(before), memory, now=101), Update)


def test_the_next_pass_is_due_when_the_first_held_object_is() -> None:
    one, two = config_map("a"), config_map("b")
    memory = memory_of({o.address: applied(o) for o in (one, two)}, one, two)
    memory.confirmations[one.address] = replace(memory.confirmations[one.address], restored_at=5)
    memory.confirmations[two.address] = replace(memory.confirmations[two.address], restored_at=3)
    assert plan([one, two], state({}, memory, now=6)).again_at == 13


# ---- sets

SET = """
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: hook}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: app}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: bind}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: role}}
---
{apiVersion: v1, kind: Secret, metadata: {name: secret}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: there}}
"""


def test_waves_follow_need_and_keep_the_given_order_inside() -> None:
    groups = plan(labelled(SET), state({})).groups
    assert [[str(action) for action in group] for group in groups] == [
        ["create Namespace there"],
        ["create Role there/role", "create Secret there/secret"],
        ["create RoleBinding there/bind"],
        ["create Deployment there/app"],
        ["create ValidatingWebhookConfiguration hook"],
    ]


DEFINED = """
apiVersion: example.org/v1
kind: Thing
metadata: {name: t}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {kind: Thing, plural: things}
  versions: [{name: v1}]
"""


def established(definition: Desired, status: str) -> Unstructured:
    conditions: list[JsonValue] = [{"type": name, "status": status} for name in ("NamesAccepted", "Established")]
    return applied(definition, more={"status": {"conditions": conditions}})


def test_instances_wait_until_their_definition_is_established() -> None:
    thing, definition = labelled(DEFINED)
    stage = plan([thing, definition], state({}))
    assert [action.address for action in stage.actions] == [definition.address]
    stage = plan([thing, definition], state({definition.address: established(definition, "False")}))
    assert stage.actions == ()
    assert [wait.ref for wait in stage.waits] == [definition.ref]
    ready: dict[Address, Live] = {definition.address: established(definition, "True")}
    assert [action.address for action in plan([thing, definition], state(ready)).actions] == [thing.address]


def test_a_plan_can_be_printed() -> None:
    one, two, three, four = (config_map(name, a="1") for name in "abcd")
    live = {
        two.address: applied(two, more={"data": {"a": "2"}}),
        three.address: applied(three, KUBECTL),
        four.address: applied(four),
    }
    assert [str(action) for action in plan([one, two, three, four], state(live)).actions] == [
        "create ConfigMap there/a",
        "update ConfigMap there/b: data.a differs",
        "update ConfigMap there/c: changed by kubectl-edit",
    ]


@pytest.mark.req("R-801")
def test_a_printed_plan_shows_no_secret() -> None:
    (one,) = labelled("{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: {password: hunter2}}")
    live = applied(one, KUBECTL, more={"data": {"password": "b3RoZXI="}})
    shown = plan([one], state({one.address: live}))
    for secret_text in ("hunter2", "aHVudGVyMg", "b3RoZXI"):
        assert secret_text not in str(shown) + repr(shown)


# ---- deletion


def live_of(
    kind: str, name: str, plural: str = "", group: str = "", *finalizers: str, ending: bool = False
) -> tuple[Address, Live]:
    namespaced = kind != "CustomResourceDefinition"
    resource = Resource(group, "v1", kind, plural or kind.lower() + "s", namespaced)
    metadata: JsonObject = {"name": name, "uid": f"uid-{name}", "resourceVersion": "5", "labels": {"app": "x"}}
    if namespaced:
        metadata["namespace"] = "n"
    if ending:
        metadata |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": list(finalizers)}
    return Address(resource, ObjectKey("n" if namespaced else "", name)), Unstructured.of({"metadata": metadata})


def test_deletion_goes_wave_by_wave_and_names_the_object_and_the_state_it_means() -> None:
    live = dict([live_of("Namespace", "n"), live_of("Deployment", "app", group="apps"), live_of("Secret", "s")])
    stage = plan_delete(live)
    assert [str(action) for action in stage.actions] == ["delete Deployment n/app: the set is deleted"]
    (remove,) = stage.actions
    assert isinstance(remove, Remove)
    assert (remove.uid, remove.resource_version) == ("uid-app", "5")


@pytest.mark.req("R-112")
def test_a_blocked_deletion_names_its_finalizers() -> None:
    stage = plan_delete(dict([live_of("Secret", "s", "", "", "keep.me/here", ending=True), live_of("ConfigMap", "r")]))
    assert "Secret n/s: is being deleted and waits for finalizers keep.me/here" in str(stage)


def test_instances_go_before_their_definitions_and_these_before_their_controller() -> None:
    live = dict(
        [
            live_of("Deployment", "app", group="apps"),
            live_of("CustomResourceDefinition", "things.example.org", group="apiextensions.k8s.io"),
            live_of("Thing", "t", "things", "example.org"),
        ]
    )
    gone = []
    while live:
        for remove in plan_delete(live).actions:
            assert isinstance(remove, Remove)
            gone.append(remove.address.resource.kind)
            del live[remove.address]
    assert gone == ["Thing", "CustomResourceDefinition", "Deployment"]


@pytest.mark.req("R-104")
def test_an_object_that_lost_its_label_is_not_deleted() -> None:
    address, labelled = live_of("Secret", "s")
    bare = PartialObjectMetadata(metadata=msgspec.structs.replace(labelled.metadata, labels={}))
    assert plan_delete({address: labelled}).actions
    assert plan_delete({address: bare}).actions == ()


def test_nothing_left_is_nothing_to_do() -> None:
    assert plan_delete({}).done


# ---- any set

Content = dict[str, tuple[dict[str, str], bool, str, list[FieldManager]]]
NAMES = st.sampled_from(["a", "b", "c", "d", "e"])
SETS = st.dictionaries(NAMES, st.dictionaries(NAMES, st.sampled_from(["1", "2"]), max_size=3), max_size=5).map(
    lambda content: [config_map(name, **data) for name, data in content.items()]
)
LIVES = st.dictionaries(
    NAMES,
    st.tuples(
        st.dictionaries(NAMES, st.sampled_from(["1", "2", "3"]), max_size=3),
        st.booleans(),
        st.sampled_from(["u1", "u2"]),
        st.lists(st.sampled_from([KUBECTL, FieldManager(manager=US, operation="Update")]), max_size=2, unique=True),
    ),
    max_size=5,
)


def snapshot_of(content: Content) -> dict[Address, Live]:
    live: dict[Address, Live] = {}
    for name, (data, has_defaults, uid, managers) in content.items():
        one = config_map(name, **data)
        live[one.address] = applied(one, *managers, uid=uid, more=DEFAULTS if has_defaults else {})
    return live


def carried_out(stage: Stage, live: dict[Address, Live], memory: ObservedState) -> None:
    """What a server would do: the object becomes what was asked for, keeps its defaults, and gets a status later."""
    for action in stage.actions:
        assert isinstance(action, Create | Update)
        one = action.desired
        before = live.get(one.address)
        answer = applied(one, uid=before.metadata.uid if before else "new", more=DEFAULTS)
        memory.confirmations[one.address] = confirm(one, answer, US)
        live[one.address] = applied(one, uid=answer.metadata.uid, more={**DEFAULTS, "status": {"seen": True}})


@for_all(SETS, SETS, LIVES)
def test_after_a_plan_was_carried_out_the_next_one_is_calm(
    earlier: list[Desired], desired: list[Desired], content: Content
) -> None:
    live, memory = snapshot_of(content), ObservedState()
    carried_out(plan(earlier, state(live, memory)), live, memory)
    carried_out(plan(desired, state(live, memory)), live, memory)
    assert plan(desired, state(live, memory)).done


@for_all(SETS, LIVES)
def test_a_lost_memory_costs_at_most_one_apply_an_object(desired: list[Desired], content: Content) -> None:
    live, memory = snapshot_of(content), ObservedState()
    carried_out(plan(desired, state(live, memory)), live, memory)
    forgotten = ObservedState()
    carried_out(plan(desired, state(live, forgotten)), live, forgotten)
    assert plan(desired, state(live, forgotten)).done


@for_all(SETS, LIVES)
def test_the_same_facts_give_the_same_plan_and_the_same_words(desired: list[Desired], content: Content) -> None:
    one = plan(desired, state(snapshot_of(content)))
    same = plan(list(desired), state(snapshot_of(content)))
    assert one == same
    assert str(one) == str(same)


@for_all(SETS, LIVES)
def test_no_object_has_two_actions(desired: list[Desired], content: Content) -> None:
    addresses = [action.address for action in plan(desired, state(snapshot_of(content))).actions]
    assert len({*addresses}) == len(addresses)
    assert {*addresses} <= {one.address for one in desired}


def test_a_memory_forgets_what_left_the_set() -> None:
    one, two = config_map("a"), config_map("b")
    memory = memory_of({o.address: applied(o) for o in (one, two)}, one, two)
    memory.keep_only([one.address])
    assert list(memory.confirmations) == [one.address]


def test_a_status_that_cannot_be_read_is_waited_for_and_is_no_failure() -> None:
    (deployment,) = labelled("{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}}")
    odd = applied(deployment, more={"status": {"conditions": {}}})
    memory = memory_of({deployment.address: odd}, deployment)
    stage = plan([deployment], state({deployment.address: odd}, memory))
    assert stage.refused == ()
    assert [each.why for each in stage.waits] == ["status.conditions is not a list"]
