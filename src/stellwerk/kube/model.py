"""How an object of the cluster is held in memory, and the codec between that and JSON.

Three shapes, one for each need:

- a `Kind`: a frozen msgspec struct with just the fields we read. Decoding drops the rest, which is what keeps a cache
  of ten thousand objects small, and is why a typed object is never sent back whole.
- `Unstructured`: an object of a kind we do not know, as JSON. Rendered manifests are these.
- `PartialObjectMetadata`: only the metadata, which the API server can send without the rest.

A `View` says of which resource and in which shape; every reading call of the client takes one. We refused a registry
from kind to class: two callers may want different shapes of the same kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar, Union, cast

import msgspec

from stellwerk.kube.errors import Status
from stellwerk.kube.meta import LAST_APPLIED, ListMeta, ObjectMeta, Record
from stellwerk.kube.names import GroupVersionKind, ObjectKey, ObjectRef, Resource

JsonValue: TypeAlias = Union[bool, int, float, str, "list[JsonValue]", "dict[str, JsonValue]", None]
JsonObject: TypeAlias = "dict[str, JsonValue]"


class Kind(Record, frozen=True, kw_only=True):
    """Base of every typed kind. A subclass names its `resource` and declares the fields it reads."""

    resource: ClassVar[Resource]

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return ObjectKey(self.metadata.namespace, self.metadata.name)

    @property
    def ref(self) -> ObjectRef:
        """Kind, namespace and name, for messages."""
        return ObjectRef(self.resource.gvk, self.key)


class PartialObjectMetadata(Record, frozen=True, kw_only=True):
    """An object of which only the metadata was asked for (KEP-2334)."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return ObjectKey(self.metadata.namespace, self.metadata.name)


@dataclass(slots=True, frozen=True, eq=False)
class Unstructured:
    """An object of any kind as JSON. `body` is shared, not copied: treat it as read-only.

    Reading one from the server drops managedFields and kubectl's last-applied annotation (see `trimmed`).
    """

    body: JsonObject
    metadata: ObjectMeta

    @classmethod
    def of(cls, body: JsonObject) -> Unstructured:
        """Wrap a JSON object. Raises `msgspec.ValidationError` where its metadata is not an ObjectMeta."""
        return cls(body, msgspec.convert(body.get("metadata") or {}, ObjectMeta))

    @property
    def gvk(self) -> GroupVersionKind:
        """What the object says it is; empty words where it does not say."""
        return GroupVersionKind.parse(str(self.body.get("apiVersion") or ""), str(self.body.get("kind") or ""))

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return ObjectKey(self.metadata.namespace, self.metadata.name)

    @property
    def ref(self) -> ObjectRef:
        """Kind, namespace and name, for messages."""
        return ObjectRef(self.gvk, self.key)

    def at(self, *path: str) -> JsonValue:
        """The value under a path of keys, or None where any step is missing or not an object."""
        return dig(self.body, *path)


class HasMetadata(Protocol):
    """What every shape of an object has in common."""

    @property
    def metadata(self) -> ObjectMeta: ...
    @property
    def key(self) -> ObjectKey: ...


T = TypeVar("T", bound=HasMetadata)
K = TypeVar("K", bound=Kind)


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """The answer to a list: the objects, and the resourceVersion from which a watch may go on."""

    items: list[T]
    resource_version: str
    continue_token: str = ""


@dataclass(frozen=True, slots=True)
class View(Generic[T]):
    """A resource and the shape in which to read it."""

    resource: Resource
    shape: type[T]
    """A Kind, Unstructured or PartialObjectMetadata."""

    @property
    def metadata_only(self) -> bool:
        """Whether the server is asked for metadata alone."""
        return self.shape is PartialObjectMetadata

    def decode(self, data: bytes | msgspec.Raw) -> T:
        """One object from its JSON. Raises `msgspec.DecodeError` where the JSON is not of the shape."""
        if issubclass(self.shape, Unstructured):
            return cast(T, trimmed(_json.decode(data)))
        return object_decoder(self.shape).decode(data)

    def decode_list(self, data: bytes) -> Listing[T]:
        """One page of a list from its JSON. Raises `msgspec.DecodeError`."""
        if issubclass(self.shape, Unstructured):
            page = _raw_page.decode(data)
            stamp: JsonObject = {"apiVersion": self.resource.api_version, "kind": self.resource.kind}
            items = cast("list[T]", [trimmed({**stamp, **item}) for item in page.items or []])
            return Listing(items, page.metadata.resource_version, page.metadata.continue_)
        typed = page_decoder(self.shape).decode(data)
        return Listing(typed.items or [], typed.metadata.resource_version, typed.metadata.continue_)

    def decode_event(self, line: bytes) -> tuple[str, HasMetadata | Status]:
        """One line of a watch: what happened, and to what. Raises `msgspec.DecodeError`.

        The object of a BOOKMARK has nothing but metadata, whatever its kind requires, and that of an ERROR is a Status.
        """
        event = _event.decode(line)
        match event.type:
            case "ERROR":
                return event.type, _status.decode(event.object)
            case "BOOKMARK":
                return event.type, object_decoder(PartialObjectMetadata).decode(event.object)
            case _:
                return event.type, self.decode(event.object)


