"""What a pass decides, as a value: the status to show, what to write, and what to wait for.

`decide(object, view) -> Step`. The status of a step is laid over the object, and the answers to its writes over the
view, before the next step of the pass is decided; a pass ends with the first step that changes nothing. So `decide`
must not depend on whether it has just written: an Event belongs to the step that changes something, and the next step
sees the change.

A write is a value with two methods: `perform` sends it to the API server, `rehearse` lays over the view what the API
server would answer. Other rooms add writes of their own, such as one that applies a set of objects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Generic, NoReturn, Protocol, TypeAlias, TypeVar, cast

import msgspec

from stellwerk.kube.client import conditional
from stellwerk.kube.client.client import Client, Deletion, Propagation
from stellwerk.kube.client.conditional import Left, NotAsSeen, Taken, Written
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.errors import REFUSED, NotFound, StatusError
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import HasMetadata, JsonObject, JsonValue, Kind, Unstructured, dig, metadata_of
from stellwerk.kube.types.object_meta import Record, kubernetes_time
from stellwerk.runtime.cache.remote_clusters import Kubeconfig
from stellwerk.runtime.clock import Clock
from stellwerk.runtime.control import finalizer, secrecy, status_writer
from stellwerk.runtime.reading.questions import Collection
from stellwerk.runtime.reading.view import Overlay
from stellwerk.runtime.reconciler import Notice, Retry

S = TypeVar("S", bound=Record)
T = TypeVar("T", bound=HasMetadata)
K = TypeVar("K", bound=Kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What a user should read about: the condition shows the message, and the Event has `event_reason`."""

    message: str
    event_reason: str = ""
    action: str = "Reconcile"
    retry: Retry = Retry.BACKOFF
    status: Record | None = None
    """The status that ends the work with it; None: what the kind makes of a failure, which may pass."""


Refusal: TypeAlias = Callable[[str, StatusError | None], Failure]
"""What it means if a write cannot be done. It is given a sentence, and the answer of an API server that refused."""


class Again(Exception):
    """A write met another state than the one that was seen. The overlay shows it now, so the pass decides again."""


class Gone(Exception):
    """The object of the pass is gone, or another one has its name: the pass ends without a word."""


class Released(Exception):
    """The finalizer of the object of the pass is removed, which ends the pass."""


class Place(Protocol):
    """What the executor does for a write to one cluster."""

    @property
    def client(self) -> Client:
        """The API server, fenced by leadership."""
        ...

    def learn(self, collection: Collection[T], written: T) -> None:
        """Note the answer to a write: for the next step, and for the next pass, which waits until caches show it."""
        ...

    def see(self, collection: Collection[T], key: ObjectKey, found: T | None) -> None:
        """Note an object, or that there is none, which the caches do not show yet. Raises Gone."""
        ...


class Hands(Place, Protocol):
    """What the executor does for a write. As a place it is the cluster of the operator."""

    def at(self, cluster: Kubeconfig | None) -> Place:
        """Another cluster that the pass has asked about; None: that of the operator. Raises Again: it is closed."""
        ...

    @property
    def clock(self) -> Clock:
        """The clock of the process."""
        ...

    @property
    def subject(self) -> Kind:
        """The object of the pass."""
        ...

    def fail(self, failure: Failure) -> NoReturn:
        """End the pass with a failure."""
        ...


BEHIND = "an object was created just before, and the cache does not show it"
CONFLICT = "another client changed the object during a pass"
"""Occasions of requests."""


class Write(Protocol):
    """An effect as a value. Two writes that would do the same are equal."""

    verbs: ClassVar[Mapping[str, str]]
    """The rights that it needs on its collection, each with its occasion; an empty one: always."""

    @property
    def about(self) -> str:
        """The object, for messages."""
        ...

    async def perform(self, hands: Hands) -> None:
        """Do it. Raises Again, Gone, Released, ApiError, and what `hands.fail` raises. Safe to repeat."""
        ...

    def rehearse(self, overlay: Overlay, now: datetime) -> None:
        """Put over the view what the API server would answer. Raises Released."""
        ...


def _key_in(body: JsonObject) -> ObjectKey:
    metadata = cast("JsonObject", body["metadata"])
    return ObjectKey(str(metadata.get("namespace", "")), str(metadata["name"]))


@dataclass(frozen=True, slots=True)
class Create(Generic[T]):
    """A new object. If there is one of its name, that is laid over the view, and the pass decides again."""

    verbs: ClassVar[Mapping[str, str]] = {"create": "", "get": BEHIND}

    collection: Collection[T]
    body: JsonObject
    """The object with apiVersion, kind, and name and namespace in its metadata."""
    refused: Refusal = field(compare=False)
    cluster: Kubeconfig | None = None
    """Where; None: in the cluster of the operator."""
    field_manager: str = ""
    """Empty: that of the operator."""

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return _key_in(self.body)

    @property
    def about(self) -> str:
        """The object, for messages."""
        return f"{self.collection.resource.kind} {self.key}"

    async def perform(self, hands: Hands) -> None:
        """As `Write.perform`."""
        collection, place = self.collection, hands.at(self.cluster)
        client = place.client.with_field_manager(self.field_manager) if self.field_manager else place.client
        try:
            # Whether an object of its name is ours is for the next decision to find out.
            made = await conditional.ensure(client, collection.target, self.body, lambda _: False)
        except REFUSED as error:
            hands.fail(self.refused(str(error), error))
        if isinstance(made, Taken):
            place.see(collection, self.key, made.obj)
            raise Again
        place.learn(collection, made.obj)

    def rehearse(self, overlay: Overlay, now: datetime) -> None:
        """As `Write.rehearse`."""
        overlay.on(self.cluster).put(self.collection, self.collection.shaped(self.body))


