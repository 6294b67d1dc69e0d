"""Why an object is not ready: the words in which an operator tells it.

An operator that reads a cluster to answer "why" does it in two steps: gather what the answer may need into a frozen
graph, then explain the graph in a pure function. What comes out is a tree of findings, from the object down to the root
cause, and the one step that would mend it. The command line prints it; a page of the dashboard can show the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from stellwerk.kube.model import Unstructured
from stellwerk.kube.names import ObjectRef

if TYPE_CHECKING:
    from stellwerk.kube.client import Client


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, and what that comes from.

    `text` is a sentence without its full stop that names the object; `reason` a CamelCase word where there is one.
    """

    text: str
    reason: str = ""
    because: tuple[Finding, ...] = ()
    is_root_cause: bool = False


@dataclass(frozen=True, slots=True)
class Child:
    """An object that the subject waits for, and what it lacks."""

    ref: ObjectRef
    lacks: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The answer. No findings: nothing is wrong that a look at the cluster could tell."""

    findings: tuple[Finding, ...] = ()
    next_step: str = ""
    """What a person can do now; empty when it is nobody's turn."""
    next_try: str = ""
    """When the operator looks again, in words; empty when nobody knows."""
    unready: tuple[Child, ...] = ()


class Diagnostician(Protocol):
    """Tells why objects of one kind are not ready."""

    async def diagnose(self, client: Client, subject: Unstructured) -> Diagnosis:
        """Read what is needed, and explain. What the user may not read is named, not raised. Raises ApiError."""
        ...


def root_causes(findings: tuple[Finding, ...]) -> Iterator[Finding]:
    """The findings that nothing else explains, top to bottom."""
    for finding in findings:
        if finding.is_root_cause:
            yield finding
        yield from root_causes(finding.because)
