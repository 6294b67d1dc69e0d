"""A plan is decided from caches and memory alone, and is right."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st
from tests.unit.apply.given import (
    RULES,
    US,
    applied,
    applied_metadata,
    config_map,
    ledger_of,
    secret,
    wanted,
)

from stellwerk.apply.labelled.plan import (
    FIGHT_SECONDS,
    Action,
    Apply,
    Create,
    Deferred,
    Delete,
    LastApplied,
    Live,
    Plan,
    Reclaim,
    Rules,
    Throttled,
    Unchanged,
    confirm,
    plan,
    plan_delete,
)
from stellwerk.apply.objects.desired import Address, Desired
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import JsonObject, Unstructured
from stellwerk.kube.types.object_meta import FieldManager

KUBECTL = FieldManager(manager="kubectl-edit", operation="Update")
DEFAULTS: JsonObject = {"spec": {"defaulted": 1}}


def decided(one: Desired, live: Live | None, ledger: LastApplied | None = None, now: float = 0.0) -> Action:
    """The action for a single object."""
    snapshot = {one.address: live} if live is not None else {}
    (action,) = plan([one], snapshot, ledger or {}, RULES, now=now)
    return action


# ---- first looks: nothing is remembered


def test_what_does_not_exist_is_created() -> None:
    assert decided(config_map(), None) == Create(config_map())


@pytest.mark.req("R-108")
def test_what_is_equal_and_ours_is_left_alone_even_by_a_new_process() -> None:
    one = config_map(a="1")
    assert decided(one, applied(one)) == Unchanged(one.address)


@pytest.mark.parametrize(
    "more", [{"metadata": {"uid": "9", "generation": 4, "creationTimestamp": "x"}}, {"status": {"phase": "x"}}]
)
def test_what_the_server_keeps_for_itself_does_not_count(more: JsonObject) -> None:
    one = config_map(a="1")
    assert isinstance(decided(one, applied(one, more=more)), Unchanged)


def test_what_carries_more_than_asked_is_applied_once_because_it_may_be_a_leftover() -> None:
    one = config_map(a="1")
    action = decided(one, applied(one, more=DEFAULTS))
    assert isinstance(action, Apply)
    assert action.why == "not written by this process yet"


def test_what_is_equal_but_not_ours_is_applied_to_own_it() -> None:
    one = config_map(a="1")
    live = applied(one)
    unowned = nobodys(live)
    assert isinstance(decided(one, unowned), Apply)


def nobodys(live: Unstructured) -> Unstructured:
    """The same object without any managedFields."""
    version = f"{live.metadata.resource_version} without"
    return Unstructured(live.body, msgspec.structs.replace(live.metadata, managers=(), resource_version=version))


def test_a_field_that_differs_is_named() -> None:
    one = config_map(a="1", b="2")
    action = decided(one, applied(one, more={"data": {"a": "x"}}))
    assert isinstance(action, Apply)
    assert action.why == "data.a differs"


def test_many_differences_are_counted() -> None:
    one = config_map(**{f"k{number}": "1" for number in range(6)})
    action = decided(one, applied(one, more={"data": {f"k{number}": "2" for number in range(6)}}))
    assert isinstance(action, Apply)
    assert action.why == "data.k0 differs, data.k1 differs, data.k2 differs and 3 more"


# ---- with memory


@pytest.mark.req("R-108")
def test_what_we_applied_is_left_alone_whatever_defaults_it_carries() -> None:
    one = config_map(a="1")
    live = {one.address: applied(one, more=DEFAULTS)}
    assert plan([one], live, ledger_of(live, one), RULES, now=0).is_calm


@pytest.mark.req("R-108")
def test_what_the_server_made_of_our_write_is_settled() -> None:
    one = config_map(a="1000m")
    live = {one.address: applied(one, more={"data": {"a": "1"}})}
    assert plan([one], live, ledger_of(live, one), RULES, now=0).is_calm


def test_what_was_settled_and_changes_again_is_a_difference() -> None:
    one = config_map(a="1000m")
    ledger = ledger_of({one.address: applied(one, more={"data": {"a": "1"}})}, one)
    action = decided(one, applied(one, more={"data": {"a": "2"}}), ledger)
    assert isinstance(action, Apply)
    assert action.restores


def test_a_status_written_after_our_apply_does_not_count() -> None:
    one = config_map(a="1")
    ledger = ledger_of({one.address: applied(one)}, one)
    later = applied(one, version="7", more={"status": {"x": 1}, "metadata": {"annotations": {"revision": "1"}}})
    assert isinstance(decided(one, later, ledger), Unchanged)


def test_a_new_manifest_is_applied() -> None:
    before, after = config_map(a="1", b="1"), config_map(a="1")
    live = {before.address: applied(before)}
    action = plan([after], live, ledger_of(live, before), RULES, now=0).writes[0]
    assert action == Apply(after, "its manifest has changed")


@pytest.mark.req("R-110")
def test_an_owned_field_changed_by_others_is_restored() -> None:
    one = config_map(a="1")
    ledger = ledger_of({one.address: applied(one)}, one)
    action = decided(one, applied(one, more={"data": {"a": "x"}}), ledger)
    assert isinstance(action, Apply)
    assert action.restores


@pytest.mark.req("R-110")
def test_an_object_deleted_by_others_is_created_again() -> None:
    one = config_map(a="1")
    ledger = ledger_of({one.address: applied(one)}, one)
    assert decided(one, None, ledger) == Create(one, restores=True)


@pytest.mark.req("R-105")
def test_what_is_known_of_a_deleted_object_says_nothing_of_its_successor() -> None:
    one = config_map(a="1")
    ledger = ledger_of({one.address: applied(one, uid="old", more=DEFAULTS)}, one)
    assert decided(one, applied(one, uid="new", more=DEFAULTS), ledger) == Apply(one, "not written by this process yet")


def test_an_object_that_lost_the_record_of_our_ownership_is_applied() -> None:
    one = config_map(a="1")
    live = applied(one)
    ledger = ledger_of({one.address: live}, one)
    cleared = nobodys(live)
    assert decided(one, cleared, ledger) == Apply(one, "its managedFields no longer name us", restores=True)


def test_an_object_of_which_we_own_no_field_stays_calm() -> None:
    one = config_map()
    bare = nobodys(applied(one))
    ledger = LastApplied({one.address: confirm(one, bare, US)})
    assert isinstance(decided(one, bare, ledger), Unchanged)


def test_an_object_of_which_we_own_no_field_is_watched_by_its_content() -> None:
    one = config_map()
    bare = nobodys(applied(one, more=DEFAULTS))
    ledger = LastApplied({one.address: confirm(one, bare, US)})
    meddled = nobodys(applied(one, more={**DEFAULTS, "data": {"theirs": "1"}}))
    assert isinstance(decided(one, bare, ledger), Unchanged)
    assert decided(one, meddled, ledger) == Apply(one, "data.theirs was added", restores=True)


@pytest.mark.req("R-105")
def test_an_object_that_is_being_deleted_is_waited_for() -> None:
    one = config_map()
    body: JsonObject = {
        **one.body,
        "metadata": {"name": "one", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]},
    }
    assert decided(one, Unstructured.of(body)) == Deferred(one.address, "the end of its deletion (finalizers: a/b)")


# ---- metadata only


def test_a_secret_is_applied_by_a_new_process() -> None:
    assert isinstance(decided(secret(), applied_metadata(secret())), Apply)


@pytest.mark.req("R-108")
def test_a_secret_we_applied_is_left_alone_while_its_version_stands() -> None:
    live = {secret().address: applied_metadata(secret())}
    assert plan([secret()], live, ledger_of(live, secret()), RULES, now=0).is_calm


def test_a_secret_with_another_version_is_applied() -> None:
    ledger = ledger_of({secret().address: applied_metadata(secret())}, secret())
    action = decided(secret(), applied_metadata(secret(), version="2"), ledger)
    assert action == Apply(secret(), "it was changed", restores=True)


# ---- others


@pytest.mark.req("R-110")
@pytest.mark.parametrize(
    "manager", [KUBECTL, FieldManager(manager=US, operation="Update"), FieldManager(manager="x", operation="Apply")]
)
def test_an_object_that_others_wrote_to_is_reclaimed_and_they_are_named(manager: FieldManager) -> None:
    one = config_map(a="1")
    action = decided(one, applied(one, manager))
    assert isinstance(action, Reclaim)
    assert action.managers[0].startswith(manager.manager)


def test_a_secret_that_others_wrote_to_is_reclaimed() -> None:
    assert isinstance(decided(secret(), applied_metadata(secret(), KUBECTL)), Reclaim)


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
    assert isinstance(decided(one, applied(one, manager)), Unchanged)


def test_a_writer_can_be_tolerated() -> None:
    one = config_map(a="1")
    rules = Rules(US, tolerated=frozenset({"kubectl-edit"}))
    assert plan([one], {one.address: applied(one, KUBECTL)}, {}, rules, now=0).is_calm


# ---- fights


@pytest.mark.req("R-110")
def test_a_first_restoration_is_immediate_and_the_next_waits() -> None:
    one = config_map(a="1")
    drifted = applied(one, KUBECTL)
    ledger = ledger_of({one.address: applied(one)}, one)
    assert isinstance(decided(one, drifted, ledger, now=100), Reclaim)
    ledger[one.address] = replace(ledger[one.address], restored_at=100)
    held = decided(one, drifted, ledger, now=100 + FIGHT_SECONDS - 0.1)
    assert held == Throttled(one, 100 + FIGHT_SECONDS, ("kubectl-edit",))
    assert isinstance(decided(one, drifted, ledger, now=100 + FIGHT_SECONDS), Reclaim)


@pytest.mark.req("R-110")
def test_a_deletion_fight_is_held_as_well() -> None:
    one = config_map(a="1")
    ledger = ledger_of({one.address: applied(one)}, one, restored_at=100)
    assert decided(one, None, ledger, now=105) == Throttled(one, 110, ())


@pytest.mark.req("R-110")
def test_a_change_that_we_want_is_never_held() -> None:
    before, after = config_map(a="1"), config_map(a="2")
    ledger = ledger_of({before.address: applied(before)}, before, restored_at=100)
    assert isinstance(decided(after, applied(before), ledger, now=101), Apply)


def test_the_next_pass_is_due_when_the_first_held_object_is() -> None:
    one, two = config_map("a"), config_map("b")
    ledger = ledger_of({o.address: applied(o) for o in (one, two)}, one, two)
    ledger[one.address] = replace(ledger[one.address], restored_at=5)
    ledger[two.address] = replace(ledger[two.address], restored_at=3)
    assert plan([one, two], {}, ledger, RULES, now=6).again_at == 13


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
    waves = plan(wanted(SET), {}, {}, RULES, now=0).waves
    assert [[str(action) for action in wave] for wave in waves] == [
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
    return applied(definition, more={"status": {"conditions": [{"type": "Established", "status": status}]}})


def test_instances_wait_until_their_definition_is_established() -> None:
    thing, definition = wanted(DEFINED)
    for live in ({}, {definition.address: established(definition, "False")}):
        actions = list(plan([thing, definition], live, {}, RULES, now=0))
        expected = "CustomResourceDefinition things.example.org to be established"
        assert actions[1] == Deferred(thing.address, expected)
    ready: dict[Address, Live] = {definition.address: established(definition, "True")}
    assert list(plan([thing, definition], ready, {}, RULES, now=0)) == [
        Unchanged(definition.address),
        Create(thing),
    ]


def test_a_plan_can_be_printed() -> None:
    one, two, three, four = (config_map(name, a="1") for name in "abcd")
    live = {
        two.address: applied(two, more={"data": {"a": "2"}}),
        three.address: applied(three, KUBECTL),
        four.address: applied(four),
    }
    assert str(plan([one, two, three, four], live, {}, RULES, now=0)) == "\n".join(
        [
            "create ConfigMap there/a",
            "apply ConfigMap there/b: data.a differs",
            "reclaim ConfigMap there/c: written by kubectl-edit",
            "1 unchanged",
        ]
    )


def test_an_empty_plan_says_so() -> None:
    assert str(Plan()) == "0 unchanged"
    assert Plan().is_calm


@pytest.mark.req("R-801")
def test_a_printed_plan_shows_no_secret() -> None:
    (one,) = wanted("{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: {password: hunter2}}")
    live = applied(one, KUBECTL, more={"data": {"password": "b3RoZXI="}})
    shown = plan([one], {one.address: live}, {}, RULES, now=0)
    for secret_text in ("hunter2", "aHVudGVyMg", "b3RoZXI"):
        assert secret_text not in str(shown) + repr(shown)


# ---- deletion


def live_of(
    kind: str, name: str, plural: str = "", group: str = "", *finalizers: str, ending: bool = False
) -> tuple[Address, Live]:
    namespaced = kind != "CustomResourceDefinition"
    resource = Resource(group, "v1", kind, plural or kind.lower() + "s", namespaced)
    metadata: JsonObject = {"name": name, "uid": f"uid-{name}", "resourceVersion": "5"}
    if ending:
        metadata |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": list(finalizers)}
    return Address(resource, ObjectKey("n" if namespaced else "", name)), Unstructured.of({"metadata": metadata})


def test_deletion_goes_wave_by_wave_and_names_the_object_it_means() -> None:
    live = dict([live_of("Namespace", "n"), live_of("Deployment", "app", group="apps"), live_of("Secret", "s")])
    found = plan_delete(live)
    assert [str(action) for action in found] == [
        "delete Deployment n/app",
        "defer Secret n/s: waits for the deletion of what needs it",
        "defer Namespace n/n: waits for the deletion of what needs it",
    ]
    assert found.writes == (Delete(next(a for a in live if a.key.name == "app"), "uid-app"),)


@pytest.mark.req("R-104")
def test_deletion_can_insist_on_the_state_that_was_seen() -> None:
    (write,) = plan_delete(dict([live_of("Secret", "s")]), exact=True).writes
    assert isinstance(write, Delete)
    assert (write.uid, write.resource_version) == ("uid-s", "5")


@pytest.mark.req("R-112")
def test_a_blocked_deletion_names_its_finalizers() -> None:
    found = plan_delete(dict([live_of("Secret", "s", "", "", "keep.me/here", ending=True), live_of("Role", "r")]))
    assert "defer Secret n/s: waits for the end of its deletion (finalizers: keep.me/here)" in str(found)


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
        for write in plan_delete(live).writes:
            assert isinstance(write, Delete)
            gone.append(write.address.resource.kind)
            del live[write.address]
    assert gone == ["Thing", "CustomResourceDefinition", "Deployment"]


def test_nothing_left_is_nothing_to_do() -> None:
    assert plan_delete({}).is_calm


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


def carried_out(found: Plan, live: dict[Address, Live], ledger: LastApplied) -> None:
    """What a server would do: the object becomes what was asked for, keeps its defaults, and gets a status later."""
    for action in found.writes:
        assert isinstance(action, Create | Apply | Reclaim)
        one = action.desired
        before = live.get(one.address)
        answer = applied(one, uid=before.metadata.uid if before else "new", more=DEFAULTS)
        ledger[one.address] = confirm(one, answer, US)
        live[one.address] = applied(one, uid=answer.metadata.uid, more={**DEFAULTS, "status": {"seen": True}})


@for_all(SETS, SETS, LIVES)
def test_after_a_plan_was_carried_out_the_next_one_is_calm(
    earlier: list[Desired], desired: list[Desired], content: Content
) -> None:
    live, ledger = snapshot_of(content), LastApplied()
    carried_out(plan(earlier, live, ledger, RULES, now=0), live, ledger)
    carried_out(plan(desired, live, ledger, RULES, now=0), live, ledger)
    assert plan(desired, live, ledger, RULES, now=0).is_calm


@for_all(SETS, LIVES)
def test_a_lost_memory_costs_at_most_one_apply_an_object(desired: list[Desired], content: Content) -> None:
    live, ledger = snapshot_of(content), LastApplied()
    carried_out(plan(desired, live, ledger, RULES, now=0), live, ledger)
    forgotten = LastApplied()
    carried_out(plan(desired, live, forgotten, RULES, now=0), live, forgotten)
    assert plan(desired, live, forgotten, RULES, now=0).is_calm


@for_all(SETS, LIVES)
def test_the_same_facts_give_the_same_plan_and_the_same_words(desired: list[Desired], content: Content) -> None:
    one = plan(desired, snapshot_of(content), {}, RULES, now=0)
    same = plan(list(desired), snapshot_of(content), {}, RULES, now=0)
    assert one == same
    assert str(one) == str(same)


@for_all(SETS, LIVES)
def test_every_wanted_object_has_exactly_one_action(desired: list[Desired], content: Content) -> None:
    found = plan(desired, snapshot_of(content), {}, RULES, now=0)
    assert sorted(str(one.key) for one in desired) == sorted(
        str(action.desired.key if isinstance(action, Create | Apply | Reclaim | Throttled) else action.address.key)
        for action in found
    )


def test_a_ledger_forgets_what_left_the_set() -> None:
    one, two = config_map("a"), config_map("b")
    ledger = ledger_of({o.address: applied(o) for o in (one, two)}, one, two)
    ledger.forget_all_but([one.address])
    assert list(ledger) == [one.address]
