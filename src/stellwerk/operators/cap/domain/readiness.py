"""Whether certificates and DNS entries are ready, by what their controllers report. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from stellwerk.api.cert_manager import CertManagerCertificate
from stellwerk.kube.types.identifiers import ObjectRef
from stellwerk.kube.types.model import JsonValue, Unstructured
from stellwerk.operators.cap.kinds.status import READY


class Progress(Enum):
    """How far an object is; the values are the words of messages."""

    READY = "ready"
    WAITING = "not ready yet"
    FAILED = "in error"


@dataclass(frozen=True, slots=True)
class Readiness:
    """How far one object is, and the message of its controller."""

    ref: ObjectRef
    progress: Progress
    message: str = ""

    def __str__(self) -> str:
        return f"{self.ref} is {self.progress.value}" + (f": {self.message}" if self.message else "")


_OF_STATE: Mapping[str, Progress] = {"Ready": Progress.READY, "Error": Progress.FAILED, "Invalid": Progress.FAILED}
_OF_CONDITION: Mapping[str, Progress] = {"True": Progress.READY, "False": Progress.FAILED}


def of(obj: Unstructured) -> Readiness:
    """The readiness of a Certificate, of Gardener or cert-manager, or of a DNSEntry.

    Gardener's controllers report by `status.state`, cert-manager by the condition Ready.
    """
    observed: JsonValue
    if obj.gvk.group == CertManagerCertificate.resource.group:
        # As it is: times and other conditions, which the API server does not check, decide nothing here.
        listed = obj.at("status", "conditions")
        found = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
        ready = next((each for each in found if each.get("type") == READY), None)
        if ready is None:
            return Readiness(obj.ref, Progress.WAITING)
        progress, message = _OF_CONDITION.get(_text(ready.get("status"))), _text(ready.get("message"))
        observed = ready.get("observedGeneration")
    else:
        state = _text(obj.at("status", "state"))
        progress, message = _OF_STATE.get(state), _text(obj.at("status", "message")) or state
        observed = obj.at("status", "observedGeneration")
    if _is_outdated(obj, observed):
        return Readiness(obj.ref, Progress.WAITING, "its last change is not processed yet")
    return Readiness(obj.ref, progress or Progress.WAITING, "" if progress is Progress.READY else message)


def _is_outdated(obj: Unstructured, observed: JsonValue) -> bool:
    """Whether the report is about an older generation. Not every controller reports one."""
    return isinstance(observed, int) and 0 < observed < obj.metadata.generation


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""
