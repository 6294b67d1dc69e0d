"""What Kubernetes takes for a name, a label or an annotation."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.promptly import promptly

from stellwerk.apply.objects import name_validation
from stellwerk.kube.types.model import JsonObject


def told(metadata: JsonObject, api_version: str = "v1") -> str:
    return "; ".join(name_validation.complaints(api_version, metadata))


@pytest.mark.parametrize(
    ("api_version", "name"),
    [
        ("v1", "a"),
        ("v1", "my.name-1"),
        ("v1", "x" * 253),
        ("rbac.authorization.k8s.io/v1", "system:controller:Node"),
        ("user.openshift.io/v1", "system:admin"),
        ("apps/v1", "0"),
    ],
)
def test_a_name_that_the_server_takes_is_taken(api_version: str, name: str) -> None:
    assert told({"name": name}, api_version) == ""


@pytest.mark.req("R-408")
@pytest.mark.parametrize(
    ("api_version", "name", "why"),
    [
        ("v1", "Upper", "lower-case"),
        ("v1", "under_score", "lower-case"),
        ("gateway.networking.k8s.io/v1", "end-", "lower-case"),
        ("v1", "x" * 254, "254 characters"),
        ("rbac.authorization.k8s.io/v1", "a/b", "nor contain"),
        ("user.openshift.io/v1", "a%b", "nor contain"),
        ("example.com/v1", "..", r"must not be '\.'"),
    ],
)
def test_a_name_that_no_place_has_is_refused(api_version: str, name: str, why: str) -> None:
    assert re.search(why, told({"name": name}, api_version))


@pytest.mark.req("R-408")
@pytest.mark.parametrize(
    ("labels", "why"),
    [
        ({"": "x"}, "the key must have"),
        ({"a b": "x"}, "the key must have"),
        ({"k" * 64: "x"}, "the key must have"),
        ({"Example.com/a": "x"}, "must be a domain"),
        ({"/a": "x"}, "must be a domain"),
        ({"a/b/c": "x"}, "must be a domain"),
        ({"a": "-x"}, "the value must have"),
        ({"a": "v" * 64}, "the value must have"),
        ({"a": "ü"}, "the value must have"),
    ],
)
def test_a_label_that_the_server_refuses_is_refused(labels: JsonObject, why: str) -> None:
    assert why in told({"name": "a", "labels": labels})


def test_labels_and_annotations_as_people_write_them_are_taken() -> None:
    labels: JsonObject = {"app": "", "app.kubernetes.io/part-of": "Shop_1.0", "k" * 63: "v" * 63}
    annotations: JsonObject = {"Example.com/Note": "any text, even ünicode\n", "a": "x" * 200_000}
    assert told({"name": "a", "labels": labels, "annotations": annotations}) == ""


@pytest.mark.req("R-408")
def test_annotations_have_a_largest_size_and_their_values_are_not_told() -> None:
    assert "more than 262144 bytes" in told({"name": "a", "annotations": {"a": "s3cret" * 50_000}})
    assert "s3cret" not in told({"name": "a", "labels": {"a": "s3cret!"}, "annotations": {"b c": "s3cret"}})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda one: st.lists(one), max_leaves=3
)


@pytest.mark.req("R-401")
@given(
    st.dictionaries(
        st.sampled_from(["name", "labels", "annotations"]), json_values | st.dictionaries(st.text(), json_values)
    )
)
@promptly
def test_any_metadata_gets_an_answer(metadata: JsonObject) -> None:
    assert isinstance(told(metadata), str)
