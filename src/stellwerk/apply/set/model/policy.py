"""What an author may ask for: of a whole set, and by annotations of one object.

Words are read generously (`IfUnowned`, `ifUnowned` and `if-unowned` are one), and a word that means nothing is a
problem of the object that carries it: a typing error must not silently fall back to deleting things.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import NamedTuple, TypeVar

from stellwerk.apply.fields.managed_fields import BEFORE_FIRST_APPLY, Claims
from stellwerk.apply.readiness.readiness import HINT_SUFFIX, NO_HINTS, Hints, parse_hints
from stellwerk.kube.types import duration

REAPPLY_SECONDS = 3600.0
LOWEST_ORDER, HIGHEST_ORDER = -32768, 32767

T = TypeVar("T")


class AdoptionPolicy(Enum):
    """What happens to an object that exists and is not ours."""

    NEVER = "Never"
    IF_UNOWNED = "IfUnowned"
    ALWAYS = "Always"


class ReconcilePolicy(Enum):
    """Which change makes an object worth another write."""

    ON_OBJECT_CHANGE = "OnObjectChange"
    ON_OBJECT_OR_COMPONENT_CHANGE = "OnObjectOrComponentChange"
    ONCE = "Once"


class UpdatePolicy(Enum):
    """How an object is changed."""

    RECREATE = "Recreate"
    REPLACE = "Replace"
    SSA_MERGE = "SsaMerge"
    SSA_OVERRIDE = "SsaOverride"

    @property
    def is_apply(self) -> bool:
        """Whether the object is written by server-side apply."""
        return self in (UpdatePolicy.SSA_MERGE, UpdatePolicy.SSA_OVERRIDE)

    def claims(self, ours: str, reclaims: Claims) -> Claims:
        """Whose fields become ours: with the applies, what we wrote by other verbs; with SsaOverride, also what the
        managers of `reclaims` wrote, and what is recorded without a manager."""
        match self:
            case UpdatePolicy.SSA_OVERRIDE:
                return Claims(
                    lambda manager: manager in (ours, BEFORE_FIRST_APPLY) or reclaims.managers(manager), reclaims.holds
                )
            case UpdatePolicy.SSA_MERGE:
                return Claims(lambda manager: manager == ours)
            case _:
                return Claims(lambda manager: False)


class DeletePolicy(Enum):
    """What happens to an object that is no longer wanted: by the manifest (apply), or with the whole set (delete)."""

    DELETE = "Delete"
    ORPHAN = "Orphan"
    ORPHAN_ON_APPLY = "OrphanOnApply"
    ORPHAN_ON_DELETE = "OrphanOnDelete"

    @property
    def orphans_on_apply(self) -> bool:
        """Whether the object stays when the manifest no longer has it."""
        return self in (DeletePolicy.ORPHAN, DeletePolicy.ORPHAN_ON_APPLY)

    @property
    def orphans_on_delete(self) -> bool:
        """Whether the object stays when the whole set goes."""
        return self in (DeletePolicy.ORPHAN, DeletePolicy.ORPHAN_ON_DELETE)


class MissingNamespacesPolicy(Enum):
    """What happens where an object's namespace does not exist."""

    DO_NOT_CREATE = "DoNotCreate"
    CREATE = "Create"


class TypePattern(NamedTuple):
    """Kinds by group and kind; `*` is every one, `*.suffix` every group below a domain."""

    group: str
    kind: str

    def matches(self, group: str, kind: str) -> bool:
        """Whether a kind is meant."""
        return self.kind in ("*", kind) and self.group in _patterns_of(group)

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind


class TypePatterns:
    """Many patterns at once: the time of a question does not depend on their number, which a spec chooses."""

    def __init__(self, patterns: Iterable[TypePattern]) -> None:
        self._places: dict[TypePattern, int] = {}
        self._groups: dict[str, TypePattern] = {}
        for pattern in patterns:
            self._places.setdefault(pattern, len(self._places))
            self._groups.setdefault(pattern.group, pattern)

    def __bool__(self) -> bool:
        return bool(self._places)

    def matches(self, group: str, kind: str) -> bool:
        """Whether a kind is meant."""
        return bool(self) and any(pattern in self._places for pattern in _meaning(group, kind))

    def first(self, group: str, kind: str) -> TypePattern | None:
        """The first of the patterns that means a kind."""
        found = (pattern for pattern in _meaning(group, kind) if pattern in self._places)
        return min(found, key=self._places.__getitem__, default=None)

    def grouped(self, items: Iterable[T], kind_of: Callable[[T], tuple[str, str]]) -> list[tuple[TypePattern, list[T]]]:
        """The items whose kinds are meant, under the first pattern that means each, in the order of the patterns."""
        groups: dict[TypePattern, list[T]] = {}
        for item in items:
            if (pattern := self.first(*kind_of(item))) is not None:
                groups.setdefault(pattern, []).append(item)
        return sorted(groups.items(), key=lambda group: self._places[group[0]])

    def of_group(self, group: str) -> TypePattern | None:
        """A pattern that may mean kinds of this group; None where there is none."""
        return next((self._groups[each] for each in _patterns_of(group) if each in self._groups), None)


