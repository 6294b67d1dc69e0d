"""Documents into the objects we want in the cluster.

Everything that can be known before the first write is checked here, all of it at once: a set is sent whole or not at
all, and its author wants to see every mistake in one go.

What the server keeps for itself (status, uid, managedFields, ...) is taken out, so that manifests saved from a cluster
can be applied, and so that the digest changes only with what we ask for.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b

import msgspec

from stellwerk.apply.errors import InvalidSet, Problem
from stellwerk.apply.objects import json_edit, name_validation
from stellwerk.apply.objects.manifests import Document as Document
from stellwerk.apply.objects.manifests import Origin as Origin
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, ObjectRef, Resource
from stellwerk.kube.types.model import JsonObject, JsonValue, dig

SERVER_OWNED = (
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
)
"""The keys of metadata that only the API server writes (API conventions, metadata)."""

HOLDS = ("finalizers", "ownerReferences")
"""The keys of metadata that decide how long an object exists; every client may add to them."""

MAX_OBJECTS = 5_000

_encode = msgspec.json.Encoder(order="deterministic").encode


def holds_secrets(resource: Resource) -> bool:
    """Whether objects of a resource have values that must not be shown or kept."""
    return resource.kind == "Secret" and resource.group == ""


@dataclass(frozen=True, slots=True)
class Address:
    """One object of a cluster: the resource it is served under, and its key."""

    resource: Resource
    key: ObjectKey

    @property
    def ref(self) -> ObjectRef:
        """Kind, namespace and name, for messages."""
        return ObjectRef(self.resource.gvk, self.key)

    @property
    def is_secret(self) -> bool:
        """Whether the object's values must not be shown or kept."""
        return holds_secrets(self.resource)

    def __str__(self) -> str:
        return str(self.ref)


@dataclass(frozen=True, repr=False)
class Desired:
    """One object as we want it. Its text forms carry its name and origin, never its content."""

    address: Address
    body: JsonObject
    """Normalised; shared, so treat it as read-only."""
    origin: Origin = field(default_factory=Origin)

    @classmethod
    def named(
        cls, resource: Resource, key: ObjectKey, metadata: JsonObject | None = None, **content: JsonValue
    ) -> Desired:
        """An object with this name. `metadata` is the rest of its metadata, `content` its other fields."""
        name: JsonObject = {"name": key.name, **({"namespace": key.namespace} if key.namespace else {})}
        body: JsonObject = {"apiVersion": resource.api_version, "kind": resource.kind}
        return cls(Address(resource, key), {**body, "metadata": name | (metadata or {}), **content})

    @property
    def resource(self) -> Resource:
        """Where the object is served."""
        return self.address.resource

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return self.address.key

    @property
    def ref(self) -> ObjectRef:
        """Kind, namespace and name, for messages."""
        return self.address.ref

    @cached_property
    def digest(self) -> str:
        """A fingerprint of the content, the same for the same content whatever the order of its keys."""
        return digest_of(self.body)

    def __repr__(self) -> str:
        return f"Desired({self.address}, {str(self.origin)!r})"


def digest_of(body: JsonValue) -> str:
    """A fingerprint of a JSON value: 32 hexadecimal digits. It is for comparing, not for showing: short secrets can be
    guessed from it."""
    return blake2b(_encode(body), digest_size=16).hexdigest()


def kinds_of(documents: Iterable[Document]) -> tuple[GroupVersionKind, ...]:
    """The kinds that documents name, each once, in order; documents that name none are left out."""
    found = dict.fromkeys(gvk for document in documents if (gvk := _gvk(document.body)) is not None)
    return tuple(found)


def defined_by(documents: Iterable[Document]) -> dict[GroupVersionKind, Resource]:
    """The resources that CustomResourceDefinitions among the documents will make the server serve."""
    resources: dict[GroupVersionKind, Resource] = {}
    for document in documents:
        if document.body.get("kind") == "CustomResourceDefinition":
            resources.update((resource.gvk, resource) for resource in _served_by(document.body))
    return resources


def desired_set(
    documents: Sequence[Document],
    resource_of: Callable[[GroupVersionKind], Resource | None] | Mapping[GroupVersionKind, Resource],
    *,
    namespace: str = "",
) -> tuple[Desired, ...]:
    """The objects that documents ask for, normalised, in the given order.

    `resource_of` is what discovery knows; it answers None for a kind that the server does not serve. Kinds defined by a
    CustomResourceDefinition among the documents are known without it. Namespaced objects without a namespace go to
    `namespace`.

    Raises `InvalidSet` with every problem found.
    """
    if len(documents) > MAX_OBJECTS:
        raise InvalidSet([Problem("the set", f"{len(documents)} objects are more than {MAX_OBJECTS}")])
    look_up = resource_of.get if isinstance(resource_of, Mapping) else resource_of
    defined = defined_by(documents)
    problems: list[Problem] = []
    wanted: dict[Address, Desired] = {}
    for document in documents:
        one = _checked(document, lambda gvk: defined.get(gvk) or look_up(gvk), namespace)
        if not isinstance(one, Desired):
            problems.extend(one)
        elif one.address in wanted:
            places = f"{_position(wanted[one.address].origin)} and {_position(one.origin)}"
            problems.append(Problem(str(one.ref), f"duplicate object: it appears twice, in {places}"))
        else:
            wanted[one.address] = one
    if problems:
        raise InvalidSet(problems)
    return tuple(wanted.values())


