"""Documents into the objects of a set, everything that can be known before the first write checked.

All problems are found at once, and nothing is written when there is one: a set is rolled out whole or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from stellwerk.apply.errors import InvalidSet, Problem
from stellwerk.apply.objects import json_edit
from stellwerk.apply.objects.desired import Address, Desired, Document, desired_set, kinds_of
from stellwerk.apply.set.model import owner as owners
from stellwerk.apply.set.model.inventory import APPLIED_ONCE, Inventory, ManagedType, ObjectIdentity
from stellwerk.apply.set.model.owner import Owner, Ownership
from stellwerk.apply.set.model.policy import Directive, InvalidDirective, Policies, ReconcilePolicy, directive
from stellwerk.kube.types.identifiers import GroupVersionKind, Resource
from stellwerk.kube.types.model import JsonObject, JsonValue, dig

CRD = ("apiextensions.k8s.io", "CustomResourceDefinition")
API_SERVICE = ("apiregistration.k8s.io", "APIService")
NAMESPACE = ("", "Namespace")
DEFINITIONS = (CRD, API_SERVICE)
_NEVER_PURGED = (NAMESPACE, *DEFINITIONS)


@dataclass(frozen=True, slots=True)
class DesiredObject:
    """One object of the set as it should be."""

    desired: Desired
    """Carries the owner's marks, and our finalizer where the kind needs it."""
    directive: Directive
    digest: str
    managed_types: tuple[ManagedType, ...] = ()
    address: Address = field(init=False)
    """Where the object is served, and its key."""
    identity: ObjectIdentity = field(init=False)
    """What makes it the same object."""

    def __post_init__(self) -> None:
        # Kept, because a pass asks for them a dozen times.
        object.__setattr__(self, "address", self.desired.address)
        object.__setattr__(self, "identity", ObjectIdentity.of(self.desired.ref))

    @property
    def is_served(self) -> bool:
        """Whether the server knows its kind already. A kind that an APIService of the set will bring has no path yet:
        the set has to be prepared again when it is served."""
        return bool(self.address.resource.plural)


def is_definition(gvk: GroupVersionKind) -> bool:
    """Whether objects of a kind bring further kinds with them."""
    return (gvk.group, gvk.kind) in DEFINITIONS


