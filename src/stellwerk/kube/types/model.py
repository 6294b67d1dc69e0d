"""How an object of the cluster is held in memory, and the codec between that and JSON.

Three shapes, one for each need:

- a `Kind`: a frozen msgspec struct with just the fields we read. Decoding drops the rest, which is what keeps a cache
  of ten thousand objects small, and is why a typed object is never sent back whole.
- `Unstructured`: an object of a kind we do not know, as JSON. Rendered manifests are these.
- `PartialObjectMetadata`: only the metadata, which the API server can send without the rest.

A `View` names the resource and the shape; every reading call of the client takes one. We refused a registry
from kind to class: two callers may want different shapes of the same kind.

One object that does not have its shape is `Unreadable`, and only that object: a watch must not stop because of what one
tenant has stored. A timestamp in a `status` that cannot be read counts as absent, because all of them are optional and
informative; timestamps in `metadata` decide about deletions and never do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar, Union, cast

import msgspec

from stellwerk.kube.types import lenient, sizes
from stellwerk.kube.types.depth import CUT, LEVELS, TOO_DEEP, is_deeper, may_be_deeper, shallow
from stellwerk.kube.types.errors import Status
from stellwerk.kube.types.escapes import MARK, NO_TEXT, marked
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, ObjectRef, Resource
from stellwerk.kube.types.object_meta import LAST_APPLIED, LONGEST_NAME, ListMeta, ObjectMeta, OwnerReference, Record

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


def owner_reference(owner: Kind) -> OwnerReference:
    """The reference of a controller: the garbage collector deletes what has it with `owner`."""
    return OwnerReference(
        api_version=owner.resource.api_version,
        kind=owner.resource.kind,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


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
        """The kind that the object names; empty where it names none."""
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


F = TypeVar("F")
T = TypeVar("T", bound=HasMetadata)
K = TypeVar("K", bound=Kind)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An object that exists and cannot be decoded, or is too large for a cache, identified by as much of its metadata
    as can be read, or kept."""

    resource: Resource
    metadata: ObjectMeta
    why: str
    """The field and the cause: `spec.lit: expected bool, got str`."""
    fix: str = "correct the field"
    """What its owner can do."""

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return ObjectKey(self.metadata.namespace, self.metadata.name)

    @property
    def ref(self) -> ObjectRef:
        """Kind, namespace and name, for messages."""
        return ObjectRef(self.resource.gvk, self.key)

    def __str__(self) -> str:
        return f"{self.ref} cannot be read: {self.why}"


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """The answer to a list: the objects, and the resourceVersion from which a watch may go on."""

    items: list[T]
    resource_version: str
    continue_token: str = ""
    unreadable: tuple[Unreadable, ...] = ()


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
        """One object from its JSON. Raises one of `UNREADABLE` where the JSON is not of the shape."""
        _check_size(data)
        if issubclass(self.shape, Unstructured):
            return cast(T, _bounded(trimmed(_json.decode(data)), data))
        try:
            return object_decoder(self.shape).decode(data)
        except msgspec.ValidationError:
            if not issubclass(self.shape, Kind):
                raise
            return lenient.decode(data, self.shape)

    def decode_list(self, data: bytes) -> Listing[T]:
        """One page of a list from its JSON. Raises one of `UNREADABLE` where any of it cannot be read."""
        page = self.undecoded_list(data)
        return page.listing([self.decode_item(item) for item in page.items or []])

    def undecoded_list(self, data: bytes) -> UndecodedPage:
        """One page of a list with items for `decode_item`. Raises one of `UNREADABLE` where it is no list."""
        return _undecoded_page.decode(data)

    def decode_each(self, data: bytes) -> Listing[T]:
        """As `decode_list`, item by item: what cannot be read is `unreadable`. Slow; call it in a thread.

        Raises one of `UNREADABLE` where the page is no list, or an item has no metadata that identify it.
        """
        page = _patiently(self.undecoded_list, data, LEVELS + 2)
        found = [self._each(item) for item in page.items or []]
        items = [item for item in found if not isinstance(item, Unreadable)]
        unreadable = tuple(item for item in found if isinstance(item, Unreadable))
        return page.listing(items, unreadable)

    def decode_event(self, line: bytes) -> tuple[str, HasMetadata | Status]:
        """One line of a watch: what happened, and to what. Raises one of `UNREADABLE`.

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

    def decode_odd_event(self, line: bytes) -> tuple[str, HasMetadata | Status]:
        """As `decode_event`; an object that cannot be read is `Unreadable`. Slow; call it in a thread.

        Raises one of `UNREADABLE` where the line is no event, or its object has no metadata that identify it.
        """
        event = _patiently(_event.decode, line, LEVELS + 1)
        if event.type in ("ERROR", "BOOKMARK"):
            return self.decode_event(line)
        return event.type, self._each(event.object)

    def unreadable(self, data: bytes, error: Exception) -> Unreadable | None:
        """What `data` is about, where it is one object that cannot be decoded. Slow; call it in a thread."""
        try:
            return Unreadable(self.resource, _identity(shallow(marked(data), LEVELS)), reading_failure(error))
        except UNREADABLE:
            return None

    def _each(self, item: msgspec.Raw) -> T | Unreadable:
        try:
            if CUT in bytes(item) and not self.metadata_only:  # deep metadata are managedFields, which are dropped
                raise msgspec.ValidationError(TOO_DEEP)
            if MARK in bytes(item):
                raise msgspec.ValidationError(NO_TEXT)
            return self.decode_item(item)
        except UNREADABLE as error:
            return Unreadable(self.resource, _identity(item), reading_failure(error))

    def decode_item(self, item: msgspec.Raw) -> T:
        """An item of a list; those of free-form lists do not name their kind. Raises one of `UNREADABLE`."""
        obj = self.decode(item)
        if isinstance(obj, Unstructured):
            for word, value in (("apiVersion", self.resource.api_version), ("kind", self.resource.kind)):
                obj.body.setdefault(word, value)
        return obj


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


# Building a decoder costs a hundred times a small decode. They are kept by shape and not in the View, of which callers
# make a new one for every call.
@cache
def _decoder_of(kind: object) -> msgspec.json.Decoder[object]:
    return msgspec.json.Decoder(cast("type[object]", kind))


def object_decoder(shape: type[T]) -> msgspec.json.Decoder[T]:
    """The decoder of one object of a shape."""
    return cast("msgspec.json.Decoder[T]", _decoder_of(shape))


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class UndecodedPage(msgspec.Struct):
    """One page of a list, of which only the frame is decoded."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[msgspec.Raw] | None = None

    def listing(self, items: list[T], unreadable: tuple[Unreadable, ...] = ()) -> Listing[T]:
        """The page with these items."""
        return Listing(items, self.metadata.resource_version, self.metadata.continue_, unreadable)


