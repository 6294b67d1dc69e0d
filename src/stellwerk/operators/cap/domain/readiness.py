"""Whether certificates and DNS entries are ready, by what their controllers report. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from stellwerk.api.cert_manager import CertManagerCertificate
from stellwerk.kube.types.identifiers import ObjectRef
from stellwerk.kube.types.model import JsonValue, Unstructured

_GARDENER_FAILURES = ("Error", "Invalid")


class Progress(Enum):
    """How far an object is."""

    READY = "ready"
    WAITING = "waiting"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Readiness:
    """How far one object is, and the message of its controller."""

    ref: ObjectRef
    progress: Progress
    message: str = ""

    def __str__(self) -> str:
        return f"{self.ref} is {_WORDS[self.progress]}" + (f": {self.message}" if self.message else "")


_WORDS = {Progress.READY: "ready", Progress.WAITING: "not ready yet", Progress.FAILED: "in error"}


def of(obj: Unstructured) -> Readiness:
    """The readiness of a Certificate, of Gardener or cert-manager, or of a DNSEntry."""
    if obj.gvk.group == CertManagerCertificate.resource.group:
        return _of_condition(obj)
    return _of_state(obj)


def _of_state(obj: Unstructured) -> Readiness:
    """By `status.state`, as Gardener's controllers report."""
    state, message = _text(obj.at("status", "state")), _text(obj.at("status", "message"))
    if _is_outdated(obj, obj.at("status", "observedGeneration")):
        return Readiness(obj.ref, Progress.WAITING, "its last change is not processed yet")
    if state == "Ready":
        return Readiness(obj.ref, Progress.READY)
    if state in _GARDENER_FAILURES:
        return Readiness(obj.ref, Progress.FAILED, message or state)
    return Readiness(obj.ref, Progress.WAITING, message or state)


def _of_condition(obj: Unstructured) -> Readiness:
    """By the condition Ready, as cert-manager reports."""
    listed = obj.at("status", "conditions")
    found = (
        next(
            (each for each in listed if isinstance(each, dict) and each.get("type") == "Ready"),
            None,
        )
        if isinstance(listed, list)
        else None
    )
    if found is None:
        return Readiness(obj.ref, Progress.WAITING)
    message = _text(found.get("message"))
    if _is_outdated(obj, found.get("observedGeneration")):
        return Readiness(obj.ref, Progress.WAITING, "its last change is not processed yet")
    match found.get("status"):
        case "True":
            return Readiness(obj.ref, Progress.READY)
        case "False":
            return Readiness(obj.ref, Progress.FAILED, message)
        case _:
            return Readiness(obj.ref, Progress.WAITING, message)


def _is_outdated(obj: Unstructured, observed: JsonValue) -> bool:
    """Whether the report is about an older generation. Not every controller reports one."""
    return isinstance(observed, int) and 0 < observed < obj.metadata.generation


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""
