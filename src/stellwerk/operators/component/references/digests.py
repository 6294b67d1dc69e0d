"""Fingerprints: of a Component, of what it refers to, of its source (pure).

A component digest covers everything that a pass depends on; when it changes, the work starts again. It covers
the annotations, which makes annotating a Component the official way to poke it.

All digests are the SHA-256 of compact JSON with sorted keys, spelled as Go spells it, with `<`, `>`, `&` and the two
line separators escaped. For most that is a matter of taste. For Blueprints it is a contract: the digest is part of the
name of a BlueprintVersion and is in the status of Components, so that ours must be the original's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec

from stellwerk.kube.types.model import JsonValue
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.component.api import BlueprintSpec, Component
from stellwerk.operators.component.api_status import Artifact

_encode = msgspec.json.Encoder(order="deterministic").encode
_ESCAPED = (
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    (b"&", b"\\u0026"),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)


def of_bytes(data: bytes) -> str:
    """The fingerprint of a content: 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def of_values(*values: object) -> str:
    """The fingerprint of values that have a JSON form."""
    return of_bytes(go_json(values))


def go_json(value: object) -> bytes:
    """Compact JSON with sorted keys, escaped as Go's encoder does. Such characters stand in strings only."""
    text = _encode(value)
    for plain, escaped in _ESCAPED:
        text = text.replace(plain, escaped)
    return text


# ---- of a Component


def of_component(component: Component, references: Mapping[str, str]) -> str:
    """The fingerprint of all that a pass depends on. `references`: the digest of each reference, by its place."""
    return of_values(
        {
            "generation": component.metadata.generation,
            "annotations": component.metadata.annotations,
            "spec": msgspec.to_builtins(component.spec),
            **{f"refs:{place}": digest for place, digest in references.items()},
        }
    )


# ---- of its source


def of_source(metadata: ObjectMeta, artifact: Artifact) -> str:
    """The fingerprint of a source object with its artifact. A new annotation on the source is a change, too."""
    return of_values(
        metadata.uid,
        metadata.generation,
        metadata.annotations or None,
        artifact.url,
        artifact.digest,
        artifact.revision,
    )


def of_download(artifact: Artifact) -> str:
    """The fingerprint of an artifact without an object."""
    return of_values(artifact.url, artifact.digest, artifact.revision)


def of_blueprint(spec: BlueprintSpec) -> str:
    """The fingerprint of a Blueprint's content."""
    files: JsonValue = dict(spec.files)
    return of_values({"files": files} if files else {})