_Word = Annotated[str, msgspec.Meta(max_length=LONGEST_NAME)]


class _Identifying(Record, frozen=True, kw_only=True):
    """The metadata that identifies an object and its version."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_NAME)]
    namespace: _Word = ""
    uid: _Word = ""
    resource_version: _Word = ""


class _Identified(msgspec.Struct):
    metadata: _Identifying


_json: msgspec.json.Decoder[JsonObject] = msgspec.json.Decoder(dict[str, Any])
_undecoded_page = msgspec.json.Decoder(UndecodedPage)
_event = msgspec.json.Decoder(_Event)
_status = msgspec.json.Decoder(Status)
_identified = msgspec.json.Decoder(_Identified)
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises for bytes that are not what they should be: not JSON, not UTF-8, nested without end."""

_LONGEST_CAUSE = 300

encode_json = msgspec.json.Encoder().encode


def decode_json(data: bytes | str) -> JsonObject:
    """A JSON object from its text. Raises `msgspec.DecodeError` where it is not one."""
    return _json.decode(data)


def reading_failure(error: Exception) -> str:
    """The field and the cause for which an object is `UNREADABLE`, as `<field>: <cause>`."""
    if isinstance(error, RecursionError):
        return TOO_DEEP
    cause, _, path = str(error).rpartition(" - at `$")
    if not cause:
        cause, path = path, ""
    field = path.removesuffix("`").removeprefix(".")
    text = f"{field}: {cause[:1].lower()}{cause[1:]}" if field else cause
    return text.replace("`", "")[:_LONGEST_CAUSE]


def _patiently(decode: Callable[[bytes], F], text: bytes, levels: int) -> F:
    """What a text comes to, without what only some of its objects hold: deep values, and escapes of no character."""
    try:
        return decode(text)
    except UNREADABLE:
        text = marked(text)
    try:
        return decode(text)
    except RecursionError:
        return decode(shallow(text, levels))


def _identity(item: bytes | msgspec.Raw) -> ObjectMeta:
    """The metadata of an object that cannot be read, as far as they can be. Raises one of `UNREADABLE`."""
    try:
        metadata = object_decoder(PartialObjectMetadata).decode(item).metadata
        if metadata.name:
            return metadata
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    found = _identified.decode(item).metadata
    return ObjectMeta(
        name=found.name, namespace=found.namespace, uid=found.uid, resource_version=found.resource_version
    )


LARGEST_OBJECT_BYTES = 4 << 20
"""etcd stores objects of up to 1.5 MiB; what JSON escapes in them takes more room."""
MOST_CONTAINERS = 100_000
"""Lists and objects in one object. A few more make the decoder, which the event loop waits for, take long."""
_SMALL_BYTES = 64 << 10


def _check_size(data: bytes | msgspec.Raw) -> None:
    """Raises `msgspec.ValidationError` for an object that would take long to decode."""
    size = memoryview(data).nbytes
    if size <= _SMALL_BYTES:
        return
    if size > LARGEST_OBJECT_BYTES:
        raise msgspec.ValidationError(f"larger than {LARGEST_OBJECT_BYTES >> 20} MiB")
    if sizes.has_more_containers(bytes(data), MOST_CONTAINERS):
        raise msgspec.ValidationError(f"holds more than {MOST_CONTAINERS} lists and objects")


def _bounded(obj: Unstructured, text: bytes | msgspec.Raw) -> Unstructured:
    """The object itself. Raises `msgspec.ValidationError` where it is nested too deep."""
    if may_be_deeper(text) and is_deeper(obj.body):
        raise msgspec.ValidationError(TOO_DEEP)
    return obj


def to_json_object(value: msgspec.Struct) -> JsonObject:
    """A model as a JSON object, without its default values; a Kind also gets its apiVersion and kind."""
    body = cast(JsonObject, msgspec.to_builtins(value))
    if isinstance(value, Kind):
        return {"apiVersion": value.resource.api_version, "kind": value.resource.kind, **body}
    return body


def plain_json(value: msgspec.Struct) -> JsonObject:
    """A model as a JSON object in the order of its fields, without its default values; keys of mappings are sorted."""
    return decode_json(msgspec.json.encode(value, order="deterministic"))


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
