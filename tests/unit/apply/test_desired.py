"""A set of documents is checked whole, and becomes objects that can be sent."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.unit.apply.given import resource_of, wanted

from stellwerk.api.apps import Deployment
from stellwerk.api.core import Namespace
from stellwerk.apply.errors import InvalidSet
from stellwerk.apply.objects.desired import MAX_OBJECTS, Desired, Document, defined_by, desired_set, digest_of, kinds_of
from stellwerk.apply.objects.manifests import read_folder, read_text
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey
from stellwerk.kube.types.model import JsonObject, dig

FIXTURES = Path(__file__).parents[4] / "shared" / "fixtures" / "btp" / "module-resources"


def test_an_object_is_made_of_its_name_and_its_content() -> None:
    metadata: JsonObject = {"labels": {"a": "b"}}
    made = Desired.named(Deployment.resource, ObjectKey("own", "shop"), metadata, spec={"replicas": 1})
    assert (made.resource, made.key) == (Deployment.resource, ObjectKey("own", "shop"))
    assert made.body == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "shop", "namespace": "own", "labels": {"a": "b"}},
        "spec": {"replicas": 1},
    }


def test_an_object_of_the_cluster_has_no_namespace() -> None:
    made = Desired.named(Namespace.resource, ObjectKey("", "own"))
    assert made.body == {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "own"}}


def complaints(text: str, namespace: str = "") -> list[str]:
    with pytest.raises(InvalidSet) as caught:
        desired_set(read_text(text, file="f.yaml"), resource_of, namespace=namespace)
    return [str(problem) for problem in caught.value.problems]


GOOD = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: own}}"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{kind: ConfigMap, metadata: {name: a}}", "has no apiVersion"),
        ("{apiVersion: v1, metadata: {name: a}}", "has no kind"),
        ("{apiVersion: v1, kind: '', metadata: {name: a}}", "has no kind"),
        ("{apiVersion: 1, kind: ConfigMap, metadata: {name: a}}", "has no apiVersion"),
        ("{apiVersion: v1, kind: ConfigMap}", "has no metadata"),
        ("{apiVersion: v1, kind: ConfigMap, metadata: []}", "has no metadata"),
        ("{apiVersion: v1, kind: ConfigMap, metadata: {}}", "has no metadata.name"),
        ("{apiVersion: v1, kind: ConfigMap, metadata: {name: 5}}", "has no metadata.name"),
        ("{apiVersion: v1, kind: ConfigMap, metadata: {generateName: a-}}", "generateName"),
        ("{apiVersion: v1, kind: ConfigMap, metadata: {name: a, generateName: a-}}", "generateName"),
        ("{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: 5}}", "namespace is not text"),
        ("{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: no}}", "namespace is not text"),
        ("{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {x: 1}}}", "labels['x'] is not text"),
        ("{apiVersion: v1, kind: ConfigMap, metadata: {name: a, annotations: {x: yes}}}", "put the value in quotes"),
        ("{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: [x]}}", "labels is not a mapping"),
        ("{apiVersion: x/v1, kind: Strange, metadata: {name: a}}", "serves no x/v1 Strange"),
        ("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}", "no namespace and there is no default"),
    ],
)
@pytest.mark.req("R-406")
def test_an_object_that_must_not_be_sent_is_named_with_its_place(text: str, why: str) -> None:
    (found,) = complaints(text)
    assert why in found
    assert "f.yaml, document 1" in found


def test_a_kind_that_is_not_served_is_told_apart_from_what_only_an_edit_corrects() -> None:
    documents = read_text("{apiVersion: x/v1, kind: Strange, metadata: {name: a}}\n---\n{kind: ConfigMap}")
    with pytest.raises(InvalidSet) as caught:
        desired_set(documents, resource_of)
    kinds = {problem.unserved for problem in caught.value.problems}
    assert kinds == {GroupVersionKind("x", "v1", "Strange"), None}


@pytest.mark.req("R-408")
@pytest.mark.parametrize("namespace", ["..", "own/secrets/x", "own%2Fsecrets", "Own", "own.", "x" * 64])
def test_a_namespace_that_would_lead_a_request_elsewhere_is_refused(namespace: str) -> None:
    (named,) = complaints(f'{{apiVersion: v1, kind: ConfigMap, metadata: {{name: a, namespace: "{namespace}"}}}}')
    (by_default,) = complaints("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}", namespace=namespace)

    assert named == by_default
    assert f"metadata.namespace '{namespace[:60]}" in named


@pytest.mark.req("R-406")
def test_all_problems_of_a_set_are_told_at_once() -> None:
    found = complaints(
        "---\n".join([GOOD + "\n", "{metadata: {name: a}}\n", "{apiVersion: v1, kind: ConfigMap, metadata: {}}\n"])
    )
    assert len(found) == 3


@pytest.mark.req("R-406")
def test_an_object_that_appears_twice_is_named_with_both_places() -> None:
    (found,) = complaints(f"{GOOD}\n---\n# again\n{GOOD}")
    assert found.startswith("ConfigMap own/a: duplicate object")
    assert "document 1, line 1" in found
    assert "document 2, line 3" in found


@pytest.mark.req("R-406")
def test_two_objects_meet_when_the_default_namespace_makes_them_one() -> None:
    (found,) = complaints("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n---\n" + GOOD, namespace="own")
    assert "duplicate object" in found


@pytest.mark.req("R-406")
def test_a_set_has_a_largest_size() -> None:
    documents = [Document({"apiVersion": "v1"})] * (MAX_OBJECTS + 1)
    with pytest.raises(InvalidSet, match="more than 5000"):
        desired_set(documents, resource_of)


def test_a_long_list_of_problems_is_cut_in_the_message_and_whole_in_the_error() -> None:
    with pytest.raises(InvalidSet) as caught:
        desired_set(read_text("---\n".join(["{kind: A, metadata: {name: x}}\n"] * 8)), resource_of)
    assert str(caught.value).endswith("and 3 more")
    assert len(caught.value.problems) == 8


def test_the_namespace_follows_the_scope() -> None:
    namespaced, cluster_wide, own = wanted(
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n---\n"
        "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: b, namespace: odd}}\n---\n"
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: own}}",
        namespace="there",
    )
    assert namespaced.key == ObjectKey("there", "a")
    assert dig(namespaced.body, "metadata", "namespace") == "there"
    assert cluster_wide.key == ObjectKey("", "b")
    assert cluster_wide.body["metadata"] == {"name": "b"}
    assert own.key == ObjectKey("own", "c")


def test_what_the_server_keeps_for_itself_is_left_out() -> None:
    (found,) = wanted("""
