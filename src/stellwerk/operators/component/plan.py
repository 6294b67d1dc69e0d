"""What a Component's status becomes, step by step (pure).

    begun       the content that is worked on; a new one starts the clock anew
    attempted   what is about to be rendered
    waiting     applied, and something is not ready
    finished    everything is applied and ready
    told        the status with what the pass has to say

Times that change by themselves are written only together with something else: a Component that is ready and is looked
at again is not written to.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import TypeVar

import msgspec

from stellwerk.apply.rollout import stored
from stellwerk.apply.rollout.inventory import Inventory
from stellwerk.apply.rollout.policy import (
    AdoptionPolicy,
    DeletePolicy,
    MissingNamespacesPolicy,
    Policies,
    TypePattern,
    UpdatePolicy,
)
from stellwerk.kube.meta import kubernetes_time
from stellwerk.operators import requests
from stellwerk.operators.component import saying as sayings
from stellwerk.operators.component.api import CONFIRMED_CLUSTER_ANNOTATION, Component
from stellwerk.operators.component.api_spec import ComponentSpec
from stellwerk.operators.component.api_status import Artifact, ComponentStatus, SourceStatus
from stellwerk.operators.component.errors import ClusterChanged, InvalidSpec
from stellwerk.operators.component.intervals import Intervals
from stellwerk.operators.component.saying import Saying

E_ = TypeVar("E_", bound=Enum)

_DIGEST_LENGTH, _FOREIGN_DIGEST_LENGTH = 40, 64
"""The original's digests have 64 digits, ours 40; they are made from other representations and never equal."""


# ---- what the spec asks for


def policies(spec: ComponentSpec) -> Policies:
    """What holds for all objects of a Component. Raises InvalidSpec.

    `Orphan` for the whole Component means its deletion only: what a manifest no longer has is deleted all the same.
    """
    delete = _word("deletePolicy", spec.delete_policy, DeletePolicy.DELETE)
    return Policies(
        adoption=_word("adoptionPolicy", spec.adoption_policy, AdoptionPolicy.IF_UNOWNED),
        update=_word("updatePolicy", spec.update_policy, UpdatePolicy.SSA_OVERRIDE),
        delete=DeletePolicy.ORPHAN_ON_DELETE if delete is DeletePolicy.ORPHAN else delete,
        missing_namespaces=_word(
            "missingNamespacesPolicy", spec.missing_namespaces_policy, MissingNamespacesPolicy.CREATE
        ),
        reapply_seconds=Intervals.of(spec).reapply.total_seconds(),
        managed_types=_managed_types(spec),
    )


def policies_of_deletion(spec: ComponentSpec) -> Policies:
    """What of that still counts when a Component goes; what stays is in its inventory.

    It raises nothing, because a spec that says nonsense must not keep anybody from taking it away.
    """
    return Policies(managed_types=_managed_types(spec))


def _managed_types(spec: ComponentSpec) -> tuple[TypePattern, ...]:
    return tuple(TypePattern(type_.group, type_.kind) for type_ in spec.additional_managed_types)


def _word(field: str, text: str, fallback: E_) -> E_:
    if not text:
        return fallback
    try:
        return type(fallback)(text)
    except ValueError:
        known = ", ".join(str(word.value) for word in type(fallback))
        raise InvalidSpec(field, f"{text!r} is unknown; expected one of {known}") from None


# ---- what the status becomes


@dataclass(frozen=True, slots=True)
class Begun:
    """The status with the content that is worked on now."""

    status: ComponentStatus
    is_new: bool
    """Whether the content is another one than before."""


