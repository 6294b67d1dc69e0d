"""What an author wants done when the set goes: objects made for that moment, and how they are kept until then. Pure.

When a set is deleted, its source may be gone, and its values with it. So what is to be done then is rendered with the
rest and kept separately: packed in a Secret that is an object of the set like any other. It is written with the rights
of the set's identity, is in the cluster of the set, and follows every change of the manifest.

We refused to keep them in the status (they may hold what came from a Secret, and many may read a status) and to render
again at the end (a source that is gone must not hold a deletion back, and one that has moved on is not what is there).
"""

from __future__ import annotations

import base64
import gzip
import io
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import msgspec

from stellwerk.apply.errors import InvalidSet, Problem
from stellwerk.apply.objects import json_edit
from stellwerk.apply.objects.desired import Document
from stellwerk.apply.objects.manifests import Origin
from stellwerk.apply.set.model.policy import HIGHEST_ORDER
from stellwerk.kube.types.model import JsonObject, dig

KEY = "hooks"
"""Of the Secret."""
MOST_BYTES = 32 << 20
"""What may come out of a Secret when it is unpacked: as much as one rendering may produce."""


class Moment(Enum):
    """When it is done: before the first object of the set goes, or after the last."""

    BEFORE = "pre-delete"
    AFTER = "post-delete"


@dataclass(frozen=True, slots=True)
class Hook:
    """An object that is made when the set goes."""

    moments: tuple[Moment, ...]
    weight: int
    """Lower ones come first."""
    document: Document

    @property
    def title(self) -> str:
        """What messages call it."""
        return _title(self.document)

    def at(self, moment: Moment, prefix: str) -> Document:
        """The object to create: in the order of its weight, for this deletion only, and deleted after it."""
        asked = {
            "apply-order": str(self.weight),
            "purge-order": str(HIGHEST_ORDER),
            "reconcile-policy": "on-object-or-component-change",
            "update-policy": "recreate",
        }
        marks = {f"{prefix}/{suffix}": word for suffix, word in asked.items()}
        return Document(json_edit.with_annotations(self.document.body, marks), self.document.origin)


def split(documents: Iterable[Document], prefix: str) -> tuple[tuple[Document, ...], tuple[Hook, ...]]:
    """The documents of the set, and those for its end; some are both. Raises `InvalidSet`."""
    kept: list[Document] = []
    hooks: list[Hook] = []
    key = f"{prefix}/delete-hook"
    for document in documents:
        annotations = _annotations(document.body)
        if key not in annotations:
            kept.append(document)
            continue
        hooks.append(_hook(document, annotations, prefix))
        if annotations.get(f"{key}-only") != "true":
            kept.append(Document(json_edit.without_annotations(document.body, key), document.origin))
    return tuple(kept), tuple(hooks)


def _hook(document: Document, annotations: Mapping[str, object], prefix: str) -> Hook:
    key = f"{prefix}/delete-hook"
    words = {word.strip() for word in str(annotations[key]).split(",")}
    weight = str(annotations.get(f"{key}-weight", "0"))
    try:
        moments = tuple(moment for moment in Moment if moment.value in words)
        if len(moments) != len(words):
            raise ValueError(f"{key} is {annotations[key]!r}: expected pre-delete, post-delete, or both")
        return Hook(
            moments, int(weight), Document(json_edit.without_annotations(document.body, f"{prefix}/"), document.origin)
        )
    except ValueError as error:
        raise InvalidSet([Problem(_title(document), str(error))]) from None


# ---- kept until then


def keeper(hooks: Sequence[Hook], name: str, namespace: str, prefix: str) -> Document:
    """The Secret that keeps them."""
    content = [_Kept(hook.moments, hook.weight, {**hook.document.body}, hook.document.origin.file) for hook in hooks]
    packed = gzip.compress(msgspec.json.encode(content, order="sorted"), mtime=0)  # equal hooks, equal Secrets
    metadata: JsonObject = {
        "name": name,
        "namespace": namespace,
        "annotations": {f"{prefix}/delete-policy": "delete", f"{prefix}/update-policy": "ssa-override"},
    }
    return Document(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": type_of(prefix),
            "metadata": metadata,
            "data": {KEY: base64.b64encode(packed).decode()},
        }
    )


def type_of(prefix: str) -> str:
    """The type of the Secret."""
    return f"{prefix}/delete-hooks"


class _Kept(msgspec.Struct):
    moments: tuple[Moment, ...]
    weight: int
    body: dict[str, Any]
    file: str = ""


_kept = msgspec.json.Decoder(list[_Kept])


def unpacked(secret: str, content: bytes) -> tuple[Hook, ...]:
    """What a Secret keeps. Raises `InvalidSet`, which names the Secret and quotes nothing of it."""
    try:
        found = _kept.decode(_decompressed(content))
    except (msgspec.DecodeError, OSError, EOFError, ValueError, zlib.error):
        fix = "restore it, or go on without delete hooks"
        raise InvalidSet(
            [Problem(f"Secret {secret}", f"does not hold the delete hooks that it should; {fix}")]
        ) from None
    return tuple(Hook(one.moments, one.weight, Document(one.body, Origin(file=one.file))) for one in found)


def _decompressed(packed: bytes) -> bytes:
    with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError("too large")
    return content


_NONE: Mapping[str, object] = {}


def _annotations(body: JsonObject) -> Mapping[str, object]:
    """Asked for each object in each pass: step by step, because that is five times as fast as by a path."""
    metadata = body.get("metadata")
    found = metadata.get("annotations") if isinstance(metadata, dict) else None
    return found if isinstance(found, dict) else _NONE


def _title(document: Document) -> str:
    return f"{document.body.get('kind')} {dig(document.body, 'metadata', 'name')}"
