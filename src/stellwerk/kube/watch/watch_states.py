"""The results of a watch, its states, and its transitions (pure).

Unlisted ──Listed──> Watching ──Ended──> Watching
Watching ──Failed──> Checking ──Checked──> Watching, or Unlisted where history was rewritten
Watching, Checking ──Failed: 410──> Unlisted
any ──Failed: kind not served, not permitted, not readable──> Unlisted, and reported as WatchSuspended
Unlisted ──Failed: never listed, and refused for `SUSPENDED_AFTER_SECONDS`──> Unlisted, and reported as WatchSuspended

A kind whose lists end in 500 for ever (a conversion webhook is down) concerns its own objects only, so those who wait
for the cache of the kind get an answer. So does a kind whose API service does not answer (503). A server that does not
answer, is overloaded or refuses the login has no news about a kind, and a cache that was full once is merely stale.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar, cast

from stellwerk.kube.client.client import WatchEvent
from stellwerk.kube.types.errors import (
    ApiError,
    Forbidden,
    Gone,
    MethodNotAllowed,
    NotFound,
    NotServed,
    ServerTimeout,
    Status,
    StatusError,
    TooManyRequests,
    Unauthorized,
    Undecodable,
    Unexplained,
    refusal,
    user_in,
)
from stellwerk.kube.types.model import HasMetadata, Listing, Unreadable, View
from stellwerk.kube.types.object_meta import version_number

T = TypeVar("T", bound=HasMetadata)

FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 4.0
LONGEST_PARKED_SECONDS = 15.0
SUSPENDED_AFTER_SECONDS = 10.0
"""For how long the server refuses to list a kind before the watch is reported as suspended."""
UNAVAILABLE_WEIGHT = 1 / 6
"""What a second of 503 counts. An API service that is down answers so for ever, a server that restarts for a while."""


# What a watcher returns


@dataclass(frozen=True, slots=True)
class Synced(Generic[T]):
    """All objects now. It replaces everything before."""

    objects: tuple[T, ...]
    resource_version: str
    unreadable: tuple[Unreadable, ...] = ()
    """What is there, too, and cannot be decoded."""


@dataclass(frozen=True, slots=True)
class Changed(Generic[T]):
    """The object is new, or different."""

    obj: T


@dataclass(frozen=True, slots=True)
class Removed(Generic[T]):
    """The object is gone, or no longer matches the selectors. `obj` is its last state."""

    obj: T | Unreadable


@dataclass(frozen=True, slots=True)
class Odd:
    """The object is new, or different, and cannot be decoded."""

    obj: Unreadable


@dataclass(frozen=True, slots=True)
class Bookmark:
    """Everything up to this version was returned."""

    resource_version: str


@dataclass(frozen=True, slots=True)
class WatchSuspended:
    """There is no watch, and trying harder does not help. `why` is a sentence for people, and steady."""

    why: str
    is_forbidden: bool = False
    """Whether rights are missing; a narrower watch may be permitted."""
    is_not_served: bool = False
    """Whether the API server has no such kind."""


Change: TypeAlias = Synced[T] | Changed[T] | Removed[T] | Odd | Bookmark | WatchSuspended


# The states


@dataclass(frozen=True, slots=True)
class Unlisted:
    """Nothing is known, or what is known is worthless. Next: Watching, or itself after a pause.

    `parked` is why the kind cannot be watched, as far as it was reported. `refused_seconds` is for how long the server
    has refused to list it, our pauses included; a cause that is reported at once resets it. `was_listed`: the cache is
    full, and nothing was reported since.
    """

    failures: int = 0
    parked: str = ""
    refused_seconds: float = 0.0
    was_listed: bool = False


@dataclass(frozen=True, slots=True)
class Watching:
    """Everything up to a version is known. Next: itself, Checking, or Unlisted."""

    resource_version: str
    failures: int = 0


@dataclass(frozen=True, slots=True)
class Checking:
    """A watch ended out of order: is our version still part of history? Next: Watching, Unlisted, or itself."""

    resource_version: str
    failures: int = 0


State: TypeAlias = Unlisted | Watching | Checking


# What happens to them, besides a WatchEvent


@dataclass(frozen=True, slots=True)
class Listed(Generic[T]):
    """A list was read to its end."""

    listing: Listing[T]


@dataclass(frozen=True, slots=True)
class Checked:
    """The version that the server is at."""

    resource_version: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The server closed the watch normally. `useful`: it had returned something, or had lasted."""

    useful: bool


@dataclass(frozen=True, slots=True)
class Failed:
    """The request came to nothing, after so many seconds."""

    error: ApiError
    seconds: float = 0.0


Input: TypeAlias = Listed[T] | WatchEvent | Checked | Ended | Failed


@dataclass(frozen=True, slots=True)
class WatchStep(Generic[T]):
    """What an input means. `goes_on`: the request under way returns more. `wanted_seconds`: of the pause, what the
    server asked for."""

    state: State
    change: Change[T] | None = None
    pause_seconds: float = 0.0
    goes_on: bool = False
    wanted_seconds: float = 0.0

    def jittered_seconds(self, chance: float) -> float:
        """The pause, spread by a `chance` from 0 to 1; it is never shorter than what the server asked for."""
        return max(self.pause_seconds * (0.75 + 0.5 * chance), self.wanted_seconds * (1.0 + 0.25 * chance))


