"""Signatures of component descriptors: who published a component, whatever its registry answers (pure).

    Trust(keys).check(descriptor)      raises NotTrusted

A component is transferred from registry to registry, so the signature covers the descriptor without what a transfer
changes: where the resources are. What it covers of them is their digests. After the check a reader
must take the digests from there, and not from where the resources are: see `signed_digest`.

The form that is signed is that of the OCM specification: jsonNormalisation/v2, and what followed it with the same
result. The first one is refused: it depends on how a descriptor is written, and the specification has given it up.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography import exceptions
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa, utils

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.render.errors import SourceError, shown

MOST_SIGNATURES = 10
"""How many signatures of a descriptor are looked at."""
_LEAST_KEY_BITS, _MOST_KEY_BITS = 2_048, 8_192
_NORMALISATIONS = ("jsonNormalisation/v2", "jsonNormalisation/v3", "jsonNormalisation/v4alpha1")
_SHA256 = ("SHA-256", "sha256", "SHA256")
_ALGORITHMS = ("RSASSA-PKCS1-V1_5", "RSASSA-PSS")


class NotTrusted(SourceError):
    """A descriptor without a valid signature of those that are asked for."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """The key that a Secret has for signatures of a name."""

    signature: str
    secret: ObjectKey
    pem: bytes
    """As PKIX or PKCS #1."""

    def load(self) -> rsa.RSAPublicKey:
        """Raises NotTrusted, which names the Secret."""
        try:
            found = serialization.load_pem_public_key(self.pem)
        except (ValueError, TypeError, exceptions.UnsupportedAlgorithm):
            raise NotTrusted(f"Secret {self.secret} has no public key in PEM form under `key`") from None
        if not isinstance(found, rsa.RSAPublicKey):
            raise NotTrusted(f"Secret {self.secret} has a public key of another kind than RSA")
        if not _LEAST_KEY_BITS <= found.key_size <= _MOST_KEY_BITS:
            raise NotTrusted(
                f"Secret {self.secret} has a key of {found.key_size} bits; expected {_LEAST_KEY_BITS} to "
                f"{_MOST_KEY_BITS}"
            )
        return found


@dataclass(frozen=True, slots=True)
class Trust:
    """The keys of which one must have signed each descriptor."""

    keys: tuple[PublicKey, ...]

    def check(self, descriptor: JsonObject) -> None:
        """Raises NotTrusted unless one of the keys has signed the descriptor."""
        names = sorted({key.signature for key in self.keys})
        found = [each for each in _objects(descriptor.get("signatures")) if each.get("name") in names]
        if not found:
            raise NotTrusted(f"the component has no signature with the name {' or '.join(names)}")
        whys: list[str] = []
        for signature in found[:MOST_SIGNATURES]:
            for key in self.keys:
                if key.signature == signature.get("name"):
                    try:
                        return _verify(signature, descriptor, key.load())
                    except NotTrusted as error:
                        whys.append(str(error))
        raise NotTrusted(f"no signature with the name {' or '.join(names)} is valid: {'; '.join(dict.fromkeys(whys))}")


def signed_digest(resource: JsonObject, normalisation: str) -> str:
    """The digest of the content of a resource in a descriptor that was checked, as registries write it.

    Raises NotTrusted for a resource that the signature leaves out, or whose digest is of another kind.
    """
    digest = resource.get("digest")
    fields = digest if isinstance(digest, dict) else {}
    value = fields.get("value")
    if (
        fields.get("hashAlgorithm") not in _SHA256
        or fields.get("normalisationAlgorithm") != normalisation
        or not _is_hexadecimal(value)
    ):
        raise NotTrusted(
            f"the signature does not cover the content of the resource {shown(str(resource.get('name')))!r}: it has no "
            f"SHA-256 digest of the kind {normalisation}"
        )
    return f"sha256:{value}".lower()


def _is_hexadecimal(value: JsonValue) -> bool:
    try:
        return isinstance(value, str) and len(bytes.fromhex(value)) == hashlib.sha256().digest_size
    except ValueError:
        return False


