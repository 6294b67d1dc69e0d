"""YAML text into Kubernetes manifests: documents, lists unfolded, and where each was written.

What a text means is decided below (`kube.yaml`); here it becomes the documents that kubectl would see.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from stellwerk.apply.errors import UnreadableManifest
from stellwerk.kube import yaml
from stellwerk.kube.types.model import JsonObject, JsonValue, dig
from stellwerk.kube.yaml import DEFAULT_LIMITS, Origin, UnreadableYaml, YamlLimits

__all__ = ["DEFAULT_LIMITS", "Document", "Origin", "YamlLimits", "read_folder", "read_text", "read_value"]


@dataclass(frozen=True, slots=True, repr=False)
class Document:
    """One manifest as it was written. `body` is shared: treat it as read-only (see `edit`)."""

    body: JsonObject
    origin: Origin = field(default_factory=Origin)

    def __repr__(self) -> str:
        return f"Document({self.body.get('kind')!r}, {dig(self.body, 'metadata', 'name')!r}, {str(self.origin)!r})"


def read_text(text: str | bytes, *, file: str = "", limits: YamlLimits = DEFAULT_LIMITS) -> tuple[Document, ...]:
    """The documents of a YAML or JSON text, lists of objects unfolded, empty documents left out.

    Raises `UnreadableManifest` with the position of what is wrong.
    """
    with _as_manifest():
        found = list(yaml.read_documents(text, file=file, limits=limits))
    documents: list[Document] = []
    for value, origin in found:
        if value is None:
            continue
        if not isinstance(value, dict):
            raise UnreadableManifest("expected a mapping", file=file, document=origin.document, line=origin.line)
        documents.extend(Document(body, origin) for body in _unfolded(value, origin))
    return tuple(documents)


def read_value(text: str | bytes, *, file: str = "", limits: YamlLimits = DEFAULT_LIMITS) -> JsonValue:
    """The value of a YAML text with one document; None of an empty one. For YAML that is no manifest.

    Raises `UnreadableManifest` with the position of what is wrong, or where a second document follows.
    """
    with _as_manifest():
        return yaml.read_value(text, file=file, limits=limits)


@contextmanager
def _as_manifest() -> Iterator[None]:
    try:
        yield
    except UnreadableYaml as error:
        why = f"the key {error.key!r} appears twice" if error.key else error.why
        raise UnreadableManifest(why, file=error.file, document=error.document, line=error.line) from error


def read_folder(folder: Path, *, limits: YamlLimits = DEFAULT_LIMITS) -> tuple[Document, ...]:
    """The documents of the files `*.yml` and `*.yaml` right in a folder, in the order of their names.

    Raises `UnreadableManifest` where the folder or a file cannot be read, or is not YAML.
    """
    documents: list[Document] = []
    for path in _manifest_files(folder):
        try:
            text = path.read_bytes()
        except OSError as error:
            raise UnreadableManifest(error.strerror or "cannot be read", file=str(path)) from error
        documents.extend(read_text(text, file=path.name, limits=limits))
    return tuple(documents)


def _manifest_files(folder: Path) -> list[Path]:
    try:
        entries = sorted(folder.iterdir(), key=lambda path: path.name)
        return [path for path in entries if path.suffix in (".yml", ".yaml") and path.is_file()]
    except OSError as error:
        raise UnreadableManifest(error.strerror or "cannot be read", file=str(folder)) from error


def _unfolded(body: JsonObject, origin: Origin) -> Iterator[JsonObject]:
    kind, items = body.get("kind"), body.get("items")
    if not (isinstance(kind, str) and kind.endswith("List") and isinstance(items, list)):
        yield body
        return
    # Items of a ConfigMapList need not repeat what they are; those of a plain List must.
    inherited: JsonObject = {} if kind == "List" else {"apiVersion": body.get("apiVersion"), "kind": kind[:-4]}
    for item in items:
        if not isinstance(item, dict):
            raise UnreadableManifest(f"an item of the {kind} is not a mapping", file=origin.file, line=origin.line)
        yield from _unfolded({**inherited, **item}, origin)