@dataclass(frozen=True, slots=True)
class Apply(Generic[T]):
    """Fields that an object should have, also if other clients set them: forced server-side apply (KEP-555).

    `decide` compares; a step applies only what differs.
    """

    verbs: ClassVar[Mapping[str, str]] = {"create": "", "patch": ""}

    collection: Collection[T]
    body: JsonObject
    """The fields, with apiVersion, kind, and name and namespace in the metadata."""
    field_manager: str
    refused: Refusal = field(compare=False)
    seen: T | None = field(default=None, compare=False)
    """The object as it was seen; None: there was none."""
    cluster: Kubeconfig | None = None
    """Where; None: in the cluster of the operator."""
    subresource: str = ""
    """Such as `status`, of an object that has another owner; empty: the object itself."""

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return _key_in(self.body)

    @property
    def about(self) -> str:
        """The object, for messages."""
        return f"{self.collection.resource.kind} {self.key}"

    async def perform(self, hands: Hands) -> None:
        """As `Write.perform`."""
        collection, place = self.collection, hands.at(self.cluster)
        try:
            made = await place.client.apply(
                collection.target, self.body, field_manager=self.field_manager, subresource=self.subresource
            )
        except REFUSED as error:
            hands.fail(self.refused(str(error), error))
        place.learn(collection, made)

    def rehearse(self, overlay: Overlay, now: datetime) -> None:
        """As `Write.rehearse`."""
        former = body_of(self.seen) if self.seen is not None else {}
        managers = cast("list[JsonValue]", dig(former, "metadata", "managedFields") or [])
        own: JsonObject = {"manager": self.field_manager, "operation": "Apply"}
        others = [each for each in managers if not isinstance(each, dict) or {**each, **own} != each]
        noted: JsonObject = {"metadata": {"managedFields": [*others, own]}}
        body = merged(merged(former, self.body), noted)
        overlay.on(self.cluster).put(self.collection, self.collection.shaped(body))


@dataclass(frozen=True, slots=True)
class Patch(Generic[T]):
    """Fields of the very object that was seen, as it was seen. If it has changed, the pass decides again."""

    verbs: ClassVar[Mapping[str, str]] = {"patch": "", "get": CONFLICT}

    collection: Collection[T]
    seen: T = field(compare=False)
    fields: JsonObject
    """A merge patch."""
    refused: Refusal = field(compare=False)
    cluster: Kubeconfig | None = None
    """Where; None: in the cluster of the operator."""

    @property
    def about(self) -> str:
        """The object, for messages."""
        return f"{self.collection.resource.kind} {self.seen.key}"

    async def perform(self, hands: Hands) -> None:
        """As `Write.perform`."""
        collection, patch, place = self.collection, MergePatch(self.fields), hands.at(self.cluster)
        version = self.seen.metadata.resource_version
        try:
            outcome = await conditional.change(
                place.client,
                collection.target,
                self.seen,
                lambda current: patch if current.metadata.resource_version == version else None,
                field_validation="Ignore",
            )
        except REFUSED as error:
            hands.fail(self.refused(str(error), error))
        if isinstance(outcome, Written):
            place.learn(collection, outcome.obj)
            return
        place.see(collection, self.seen.key, outcome.obj if isinstance(outcome, Left) else None)
        raise Again

    def rehearse(self, overlay: Overlay, now: datetime) -> None:
        """As `Write.rehearse`."""
        changed = self.collection.shaped(merged(body_of(self.seen), self.fields))
        overlay.on(self.cluster).put(self.collection, changed)


@dataclass(frozen=True, slots=True)
class Show(Generic[K]):
    """The status of another object than that of the pass, in the place of the one that was seen.

    If the object has changed, the pass decides again.
    """

    verbs: ClassVar[Mapping[str, str]] = {"get": CONFLICT}
    """And `update` on the subresource `status`."""

    collection: Collection[K]
    seen: K = field(compare=False)
    status: Record
    refused: Refusal = field(compare=False)
    field_manager: str | None = None
    """None: that of the client."""
    cluster: Kubeconfig | None = None
    """Where; None: in the cluster of the operator."""

    @property
    def about(self) -> str:
        """The object, for messages."""
        return f"the status of {self.collection.resource.kind} {self.seen.key}"

    async def perform(self, hands: Hands) -> None:
        """As `Write.perform`."""
        collection, key, place = self.collection, self.seen.key, hands.at(self.cluster)
        status = await secrecy.masked_status(self.status, status_writer.status_of(self.seen))
        body = status_writer.body_for(self.seen, status, self.seen.metadata.resource_version)
        try:
            written = await conditional.update_if_unchanged(
                place.client,
                collection.target,
                body,
                subresource="status",
                field_validation="Ignore",
                field_manager=self.field_manager,
            )
        except REFUSED as error:
            hands.fail(self.refused(str(error), error))
        except NotFound:
            place.see(collection, key, None)
            raise Again from None
        if isinstance(written, NotAsSeen):
            place.see(collection, key, await place.client.find(collection.target, key.name, key.namespace))
            raise Again
        place.learn(collection, written)

    def rehearse(self, overlay: Overlay, now: datetime) -> None:
        """As `Write.rehearse`."""
        shown = msgspec.structs.replace(self.seen, status=self.status)
        overlay.on(self.cluster).put(self.collection, shown)


