"""What the statuses of all kinds of the lifecycle manager share: the group, the states, the conditions."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, TypeAlias

import msgspec

from stellwerk.kube.schema.crd import documented
from stellwerk.kube.types.object_meta import Record, always_written

GROUP = "operator.kyma-project.io"
VERSION = "v1beta2"
FORMER_VERSION = "v1beta1"
"""Defined because clusters may list it among their stored versions. It is not served."""

JsonMap: TypeAlias = dict[str, Any]
"""A JSON object that is handed on as it is."""


class State(StrEnum):
    """How a Kyma, a module, a Manifest or a Watcher is."""

    Processing = "Processing"
    Deleting = "Deleting"
    Ready = "Ready"
    Error = "Error"
    Unset = ""
    Warning = "Warning"
    Unmanaged = "Unmanaged"


def unset() -> State:
    """The default of a state that a schema requires: written even though it is a default."""
    made: State = msgspec.field(default_factory=lambda: State.Unset)
    return made


def always_written_map() -> JsonMap:
    """The default of a JSON object that a schema requires: empty, and written nevertheless."""
    made: JsonMap = msgspec.field(default_factory=_empty)  # one that `dict` makes would be left out
    return made


def _empty() -> JsonMap:
    return {}


def documented_conditions(types: str) -> msgspec.Meta:
    """Conditions with unique types. `types`: those that the kind has."""
    return documented(f"Observations: {types}.", list_type="map", list_map_keys=("type",))


class LastOperation(Record, frozen=True, kw_only=True, gc=False):
    """What was last done, or why it failed."""

    operation: Annotated[str, documented("What was done, or the error.", required=True, example="kyma is ready")] = (
        always_written()
    )
    last_update_time: Annotated[datetime | None, documented("When.", example="2026-01-31T09:30:00Z")] = None