NO_PATTERNS = TypePatterns(())


def _meaning(group: str, kind: str) -> Iterator[TypePattern]:
    """All patterns that mean a kind."""
    return (TypePattern(of_group, of_kind) for of_group in _patterns_of(group) for of_kind in (kind, "*"))


def _patterns_of(group: str) -> list[str]:
    """All patterns that mean a group. No group has a `*`, so a pattern with one elsewhere means none."""
    ends = [place for place, character in enumerate(group) if character == "." and place]
    return [group, "*", *(f"*{group[place:]}" for place in ends)]


@dataclass(frozen=True)
class Policies:
    """The defaults for the objects of a set."""

    adoption: AdoptionPolicy = AdoptionPolicy.IF_UNOWNED
    update: UpdatePolicy = UpdatePolicy.REPLACE
    delete: DeletePolicy = DeletePolicy.DELETE
    missing_namespaces: MissingNamespacesPolicy = MissingNamespacesPolicy.CREATE
    reapply_seconds: float = REAPPLY_SECONDS
    managed_types: tuple[TypePattern, ...] = ()
    """Kinds whose instances belong to the set's own controllers."""

    @cached_property
    def type_patterns(self) -> TypePatterns:
        """`managed_types`, to be asked about many kinds."""
        return TypePatterns(self.managed_types)

    @cached_property
    def directive(self) -> Directive:
        """The defaults for an object without annotations."""
        return Directive(
            adoption=self.adoption, update=self.update, delete=self.delete, reapply_seconds=self.reapply_seconds
        )


@dataclass(frozen=True, slots=True)
class Directive:
    """What holds for one object."""

    adoption: AdoptionPolicy = AdoptionPolicy.IF_UNOWNED
    reconcile: ReconcilePolicy = ReconcilePolicy.ON_OBJECT_CHANGE
    update: UpdatePolicy = UpdatePolicy.REPLACE
    delete: DeletePolicy = DeletePolicy.DELETE
    apply_order: int = 0
    purge_order: int | None = None
    delete_order: int = 0
    reapply_seconds: float = REAPPLY_SECONDS
    hints: Hints = field(default=NO_HINTS)


class InvalidDirective(ValueError):
    """Annotations that mean nothing; one sentence each."""

    def __init__(self, complaints: list[str]) -> None:
        self.complaints = tuple(complaints)
        super().__init__("; ".join(complaints))


def directive(annotations: Mapping[str, str], prefix: str, policies: Policies) -> Directive:
    """What the annotations `<prefix>/...` of an object ask for, on top of what holds for the set.

    Raises `InvalidDirective` with every annotation that means nothing.
    """
    if not any(name.startswith(prefix) for name in annotations):
        return policies.directive
    complaints: list[str] = []

    def read(suffix: str, parse: Callable[[str], V], fallback: V) -> V:
        name = f"{prefix}/{suffix}"
        text = annotations.get(name)
        if text is None:
            return fallback
        try:
            return parse(text)
        except ValueError as error:
            complaints.append(f"annotation {name} is {text!r}: {error}")
            return fallback

    def word(suffix: str, fallback: E_, *, has_default: bool = False) -> E_:
        return read(suffix, lambda text: _word(text, fallback, has_default=has_default), fallback)

    found = Directive(
        adoption=word("adoption-policy", policies.adoption),
        reconcile=word("reconcile-policy", ReconcilePolicy.ON_OBJECT_CHANGE),
        update=word("update-policy", policies.update, has_default=True),
        delete=word("delete-policy", policies.delete, has_default=True),
        apply_order=read("apply-order", _order, 0),
        purge_order=read("purge-order", _order, None),
        delete_order=read("delete-order", _order, 0),
        reapply_seconds=read("reapply-interval", _seconds, 0.0) or policies.reapply_seconds,
        hints=read(HINT_SUFFIX, parse_hints, NO_HINTS),
    )
    if complaints:
        raise InvalidDirective(complaints)
    return found


E_ = TypeVar("E_", bound=Enum)
V = TypeVar("V")


def kebab(word: str) -> str:
    """A policy's word as annotations are compared: `IfUnowned` and `ifUnowned` become `if-unowned`."""
    return "-".join(part.lower() for part in _WORDS.findall(word))


_WORDS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])|[^A-Za-z0-9_. -]+")
"""What is neither a letter nor a separator is kept as a word of its own, so that `never!` is not read as `never`."""


def _word(text: str, fallback: E_, *, has_default: bool) -> E_:
    known = {kebab(str(word.value)): word for word in type(fallback)}
    if has_default:
        known["default"] = fallback
    if (word := kebab(text)) not in known:
        raise ValueError(f"expected one of {', '.join(known)}")
    return known[word]


def _order(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,6}", text) or not LOWEST_ORDER <= int(text) <= HIGHEST_ORDER:
        raise ValueError(f"expected a whole number from {LOWEST_ORDER} to {HIGHEST_ORDER}")
    return int(text)


def _seconds(text: str) -> float:
    seconds = duration.parse(text).total_seconds()
    if seconds < 0:
        raise ValueError("expected a duration that is not negative")
    return seconds
