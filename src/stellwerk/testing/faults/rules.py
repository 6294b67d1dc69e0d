"""When a fault happens: conditions that can be joined, and the choice among the moments that meet them.

A condition is a function that can also be read: `requests("create", "configmaps") & ~by_agent("kubectl")` prints as a
sentence, and a failing test prints it. Occasions are functions of the n-th match (from 1), so that a rule has no hidden
state and a seed repeats a run.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, TypeVar

from stellwerk.testing.faults.traffic import RecordedRequest

T = TypeVar("T")

Occasions = Callable[[int], bool]
"""Whether the n-th match, counted from 1, is one of those on which the fault happens."""


@dataclass(frozen=True, slots=True)
class When(Generic[T]):
    """A condition on a request or an event, with its wording."""

    holds: Callable[[T], bool]
    text: str

    def __call__(self, subject: T) -> bool:
        return self.holds(subject)

    def __and__(self, other: When[T]) -> When[T]:
        return When(lambda subject: self(subject) and other(subject), f"{self.text} and {other.text}")

    def __or__(self, other: When[T]) -> When[T]:
        return When(lambda subject: self(subject) or other(subject), f"({self.text} or {other.text})")

    def __invert__(self) -> When[T]:
        return When(lambda subject: not self(subject), f"not ({self.text})")

    def __str__(self) -> str:
        return self.text


def requests(
    verb: str | Collection[str] = (),
    resource: str = "",
    *,
    namespace: str = "",
    name: str = "",
    subresource: str | None = None,
) -> When[RecordedRequest]:
    """Requests with this verb (one or several) on this resource (`pods`, `deployments.apps`).

    What is left out does not matter; `subresource=""` means the object itself and not its status.
    """
    verbs = {verb} if isinstance(verb, str) else set(verb)

    def holds(request: RecordedRequest) -> bool:
        return (
            (not verbs or request.verb in verbs)
            and resource in ("", request.group_resource)
            and namespace in ("", request.namespace)
            and name in ("", request.name)
            and subresource in (None, request.subresource)
        )

    words = ["/".join(sorted(verbs)) or "any request", resource, "/".join(part for part in (namespace, name) if part)]
    if subresource is not None:
        words.append(f"subresource {subresource!r}")
    return When(holds, " ".join(word for word in words if word))


def numbered(number: int) -> When[RecordedRequest]:
    """The one request with this number in the history."""
    return When(lambda request: request.number == number, f"request #{number}")


def by_agent(beginning: str) -> When[RecordedRequest]:
    """Requests whose User-Agent begins so."""
    return When(lambda request: request.agent.startswith(beginning), f"by agent {beginning}*")


ANYTHING: When[RecordedRequest] = When(lambda request: True, "any request")
WRITES: When[RecordedRequest] = When(lambda request: request.is_write, "any write")
READS: When[RecordedRequest] = When(lambda request: request.verb in ("get", "list"), "any get or list")
WATCHES: When[RecordedRequest] = When(lambda request: request.verb == "watch", "any watch")


def always(number: int) -> bool:
    """On every match."""
    return number > 0


def nth(*numbers: int) -> Occasions:
    """On these matches, counted from 1."""
    return lambda number: number in numbers


def first(count: int) -> Occasions:
    """On the first matches."""
    return lambda number: number <= count


def after_first(count: int) -> Occasions:
    """On all but the first matches."""
    return lambda number: number > count


def chance(probability: float, *, seed: int) -> Occasions:
    """On each match with this probability; the same seed chooses the same matches."""
    return lambda number: random.Random(f"{seed} {number}").random() < probability


class FaultRule(Generic[T]):
    """A fault bound to its moments. It is in force until `end`, or while its `with` block lasts."""

    def __init__(self, when: When[T], occasions: Occasions, *, what: str, required: bool) -> None:
        self.when = when
        self.what = what
        self.required = required
        self.matches = 0
        self.fired = 0
        self._occasions = occasions
        self._in_force = True

    def takes(self, subject: T) -> bool:
        """Whether the fault happens now. Counts, so it is asked once for each subject."""
        if not self._in_force or not self.when(subject):
            return False
        self.matches += 1
        if not self._occasions(self.matches):
            return False
        self.fired += 1
        return True

    def end(self) -> None:
        """Heal: the fault happens no more. The counts stay."""
        self._in_force = False

    def __enter__(self) -> FaultRule[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def __str__(self) -> str:
        return f"{self.what} on {self.when}: matched {self.matches}, happened {self.fired}"
