"""What the renderer is told about a Component."""

from __future__ import annotations

from typing import Any

import msgspec
from tests.unit.component.given import component

from stellwerk.kube.types.model import dig
from stellwerk.operators.component.api_status import Artifact
from stellwerk.operators.component.component.deployment import DeploymentContent, request_of
from stellwerk.operators.component.references.inputs import layers_of
from stellwerk.operators.component.references.references import NamedText, Resolved
from stellwerk.render.files.files import NOTHING
from stellwerk.render.request.request import UNKNOWN_CLUSTER, RenderRequest

ARTIFACT = Artifact(url="https://x/a.tar.gz", digest="sha256:1", revision="r1")
RESOLVED = Resolved(
    values=(
        NamedText("secret shop/a, key values", b"a: {p: 1, q: 1}\nlist: [1, 2]\nonly: a\n"),
        NamedText("config map shop/b, key values.yaml", b'{"a": {"q": 2, "r": null}, "list": [3]}'),
    ),
    decryption_keys={"k.agekey": b"key"},
    substitutes={"A": "1"},
)


def asked(resolved: Resolved = RESOLVED, **spec: Any) -> RenderRequest:
    """What is asked of the renderer at revision 7."""
    one = component(spec=spec)
    status = msgspec.structs.replace(one.status, revision=7, last_attempted_revision="r1")
    content = DeploymentContent(ARTIFACT, resolved, "digest")
    return request_of(one, status, content, NOTHING, UNKNOWN_CLUSTER, layers_of(one, resolved))


def test_a_release_is_named_like_the_component_unless_its_spec_says_otherwise() -> None:
    plain, named = asked().release, asked(namespace="t", name="n").release
    assert (plain.namespace, plain.name, plain.revision) == ("shop", "web", 7)
    assert (named.namespace, named.name) == ("t", "n")


def test_what_a_chart_sees_as_its_service_and_whose_annotations_it_may_not_set_is_the_operator() -> None:
    request = asked()
    assert (request.release.service, request.prefix) == ("component-operator.cs.sap.com",) * 2


def test_templates_see_the_component_as_it_is_in_this_pass() -> None:
    request = asked(path="deploy")
    assert dig(request.component, "status", "lastAttemptedRevision") == "r1"
    assert dig(request.component, "metadata", "name") == "web"
    assert dig(request.component, "apiVersion") == "core.cs.sap.com/v1alpha1"
    assert dig(request.component, "kind") == "Component"
    assert (request.path, request.component_digest) == ("deploy", "digest")


def test_values_of_the_spec_lie_over_those_of_later_references_over_those_of_earlier_ones() -> None:
    assert asked(values={"a": {"p": 3}, "own": True}).values == {
        "a": {"p": 3, "q": 2, "r": None},
        "list": [3],
        "only": "a",
        "own": True,
    }
    sources = [layer.source for layer in layers_of(component(spec={"values": {}}), RESOLVED)]
    assert sources == ["secret shop/a, key values", "config map shop/b, key values.yaml", "spec.values"]


def test_after_the_build_comes_what_the_spec_asks_for_and_nothing_else() -> None:
    assert asked().post_build.substitute is None, "without postBuild nothing is substituted"
    asks = {"patches": [{"patch": "p"}], "images": [{"name": "nginx", "newTag": "2"}]}
    post = asked(postBuild=asks).post_build
    assert post.substitute == {"A": "1"}
    assert [*post.patches] == [{"patch": "p"}]
    assert [*post.images] == [{"name": "nginx", "newTag": "2"}]
    assert asked(Resolved(), postBuild={}).post_build.substitute is None
    assert asked().decryption == {"k.agekey": b"key"}