def prepared(
    documents: Sequence[Document],
    resource_of: Callable[[GroupVersionKind], Resource | None] | Mapping[GroupVersionKind, Resource],
    *,
    namespace: str,
    owner: Owner,
    policies: Policies,
    set_digest: str,
) -> tuple[DesiredObject, ...]:
    """The objects that documents ask for. Pure.

    `namespace` is where namespaced objects without one go; `set_digest` identifies everything that the set is made of.
    Kinds that an APIService of the set brings need not be served yet. Raises `InvalidSet` with every problem.
    """
    bare = [Document(owners.stripped(document.body, owner.prefix), document.origin) for document in documents]
    directives, problems = _directives(bare, owner.prefix, policies)
    try:
        found = desired_set(bare, _or_promised(bare, resource_of), namespace=namespace)
    except InvalidSet as error:
        raise InvalidSet([*error.problems, *problems]) from error
    if problems:
        raise InvalidSet(problems)
    wanted = tuple(_wanted(desired, asked, owner, set_digest) for desired, asked in zip(found, directives, strict=True))
    if twins := [*_twins(wanted)]:
        raise InvalidSet(twins)
    return wanted


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds for all objects of a set with an inventory. `namespace`: as of `prepared`."""

    namespace: str
    owner: Owner
    policies: Policies

    def desired(
        self, documents: Sequence[Document], served: Mapping[GroupVersionKind, Resource], digest: str
    ) -> tuple[DesiredObject, ...]:
        """The documents as objects that are ready to be applied. Raises InvalidSet."""
        return prepared(
            documents, served, namespace=self.namespace, owner=self.owner, policies=self.policies, set_digest=digest
        )


def promised(documents: Iterable[Document]) -> set[tuple[str, str]]:
    """The groups and versions that APIServices among the documents bring."""
    services = [document.body.get("spec") for document in documents if _kind(document.body) == API_SERVICE]
    return {(_text(dig(spec, "group")), _text(dig(spec, "version"))) for spec in services}


def remembered(
    documents: Sequence[Document], served: Mapping[GroupVersionKind, Resource], inventory: Callable[[], Inventory]
) -> dict[GroupVersionKind, Resource]:
    """What is served, and the kinds that APIServices among the documents bring and that the set had before. Pure.

    While such an APIService does not answer, only the set's own objects show whether its kinds have namespaces. With
    another scope they would be other objects: those that are there would be unwanted, and completed ones made again.
    The inventory, which may be large, is only read where such a kind is not served.
    """
    groups = promised(documents)
    unserved = [gvk for gvk in kinds_of(documents) if gvk not in served and (gvk.group, gvk.version) in groups]
    if not unserved:
        return dict(served)
    # Wanted ones last, so that they count: what is unwanted may be here under a guess that was wrong.
    entries = sorted(inventory(), key=lambda entry: entry.is_wanted)
    scopes = {(entry.gvk.group, entry.gvk.kind): bool(entry.key.namespace) for entry in entries}
    known = [gvk for gvk in unserved if (gvk.group, gvk.kind) in scopes]
    return {**served, **{gvk: _unserved(gvk, namespaced=scopes[gvk.group, gvk.kind]) for gvk in known}}


def uniform(
    desired: Iterable[Desired], owner: Ownership, asked: Directive, digest_of: Callable[[Desired], str] | None = None
) -> tuple[DesiredObject, ...]:
    """Objects that all follow one directive; annotations on them mean nothing. `digest_of` replaces our own digest."""
    return tuple(
        _stamped(one, one.body, owner, asked, digest_of(one) if digest_of is not None else one.digest)
        for one in desired
    )


def _stamped(desired: Desired, body: JsonObject, owner: Ownership, asked: Directive, digest: str) -> DesiredObject:
    body = owner.stamped(body, digest)
    return DesiredObject(Desired(desired.address, body, desired.origin), asked, digest, _brings(body))


def _twins(wanted: Sequence[DesiredObject]) -> Iterator[Problem]:
    """Objects that differ by the version of their kind alone: to the server they are one."""
    met: dict[ObjectIdentity, DesiredObject] = {}
    for obj in wanted:
        if met.setdefault(obj.identity, obj) is not obj:
            other = met[obj.identity].address.resource.api_version
            yield Problem(
                str(obj.desired.ref), f"duplicate object: as {other} and as {obj.address.resource.api_version}"
            )


def _directives(
    documents: Sequence[Document], prefix: str, policies: Policies
) -> tuple[list[Directive], list[Problem]]:
    """What the annotations of each document ask for, and what is wrong with them."""
    directives: list[Directive] = []
    problems: list[Problem] = []
    for document in documents:
        try:
            directives.append(_directive(document.body, prefix, policies))
        except InvalidDirective as error:
            kind, name = _kind(document.body)[1], _text(dig(document.body, "metadata", "name"))
            what = f"{kind} {name}".strip() or "object"
            problems.extend(Problem(what, complaint) for complaint in error.complaints)
    return directives, problems


def _directive(body: JsonObject, prefix: str, policies: Policies) -> Directive:
    asked = directive(_annotations(body), prefix, policies)
    if asked.purge_order is not None and _kind(body) in _NEVER_PURGED:
        raise InvalidDirective([f"annotation {prefix}/purge-order: a {body['kind']} must not be purged"])
    return asked


def _kind(body: JsonObject) -> tuple[str, str]:
    return (_text(body.get("apiVersion")).rpartition("/")[0], _text(body.get("kind")))


def _or_promised(
    documents: Sequence[Document],
    resource_of: Callable[[GroupVersionKind], Resource | None] | Mapping[GroupVersionKind, Resource],
) -> Callable[[GroupVersionKind], Resource | None]:
    """What is served, and what APIServices among the documents will bring: of that neither path nor scope is known.

    Such a kind is taken to be namespaced, as nearly all are, unless the set had it before (`remembered`). If it is not,
    its object has another key when it is served, and the entry under the wrong one is dropped (`plan_prune`).
    """
    look_up = resource_of.get if isinstance(resource_of, Mapping) else resource_of
    groups = promised(documents)
    if not groups:
        return look_up

    def resource(gvk: GroupVersionKind) -> Resource | None:
        is_promised = (gvk.group, gvk.version) in groups
        return look_up(gvk) or (_unserved(gvk, namespaced=True) if is_promised else None)

    return resource


def _unserved(gvk: GroupVersionKind, *, namespaced: bool) -> Resource:
    return Resource(*gvk, plural="", namespaced=namespaced)


def _wanted(desired: Desired, asked: Directive, owner: Owner, set_digest: str) -> DesiredObject:
    is_held = is_definition(desired.resource.gvk)
    body = _held(desired.body, owner.prefix) if is_held else desired.body
    return _stamped(desired, body, owner, asked, _digest(desired, asked, set_digest))


def _digest(desired: Desired, asked: Directive, set_digest: str) -> str:
    match asked.reconcile:
        case ReconcilePolicy.ONCE:
            return APPLIED_ONCE
        case ReconcilePolicy.ON_OBJECT_OR_COMPONENT_CHANGE:
            return f"{desired.digest}@{set_digest}"
        case ReconcilePolicy.ON_OBJECT_CHANGE:
            return desired.digest


def _held(body: JsonObject, finalizer: str) -> JsonObject:
    """With our finalizer, which keeps a definition until no instances are left."""
    found = dig(body, "metadata", "finalizers")
    present = found if isinstance(found, list) else []
    if finalizer in present:
        return body
    return json_edit.with_value(body, [*present, finalizer], "metadata", "finalizers")


def _brings(body: JsonObject) -> tuple[ManagedType, ...]:
    kind, spec = _kind(body), body.get("spec")
    if kind == CRD:
        return (ManagedType(_text(dig(spec, "group")), "*", _text(dig(spec, "names", "kind"))),)
    if kind == API_SERVICE:
        return (ManagedType(_text(dig(spec, "group")), _text(dig(spec, "version")), "*"),)
    return ()


def _annotations(body: JsonObject) -> Mapping[str, str]:
    found = dig(body, "metadata", "annotations")
    return {key: value for key, value in found.items() if isinstance(value, str)} if isinstance(found, dict) else {}


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""
