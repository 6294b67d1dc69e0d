"""Documents become objects of a set, or every mistake in them is told; nothing in between."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st
from tests.unit.apply.set.given import (
    RESOURCES,
    SSA,
    THEM,
    US,
    R,
    api_service,
    config_map,
    definition,
    document,
    one,
    wanted,
)

from stellwerk.apply.errors import InvalidSet
from stellwerk.apply.objects.desired import MAX_OBJECTS, Document
from stellwerk.apply.objects.manifests import Origin, read_text
from stellwerk.apply.set.model.desired_set import prepared, remembered
from stellwerk.apply.set.model.inventory import Inventory, InventoryEntry, ManagedType, Phase
from stellwerk.apply.set.model.policy import AdoptionPolicy
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, Resource
from stellwerk.kube.types.model import JsonObject, dig


def problems_of(text: str) -> list[str]:
    """What is wrong with a set."""
    with pytest.raises(InvalidSet) as refused:
        wanted(text)
    return [str(problem) for problem in refused.value.problems]


# ---- what becomes of a document


def test_an_object_carries_its_owners_marks_and_its_digest() -> None:
    found = one(config_map())
    assert dig(found.desired.body, "metadata", "labels") == {f"{R}/owner-id": US.label_value}
    assert dig(found.desired.body, "metadata", "annotations") == {f"{R}/owner-id": US.id, f"{R}/digest": found.digest}


def test_an_object_without_a_namespace_goes_to_the_sets() -> None:
    assert one(config_map()).address.key == ObjectKey("there", "c")
    assert one("{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: x}}").address.key.namespace == "x"


def test_a_cluster_scoped_object_loses_its_namespace() -> None:
    text = "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: c, namespace: x}}"
    assert one(text).address.key == ObjectKey("", "c")
    assert dig(one(text).desired.body, "metadata", "namespace") is None


def test_the_texts_of_a_secret_are_folded_into_its_data() -> None:
    found = one(document("Secret", "s", "stringData: {a: b}"))
    assert (found.desired.body.get("data"), found.desired.body.get("stringData")) == ({"a": "Yg=="}, None)


def test_marks_that_a_manifest_brings_do_not_count() -> None:
    fresh = one("{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}")
    saved = Document(THEM.stamped(fresh.desired.body, "old"), Origin())
    (found,) = prepared([saved], RESOURCES, namespace="there", owner=US, policies=SSA, set_digest="s1")
    assert (found.desired.body, found.digest) == (fresh.desired.body, fresh.digest)


# ---- digests


def test_the_digest_changes_with_the_content_alone() -> None:
    assert one(config_map()).digest == one(config_map(), owner=THEM, set_digest="s2").digest
    assert one(config_map()).digest != one(config_map(value="2")).digest


def test_the_digest_of_what_follows_its_component_names_the_component() -> None:
    followed = one(config_map(reconcile_policy="on-object-or-component-change"))
    assert followed.digest.endswith("@s1")
    assert followed.digest != one(config_map(reconcile_policy="on-object-or-component-change"), set_digest="s2").digest


def test_what_is_made_once_has_always_the_same_digest() -> None:
    assert one(config_map(reconcile_policy="once")).digest == "__once__"
    assert one(config_map(reconcile_policy="once", value="2")).digest == "__once__"


# ---- definitions


@pytest.mark.parametrize(
    ("text", "brings"),
    [
        (definition(), ManagedType("example.org", "*", "Thing")),
        (api_service(), ManagedType("metrics.example.org", "v1", "*")),
    ],
)
def test_a_definition_brings_its_kinds_and_is_held_by_our_finalizer(text: str, brings: ManagedType) -> None:
    found = one(text)
    assert found.managed_types == (brings,)
    assert dig(found.desired.body, "metadata", "finalizers") == [R]


def test_finalizers_of_a_manifest_stay_and_ours_is_not_repeated() -> None:
    text = definition().replace("metadata: {", f"metadata: {{finalizers: [x, {R}], ")
    assert dig(one(text).desired.body, "metadata", "finalizers") == ["x", R]


def test_other_objects_bring_nothing_and_are_not_held() -> None:
    found = one(config_map())
    assert (found.managed_types, dig(found.desired.body, "metadata", "finalizers")) == ((), None)


def test_instances_of_a_definition_in_the_set_need_not_be_served_yet() -> None:
    served = {gvk: resource for gvk, resource in RESOURCES.items() if gvk.kind != "Thing"}
    found = wanted(definition() + document("Thing", "t"), served=served.get)
    assert [each.is_served for each in found] == [True, True]
    assert found[1].address.resource.plural == "things"


def test_kinds_that_an_api_service_of_the_set_brings_are_accepted_and_known_not_to_be_served_yet() -> None:
    text = api_service() + document("Measure", "m")
    served = {gvk: resource for gvk, resource in RESOURCES.items() if gvk.kind != "Measure"}
    found = wanted(text, served=served.get)
    assert [each.is_served for each in found] == [True, False]
    assert found[1].address.key == ObjectKey("there", "m")
    assert [each.is_served for each in wanted(text)] == [True, True]


# ---- what is wrong


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{apiVersion: example.org/v9, kind: Thing, metadata: {name: t}}", "serves no example.org/v9 Thing"),
        ("{apiVersion: v1, kind: ConfigMap, metadata: {}}", "has no metadata.name"),
        ("{apiVersion: v1, kind: ConfigMap, metadata: {generateName: x}}", "generateName"),
        ("{apiVersion: v1, kind: ConfigMap, metadata: {name: c, labels: {a: 1}}}", "is not text"),
        ("{apiVersion: v1, kind: ConfigMap, metadata: {name: c, annotations: {a: true}}}", "is not text"),
        (config_map() + config_map(), "duplicate object"),
        (document("Namespace", "space", purge_order=1), "a Namespace must not be purged"),
        (definition(purge_order=1), "a CustomResourceDefinition must not be purged"),
        (api_service(purge_order=1), "a APIService must not be purged"),
        (config_map(apply_order="x"), "expected a whole number"),
    ],
)
@pytest.mark.req("R-406")
def test_a_mistake_is_named_with_its_object(text: str, problem: str) -> None:
    (found,) = problems_of(text)
    assert problem in found
    assert found.split()[0] in ("ConfigMap", "Namespace", "CustomResourceDefinition", "APIService", "Thing", "object")


def test_the_same_object_under_two_versions_appears_twice() -> None:
    second = GroupVersionKind("example.org", "v2", "Thing")
    text = document("Thing", "t") + document("Thing", "t").replace("example.org/v1", "example.org/v2")
    with pytest.raises(InvalidSet, match="duplicate object"):
        wanted(text, served={**RESOURCES, second: Resource(*second, "things", True)}.get)


@pytest.mark.req("R-406")
def test_all_mistakes_are_told_at_once() -> None:
    text = config_map(adoption_policy="x", apply_order="y") + "{apiVersion: v1, kind: Nothing, metadata: {name: n}}"
    assert len(problems_of(text)) == 3


@pytest.mark.req("R-406")
def test_too_many_objects_are_refused_whole() -> None:
    body: JsonObject = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    with pytest.raises(InvalidSet, match="5001 objects are more than 5000"):
        prepared(
            [Document(body, Origin())] * (MAX_OBJECTS + 1),
            RESOURCES,
            namespace="there",
            owner=US,
            policies=SSA,
            set_digest="s",
        )


MEASURE = GroupVersionKind("metrics.example.org", "v1", "Measure")
WITHOUT_MEASURE = {gvk: resource for gvk, resource in RESOURCES.items() if gvk != MEASURE}


@pytest.mark.parametrize("namespace", ["", "there"])
def test_an_object_of_a_silent_api_service_is_the_one_that_the_set_had(namespace: str) -> None:
    documents = read_text(api_service() + document("Measure", "m"))
    had = InventoryEntry(
        gvk=GroupVersionKind(MEASURE.group, "v1beta1", MEASURE.kind),
        key=ObjectKey(namespace, "m"),
        digest="d",
        phase=Phase.COMPLETED,
    )
    guessed = InventoryEntry(gvk=MEASURE, key=ObjectKey("" if namespace else "there", "m"))
    for entries in ((had,), (guessed, had), (had, guessed)):
        served = remembered(documents, WITHOUT_MEASURE, partial(Inventory, entries))
        _, measure = prepared(documents, served, namespace="there", owner=US, policies=SSA, set_digest="s1")
        assert measure.identity == had.identity
        assert not measure.is_served


def test_nothing_is_remembered_of_kinds_that_are_served_or_that_the_set_does_not_bring() -> None:
    def unread() -> Inventory:
        raise AssertionError("not needed")

    assert remembered(read_text(api_service() + document("Measure", "m")), RESOURCES, unread) == RESOURCES
    assert remembered(read_text(document("Measure", "m")), WITHOUT_MEASURE, unread) == WITHOUT_MEASURE
    documents = read_text(api_service() + document("Measure", "m"))
    assert remembered(documents, WITHOUT_MEASURE, Inventory) == WITHOUT_MEASURE


def test_an_empty_set_is_a_set() -> None:
    assert wanted("") == ()


def test_the_word_for_a_policy_may_come_from_the_object() -> None:
    assert one(config_map(adoption_policy="ifUnowned")).directive.adoption is AdoptionPolicy.IF_UNOWNED


KEYS = st.sampled_from(["apiVersion", "kind", "metadata", "name", "labels", "annotations", "spec", "group"])
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@for_all(
    st.dictionaries(st.sampled_from(["apiVersion", "kind", "metadata", "spec", "data"]), ANYTHING, max_size=5),
    st.sampled_from(["ConfigMap", "Secret", "CustomResourceDefinition", "APIService", ""]),
)
@settings(deadline=None)
@pytest.mark.req("R-401")
def test_no_document_does_anything_but_become_an_object_or_be_refused(body: JsonObject, kind: str) -> None:
    versions = {gvk.kind: gvk.api_version for gvk in RESOURCES}
    known: JsonObject = {"kind": kind, "apiVersion": versions[kind]} if kind else {}
    try:
        prepared(
            [Document({**body, **known}, Origin())],
            RESOURCES,
            namespace="there",
            owner=US,
            policies=SSA,
            set_digest="s",
        )
    except InvalidSet as refused:
        assert refused.problems  # noqa: PT017 - either outcome is right
