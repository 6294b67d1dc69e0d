"""Edits leave the given object alone."""

from __future__ import annotations

import copy

import pytest

from stellwerk.apply.objects import json_edit
from stellwerk.kube.types.model import JsonObject

BODY: JsonObject = {"metadata": {"name": "a", "labels": {"x": "1"}}, "spec": {"deep": {"down": [1]}}}


def test_labels_are_added_beside_those_that_are_there() -> None:
    assert json_edit.with_labels(BODY, {"y": "2"})["metadata"] == {"name": "a", "labels": {"x": "1", "y": "2"}}


def test_annotations_are_made_where_there_are_none() -> None:
    assert json_edit.with_annotations(BODY, {"y": "2"})["metadata"] == {
        "name": "a",
        "labels": {"x": "1"},
        "annotations": {"y": "2"},
    }


def test_a_namespace_is_set_and_an_empty_one_removed() -> None:
    placed = json_edit.with_namespace(BODY, "there")
    assert placed["metadata"] == {"name": "a", "labels": {"x": "1"}, "namespace": "there"}
    assert json_edit.with_namespace(placed, "") == BODY


def test_a_value_is_set_on_a_way_that_does_not_exist_yet() -> None:
    assert json_edit.with_value({}, 3, "spec", "replicas") == {"spec": {"replicas": 3}}


@pytest.mark.parametrize("path", [("nothing",), ("spec", "nothing"), ("spec", "deep", "down", "further")])
def test_removing_what_is_not_there_changes_nothing(path: tuple[str, ...]) -> None:
    assert json_edit.without(BODY, *path) == BODY


def test_no_edit_changes_the_given_object() -> None:
    before = copy.deepcopy(BODY)
    json_edit.with_labels(BODY, {"y": "2"})
    json_edit.with_value(BODY, 1, "spec", "deep", "down")
    json_edit.without(BODY, "spec", "deep", "down")
    assert before == BODY


def test_what_does_not_lie_on_the_way_is_shared_and_not_copied() -> None:
    assert json_edit.with_labels(BODY, {"y": "2"})["spec"] is BODY["spec"]
