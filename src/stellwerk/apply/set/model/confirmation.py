"""What a process knows of an object beyond its content: the API server's answer to its last write.

An object that still is as that answer showed it needs no write, whatever defaults the API server added. Losing
confirmations costs at most one apply for each object, which changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, cast

from stellwerk.apply.fields import managed_fields
from stellwerk.apply.fields.compare import Difference, FieldComparison, compare
from stellwerk.apply.objects.desired import Desired, holds_secrets
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import PartialObjectMetadata, Unstructured, View, metadata_of, unstructured

FIGHT_SECONDS = 10.0
"""How long an object that was just restored is left to the client that changed it again (R-110)."""

Live: TypeAlias = Unstructured | PartialObjectMetadata
"""An object as a cache holds it. Of Secrets there is only the metadata."""


def live_view(resource: Resource) -> View[Live]:
    """The shape in which objects of a resource are read and held, so that no value of a Secret is."""
    return cast("View[Live]", metadata_of(resource) if holds_secrets(resource) else unstructured(resource))


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What the server answered when we last wrote an object."""

    digest: str
    """Of what we asked for (`Desired.digest`)."""
    uid: str
    resource_version: str
    owned: bool = True
    """Whether managedFields names us. It does not for an object in which we name no field but its name; then the server
    records no later writers either, and only the content shows it."""
    settled: frozenset[Difference] = frozenset()
    """What the server answered otherwise than asked: normalised values, another's mutating webhook."""
    extras: frozenset[str] = frozenset()
    """Where the object carried more than asked; kept only where it is not `owned`."""
    restored_at: float | None = None
    """When we last took back what others had changed, on the caller's clock in seconds."""
    written_at: float | None = None
    """When we wrote it, on the same clock; None where it is not needed."""
    written_as: str = ""
    """The identity whose right to the object the write has proved; empty if no proof was asked for."""
    is_interrupted: bool = False
    """Whether we have begun since to take fields over, and no answer shows that this was done to the end."""


def confirm(desired: Desired, answer: Live, field_manager: str, *, restored_at: float | None = None) -> Confirmation:
    """What to remember of the server's answer to an apply of `desired`."""
    metadata = answer.metadata
    comparison = compare(desired.body, answer.body) if isinstance(answer, Unstructured) else _NOTHING
    owned = managed_fields.applied_by(metadata.managers, field_manager)
    return Confirmation(
        digest=desired.digest,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        owned=owned,
        settled=frozenset(comparison.differences) if comparison.differences else _NO_DIFFERENCES,
        extras=frozenset(comparison.extras) if comparison.extras and not owned else _NO_EXTRAS,
        restored_at=restored_at,
    )


_NOTHING = FieldComparison((), ())
_NO_DIFFERENCES: frozenset[Difference] = frozenset()
_NO_EXTRAS: frozenset[str] = frozenset()
"""Shared: one is kept for every object, and an empty set weighs more than a small object."""
