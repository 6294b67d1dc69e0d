"""Fingerprints change with what they cover, with nothing else, and are the original's where clusters keep them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.apply.set.model.owner import hash_of
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.component.api import BlueprintSpec, Component
from stellwerk.operators.component.api_spec import ComponentSpec
from stellwerk.operators.component.api_status import Artifact
from stellwerk.operators.component.references import digests

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def component(**spec: Any) -> Component:  # spec fields of any type
    return Component(
        metadata=ObjectMeta(namespace="shop", name="web", generation=2, annotations={"a": "1"}),
        spec=ComponentSpec(**spec),
    )


def test_the_published_vectors_hold() -> None:
    assert digests.of_bytes(b"test") == "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
    assert digests.of_values("foo", 42) == "d264cec0c2b8e8a9ea304071dc7351f75b6b4f0de4567bd33a443fc6590d561b"
    assert hash_of("test") == "t6dnbamijr6wlgrp5kqmkwwqcwr36ty3fmfyelgrlvwblmhqbiea"


def test_text_is_escaped_as_go_escapes_it() -> None:
    assert digests.go_json({"b": "<a & b>", "a": "\u2028\n\u00e9"}) == (
        b'{"a":"\\u2028\\n\xc3\xa9","b":"\\u003ca \\u0026 b\\u003e"}'
    )


@given(JSON)
def test_what_is_written_is_still_the_same_json(value: object) -> None:
    assert json.loads(digests.go_json(value)) == value


@given(st.dictionaries(st.text(), JSON, max_size=5))
def test_the_order_of_keys_does_not_matter(value: dict[str, object]) -> None:
    turned = dict(reversed(value.items()))

    assert digests.of_values(value) == digests.of_values(turned)


def test_a_component_is_another_when_spec_annotations_or_references_change() -> None:
    plain = component(values={"replicas": 2})
    poked = msgspec.structs.replace(
        plain, metadata=msgspec.structs.replace(plain.metadata, annotations={"a": "1", "poke": "now"})
    )
    labelled = msgspec.structs.replace(plain, metadata=msgspec.structs.replace(plain.metadata, labels={"x": "y"}))
    same = digests.of_component(plain, {"/valuesFrom/0": "d"})

    assert digests.of_component(labelled, {"/valuesFrom/0": "d"}) == same
    assert len(
        {
            same,
            digests.of_component(plain, {}),
            digests.of_component(plain, {"/valuesFrom/0": ""}),
            digests.of_component(poked, {"/valuesFrom/0": "d"}),
            digests.of_component(component(values={"replicas": 3}), {"/valuesFrom/0": "d"}),
        }
    ) == 5  # fmt: skip


def test_a_source_is_another_when_it_is_annotated_or_made_anew() -> None:
    artifact = Artifact(url="http://x/a.tar.gz", digest="sha256:1", revision="main@sha1:2")
    first = ObjectMeta(uid="u", generation=1)

    assert digests.of_source(first, artifact) == digests.of_values("u", 1, None, *msgspec.structs.astuple(artifact))
    assert digests.of_source(msgspec.structs.replace(first, uid="v"), artifact) != digests.of_source(first, artifact)
    assert digests.of_source(
        msgspec.structs.replace(first, annotations={"reconcile.fluxcd.io/requestedAt": "1"}), artifact
    ) != digests.of_source(first, artifact)


def test_a_blueprint_is_known_by_its_files() -> None:
    assert digests.of_blueprint(BlueprintSpec(files={"b": "2", "a": "1"})) == digests.of_bytes(
        b'[{"files":{"a":"1","b":"2"}}]'
    )