def begun(component: Component, source: SourceStatus, digest: str) -> Begun:
    """The status as work on a content begins. `digest` is its fingerprint (`digests.of_component`).

    What the original was done with is not begun again: its fingerprints say the same in other words.
    """
    status, digest = component.status, digest[:_DIGEST_LENGTH]
    asked = requests.asked(component.metadata)
    base = msgspec.structs.replace(status, source_ref=source, last_handled_reconcile_at=asked)
    if status.processing_digest == digest:
        return Begun(base, is_new=False)
    if len(status.processing_digest) == _FOREIGN_DIGEST_LENGTH and is_applied(component, source.artifact):
        return Begun(
            msgspec.structs.replace(base, processing_digest=digest, last_processing_digest=digest), is_new=False
        )
    fresh = msgspec.structs.replace(base, processing_digest=digest, processing_since=None)
    return Begun(fresh, is_new=True)


def is_applied(component: Component, artifact: Artifact | None) -> bool:
    """Whether this spec was brought to Ready with this artifact already, by whomever."""
    status = component.status
    return (
        status.applied_generation == component.metadata.generation
        and artifact is not None
        and (status.last_applied_digest, status.last_applied_revision) == (artifact.digest, artifact.revision)
    )


def bound_for(component: Component, status: ComponentStatus, found: str, home: str) -> ComponentStatus:
    """The status with the cluster that the objects go to. `found` is its uid, empty where that may not be known; `home`
    that of the operator's own. Raises ClusterChanged.

    A Component that has no objects may go anywhere, and one of which it is not known where they are goes on as before.
    """
    former = status.target_cluster
    if not found or found == former or (not former and found == home):
        return status
    is_confirmed = component.metadata.annotations.get(CONFIRMED_CLUSTER_ANNOTATION) == found
    if former and status.inventory and not is_confirmed:
        raise ClusterChanged(former, found)
    return msgspec.structs.replace(status, target_cluster="" if found == home else found)


def attempted(status: ComponentStatus, artifact: Artifact) -> ComponentStatus:
    """The status as templates see it. A content that was never rendered raises the revision."""
    revision = max(status.revision, 1) if status.last_applied_at is not None else status.revision
    if status.last_processing_digest != status.processing_digest:
        revision += 1
    return msgspec.structs.replace(
        status,
        revision=revision,
        last_processing_digest=status.processing_digest,
        last_attempted_digest=artifact.digest,
        last_attempted_revision=artifact.revision,
    )


def with_inventory(status: ComponentStatus, inventory: Inventory) -> ComponentStatus:
    """The status with the objects as they are now."""
    return msgspec.structs.replace(
        status, inventory=stored.write(inventory), inventory_summary=stored.summary(inventory)
    )


def waiting(status: ComponentStatus, now: datetime) -> ComponentStatus:
    """The status while objects are not ready; from the first time on, the timeout counts."""
    since = status.processing_since or kubernetes_time(now)
    return msgspec.structs.replace(status, processing_since=since)


def finished(component: Component, status: ComponentStatus, now: datetime) -> ComponentStatus:
    """The status when everything is applied and ready."""
    return msgspec.structs.replace(
        status,
        processing_since=None,
        last_applied_digest=status.last_attempted_digest,
        last_applied_revision=status.last_attempted_revision,
        applied_generation=component.metadata.generation,
        last_applied_at=kubernetes_time(now),
    )


def leaving(status: ComponentStatus) -> ComponentStatus:
    """The status while the Component is deleted: nothing is worked on any more."""
    return msgspec.structs.replace(status, processing_digest="", processing_since=None)


def timed_out(status: ComponentStatus, timeout: timedelta, now: datetime) -> bool:
    """Whether objects have been waited for longer than they may take."""
    return status.processing_since is not None and now - status.processing_since >= timeout


def told(component: Component, status: ComponentStatus, saying: Saying, now: datetime) -> ComponentStatus:
    """The status with what the pass has to say, written at `now`; the one that is there where nothing else differs."""
    said = sayings.status_saying(status, saying, generation=component.metadata.generation, now=now)
    before = component.status
    unchanged = msgspec.structs.replace(
        said, last_observed_at=before.last_observed_at, last_applied_at=before.last_applied_at
    )
    if unchanged == before:
        return before
    return msgspec.structs.replace(said, last_observed_at=kubernetes_time(now))