def view(kind: type[K]) -> View[K]:
    """A typed view of a kind we know."""
    return View(kind.resource, kind)


def unstructured(resource: Resource) -> View[Unstructured]:
    """A free-form view of any resource."""
    return View(resource, Unstructured)


METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
"""What a caller accepts who wants an object without its content."""


def metadata_of(kind: type[Kind] | Resource) -> View[PartialObjectMetadata]:
    """A view of which the server sends only the metadata: for kinds of which existence and labels matter."""
    return View(kind if isinstance(kind, Resource) else kind.resource, PartialObjectMetadata)


class _Page(msgspec.Struct, Generic[T]):
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[T] | None = None


# Building a decoder costs a hundred times a small decode. They are kept by shape and not in the View, of which callers
# make a new one for every call.
@cache
def _decoder_of(kind: object) -> msgspec.json.Decoder[object]:
    return msgspec.json.Decoder(cast("type[object]", kind))


def object_decoder(shape: type[T]) -> msgspec.json.Decoder[T]:
    """The decoder of one object of a shape."""
    return cast("msgspec.json.Decoder[T]", _decoder_of(shape))


def page_decoder(shape: type[T]) -> msgspec.json.Decoder[_Page[T]]:
    """The decoder of a page of a list of a shape."""
    return cast("msgspec.json.Decoder[_Page[T]]", _page_decoder_of(shape))


@cache
def _page_decoder_of(shape: type[T]) -> msgspec.json.Decoder[_Page[T]]:
    return msgspec.json.Decoder(_Page[shape])  # type: ignore[valid-type]  # the shape is only known here


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _RawPage(msgspec.Struct):
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[dict[str, Any]] | None = None  # JSON; msgspec needs no recursive type to check it


_json: msgspec.json.Decoder[JsonObject] = msgspec.json.Decoder(dict[str, Any])
_raw_page = msgspec.json.Decoder(_RawPage)
_event = msgspec.json.Decoder(_Event)
_status = msgspec.json.Decoder(Status)
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises for bytes that are not what they should be: not JSON, not UTF-8, nested without end."""

encode_json = msgspec.json.Encoder().encode


def decode_json(data: bytes) -> JsonObject:
    """A JSON object from its text. Raises `msgspec.DecodeError` where it is not one."""
    return _json.decode(data)


def to_json_object(value: msgspec.Struct) -> JsonObject:
    """A model as a JSON object, without its default values; a Kind also gets its apiVersion and kind."""
    body = cast(JsonObject, msgspec.to_builtins(value))
    if isinstance(value, Kind):
        return {"apiVersion": value.resource.api_version, "kind": value.resource.kind, **body}
    return body


def trimmed(body: JsonObject) -> Unstructured:
    """Wrap an object that came from the server, without the parts that only the server needs.

    managedFields can be the larger half of an object; what readers need of them (who else writes this object) is kept
    as `metadata.managers`. The last-applied annotation of kubectl repeats the whole object and may repeat secrets.
    """
    kept = Unstructured.of(body)
    metadata = body.get("metadata")
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)
        annotations = metadata.get("annotations")
        if isinstance(annotations, dict):
            annotations.pop(LAST_APPLIED, None)
    return kept


def dig(value: JsonValue, *path: str) -> JsonValue:
    """The value under a path of keys, or None where any step is missing or not an object."""
    for step in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(step)
    return value