@dataclass(frozen=True, slots=True)
class Delete(Generic[T]):
    """The end of the very object that was seen; another one under its name is left alone."""

    verbs: ClassVar[Mapping[str, str]] = {"delete": ""}

    collection: Collection[T]
    seen: T = field(compare=False)
    refused: Refusal = field(compare=False)
    why: str = field(default="", compare=False)
    """For `diff`."""
    propagation: Propagation | None = None
    cluster: Kubeconfig | None = None
    """Where; None: in the cluster of the operator."""
    uid: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "uid", self.seen.metadata.uid)

    @property
    def about(self) -> str:
        """The object, for messages."""
        return f"{self.collection.resource.kind} {self.seen.key}"

    async def perform(self, hands: Hands) -> None:
        """As `Write.perform`."""
        collection, metadata, place = self.collection, self.seen.metadata, hands.at(self.cluster)
        target = metadata_of(collection.resource)
        try:
            deletion = await place.client.delete(
                target, metadata.name, metadata.namespace, uid=metadata.uid, propagation=self.propagation
            )
        except REFUSED as error:
            hands.fail(self.refused(str(error), error))
        if deletion is Deletion.TERMINATING:
            place.see(collection, self.seen.key, _leaving(self.seen, hands.clock.now()))
        else:
            place.see(collection, self.seen.key, None)

    def rehearse(self, overlay: Overlay, now: datetime) -> None:
        """As `Write.rehearse`."""
        overlay.on(self.cluster).put(self.collection, _leaving(self.seen, now))


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Our finalizer on the object of the pass. The pass ends with it."""

    verbs: ClassVar[Mapping[str, str]] = {"patch": "", "get": CONFLICT}

    name: str

    @property
    def about(self) -> str:
        """The object, for messages."""
        return f"the finalizer {self.name}"

    async def perform(self, hands: Hands) -> None:
        """As `Write.perform`."""
        await finalizer.remove(hands.client, hands.subject, self.name)
        raise Released

    def rehearse(self, overlay: Overlay, now: datetime) -> None:
        """As `Write.rehearse`."""
        raise Released


@dataclass(frozen=True, slots=True)
class Wait:
    """What an object waits for, for people and for `why`. What wakes the object are its questions.

    `on`: an object, which must be one that the step asked for; a moment; or a sentence about something that sends no
    events, with `seconds` after which the object looks again.
    """

    on: tuple[Collection[Any], ObjectKey] | datetime | str
    message: str = ""
    seconds: float = 0.0
    cluster: Kubeconfig | None = None
    """Where the object is; None: in the cluster of the operator."""

    @property
    def text(self) -> str:
        """What people read; empty: nothing."""
        return self.message or (self.on if isinstance(self.on, str) else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(Generic[S]):
    """One step of a pass."""

    status: S | None = None
    """The status from now on, if the writes succeed; None leaves it alone."""
    writes: tuple[Write, ...] = ()
    events: tuple[Notice, ...] = ()
    """Sent if the writes succeed."""
    waits: tuple[Wait, ...] = ()
    failure: Failure | None = None
    """Ends the pass, which counts as failed. The writes of the step are not performed."""
    is_independent: bool = False
    """Whether the writes are about different objects: they are performed side by side, and one that fails keeps no
    other one back."""


def merged(body: JsonObject, patch: JsonObject) -> JsonObject:
    """What a merge patch makes of an object (RFC 7396); pure."""
    result = {**body}
    for name, value in patch.items():
        former = result.get(name)
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            result[name] = merged(former if isinstance(former, dict) else {}, value)
        else:
            result[name] = value
    return result


def body_of(obj: HasMetadata) -> JsonObject:
    """The fields of an object."""
    if isinstance(obj, Unstructured):
        return {**obj.body, "metadata": cast("JsonObject", msgspec.to_builtins(obj.metadata))}
    return cast("JsonObject", msgspec.to_builtins(obj))


def _leaving(obj: T, now: datetime) -> T:
    """The object as one that is being deleted."""
    metadata = msgspec.structs.replace(obj.metadata, deletion_timestamp=kubernetes_time(now))
    if isinstance(obj, Unstructured):
        return cast("T", Unstructured(obj.body, metadata))
    return cast("T", msgspec.structs.replace(cast("Any", obj), metadata=metadata))
