"""What a signature covers of a component, and what is refused without one."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.kyma.sources.components import MANIFEST, NAME, VERSION, blob, component, digest_of, image

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.kyma.api_manifest import LayerType
from stellwerk.operators.kyma.sources.descriptors import Descriptor
from stellwerk.operators.kyma.sources.signatures import NotTrusted, PublicKey, Trust, normalised

SECRET = ObjectKey("kcp-system", "publisher")
DIGEST = digest_of(MANIFEST)
PLACE = "registry.example.com/images/app:1.0.0"
IMAGE_DIGEST = "b" * 64


@cache
def key(name: str, bits: int = 2048) -> rsa.RSAPrivateKey:
    """Keys take a tenth of a second each."""
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


def public(private: rsa.RSAPrivateKey, form: PublicFormat = PublicFormat.SubjectPublicKeyInfo) -> bytes:
    return private.public_key().public_bytes(Encoding.PEM, form)


def trust(*names: str, signature: str = "kyma") -> Trust:
    """The keys with these names, for one signature."""
    return Trust(tuple(PublicKey(signature, SECRET, public(key(name))) for name in names))


def covered(resource: dict[str, Any], kind: str, value: str) -> dict[str, Any]:
    """A resource whose content is signed."""
    return {**resource, "digest": {"hashAlgorithm": "SHA-256", "normalisationAlgorithm": kind, "value": value}}


def a_component(*, place: str = PLACE, **access: Any) -> dict[str, Any]:
    """A component with a layer of objects and an image."""
    layer = covered(blob("raw-manifest", DIGEST, **access), "genericBlobDigest/v1", DIGEST.removeprefix("sha256:"))
    return component(layer, covered(image(place), "ociArtifactDigest/v1", IMAGE_DIGEST), componentReferences=[])


def signed(
    descriptor: dict[str, Any],
    by: str = "publisher",
    *,
    name: str = "kyma",
    normalisation: str = "jsonNormalisation/v3",
    scheme: str = "RSASSA-PKCS1-V1_5",
) -> dict[str, Any]:
    """As a publisher signs it."""
    content = hashlib.sha256(normalised(descriptor)).digest()
    pss = padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.MAX_LENGTH)
    filling = pss if scheme == "RSASSA-PSS" else padding.PKCS1v15()
    value = key(by).sign(content, filling, utils.Prehashed(hashes.SHA256()))
    entry = {
        "name": name,
        "digest": {"hashAlgorithm": "SHA-256", "normalisationAlgorithm": normalisation, "value": content.hex()},
        "signature": {"algorithm": scheme, "mediaType": "application/vnd.ocm.signature.rsa", "value": value.hex()},
    }
    return {**descriptor, "signatures": [*descriptor.get("signatures", []), entry]}


@pytest.mark.parametrize(
    ("resources", "digest"),
    [
        ([], "33aeb8c46ea4bacbf0bc3ac42c186c7f5e313584601a93bf861c016d73c9e4f1"),
        (
            [
                covered(
                    {
                        "name": "test",
                        "version": "v1",
                        "type": "plainText",
                        "relation": "local",
                        "access": {"type": "x"},
                    },
                    "genericBlobDigest/v1",
                    "810ff2fb242a5dee4220f2cb0e6a519891fb67f2f828a6cab4ef8894633b1f50",
                )
            ],
            "6e8e9eb0af1c4c0b9dcc4161168b3f0ad913bc85e4234688dd6d4b283fe4b956",
        ),
    ],
)
def test_the_signed_form_has_the_digest_that_tools_of_ocm_give_it(resources: list[Any], digest: str) -> None:
    """The digests are those of `ocm hash components` for the same components, in both forms of descriptors."""
    identity = {"name": "test.de/x", "version": "v1", "provider": "mandelsoft"}
    v2: dict[str, Any] = {
        "meta": {"schemaVersion": "v2"},
        "component": {**identity, "resources": resources, "sources": None},
    }
    v3: dict[str, Any] = {
        "apiVersion": "ocm.software/v3alpha1",
        "kind": "ComponentVersion",
        "metadata": {**identity, "provider": {"name": "mandelsoft", "labels": [{"name": "a", "value": 1}]}},
        "repositoryContexts": [{"type": "OCIRegistry"}],
        "spec": {"resources": resources},
    }
    for descriptor in (v2, v3):
        assert hashlib.sha256(normalised(descriptor)).hexdigest() == digest


def test_what_a_transfer_changes_is_not_signed_and_everything_else_is() -> None:
    first = a_component()
    moved = copy.deepcopy(first)
    moved["component"]["repositoryContexts"] = [{"type": "OCIRegistry", "baseUrl": "elsewhere.example.com"}]
    moved["component"]["labels"] = [{"name": "seen", "value": "x"}]
    moved["component"]["resources"][1]["access"] = {"type": "localBlob", "localReference": "sha256:1"}
    moved["component"]["resources"][1]["srcRefs"] = [{}]
    assert normalised(moved) == normalised(first)

    changes: list[Callable[[Any], object]] = [
        lambda body: body.update(name="other"),
        lambda body: body.update(version="1.0.1"),
        lambda body: body.update(provider="other"),
        lambda body: body.update(labels=[{"name": "a", "value": 1, "signing": True}]),
        lambda body: body["resources"][0].update(name="other"),
        lambda body: body["resources"][0]["digest"].update(value="0" * 64),
        lambda body: body["resources"][0].pop("digest"),
        lambda body: body["resources"][0]["access"].update(type="none"),
        lambda body: body["resources"][0].update(extraIdentity={"a": "b"}),
        lambda body: body["resources"].append({"name": "raw-manifest", "access": {"type": "localBlob"}}),
        lambda body: body["resources"].reverse(),
        lambda body: body["resources"].pop(),
        lambda body: body.update(sources=[{"name": "a"}]),
        lambda body: body.update(componentReferences=[{"name": "a"}]),
    ]
    for change in changes:
        changed = copy.deepcopy(first)
        change(changed["component"])
        assert normalised(changed) != normalised(first)


@pytest.mark.parametrize(
    "normalisation", ["jsonNormalisation/v2", "jsonNormalisation/v3", "jsonNormalisation/v4alpha1"]
)
@pytest.mark.parametrize("scheme", ["RSASSA-PKCS1-V1_5", "RSASSA-PSS"])
def test_a_component_that_was_signed_is_read(normalisation: str, scheme: str) -> None:
    descriptor = signed(a_component(), normalisation=normalisation, scheme=scheme)
    found = Descriptor.inline(descriptor, trust("publisher"))
    assert found is not None
    assert found.manifest == (DIGEST, LayerType.OciRef)
    assert found.images == (f"{PLACE}@sha256:{IMAGE_DIGEST}",), "the image is pinned to the signed one"


def test_one_valid_signature_of_any_key_is_enough() -> None:
    """So that keys can be replaced while both are in use."""
    both = signed(signed(a_component(), "former"), "publisher")
    for keys in (["publisher"], ["former"], ["other", "publisher"]):
        assert Descriptor.inline(both, trust(*keys)) is not None
    pkcs1 = Trust((PublicKey("kyma", SECRET, public(key("publisher"), PublicFormat.PKCS1)),))
    assert Descriptor.inline(both, pkcs1) is not None


def _changed(**fields: Any) -> dict[str, Any]:
    """A component whose signature has other fields than it was given."""
    descriptor = signed(a_component())
    entry = descriptor["signatures"][0]
    for part, values in fields.items():
        entry[part] = {**entry[part], **values} if isinstance(values, dict) else values
    return descriptor


def _renamed() -> dict[str, Any]:
    descriptor = signed(a_component())
    descriptor["component"]["version"] = "2.0.0"
    return descriptor


@pytest.mark.parametrize(
    ("descriptor", "message"),
    [
        (lambda: a_component(), "the component has no signature with the name kyma"),
        (lambda: signed(a_component(), name="other"), "the component has no signature with the name kyma"),
        (lambda: signed(a_component(), "stranger"), "it was made with another key"),
        (_renamed, "the descriptor was changed after it was signed"),
        (lambda: _changed(digest={"value": "0" * 64}), "the descriptor was changed after it was signed"),
        (lambda: _changed(digest={"normalisationAlgorithm": "jsonNormalisation/v1"}), "v1' is not supported"),
        (lambda: _changed(digest={"hashAlgorithm": "MD5"}), "the hash 'MD5' is not supported"),
        (lambda: _changed(signature={"algorithm": "none"}), "the algorithm 'none' is not supported"),
        (lambda: _changed(signature={"algorithm": ["x"]}), "is not supported"),
        (lambda: _changed(signature={"value": "xyz"}), "not hexadecimal"),
        (lambda: _changed(signature={"value": ""}), "made with another key"),
        (lambda: _changed(signature={"value": "00" * 100_000}), "made with another key"),
        (lambda: _changed(signature=None, digest=5), "is not supported"),
        (lambda: {**a_component(), "signatures": "x"}, "has no signature"),
        (lambda: {**a_component(), "signatures": [5, {"name": ["kyma"]}]}, "has no signature"),
    ],
)
def test_a_component_without_a_valid_signature_is_refused(descriptor: Callable[[], Any], message: str) -> None:
    with pytest.raises(NotTrusted, match=message):
        Descriptor.inline(descriptor(), trust("publisher"))
    assert Descriptor.inline(descriptor()) is not None, "unless a signature is asked for, none is looked at"


def test_only_some_signatures_are_tried() -> None:
    many = a_component()
    for _ in range(10):
        many = signed(many, "stranger")
    with pytest.raises(NotTrusted) as caught:
        Descriptor.inline(signed(many), trust("publisher"))
    assert str(caught.value) == "no signature with the name kyma is valid: it was made with another key"


@pytest.mark.parametrize(
    ("descriptor", "message"),
    [
        (
            a_component(localReference=digest_of(b"other")),
            "the layer of the resource 'raw-manifest' is not the signed one",
        ),
        (component(blob("raw-manifest", DIGEST)), "does not cover the content of the resource 'raw-manifest'"),
        (a_component(place=f"{PLACE}@sha256:{'0' * 64}"), "the image of the resource 'image' is not the signed one"),
        (component(image(PLACE)), "does not cover the content of the resource 'image'"),
        (component(covered(image(PLACE), "EXCLUDE-FROM-SIGNATURE", "NO-DIGEST")), "does not cover the content"),
        (component(covered(image(PLACE), "ociArtifactDigest/v1", "../../x")), "does not cover the content"),
        (component(covered(image(PLACE), "genericBlobDigest/v1", IMAGE_DIGEST)), "does not cover the content"),
        (component({**image(PLACE), "digest": "x"}), "does not cover the content"),
    ],
)
def test_content_that_the_signature_does_not_cover_is_refused(descriptor: dict[str, Any], message: str) -> None:
    """Where a layer and an image are is not signed: a registry could lead a signed component to other content."""
    with pytest.raises(NotTrusted, match=message):
        Descriptor.inline(signed(descriptor), trust("publisher"))


def test_a_reference_of_the_layer_that_is_empty_is_that_of_the_signature() -> None:
    found = Descriptor.inline(signed(a_component(localReference="")), trust("publisher"))
    assert found is not None
    assert found.manifest == (DIGEST, LayerType.OciRef)


@pytest.mark.parametrize(
    ("pem", "message"),
    [
        (b"", "public key in PEM form"),
        (b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "public key in PEM form"),
        (public(key("short", 1024)), "a key of 1024 bits"),
        (
            ec.generate_private_key(ec.SECP256R1())
            .public_key()
            .public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
            "of another kind than RSA",
        ),
    ],
)
def test_a_secret_without_a_usable_key_is_named(pem: bytes, message: str) -> None:
    given = Trust((PublicKey("kyma", SECRET, pem),))
    with pytest.raises(
        NotTrusted, match=f"Secret kcp-system/publisher .*{message}|Secret kcp-system/publisher {message}"
    ):
        Descriptor.inline(signed(a_component()), given)


def test_numbers_and_text_that_have_no_one_form_are_refused() -> None:
    for value in (1.5, 2**53, "\ud800"):
        descriptor = a_component()
        descriptor["component"]["labels"] = [{"name": "a", "value": value, "signing": True}]
        with pytest.raises(NotTrusted):
            normalised(descriptor)


def test_keys_are_ordered_by_their_utf_16() -> None:
    value = {"\U00010000": 1, "\uffff": 2, "a": 3, "B": {"z": [], "y": None}}
    descriptor: dict[str, Any] = {"component": {"name": NAME, "version": VERSION, "provider": "p", "x": value}}
    assert '"x":{"B":{"y":null,"z":[]},"a":3,"\U00010000":1,"\uffff":2}' in normalised(descriptor).decode()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, JSON, JSON)
def test_any_signature_is_refused_by_a_named_error(signatures: Any, component: Any, spec: Any) -> None:
    for descriptor in (
        {"signatures": signatures, "component": component},
        {"signatures": [{"name": "kyma", "digest": signatures, "signature": component}], "spec": spec},
        {**signed(a_component()), "component": component},
    ):
        with pytest.raises(NotTrusted):
            trust("publisher").check(descriptor)