def _checked(
    document: Document, resource_of: Callable[[GroupVersionKind], Resource | None], namespace: str
) -> Desired | list[Problem]:
    """The object a document asks for, or why it must not be sent."""
    if problems := [Problem(_what(document), why) for why in _complaints(document.body)]:
        return problems
    gvk = _gvk(document.body)
    assert gvk is not None  # _complaints has seen to it
    resource = resource_of(gvk)
    if resource is None:
        return [Problem(_what(document), f"the API server serves no {gvk}", unserved=gvk)]
    asked = str(dig(document.body, "metadata", "namespace") or namespace)
    key = resource.key(asked, str(dig(document.body, "metadata", "name")))
    if resource.namespaced and not key.namespace:
        return [Problem(_what(document), "has no namespace and there is no default one")]
    if resource.namespaced and (why := name_validation.of_namespace(key.namespace)):
        return [Problem(_what(document), why)]
    body = json_edit.with_namespace(_normalised(document.body), key.namespace)
    return Desired(Address(resource, key), body, document.origin)


def _normalised(body: JsonObject) -> JsonObject:
    metadata = body.get("metadata")
    assert isinstance(metadata, dict)  # _complaints has seen to it
    kept: JsonObject = {key: value for key, value in metadata.items() if key not in SERVER_OWNED and value is not None}
    lean: JsonObject = {**json_edit.without(body, "status"), "metadata": kept}
    if is_aggregated(lean):
        return json_edit.without(lean, "rules")
    return _folded(lean) if lean["kind"] == "Secret" and lean["apiVersion"] == "v1" else lean


def is_aggregated(body: JsonObject) -> bool:
    """Whether the rules of a ClusterRole belong to the control plane, which replaces what a manifest has there.

    A write of them takes the rights away from every subject of the role until the control plane writes them again.
    """
    is_role = body.get("kind") == "ClusterRole" and str(body.get("apiVersion")).startswith("rbac.authorization.k8s.io/")
    return is_role and body.get("aggregationRule") is not None


def _folded(secret: JsonObject) -> JsonObject:
    """A Secret with `stringData` moved into `data`, as the server would do on a write.

    Applied as it is, a key taken out of `stringData` later would stay in `data`: the server copies it there in no
    manager's name.
    """
    texts = secret.get("stringData")
    if not isinstance(texts, dict):
        return secret
    encoded: JsonObject = {
        key: base64.b64encode(value.encode()).decode() if isinstance(value, str) else value
        for key, value in texts.items()
    }
    return json_edit.merged(json_edit.without(secret, "stringData"), encoded, "data")


# ---- what must not be sent


def _complaints(body: JsonObject) -> Iterable[str]:
    for word in ("apiVersion", "kind"):
        if not isinstance(body.get(word), str) or not body[word]:
            yield f"has no {word}"
    metadata = body.get("metadata")
    if not isinstance(metadata, dict):
        yield "has no metadata"
        return
    if metadata.get("generateName"):
        yield "uses metadata.generateName: an object without a fixed name would be created again in every pass"
    elif not isinstance(metadata.get("name"), str) or not metadata["name"]:
        yield "has no metadata.name"
    if not isinstance(metadata.get("namespace"), str | None):
        yield "metadata.namespace is not text: put the value in quotes"
    for words in ("labels", "annotations"):
        yield from _non_strings(metadata.get(words), words)
    yield from name_validation.complaints(str(body.get("apiVersion")), metadata)


def _non_strings(values: JsonValue, words: str) -> Iterable[str]:
    if values is None:
        return
    if not isinstance(values, dict):
        yield f"metadata.{words} is not a mapping"
        return
    for key, value in values.items():
        if not isinstance(value, str):
            yield f"metadata.{words}[{key!r}] is not text: put the value in quotes"


def _gvk(body: JsonObject) -> GroupVersionKind | None:
    api_version, kind = body.get("apiVersion"), body.get("kind")
    if isinstance(api_version, str) and isinstance(kind, str) and api_version and kind:
        return GroupVersionKind.parse(api_version, kind)
    return None


def _what(document: Document) -> str:
    kind, name = document.body.get("kind"), dig(document.body, "metadata", "name")
    named = f"{kind} {name}" if isinstance(kind, str) and isinstance(name, str) and kind and name else "object"
    return f"{named} ({_position(document.origin)})"


def _position(origin: Origin) -> str:
    return f"{origin}, line {origin.line}" if origin.line else str(origin)


def _served_by(definition: JsonObject) -> Iterable[Resource]:
    spec = definition.get("spec")
    names, versions = dig(spec, "names"), dig(spec, "versions")
    if not isinstance(names, dict) or not isinstance(versions, list):
        return
    for version in versions:
        name = dig(version, "name")
        if isinstance(name, str) and dig(version, "served") is not False:
            yield Resource(
                group=str(dig(spec, "group")),
                version=name,
                kind=str(names.get("kind")),
                plural=str(names.get("plural")),
                namespaced=dig(spec, "scope") == "Namespaced",
            )
