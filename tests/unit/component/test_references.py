"""What a Component refers to is found wherever it stands, and either comes to something or is named as missing."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from tests.unit.component.given import component

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.component.api import Component
from stellwerk.operators.component.api_spec import ReferenceKind
from stellwerk.operators.component.errors import InvalidSpec, ReferencesUnreadable, ReferencesUnresolved
from stellwerk.operators.component.references import digests, references
from stellwerk.operators.component.references.references import (
    Found,
    ReferencedContent,
    ReferencedObject,
    Resolved,
    UnreadReference,
)

EVERYTHING: JsonObject = {
    "kubeConfig": {"secretRef": {"name": "remote"}},
    "valuesFrom": [{"name": "a"}, {"kind": "ConfigMap", "name": "b", "key": "prod"}],
    "decryption": {"secretRef": {"name": "keys"}},
    "postBuild": {
        "substitute": {"BOTH": "inline"},
        "substituteFrom": [{"name": "vars"}, {"kind": "ConfigMap", "name": "more"}],
    },
}
NOTHING = UnreadReference("not found", may_come=True)


def secret(name: str) -> ReferencedObject:
    return ReferencedObject(ReferenceKind.Secret, ObjectKey("shop", name))


def config_map(name: str) -> ReferencedObject:
    return ReferencedObject(ReferenceKind.ConfigMap, ObjectKey("shop", name))


CONTENTS: Found = {
    secret("remote"): ReferencedContent({"value.yaml": b"second", "value.yml": b"third"}),
    secret("a"): ReferencedContent({"values": b"x: 1", "other": b"no"}),
    config_map("b"): ReferencedContent({"prod": b"x: 2"}),
    secret("keys"): ReferencedContent({"id.agekey": b"AGE-SECRET"}),
    secret("vars"): ReferencedContent({"BOTH": b"first", "ONE": b"1"}),
    config_map("more"): ReferencedContent({"BOTH": b"second", "TWO": b"2"}),
}


def settled(found: Found, one: Component | None = None) -> Resolved:
    one = one or component(spec=EVERYTHING)
    return references.settle(one, references.find(one), found)


class Unread(tuple[Any, ...]):
    """Entries that a test forbids to look at."""

    def __iter__(self) -> Iterator[Any]:
        pytest.fail("looked at an entry")

    def __getitem__(self, _: object) -> Any:
        pytest.fail("looked at an entry")


@pytest.mark.req("R-412")
def test_the_login_of_a_source_is_found_without_a_look_at_other_references() -> None:
    source: JsonObject = {
        "sourceRef": {"httpRepository": {"url": "https://a.example.com/", "secretRef": {"name": "a"}}}
    }
    one = component(spec={**EVERYTHING, **source})
    assert one.spec.post_build is not None
    post_build = msgspec.structs.replace(one.spec.post_build, substitute_from=Unread([1]))
    spec = msgspec.structs.replace(one.spec, values_from=Unread([1]), post_build=post_build)

    found = references.for_source(msgspec.structs.replace(one, spec=spec))

    assert [(reference.place, reference.target) for reference in found] == [(references.REPOSITORY, secret("a"))]
    assert references.for_source(component(spec=EVERYTHING)) == ()


def test_every_place_that_refers_to_something_is_found() -> None:
    found = references.find(component(spec=EVERYTHING))

    assert [(one.place, str(one.target), one.key) for one in found] == [
        ("/kubeConfig/secretRef", "secret shop/remote", ""),
        ("/valuesFrom/0", "secret shop/a", ""),
        ("/valuesFrom/1", "configmap shop/b", "prod"),
        ("/decryption/secretRef", "secret shop/keys", ""),
        ("/postBuild/substituteFrom/0", "secret shop/vars", ""),
        ("/postBuild/substituteFrom/1", "configmap shop/more", ""),
    ]


def test_references_come_to_their_contents_in_the_order_of_the_spec() -> None:
    resolved = settled(CONTENTS)

    assert [(one.origin, one.text) for one in resolved.values] == [
        ("secret shop/a, key values", b"x: 1"),
        ("configmap shop/b, key prod", b"x: 2"),
    ]
    assert resolved.decryption_keys == {"id.agekey": b"AGE-SECRET"}
    assert resolved.substitutes == {"BOTH": "inline", "ONE": "1", "TWO": "2"}


def test_a_login_is_read_for_a_pass_and_not_for_a_deletion_and_its_renewal_is_no_new_content() -> None:
    source: JsonObject = {"sourceRef": {"httpRepository": {"url": "https://a/b", "secretRef": {"name": "login"}}}}
    one = component(spec=source)
    former, renewed = (
        settled({secret("login"): ReferencedContent({"bearerToken": word})}, one) for word in (b"a", b"b")
    )

    assert former.login is not None
    assert (former.login.origin, former.login.data) == ("secret shop/login", {"bearerToken": b"a"})
    assert renewed.login != former.login
    assert renewed.digests == former.digests == {}
    assert references.targets(one) == {secret("login")}
    assert not references.find(component(spec=source, deleting=True))


def test_the_first_of_the_usual_keys_is_taken() -> None:
    resolved = settled(CONTENTS)

    assert resolved.kube_config is not None
    assert (resolved.kube_config.origin, resolved.kube_config.text) == (
        "secret shop/remote, key value.yaml",
        b"second",
    )


def test_digests_are_of_the_value_or_of_the_whole_object() -> None:
    resolved = settled(CONTENTS)

    assert resolved.digests["/valuesFrom/0"] == digests.of_bytes(b"x: 1")
    keys = {"id.agekey": base64.b64encode(b"AGE-SECRET").decode()}
    assert resolved.digests["/decryption/secretRef"] == digests.of_values(keys)
    assert set(resolved.digests) == {one.place for one in references.find(component(spec=EVERYTHING))}


def test_everything_that_is_missing_is_named_at_once() -> None:
    found: Found = {
        **CONTENTS,
        secret("remote"): NOTHING,
        secret("a"): ReferencedContent({"other": b""}),
        config_map("b"): ReferencedContent({}),
    }

    with pytest.raises(ReferencesUnresolved) as caught:
        settled(found)

    assert str(caught.value) == (
        "error resolving references: "
        "/kubeConfig/secretRef: error loading secret shop/remote: not found; "
        "/valuesFrom/0: no matching key found in secret shop/a (looked for values, values.yaml, values.yml); "
        "/valuesFrom/1: key prod not found in configmap shop/b"
    )


def test_what_cannot_be_read_is_an_error_unless_something_else_may_still_come() -> None:
    refused = UnreadReference("cannot get secrets: forbidden", may_come=False)

    with pytest.raises(ReferencesUnreadable, match="error loading secret shop/keys: cannot get secrets: forbidden"):
        settled({**CONTENTS, secret("keys"): refused})
    with pytest.raises(ReferencesUnresolved):
        settled({**CONTENTS, secret("keys"): refused, secret("a"): NOTHING})


def test_a_deletion_needs_the_kubeconfig_and_nothing_else() -> None:
    going = component(spec=EVERYTHING, deleting=True)

    assert [one.place for one in references.find(going)] == ["/kubeConfig/secretRef"]
    assert settled(CONTENTS, going).substitutes == {}
    with pytest.raises(ReferencesUnresolved, match="error loading secret shop/remote: not found"):
        settled({secret("remote"): NOTHING}, going)


def test_a_change_of_any_of_them_concerns_the_component_also_while_it_is_deleted() -> None:
    going = component(spec=EVERYTHING, deleting=True)

    assert sorted(references.index(ReferenceKind.Secret, going)) == ["shop/a", "shop/keys", "shop/remote", "shop/vars"]
    assert sorted(references.index(ReferenceKind.ConfigMap, going)) == ["shop/b", "shop/more"]


def test_another_way_of_encryption_is_refused_once_there_is_a_key() -> None:
    other = component(spec={"decryption": {"provider": "vault", "secretRef": {"name": "keys"}}})

    with pytest.raises(InvalidSpec, match="invalid decryption provider: vault"):
        settled(CONTENTS, other)
    assert not settled({secret("keys"): ReferencedContent({})}, other).decryption_keys
    for provider in ("", "sops"):
        spec: JsonObject = {"decryption": {"provider": provider, "secretRef": {"name": "keys"}}}
        assert settled(CONTENTS, component(spec=spec)).decryption_keys


def test_a_variable_that_is_no_text_is_named() -> None:
    with pytest.raises(InvalidSpec, match="key ONE of secret shop/vars is not text"):
        settled({**CONTENTS, secret("vars"): ReferencedContent({"ONE": b"\xff"})})


@pytest.mark.req("R-801")
def test_no_text_form_shows_a_value() -> None:
    resolved = settled(CONTENTS)
    shown = repr(resolved) + str(resolved) + repr(CONTENTS) + "".join(map(str, CONTENTS.values()))

    for content in ("x: 1", "second", "AGE-SECRET", "inline"):
        assert content not in shown