def _verify(signature: JsonObject, descriptor: JsonObject, key: rsa.RSAPublicKey) -> None:
    digest, signed = (_object(signature.get(each)) for each in ("digest", "signature"))
    normalisation, algorithm = digest.get("normalisationAlgorithm"), signed.get("algorithm")
    if normalisation not in _NORMALISATIONS:
        raise NotTrusted(
            f"the normalisation {shown(str(normalisation))!r} is not supported; expected {' or '.join(_NORMALISATIONS)}"
        )
    if digest.get("hashAlgorithm") not in _SHA256:
        raise NotTrusted(f"the hash {shown(str(digest.get('hashAlgorithm')))!r} is not supported; expected SHA-256")
    if algorithm not in _ALGORITHMS:
        raise NotTrusted(
            f"the algorithm {shown(str(algorithm))!r} is not supported; expected {' or '.join(_ALGORITHMS)}"
        )
    content = hashlib.sha256(normalised(descriptor)).digest()
    if digest.get("value") != content.hex():
        raise NotTrusted("the descriptor was changed after it was signed: its digest is another one")
    try:
        value = bytes.fromhex(str(signed.get("value")))
    except ValueError:
        raise NotTrusted("the value of the signature is not hexadecimal") from None
    hashed = hashes.SHA256()
    is_pss = algorithm == "RSASSA-PSS"
    scheme = padding.PSS(padding.MGF1(hashed), padding.PSS.AUTO) if is_pss else padding.PKCS1v15()
    try:
        key.verify(value, content, scheme, utils.Prehashed(hashed))
    except exceptions.InvalidSignature:
        raise NotTrusted("it was made with another key") from None


# ---- what is signed


def normalised(descriptor: JsonObject) -> bytes:
    """The part of a descriptor that a signature covers, in its one form. Raises NotTrusted if it has none."""
    if "component" in descriptor:
        body = dict(_object(descriptor["component"]))
        references = body.get("componentReferences")
    else:
        spec = _object(descriptor.get("spec"))
        body = {**_object(descriptor.get("metadata")), **{key: spec.get(key) for key in ("resources", "sources")}}
        references = spec.get("references")
    provider = body.get("provider")
    component: JsonObject = {
        **_without(body, "repositoryContexts", "provider"),
        "provider": {"name": provider} if isinstance(provider, str) else _without(_object(provider)),
        "resources": [_resource(each) for each in _objects(body.get("resources"))],
        "sources": [_without(each, "access") for each in _objects(body.get("sources"))],
        "componentReferences": [_without(each) for each in _objects(references)],
    }
    try:
        text = json.dumps(_ordered({"component": component}), ensure_ascii=False, separators=(",", ":"))
        return text.encode()
    except UnicodeError:
        raise NotTrusted("the descriptor has text that is not Unicode") from None


def _resource(resource: JsonObject) -> JsonObject:
    """The content of a resource that is nowhere cannot be compared, so its digest does not count."""
    is_nowhere = _object(resource.get("access")).get("type") in ("none", "None")
    return _without(resource, "access", "srcRefs", *(["digest"] if is_nowhere else []))


def _without(element: JsonObject, *left_out: str) -> JsonObject:
    """An element less these fields, empty ones, and labels that are not signed."""
    kept: JsonObject = {key: value for key, value in element.items() if key not in left_out and value is not None}
    if kept.get("extraIdentity") == {}:
        del kept["extraIdentity"]
    labels: list[JsonValue] = [
        {key: value for key, value in label.items() if key in ("name", "version", "value", "signing")}
        for label in _objects(kept.pop("labels", None))
        if label.get("signing") in (True, "true")
    ]
    return {**kept, "labels": labels} if labels else kept


def _ordered(value: JsonValue) -> JsonValue:
    """With keys in the order of RFC 8785. Raises NotTrusted for numbers that are written differently there."""
    if isinstance(value, dict):
        return {key: _ordered(value[key]) for key in sorted(value, key=_utf16)}
    if isinstance(value, list):
        return [_ordered(each) for each in value]
    if isinstance(value, float) or (isinstance(value, int) and abs(value) >= 2**53):
        raise NotTrusted("the descriptor has a number that is no small integer")
    return value


def _utf16(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


def _object(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _objects(value: JsonValue) -> Sequence[JsonObject]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else ()
