"""Patches say what they do, and whether doing it twice does harm."""

from __future__ import annotations

import pytest

from stellwerk.kube.client import patch
from stellwerk.kube.client.patch import JsonPatch, MergePatch
from stellwerk.kube.types.model import JsonObject


def test_steps_are_escaped_and_pointers_are_not() -> None:
    assert patch.pointer(("metadata", "annotations", "example.com/a~b")) == "/metadata/annotations/example.com~1a~0b"
    assert patch.pointer(("webhooks", 0, "name")) == "/webhooks/0/name"
    assert patch.pointer("/metadata/annotations/example.com~1a") == "/metadata/annotations/example.com~1a"
    assert patch.pointer(()) == ""


def test_operations_are_spelled_as_rfc_6902_does() -> None:
    assert [patch.add("/a", 1), patch.replace("/b", None), patch.remove("/c"), patch.test("/d", [])] == [
        {"op": "add", "path": "/a", "value": 1},
        {"op": "replace", "path": "/b", "value": None},
        {"op": "remove", "path": "/c"},
        {"op": "test", "path": "/d", "value": []},
    ]


@pytest.mark.parametrize(
    ("operation", "repeatable"),
    [
        (patch.test("/metadata/uid", "u"), True),
        (patch.replace("/spec/replicas", 1), True),
        (patch.add("/status", {}), True),
        (patch.add("/metadata/finalizers/-", "f"), False),
        (patch.add("/metadata/finalizers/0", "f"), False),
        (patch.remove("/metadata/finalizers/0"), False),
    ],
)
def test_only_what_ends_the_same_may_be_sent_twice(operation: JsonObject, repeatable: bool) -> None:
    assert JsonPatch([operation]).repeatable is repeatable
    assert JsonPatch([patch.test("/metadata/uid", "u"), operation]).repeatable is repeatable


def test_a_merge_patch_may_be_sent_twice() -> None:
    assert MergePatch({"data": {"a": None}}).repeatable