def step(state: State, seen: Input[T], view: View[T], namespace: str = "") -> WatchStep[T]:
    """The next state, what to return, and how long to pause before (pure; the pause is without jitter)."""
    match seen:
        case WatchEvent():
            return _event(state, seen, view, namespace)
        case Listed(listing=listing):
            # Failures are forgotten at the first event, not here: a server that lists and then answers every watch
            # with 410 would be listed without a pause.
            found = Synced(tuple(listing.items), listing.resource_version, listing.unreadable)
            return WatchStep(Watching(listing.resource_version, state.failures), found)
        case Checked(resource_version=newest):
            return _checked(state, newest)
        case Ended(useful=useful):
            failures = 0 if useful else state.failures + 1
            return WatchStep(_at(state, failures), pause_seconds=pause_after(failures))
        case Failed(error=error, seconds=seconds):
            return _failed(state, error, view, namespace, seconds)


def pause_after(failures: int, longest: float = LONGEST_PAUSE_SECONDS) -> float:
    """Seconds to rest after so many failures in a row."""
    return min(FIRST_PAUSE_SECONDS * 2.0 ** min(failures - 1, 16), longest) if failures else 0.0


def _event(state: State, seen: WatchEvent, view: View[T], namespace: str) -> WatchStep[T]:
    if isinstance(seen.object, Status):
        return _failed(state, refusal(seen.object, f"watch {view.resource.plural}"), view, namespace)
    known = "" if isinstance(state, Unlisted) else state.resource_version
    now = Watching(_later(known, seen.object.metadata.resource_version))
    if isinstance(seen.object, Unreadable):
        gone = seen.type == "DELETED"
        return WatchStep(now, Removed(seen.object) if gone else Odd(seen.object), goes_on=True)
    obj = cast(T, seen.object)
    match seen.type:
        case "ADDED" | "MODIFIED":
            return WatchStep(now, Changed(obj), goes_on=True)
        case "DELETED":
            return WatchStep(now, Removed(obj), goes_on=True)
        case _:
            return WatchStep(now, Bookmark(now.resource_version), goes_on=True)


def _later(known: str, seen: str) -> str:
    """Where to go on after an event: a repeated or late one must not have all that came after it sent again."""
    return known if not seen or 0 < version_number(seen) < version_number(known) else seen


def _checked(state: State, newest: str) -> WatchStep[T]:
    ours = state.resource_version if not isinstance(state, Unlisted) else ""
    if 0 < version_number(newest) < version_number(ours):
        return WatchStep(Unlisted(state.failures, was_listed=True))
    return WatchStep(_at(state, state.failures))


def _failed(state: State, error: ApiError, view: View[T], namespace: str, seconds: float = 0.0) -> WatchStep[T]:
    failures = state.failures + 1
    if why := _why_parked(error, view, namespace):
        told = state.parked if isinstance(state, Unlisted) else ""
        pause = pause_after(failures, LONGEST_PARKED_SECONDS)
        parked = WatchSuspended(why, isinstance(error, Forbidden), isinstance(error, NotServed | NotFound))
        return WatchStep(Unlisted(failures, why), parked if why != told else None, pause)
    # The list that follows a forgotten version needs no pause, unless it is not the first.
    own_pause = pause_after(state.failures if isinstance(error, Gone) else failures)
    wanted = (error.retry_after or 0.0) if isinstance(error, StatusError) else 0.0
    pause = max(own_pause, wanted)
    if isinstance(state, Unlisted):
        after, suspended = _still_unlisted(state, error, seconds + own_pause)
        return WatchStep(after, suspended, pause, wanted_seconds=wanted)
    version = state.resource_version
    going_on = Unlisted(failures, was_listed=True) if isinstance(error, Gone) else Checking(version, failures)
    return WatchStep(going_on, pause_seconds=pause, wanted_seconds=wanted)


def _still_unlisted(state: Unlisted, error: ApiError, seconds: float) -> tuple[Unlisted, WatchSuspended | None]:
    """A list failed, `seconds` before the next one. The first text of a long refusal stays, so that it is steady."""
    refused = state.refused_seconds + seconds * _weight(error)
    if state.refused_seconds < SUSPENDED_AFTER_SECONDS <= refused and not state.was_listed:
        why = str(error)
        return Unlisted(state.failures + 1, why, refused), WatchSuspended(why)
    return Unlisted(state.failures + 1, state.parked, refused, state.was_listed), None


def concerns_kind(error: ApiError) -> bool:
    """Whether it is an answer of a server that works, and refuses this kind."""
    return _weight(error) > 0


def _weight(error: ApiError) -> float:
    """What a second of this refusal counts: nothing where it may be about the whole server, and not about one kind."""
    match error:
        case TooManyRequests() | ServerTimeout() | Unexplained() | Unauthorized() | Gone():
            return 0.0
        case StatusError(status=Status(reason="ServerTimeout")):  # etcd does not answer; its code is 500
            return 0.0
        case StatusError(code=503):
            return UNAVAILABLE_WEIGHT
        case StatusError():
            return 1.0
        case _:
            return 0.0


def _why_parked(error: ApiError, view: View[T], namespace: str) -> str:
    """A sentence, or nothing where trying again soon may help."""
    resource = view.resource
    match error:
        case Forbidden():
            where = f"in namespace {namespace}" if namespace and resource.namespaced else "in the whole cluster"
            who = user_in(error)
            said = f"not permitted to list and watch {resource.group_resource} {where}"
            return f"{who} is {said}" if who else said
        case NotServed() | NotFound():
            return f"the API server serves no {resource.gvk}: is its CustomResourceDefinition installed?"
        case MethodNotAllowed():
            return f"{resource.group_resource} cannot be listed and watched"
        case Undecodable():
            return str(error)
        case _:
            return ""


def _at(state: State, failures: int) -> State:
    """Watching where we were; nothing known stays nothing known."""
    return Unlisted(failures) if isinstance(state, Unlisted) else Watching(state.resource_version, failures)
