"""Documents into the objects of a set, everything that can be known before the first write checked.

All problems are found at once, and nothing is written when there is one: a set is rolled out whole or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from stellwerk.apply import edit
from stellwerk.apply.desired import Address, Desired, Document, desired_set
from stellwerk.apply.errors import InvalidSet, Problem
from stellwerk.apply.rollout import owner as owners
from stellwerk.apply.rollout.inventory import APPLIED_ONCE, Identity, ManagedType
from stellwerk.apply.rollout.owner import Owner
from stellwerk.apply.rollout.policy import Directive, InvalidDirective, Policies, ReconcilePolicy, directive
from stellwerk.kube.model import JsonObject, JsonValue, dig
from stellwerk.kube.names import GroupVersionKind, Resource

CRD = ("apiextensions.k8s.io", "CustomResourceDefinition")
API_SERVICE = ("apiregistration.k8s.io", "APIService")
NAMESPACE = ("", "Namespace")
_NEVER_PURGED = (NAMESPACE, CRD, API_SERVICE)


@dataclass(frozen=True, slots=True)
class Wanted:
    """One object of the set as it shall be."""

    desired: Desired
    """Carries the owner's marks, and our finalizer where the kind needs it."""
    directive: Directive
    digest: str
    managed_types: tuple[ManagedType, ...] = ()

    @property
    def address(self) -> Address:
        """Where the object is served, and its key."""
        return self.desired.address

    @property
    def identity(self) -> Identity:
        """What makes it the same object."""
        return Identity.of(self.desired.ref)


def is_definition(gvk: GroupVersionKind) -> bool:
    """Whether objects of a kind bring further kinds with them."""
    return (gvk.group, gvk.kind) in (CRD, API_SERVICE)


def prepared(
    documents: Sequence[Document],
    resource_of: Callable[[GroupVersionKind], Resource | None] | Mapping[GroupVersionKind, Resource],
    *,
    namespace: str,
    owner: Owner,
    policies: Policies,
    set_digest: str,
) -> tuple[Wanted, ...]:
    """The objects that documents ask for. Pure.

    `namespace` is where namespaced objects without one go; `set_digest` stands for everything that the set is made of.
    Raises `InvalidSet` with every problem.
    """
    bare = [Document(owners.stripped(one.body, owner.prefix), one.origin) for one in documents]
    problems: list[Problem] = []
    wanted: list[Wanted] = []
    for desired in desired_set(bare, resource_of, namespace=namespace):
        try:
            wanted.append(_wanted(desired, owner, policies, set_digest))
        except InvalidDirective as error:
            problems.extend(Problem(str(desired.ref), complaint) for complaint in error.complaints)
    if problems:
        raise InvalidSet(problems)
    return tuple(wanted)


def _wanted(desired: Desired, owner: Owner, policies: Policies, set_digest: str) -> Wanted:
    asked = directive(_annotations(desired.body), owner.prefix, policies)
    kind = (desired.resource.group, desired.resource.kind)
    if asked.purge_order is not None and kind in _NEVER_PURGED:
        raise InvalidDirective([f"annotation {owner.prefix}/purge-order: a {desired.resource.kind} must not be purged"])
    digest = _digest(desired, asked, set_digest)
    body = owner.stamped(desired.body, digest)
    if is_definition(desired.resource.gvk):
        body = _held(body, owner.prefix)
    return Wanted(Desired(desired.address, body, desired.origin), asked, digest, _brings(kind, body))


def _digest(desired: Desired, asked: Directive, set_digest: str) -> str:
    match asked.reconcile:
        case ReconcilePolicy.ONCE:
            return APPLIED_ONCE
        case ReconcilePolicy.ON_OBJECT_OR_COMPONENT_CHANGE:
            return f"{desired.digest}@{set_digest}"
        case ReconcilePolicy.ON_OBJECT_CHANGE:
            return desired.digest


def _held(body: JsonObject, finalizer: str) -> JsonObject:
    """With our finalizer, which keeps a definition until nobody's instances are left."""
    found = dig(body, "metadata", "finalizers")
    present = found if isinstance(found, list) else []
    if finalizer in present:
        return body
    return edit.with_value(body, [*present, finalizer], "metadata", "finalizers")


def _brings(kind: tuple[str, str], body: JsonObject) -> tuple[ManagedType, ...]:
    spec = body.get("spec")
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