apiVersion: v1
kind: ConfigMap
metadata:
  name: a
  namespace: own
  uid: "1"
  resourceVersion: "5"
  generation: 3
  creationTimestamp: null
  managedFields: []
  labels: null
  finalizers: [keep]
data: {a: b}
status: {x: 1}
""")
    assert found.body == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "own", "finalizers": ["keep"]},
        "data": {"a": "b"},
    }


def test_the_texts_of_a_secret_are_folded_into_its_data() -> None:
    (found,) = wanted(
        "{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {x: eA==, z: eA==}, stringData: {z: other}}"
    )
    assert found.body["data"] == {"x": "eA==", "z": "b3RoZXI="}
    assert "stringData" not in found.body


def test_the_digest_depends_on_the_content_and_on_nothing_else() -> None:
    one, same, other = (
        wanted(f"{{apiVersion: v1, kind: ConfigMap, metadata: {{name: a}}, data: {data}}}")[0]
        for data in ("{a: x, b: x}", "{b: x, a: x}", "{a: x, b: z}")
    )
    assert one.digest == same.digest != other.digest
    assert re.fullmatch("[0-9a-f]{32}", one.digest)


def test_numbers_and_texts_have_different_digests() -> None:
    assert digest_of({"a": 1}) != digest_of({"a": "1"})


@pytest.mark.req("R-801")
def test_the_text_forms_of_an_object_do_not_show_its_content() -> None:
    (found,) = wanted("{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: {password: hunter2}}")
    assert "hunter2" not in repr(found) + str(found)
    assert "aHVudGVyMg" not in repr(found) + str(found)
    assert repr(found) == "Desired(Secret there/a, 'manifest, document 1')"


DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {kind: Thing, plural: things}
  versions: [{name: v1, served: true}, {name: v0, served: false}, {name: v1beta1}]
"""


def test_a_definition_in_the_set_makes_its_kind_known() -> None:
    found = wanted(f"{DEFINITION}\n---\n{{apiVersion: example.org/v1, kind: Thing, metadata: {{name: t}}}}")
    assert found[1].resource.path("there", "t") == "/apis/example.org/v1/namespaces/there/things/t"


def test_versions_that_are_not_served_are_not_known() -> None:
    assert [gvk.version for gvk in defined_by(read_text(DEFINITION))] == ["v1", "v1beta1"]


@pytest.mark.parametrize("spec", ["5", "{}", "{names: 1, versions: 2}", "{names: {}, versions: [1, {}]}"])
def test_a_broken_definition_defines_nothing(spec: str) -> None:
    text = (
        f"{{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {{name: x}}, spec: {spec}}}"
    )
    assert defined_by(read_text(text)) == {}


def test_kinds_are_listed_once_in_their_order() -> None:
    text = "{apiVersion: v1, kind: B}\n---\n{apiVersion: v1, kind: A}\n---\n{apiVersion: v1, kind: B}\n---\n{kind: C}"
    assert kinds_of(read_text(text)) == (GroupVersionKind("", "v1", "B"), GroupVersionKind("", "v1", "A"))


@pytest.mark.skipif(not FIXTURES.exists(), reason="the recorded module resources are not beside this checkout")
def test_the_module_resources_of_the_original_are_read_whole() -> None:
    documents = read_folder(FIXTURES / "apply")
    found = desired_set(documents, resource_of, namespace="kyma-system")
    assert len(found) == 14
    assert sum(one.resource.kind == "CustomResourceDefinition" for one in found) == 2
