"""The fields that the statuses of kinds with an inventory share, as the originals have them."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec.structs import force_setattr

from stellwerk.apply.set.model.inventory_codec import Item
from stellwerk.delivery.reconcile_request import REQUESTED_AT_ANNOTATION
from stellwerk.kube.schema.crd import documented
from stellwerk.kube.types.model import JsonObject
from stellwerk.kube.types.object_meta import Condition, Record, is_usable


class State(StrEnum):
    """How an object with an inventory is, in one word."""

    Ready = "Ready"
    Pending = "Pending"
    Processing = "Processing"
    DeletionPending = "DeletionPending"
    Deleting = "Deleting"
    Error = "Error"


class InventoryStatus(Record, frozen=True, kw_only=True):
    """What a reconciler has last looked at and applied, and since when it waits.

    Each kind documents the fields that have no text here.
    """

    state: State | None = None
    conditions: tuple[Condition, ...] = ()
    observed_generation: Annotated[int, documented("The metadata.generation that was last looked at; -1: none yet.")]
    applied_generation: Annotated[int, documented("The metadata.generation that last became Ready.")] = 0
    last_observed_at: Annotated[datetime | None, documented("When it was last looked at.")] = None
    last_applied_at: Annotated[datetime | None, documented("When it last was Ready.")] = None
    last_handled_reconcile_at: Annotated[
        str, documented(f"Value of the annotation {REQUESTED_AT_ANNOTATION} that was last acted on.")
    ] = ""
    processing_since: Annotated[
        datetime | None, documented("Since when objects are waited for; the timeout counts from here.")
    ] = None
    last_processing_digest: Annotated[str, documented("The processingDigest for which revision was last raised.")] = ""
    revision: Annotated[int, documented("How many different contents were applied so far (Helm's revision).")] = 0
    processing_digest: str = ""
    inventory: tuple[Item, ...] = ()

    def __post_init__(self) -> None:
        """The timeout counts from `processing_since`; one that nothing can be counted from is absent."""
        if self.processing_since is not None and not is_usable(self.processing_since):
            force_setattr(self, "processing_since", None)


def documented_conditions(kind: str, *, example: str) -> msgspec.Meta:
    """No bounds, and only type and status are a must. `example`: a reason that objects of the kind show."""
    condition: JsonObject = {
        "type": "object",
        "description": f"One observation of the {kind}'s state.",
        "required": ["status", "type"],
        "properties": {
            "type": {"type": "string", "description": "Ready; Reconciling or Stalled while they are true."},
            "status": {"type": "string", "description": "Whether it holds.", "enum": ["True", "False", "Unknown"]},
            "reason": {"type": "string", "description": f"Why, as one word for programs. Example: {example}"},
            "message": {"type": "string", "description": "Why, as a sentence for people."},
            "lastTransitionTime": {
                "type": "string",
                "format": "date-time",
                "description": "When status last changed.",
            },
            "observedGeneration": {
                "type": "integer",
                "format": "int64",
                "description": "The metadata.generation that this observation is about.",
            },
        },
    }
    text = "Ready explains the state; Reconciling and Stalled are there only while they are true."
    return documented(text, schema={"items": condition})
