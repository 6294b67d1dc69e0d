"""Whose an object is can be read off it, in the originals' spelling."""

from __future__ import annotations

import pytest
from tests.unit.apply.set.given import R

from stellwerk.apply.set.model.owner import Owner, Standing, hash_of, mark, stripped
from stellwerk.kube.types.model import JsonObject
from stellwerk.kube.types.object_meta import ObjectMeta

OWNER = Owner(R, "uid/ns/name")


def test_an_owners_hash_is_the_originals() -> None:
    assert hash_of("test") == "t6dnbamijr6wlgrp5kqmkwwqcwr36ty3fmfyelgrlvwblmhqbiea"


def test_an_object_is_marked_by_a_label_an_annotation_and_a_digest() -> None:
    stamped = OWNER.stamped({"metadata": {"name": "x", "labels": {"a": "b"}}}, "d1")
    assert stamped["metadata"] == {
        "name": "x",
        "labels": {"a": "b", f"{R}/owner-id": OWNER.label_value},
        "annotations": {f"{R}/owner-id": "uid/ns/name", f"{R}/digest": "d1"},
    }


def test_a_manifest_saved_from_a_cluster_loses_its_marks_and_nothing_else() -> None:
    bare: JsonObject = {"metadata": {"name": "x", "labels": {"a": "b"}, "annotations": {f"{R}/apply-order": "1"}}}
    assert stripped(OWNER.stamped(bare, "d1"), R) == bare
    assert stripped({"metadata": {"name": "x"}}, R) == {"metadata": {"name": "x"}}
    assert stripped({"kind": "X"}, R) == {"kind": "X"}


@pytest.mark.parametrize(
    ("labels", "standing"),
    [
        ({}, Standing.UNOWNED),
        ({mark(R): ""}, Standing.UNOWNED),
        ({mark(R): OWNER.label_value}, Standing.OURS),
        ({mark(R): hash_of("other")}, Standing.FOREIGN),
        ({mark("clm.cs.sap.com"): OWNER.label_value}, Standing.UNOWNED),
    ],
)
def test_whose_an_object_is_is_told_by_its_label(labels: dict[str, str], standing: Standing) -> None:
    assert OWNER.standing(ObjectMeta(labels=labels)) is standing


def test_people_read_the_owners_id_where_there_is_one() -> None:
    both = ObjectMeta(labels={mark(R): "hash"}, annotations={mark(R): "uid/ns/other"})
    assert OWNER.owner_named_on(both) == "uid/ns/other"
    assert OWNER.owner_named_on(ObjectMeta(labels={mark(R): "hash"})) == "hash"
